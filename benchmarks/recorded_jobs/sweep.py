"""Recorded jobs with and without faults, in all modes and layouts: are the verdicts right?

    python benchmarks/recorded_jobs/sweep.py [--seeds 3]

Prints each wrong answer, and counts. A faulty job must be blamed on the call with the fault; where
a dump has statistics only it may also be undecided, or within what statistics can tell, but never
blamed on another call or clean.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import divergraph as dg
from benchmarks.recorded_jobs.made_job import FAULTS, LAYOUTS, MODES, RANK_FAULTS, Job
from graphstore.model import Verdict

_QUIET = (Verdict.CLEAN, Verdict.WITHIN_ROUNDING, Verdict.UNDECIDED)


@dataclass(frozen=True, slots=True)
class Case:
    """A pair of jobs: *golden* and *device* are options of :class:`Job`."""

    seed: int
    mode: str
    golden: str = "single"
    device: str = "single"
    dtype: str = "float32"
    fault: str = ""

    def __str__(self) -> str:
        split = self.device if self.device == self.golden else f"{self.device}/{self.golden}"
        return f"{self.seed} {self.mode} {split} {self.dtype} {self.fault or 'healthy'}"


@dataclass
class Outcome:
    """What was said of the ranks of a case, and what is wrong with it."""

    case: Case
    wrong: list[str] = field(default_factory=list)
    named: bool = False


def cases(seed: int) -> Iterator[Case]:
    """All cases of a seed."""
    for mode in MODES:
        faulty = "float32" if mode == "md5" else "bfloat16"
        for dtype in ("float32", "float16", "bfloat16"):
            yield Case(seed, mode, dtype=dtype)
        for fault in FAULTS:
            yield Case(seed, mode, dtype=faulty, fault=fault)
        for layout in LAYOUTS[1:]:
            yield Case(seed, mode, device=layout, dtype="bfloat16")
            yield Case(seed, mode, layout, layout, "bfloat16")
        for fault in RANK_FAULTS:
            yield Case(seed, mode, "tensor", "tensor", faulty, fault)


def judged(case: Case, folder: Path) -> Outcome:
    """Compare the jobs of *case*, written below *folder*."""
    golden = Job(seed=case.seed, mode=case.mode, layout=case.golden).run(folder / "golden")
    device = Job(
        seed=case.seed, mode=case.mode, layout=case.device, dtype=case.dtype, fault=case.fault
    ).run(folder / "device")
    outcome = Outcome(case)
    verdicts = []
    for place in sorted((device / "step0").iterdir()):
        other = golden / "step0" / place.name
        if not other.is_dir():
            other = next((golden / "step0").iterdir())
        run = dg.compare(other, other, place, place)
        origins = [origin.op for origin in run.data.origins]
        verdicts.append(run.verdict)
        wrong = _wrong(case, int(place.name[-1]), run.verdict, origins)
        if wrong:
            outcome.wrong.append(f"{place.name}: {run.verdict.value} {origins[:2]}: {wrong}")
    fault = {**FAULTS, **RANK_FAULTS}.get(case.fault)
    expected = Verdict.INPUTS_DIFFER if case.fault == "data_other" else Verdict.DIVERGED
    outcome.named = fault is not None and expected in verdicts
    if fault is not None and not outcome.named and case.mode != "statistics":
        outcome.wrong.append(f"not found: {[each.value for each in verdicts]}")
    return outcome


def _wrong(case: Case, rank: int, verdict: Verdict, origins: list[str]) -> str:
    """What is wrong with the answer for a rank; empty if nothing is."""
    if case.golden != case.device:
        # of parts only values say which they are
        right = _QUIET[:2] if case.mode == "tensor" else (*_QUIET, Verdict.LAYOUTS_DIFFER)
        return "" if verdict in right else "another layout"
    fault = {**FAULTS, **RANK_FAULTS}.get(case.fault)
    if fault is None:
        proved = case.dtype == "float32" and case.mode != "tensor"
        if proved:
            return "" if verdict is Verdict.CLEAN else "equal"
        if verdict is Verdict.CLEAN and case.mode != "tensor":
            return "statistics prove nothing clean"
        return "" if verdict in _QUIET[:2] else "healthy"
    if case.fault == "data_other":
        return "" if verdict is Verdict.INPUTS_DIFFER else "other data"
    if verdict is Verdict.DIVERGED:
        return "" if fault.site in origins[0] and fault.rank in (None, rank) else "another call"
    if verdict is Verdict.INPUTS_DIFFER:
        return "" if case.device != "single" else "the data are the same"
    return "never clean" if verdict is Verdict.CLEAN else ""


def main() -> None:
    """Run all cases and print what is wrong."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=3)
    done: list[Outcome] = []
    for seed in range(1, options.parse_args().seeds + 1):
        for case in cases(seed):
            with tempfile.TemporaryDirectory() as folder:
                done.append(judged(case, Path(folder)))
            for wrong in done[-1].wrong:
                print(f"{case}: {wrong}", flush=True)
    for mode in MODES:
        some = [each for each in done if each.case.mode == mode]
        faulty = [each for each in some if each.case.fault]
        named = sum(each.named for each in faulty)
        bad = sum(bool(each.wrong) for each in some)
        print(f"{mode}: {len(some)} cases, {bad} wrong, {named} of {len(faulty)} faults named")


if __name__ == "__main__":
    main()
