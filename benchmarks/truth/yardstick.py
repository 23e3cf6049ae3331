"""One yardstick for verdicts: all sets, two codes side by side, and what each entry decides.

    python benchmarks/truth/yardstick.py --cases DIR
    python benchmarks/truth/yardstick.py --cases DIR --against ../older-checkout
    python benchmarks/truth/yardstick.py --cases DIR --without tolerance:masks
    python benchmarks/truth/yardstick.py --cases DIR --ablate tolerance,cause,step,number
    python benchmarks/truth/yardstick.py --cases DIR --sets gpu --gpu FOLDER

Cases are made in DIR once for each seed and judged as often as asked; a set may also be a file of
them. Under the name of another tool's rule stand the healthy runs it alarms at and the faults whose
op it puts first. ``--ablate`` leaves out one entry after the other (:mod:`entries` says what they
are) of those that a case asked for, and prints which verdicts change. What changes none may go.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from case_sets import SETS, Sizes, TruthCase
from other_tools import BASELINES

Outcome = Mapping[str, Any]
Outcomes = Mapping[str, Outcome]
_HERE = Path(__file__).parent


def main() -> None:
    """Make what is missing, judge, compare, ablate."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=Path, required=True, help="where cases are kept")
    parser.add_argument("--sets", default="emulated,narrow")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=4, help="of each device")
    parser.add_argument("--models", default="", help="only these, with commas between")
    parser.add_argument("--devices", default="", help="only these, with commas between")
    parser.add_argument("--gpu", type=Path, help="folder of the set gpu")
    parser.add_argument("--against", type=Path, help="another checkout, to be judged by as well")
    parser.add_argument("--without", default="", help="entries, with commas between")
    parser.add_argument("--ablate", default="", help="kinds of entries, with commas between")
    asked = parser.parse_args()
    sizes = Sizes(asked.seed, asked.faults, _list(asked.models), _list(asked.devices), asked.gpu)
    cases = made(asked.cases, _list(asked.sets), sizes)
    file = asked.cases / "judged.jsonl"
    file.write_text("".join(f"{case.line()}\n" for case in cases), encoding="utf-8")
    kinds = ["--ablate", asked.ablate] if asked.ablate else []
    now = judged(file, "--without", asked.without, *kinds)
    print(table(cases, now))
    print("\n".join(misses(cases, now)))
    if asked.against is not None:
        older = judged(file, "--root", str(asked.against.resolve()))
        print(f"\n{asked.against}\n{table(cases, older)}\n\nchanged since")
        print("\n".join(changes(cases, older, now)) or "nothing")
    if asked.ablate:
        print("\n".join(ablation(now)))


def _list(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def made(folder: Path, sets: Sequence[str], sizes: Sizes) -> list[TruthCase]:
    """The cases of all sets, from the file of this choice or made now."""
    cases: list[TruthCase] = []
    for name in sets:
        if name.endswith(".jsonl"):
            cases += map(TruthCase.of, Path(name).read_text(encoding="utf-8").splitlines())
            continue
        folders = (sizes.gpu.name,) if name == "gpu" and sizes.gpu else ()
        words = (name, *folders, sizes.seed, sizes.faults, *sizes.models, *sizes.devices)
        file = folder / ("-".join(map(str, words)) + ".jsonl")
        if not file.exists():
            folder.mkdir(parents=True, exist_ok=True)
            place = folder / "-".join((f"seed{sizes.seed}", *folders))
            lines = [case.line() for case in SETS[name](place, sizes)]
            file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        cases += map(TruthCase.of, file.read_text(encoding="utf-8").splitlines())
    return cases


def judged(file: Path, *options: str) -> dict[str, Outcome]:
    """By case what a process with *options* says."""
    command = [sys.executable, str(_HERE / "judging.py"), str(file), *options]
    total = len(file.read_text(encoding="utf-8").splitlines())
    outcomes = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            outcome = json.loads(line)
            outcomes[outcome.pop("name")] = outcome
            print(f"\r{len(outcomes)} of {total} judged", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return outcomes


def table(cases: Iterable[TruthCase], outcomes: Outcomes) -> str:
    """A row for each set: false alarms, faults found, runs that say what the device computes in
    as it does, cost, and for each rule of another tool its
    false alarms and the faults it finds."""
    heads = [
        "set",
        "healthy",
        "diverged",
        "guilty",
        "faults",
        "first",
        "arithmetic",
        "CPU s",
        *BASELINES,
    ]
    rows = [f"| {' | '.join(heads)} |", f"| {' | '.join(['---'] * len(heads))} |"]
    by_set: dict[str, list[TruthCase]] = {}
    for case in cases:
        by_set.setdefault(case.set, []).append(case)
    for name, own in by_set.items():
        healthy = [outcomes[case.name] for case in own if not case.faulty]
        faults = [outcomes[case.name] for case in own if case.faulty]
        known = [case for case in own if case.arithmetic]
        costs = sorted(outcomes[case.name]["cpu"] for case in own)
        cells = (
            name,
            len(healthy),
            sum(each["verdict"] == "diverged" for each in healthy),
            sum(each["origins"] for each in healthy),
            len(faults),
            sum(map(_is_first, faults)),
            f"{sum(case.is_computed_in(outcomes[case.name]['arithmetic']) for case in known)}"
            f" of {len(known)}",
            f"{costs[len(costs) // 2]:.1f}",
            *(
                f"{_count(healthy, rule, 'wrong')}, {_count(faults, rule, 'right')}"
                for rule in BASELINES
            ),
        )
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def _count(outcomes: Iterable[Outcome], rule: str, answer: str) -> int:
    return sum(outcome.get("baselines", {}).get(rule) == answer for outcome in outcomes)


def misses(cases: Iterable[TruthCase], outcomes: Outcomes) -> Iterator[str]:
    """A line for each false alarm, fault that is not first, and arithmetic called another."""
    for case in cases:
        outcome = outcomes[case.name]
        if not case.faulty and outcome["verdict"] == "diverged":
            yield f"  {case.name}: {outcome['origins']} origins in a healthy run"
        if case.faulty and not _is_first(outcome):
            yield f"  {case.name}: {outcome['verdict']}, rank {outcome['rank']}"
        if case.arithmetic and not case.is_computed_in(outcome["arithmetic"]):
            yield f"  {case.name}: {outcome['arithmetic']}, it is {case.arithmetic}"


def _is_first(outcome: Outcome) -> bool:
    return bool(outcome["rank"] == 1 and outcome["origins"] > 0)


def changes(cases: Iterable[TruthCase], before: Outcomes, after: Outcomes) -> list[str]:
    """The cases whose verdict, first op or cause is another, with both."""
    said = []
    for case in cases:
        old, new = before[case.name], after[case.name]
        names = [name for name in ("verdict", "rank", "origins", "cause") if old[name] != new[name]]
        if names:
            told = ", ".join(f"{name} {old[name]} -> {new[name]}" for name in names)
            said.append(f"  {case.name}: {told}")
    return said


def ablation(now: Outcomes) -> Iterator[str]:
    """For each entry that was asked, in how many cases, and which verdicts change without it."""
    asked = Counter(entry for outcome in now.values() for entry in outcome["asked"])
    decided: dict[str, list[str]] = {}
    for name, outcome in now.items():
        for entry, change in outcome["changes"].items():
            decided.setdefault(entry, []).append(f"  {name}: {change}")
    for entry in sorted({*asked, *decided}):
        changed = decided.get(entry, [])
        yield f"{entry}: asked in {asked[entry]}, decides {len(changed)}"
        yield from changed


if __name__ == "__main__":
    main()
