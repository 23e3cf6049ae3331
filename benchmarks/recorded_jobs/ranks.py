"""Jobs of several ranks, healthy and faulty, against golden ones of the same layout.

    python benchmarks/recorded_jobs/ranks.py [--seeds 2] [--first 1]

Each job is compared as one. A healthy one may not be diverged; a faulty one has one origin, at the
call and with the rank of the fault. Numbers of ranks, layers and types change with the seed. Prints
what is wrong, and counts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import divergraph as dg
from benchmarks.recorded_jobs.made_job import JOB_FAULTS, LAYOUTS, Fault, Job
from graphstore.model import Verdict
from importers.msprobe.job_names import ranks_of

_HALVES = ("bfloat16", "float16")
_HEALTHY = (Verdict.CLEAN, Verdict.WITHIN_ROUNDING)


def judged(seed: int, layout: str, fault: Fault | None, folder: Path) -> str:
    """What is wrong with the verdict on a job of *layout*, written below *folder*; "" if nothing
    is."""
    blocks = 2 + seed % 3
    ranks = 2 if layout == "pipeline" or seed % 2 else 4
    dtype = _HALVES[seed % 2]
    name = "" if fault is None else fault.name
    golden = Job(seed=seed, layout=layout, ranks=ranks, blocks=blocks).run(folder / "golden")
    device = Job(seed=seed, layout=layout, ranks=ranks, blocks=blocks, dtype=dtype, fault=name).run(
        folder / "device"
    )
    run = dg.compare(golden, None, device, None)
    origins = run.data.origins
    if fault is None:
        return "" if run.verdict in _HEALTHY else f"healthy: {run.verdict}"
    lines = [f"{origin.op}: {origin.cause}" for origin in origins]
    if run.verdict is not Verdict.DIVERGED or len(origins) != 1:
        return f"{run.verdict}, {len(origins)} origins: {lines[:3]}"
    op = run.data.device.op_index()[origins[0].op]
    where = op.id + str(op.attrs.get("stack", ""))
    if fault.site not in where:
        return f"another call: {lines}"
    return "" if fault.rank is None or fault.rank in ranks_of(op) else f"another rank: {lines}"


def main() -> None:
    """Judge all jobs and print what is wrong."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=2)
    options.add_argument("--first", type=int, default=1)
    chosen = options.parse_args()
    counts = {"healthy": [0, 0], "faulty": [0, 0]}
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        healthy = [(layout, None) for layout in LAYOUTS[1:]]
        for layout, fault in [*healthy, *((each.layout, each) for each in JOB_FAULTS.values())]:
            with tempfile.TemporaryDirectory() as folder:
                wrong = judged(seed, layout, fault, Path(folder))
            count = counts["healthy" if fault is None else "faulty"]
            count[0] += not wrong
            count[1] += 1
            if wrong:
                print(f"{seed} {layout} {fault.name if fault else ''}: {wrong}", flush=True)
    for kind, (right, total) in counts.items():
        print(f"{kind}: {right} of {total} right")


if __name__ == "__main__":
    main()
