"""Golden of one rank, or of another layout, against jobs split over ranks: verdicts, and how much
is compared.

    python benchmarks/recorded_jobs/layouts.py [--seeds 3] [--jobs]

Prints a line a case. A healthy job must not be diverged, and 0.9 of its outputs must be
compared; the first origin of a faulty one must be at the fault's site, on its rank.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import divergraph as dg
from benchmarks.recorded_jobs.made_job import DATA_FAULTS, FAULTS, LAYOUTS, RANK_FAULTS, Job
from graphstore.model import Reason, TensorIO, Verdict

SITES = {
    "kernel_on_one_rank": "rank1/Module.blocks.1.q",
    "all_reduce_means": "ranks0-1/Module.blocks.1.down",
    "all_reduce_missing": "Module.blocks.1.",
}
"""Where faults of single ranks are; those of all are at the sites of ``made_job``."""
_OF_TENSORS = ("kernel_transposes", "data_other")
"""Faults that need whole weights, and data that are golden's."""


@dataclass(frozen=True, slots=True)
class Case:
    """A job of *layout* with a *fault*, or none, of the weights and data of *seed*."""

    seed: int
    layout: str
    fault: str = ""
    fused: str = ""
    """The side that has queries, keys and values of one layer; "" for none."""
    golden: str = "single"
    """The layout of golden's job."""
    golden_ranks: int = 2

    @property
    def site(self) -> str:
        """What the first origin's name has in it."""
        return SITES.get(self.fault) or {**FAULTS, **RANK_FAULTS, **DATA_FAULTS}[self.fault].site


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was said of a case: ``share`` of the outputs were compared, addends not counted."""

    verdict: Verdict
    first: str
    share: float


def cases(seed: int) -> Iterator[Case]:
    """The healthy job of each layout, and the faults each can have."""
    for layout in LAYOUTS[1:]:
        yield Case(seed, layout)
        for fault in FAULTS:
            if fault not in _OF_TENSORS:
                yield Case(seed, layout, fault)
    for fault in RANK_FAULTS:
        yield Case(seed, "tensor", fault)
    for fault in DATA_FAULTS:
        yield Case(seed, "data", fault)
    for side in ("golden", "device"):
        for layout in LAYOUTS:
            yield Case(seed, layout, fused=side)
        for fault in ("kernel_on_one_rank", "all_reduce_means", "kernel_zeroes_a_channel"):
            yield Case(seed, "tensor", fault, fused=side)
    for golden, ranks in (
        ("tensor", 2),
        ("tensor", 4),
        ("data", 4),
        ("pipeline", 3),
        ("wrapped", 2),
    ):
        for layout in LAYOUTS:
            yield Case(seed, layout, golden=golden, golden_ranks=ranks)
        for fault in FAULTS:
            if fault not in _OF_TENSORS:
                yield Case(seed, "data", fault, golden=golden, golden_ranks=ranks)
        for fault in RANK_FAULTS:
            yield Case(seed, "tensor", fault, golden=golden, golden_ranks=ranks)
        for fault in DATA_FAULTS:
            yield Case(seed, "data", fault, golden=golden, golden_ranks=ranks)


def judged(case: Case, folder: Path) -> Outcome:
    """Compare the job of *case* with golden's run, both written below *folder*."""
    golden = Job(
        seed=case.seed,
        layout=case.golden,
        ranks=case.golden_ranks,
        fused=case.fused == "golden",
    ).run(folder / "golden")
    fused = case.fused == "device"
    device = Job(
        seed=case.seed, layout=case.layout, dtype="bfloat16", fault=case.fault, fused=fused
    )
    job = device.run(folder / "device")
    data = dg.compare(golden, golden, job, job).data
    outputs = [
        item
        for item in data.comparisons
        if item.io is TensorIO.OUTPUT and item.reason is not Reason.ADDEND
    ]
    first = data.origins[0].op if data.origins else ""
    return Outcome(data.run.verdict, first, sum(item.compared for item in outputs) / len(outputs))


def is_right(case: Case, outcome: Outcome) -> bool:
    """Whether *outcome* is what the case must give."""
    if case.fault == "data_repeated":
        return outcome.verdict is Verdict.INPUTS_DIFFER
    if case.fault:
        return outcome.verdict is Verdict.DIVERGED and case.site in outcome.first
    return outcome.verdict is not Verdict.DIVERGED and outcome.share >= 0.9


def main() -> None:
    """Run all cases."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--jobs", action="store_true", help="only cases with a job as golden")
    right: list[bool] = []
    chosen = options.parse_args()
    for seed in range(1, chosen.seeds + 1):
        for case in cases(seed):
            if chosen.jobs and case.golden == "single":
                continue
            with tempfile.TemporaryDirectory() as folder:
                outcome = judged(case, Path(folder))
            right.append(is_right(case, outcome))
            words = "right" if right[-1] else f"WRONG {outcome.first}"
            name = f"{case.seed} {case.layout} {case.fault or 'healthy'}"
            if case.golden != "single":
                name += f" against {case.golden} of {case.golden_ranks}"
            name += f", fused on the {case.fused}'s side" if case.fused else ""
            print(f"{name}: {outcome.verdict.value} {outcome.share:.2f} {words}", flush=True)
    print(f"{sum(right)} of {len(right)} right")


if __name__ == "__main__":
    main()
