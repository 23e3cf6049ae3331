"""A kept store under other versions of its engine: what it answers, and answers afterwards.

``python -m benchmarks.scale.engines 0.18.3 0.22.0 ...`` keeps the run of the demo, asks all named
queries and every query of docs/reference/cypher.md and schema.md, and then the same under each
version of ladybug, installed beside for it, and once more under the pinned one. A version also
keeps a run of its own, which the pinned one is asked about. Prints how many answers are the same,
and which are not; ends with 1 if one under the pinned engine is another.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from graphstore.contract import GraphStore, QueryParameters
from graphstore.cypher.queries import NamedQuery, list_queries
from graphstore.embedded import EmbeddedStore
from graphstore.errors import DivergraphError

REFERENCE = Path(__file__).parents[2] / "docs/reference"
PAGES = ("cypher.md", "schema.md")
Answers = dict[str, str]


def main() -> None:
    """Ask under each version that the command line names."""
    if sys.argv[1] == "--ask":
        print(json.dumps(_answers(Path(sys.argv[2]), sys.argv[3])))
        return
    is_right = True
    with tempfile.TemporaryDirectory() as place:
        store = Path(place) / "store"
        run = _kept(store, None)
        right = _asked(store, run, None)
        print(f"pinned: {len(right)} answers")
        for version in sys.argv[1:]:
            engine = Path(place) / version
            words = ["-m", "pip", "install", "-q", "--no-deps", "--target", engine]
            subprocess.run([sys.executable, *words, f"ladybug=={version}"], check=True)
            _compare(version, right, _asked(store, run, engine))
            other = Path(place) / f"store of {version}"
            _kept(other, engine)
            _asked(other, run, engine)
            is_right &= _compare(f"pinned after {version}", right, _asked(store, run, None))
            is_right &= _compare(f"pinned, kept by {version}", right, _asked(other, run, None))
            is_right &= _is_sound(store) and _is_sound(other)
    sys.exit(not is_right)


def _kept(store: Path, engine: Path | None) -> str:
    """Keep the run of the demo; its name."""
    _ran(["-m", "divergraph", "demo", "--quiet", "--store", str(store)], engine)
    with EmbeddedStore(store) as opened:
        return opened.runs()[0].name


def _asked(store: Path, run: str, engine: Path | None) -> Answers:
    """The answers of a process of its own, in which *engine* is the installed one."""
    done = _ran(["-m", "benchmarks.scale.engines", "--ask", str(store), run], engine)
    answers: Answers = json.loads(done.splitlines()[-1]) if done else {}
    return answers


def _ran(words: list[str], engine: Path | None) -> str:
    """What a Python process prints; nothing if it crashed."""
    more = {} if engine is None else {"PYTHONPATH": str(engine)}
    command = [sys.executable, *words]
    done = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, text=True, env=os.environ | more
    )
    if done.returncode:
        print(f"  {' '.join(words[1:3])} ended with {done.returncode}")
    return "" if done.returncode else done.stdout


def _is_sound(store: Path) -> bool:
    """Whether all of a store is what was written, and says so."""
    with EmbeddedStore(store) as opened:
        said = (*opened.check(), *opened.info().damaged, *opened.info().other_engines)
    print("".join(f"  {text}\n" for text in said), end="")
    return not said


def _compare(what: str, right: Answers, answers: Answers) -> bool:
    others = [query for query, answer in right.items() if answers.get(query) != answer]
    print(f"{what}: {len(right) - len(others)} of {len(right)} answers are the same")
    for query in others:
        print(f"  {query}: {answers.get(query, 'none')[:200]}, not {right[query][:200]}")
    return not others


def _answers(root: Path, run: str) -> Answers:
    answers = {}
    with EmbeddedStore(root) as store:
        for query in list_queries():
            if query.name != "runs":  # says when one was made
                answers[query.name] = _named(store, query, run)
        for page in PAGES:
            text = (REFERENCE / page).read_text("utf-8").replace("'after'", f"'{run}'")
            for number, cypher in enumerate(re.findall(r"```cypher\n(.*?)```", text, re.S), 1):
                answers[f"{page} {number}"] = _by_hand(store, cypher)
    return answers


def _named(store: GraphStore, query: NamedQuery, run: str) -> str:
    ops = store.arrays(run).ids
    values: dict[str, object] = {
        "op": ops[-1],
        "ops": [*ops],
        "start_op": ops[0],
        "end_op": ops[-1],
        "text": "conv",
        "limit": 20,
        "times": 2.0,
        "first": 0,
        "until": 1000,
        "before": run,
        "after": run,
    }
    asked = {one: values[one] for one in query.parameters}
    try:
        return repr(store.named(query.name, run, asked, limit=1000).rows)
    except DivergraphError as error:
        return str(error)


def _by_hand(store: GraphStore, cypher: str) -> str:
    try:
        return repr(store.query(cypher, QueryParameters(limit=1000)).rows)
    except DivergraphError as error:
        return str(error)


if __name__ == "__main__":
    main()
