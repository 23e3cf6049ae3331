"""A store whose writers are killed, and whose files lose a bit: what it answers afterwards.

``python -m benchmarks.scale.damage [--kills 1000] [--flips 500] [--ops 300]`` makes a run of a few
hundred ops in an embedded store. A kill ends a process, forked for it, at a random moment of
replacing, renaming, copying or deleting a run or of asking it by hand; a flip changes one bit of a
random file. After each, every run that is there, the old or the new one, must answer named queries,
and every tenth time a query by hand, as it did, or be named as damaged; a repair must leave nothing
behind. Prints how often which; ends with 1 where an answer is another.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from benchmarks.scale.model_graphs import made_run
from graphstore.contract import QueryParameters, RunData
from graphstore.embedded import EmbeddedStore
from graphstore.errors import DivergraphError, StoreError

BY_HAND = "MATCH (m:Metric)-[:OF]->(o:Op) RETURN o.name, m.level ORDER BY o.topo, m.seq"
EVERY = 10
"""So often a query is asked by hand, for which a database is made."""
LONGEST = 0.4
"""Seconds after which a process is killed at the latest; none of the steps takes longer here."""
NAME = "large"


def main() -> None:
    """Kill, flip and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--flips", type=int, default=500)
    parser.add_argument("--ops", type=int, default=300)
    options = parser.parse_args()
    random.seed(20)
    old = made_run(options.ops, name=NAME)
    new = replace(old, run=replace(old.run, created="2030-01-01T00:00:00+00:00"))
    with tempfile.TemporaryDirectory() as place:
        base = Path(place) / "base"
        with EmbeddedStore(base) as store:
            store.save_run(old)
            right = [answers(store, NAME, by_hand=by_hand) for by_hand in (False, True)]
        results = Counter[str]()
        for number in range(options.kills):
            by_hand = number % EVERY == 0
            results[killed(base, Path(place) / "kill", new, right[by_hand], by_hand=by_hand)] += 1
        for number in range(options.flips):
            by_hand = number % EVERY == 0
            results[flipped(base, Path(place) / "flip", right[by_hand], by_hand=by_hand)] += 1
    for result, times in sorted(results.items()):
        print(f"{times:6} {result}")
    sys.exit(any(result.startswith("WRONG") for result in results))


def answers(store: EmbeddedStore, run: str, *, by_hand: bool) -> object:
    """What is held against what is right."""
    named = [store.named(query, run, {}).rows for query in ("errors_by_type", "first_diverging")]
    asked = QueryParameters(limit=None)
    return named, store.query(BY_HAND, asked, run).rows if by_hand else None


def killed(base: Path, place: Path, new: RunData, right: object, *, by_hand: bool) -> str:
    """What a store answers after a kill at a random moment."""
    shutil.copytree(base, place)
    steps: dict[str, Callable[[EmbeddedStore], object]] = {
        "replacing": lambda store: store.save_run(new, replace=True),
        "renaming": lambda store: store.rename(NAME, "renamed"),
        "copying": lambda store: store.take(store, {NAME: "copied"}),
        "deleting": lambda store: store.delete(NAME),
        "asking": lambda store: answers(store, NAME, by_hand=True),
    }
    step = random.choice([*steps])
    shutil.rmtree(place / "scratch", ignore_errors=random.random() < 0.5)
    process = os.fork()
    if process == 0:
        with suppress(BaseException), EmbeddedStore(place) as store:
            steps[step](store)
        os._exit(0)
    time.sleep(random.uniform(0, LONGEST))
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    when = f"killed while {step}" if os.WIFSIGNALED(status) else f"killed after {step}"
    try:
        with EmbeddedStore(place) as store:
            names = {run.name for run in store.runs()}
            is_right = all(answers(store, name, by_hand=by_hand) == right for name in names)
            is_right &= bool(names) or step == "deleting"
            store.repair()
            is_right &= not store.check() and not store.info().pending
    except DivergraphError as error:
        return f"WRONG: {when}: {error}"
    finally:
        shutil.rmtree(place)
    return when if is_right else f"WRONG: {when}"


def flipped(base: Path, place: Path, right: object, *, by_hand: bool) -> str:
    """What a store answers after a bit of one of its files changed."""
    shutil.copytree(base, place)
    file = random.choice([path for path in sorted(place.rglob("*")) if path.is_file()])
    data = bytearray(file.read_bytes())
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    file.write_bytes(data)
    what = f"flipped in {file.relative_to(place).parts[0]}/…{file.suffix}"
    try:
        with EmbeddedStore(place) as store:
            if answers(store, NAME, by_hand=by_hand) != right:
                return f"WRONG: {what}"
            return f"{what}, which no answer read: named by a check" if store.check() else what
    except StoreError:
        return f"{what}: said to be damaged"
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
