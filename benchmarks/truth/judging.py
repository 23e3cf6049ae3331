"""The product's verdict on each case of a file, and on which of its entries it rests.

    python benchmarks/truth/judging.py CASES [--root CHECKOUT] [--without cause:affine]
    python benchmarks/truth/judging.py CASES --ablate tolerance,cause,number

Prints a line of JSON for each case. A process of its own, so that another checkout's code can be
asked (``--root``). With ``--ablate`` the line also has what changes without each entry of these
kinds that the case asked for; :mod:`entries` says what entries there are. Of numbers that change
nothing together none is tried alone, and one that decided a case is not tried on others.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_MOST_SECONDS = 120
"""A judgement without an entry that takes longer is a change."""
_COMPARED = ("verdict", "rank", "origins", "cause")


def main() -> None:
    """Judge every case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("cases", type=Path)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2])
    parser.add_argument("--without", default="", help="entries, with commas between")
    parser.add_argument("--ablate", default="", help="kinds of entries, with commas between")
    asked = parser.parse_args()
    sys.path.insert(0, str(asked.root))
    from entries import Entries

    entries, decided = Entries(), set[str]()
    kinds = tuple(f"{kind}:" for kind in asked.ablate.split(",") if kind)
    for line in asked.cases.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        with (
            entries.noted(numbers="number:" in kinds),
            entries.without(frozenset(filter(None, asked.without.split(",")))),
        ):
            seen = outcome(case)
        of_kind = sorted(each for each in entries.asked if each.startswith(kinds)) if kinds else []
        open_entries = [each for each in of_kind if each not in decided]
        changes = dict(_changes(case, seen, entries, open_entries))
        decided |= {each for each in changes if each.startswith("number:")}
        print(json.dumps({"name": case["name"], **seen, "asked": of_kind, "changes": changes}))
        sys.stdout.flush()


def _changes(case: Any, seen: Any, entries: Any, asked: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The entries without which something else comes out, with what."""

    def without(some: Collection[str]) -> str:
        with entries.without(some):
            return difference(seen, _limited(case))

    # A number is tried larger and smaller, which must not be at once.
    for half in ("*", "/"):
        numbers = [each for each in asked if each.startswith("number:") and half in each]
        yield from deciding(numbers, without)
    for each in asked:
        if not each.startswith("number:") and (change := without({each})):
            yield each, change


def deciding(
    entries: Sequence[str], without: Callable[[Collection[str]], str]
) -> Iterator[tuple[str, str]]:
    """Those of *entries* that change something, by halves; several where it takes them all."""
    change = without(entries) if entries else ""
    if not change:
        return
    if len(entries) == 1:
        yield entries[0], change
        return
    middle = len(entries) // 2
    halves = [*deciding(entries[:middle], without), *deciding(entries[middle:], without)]
    yield from halves or ((" and ".join(entries), change),)


def difference(before: Any, after: Any) -> str:
    """What is otherwise *after*; "" if nothing is."""
    return ", ".join(
        f"{name} {before.get(name)} -> {after[name]}"
        for name in _COMPARED
        if before.get(name) != after[name]
    )


def _limited(case: Any) -> Any:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"more than {_MOST_SECONDS} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(_MOST_SECONDS)
    try:
        return outcome(case)
    except Exception as error:  # noqa: BLE001 - numbers may exclude each other
        return dict.fromkeys(_COMPARED, f"{type(error).__name__}: {error}")
    finally:
        signal.alarm(0)


def outcome(case: Any) -> dict[str, Any]:
    """Verdict, who comes first and why, and what it cost."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "root_cause"))
    from analysed import ranking
    from other_tools import first_to_fail

    from divergraph.comparison.compare_run import CompareRequest, compare
    from divergraph.rootcause.options import MethodChoice
    from graphstore.errors import DivergraphError
    from graphstore.model import FindingKind

    sides = (Path(case[name]) for name in ("golden", "golden_dump", "device", "device_dump"))
    before = _cpu()
    try:
        # Whoever sees numbers that are no numbers says so itself.
        with np.errstate(all="ignore"):
            data = compare(CompareRequest(*sides, method=MethodChoice.ROOT_CAUSE))
    except DivergraphError as error:
        return {
            "verdict": f"error: {error}",
            "rank": None,
            "origins": 0,
            "cause": "",
            "arithmetic": "",
            "cpu": 0.0,
        }
    faulty = set(case["faulty"])
    ranked = ranking(data)
    rank = next((n for n, each in enumerate(ranked, 1) if faulty & each.made), None)
    first = data.origins[0].op if data.origins else ""
    causes = [
        each
        for each in data.findings
        if each.kind is FindingKind.CAUSE and each.op == first and each.confidence
    ]
    best = max(causes, key=lambda each: each.confidence, default=None)
    return {
        "verdict": data.run.verdict.value,
        "rank": rank,
        "origins": len(data.origins),
        "cause": "" if best is None else best.label,
        "arithmetic": str(data.run.analysis.arithmetic),
        "baselines": first_to_fail(data, faulty),
        "cpu": _cpu() - before,
    }


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    main()
