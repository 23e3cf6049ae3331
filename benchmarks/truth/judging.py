"""The product's verdict on each case of a file, with some of its entries left out.

    python benchmarks/truth/judging.py CASES [--root CHECKOUT] [--without cause:affine]

Prints a line of JSON for each case. A process of its own, so that another checkout's code can be
asked (``--root``), and entries be left out before any of them is loaded. An *entry* is a module
that the analysis finds instead of listing: a tolerance, a cause, an operand format, a precision.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import resource
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

KINDS = {
    "TOLERANCE": "tolerance",
    "CAUSES": "cause",
    "ARITHMETIC": "format",
    "PRECISION": "precision",
}
"""What entries of each attribute are called here."""


def main() -> None:
    """Judge every case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("cases", type=Path)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2])
    parser.add_argument("--without", default="", help="entries, with commas between")
    parser.add_argument("--only", default="", help="names of cases, with | between")
    asked = parser.parse_args()
    sys.path.insert(0, str(asked.root))
    acted: set[str] = set()
    leave_out(frozenset(filter(None, asked.without.split(","))), acted)
    wanted = set(filter(None, asked.only.split("|")))
    for line in asked.cases.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        if not wanted or case["name"] in wanted:
            acted.clear()
            print(json.dumps({"name": case["name"], **outcome(case), "acted": sorted(acted)}))
            sys.stdout.flush()


def leave_out(entries: frozenset[str], acted: set[str]) -> None:
    """Find no *entries*, and note in *acted* which of the others did something."""
    registry = importlib.import_module("divergraph.rootcause.registry")

    def discovered(package: str, attribute: str, _group: str) -> Iterator[object]:
        folder = importlib.import_module(package)
        modules = pkgutil.walk_packages(folder.__path__, f"{package}.")
        for name in sorted(module.name for module in modules):
            module = importlib.import_module(name)
            entry = f"{KINDS.get(attribute, attribute.lower())}:{name.rpartition('.')[2]}"
            if entry not in entries and hasattr(module, attribute):
                yield noted(getattr(module, attribute), entry, acted)

    registry.discovered = discovered  # type: ignore[attr-defined]


def noted(value: Any, entry: str, acted: set[str]) -> Any:
    """*value* such that *entry* is in *acted* once a function of it gave an answer."""
    if isinstance(value, tuple):
        return tuple(noted(each, entry, acted) for each in value)
    for name in ("apply", "explain"):
        function = getattr(value, name, None)
        if callable(function) and hasattr(value, "__dataclass_fields__"):
            return replace(value, **{name: noting(function, entry, acted)})
    # Of a format or a precision it is not known whether it decided: it is always tried.
    acted.add(entry)
    return value


def noting(function: Callable[..., Any], entry: str, acted: set[str]) -> Callable[..., Any]:
    """*function*, whose answers are noted."""

    def call(*arguments: Any) -> Any:
        answer = function(*arguments)
        if answer is not None:
            acted.add(entry)
        return answer

    call.__name__ = function.__name__
    return call


def outcome(case: dict[str, Any]) -> dict[str, Any]:
    """Verdict, who comes first and why, and what it cost."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "root_cause"))
    from analysed import ranking

    from divergraph.comparison.compare_run import CompareRequest, compare
    from divergraph.rootcause.options import MethodChoice
    from graphstore.errors import DivergraphError
    from graphstore.model import FindingKind

    sides = (Path(case[name]) for name in ("golden", "golden_dump", "device", "device_dump"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    try:
        data = compare(CompareRequest(*sides, method=MethodChoice.ROOT_CAUSE))
    except DivergraphError as error:
        return {"verdict": f"error: {error}", "rank": None, "origins": 0, "cause": "", "cpu": 0.0}
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
        "baseline": baseline(data, faulty),
        "cpu": resource.getrusage(resource.RUSAGE_SELF).ru_utime - before,
    }


def baseline(data: Any, faulty: set[str]) -> str:
    """What the rule "the first op in order whose cosine is below .99" says: ``nothing``, ``right``
    or ``wrong``."""
    order = {op.id: number for number, op in enumerate(data.device.ops)}
    names = {op.id: {tensor.name for tensor in op.outputs} for op in data.device.ops}
    low = [
        item.op
        for item in data.comparisons
        if item.metrics is not None and item.metrics.cosine_similarity < 0.99
    ]
    if not low:
        return "nothing"
    return "right" if faulty & names[min(low, key=order.__getitem__)] else "wrong"


if __name__ == "__main__":
    main()
