"""Jobs of several ranks dumped by ``make.py``: is each healthy one within rounding, and each fault
named first, against golden of one rank and of as many?

    python benchmarks/torch_jobs/parallel/run.py FOLDER [--golden one ranks] [--only TEXT]

Needs no PyTorch. Prints a line for each job.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

import divergraph as dg
from graphstore.model import Verdict

GOLDEN = {"one": "golden", "ranks": "golden_ranks"}
_HEALTHY = (Verdict.CLEAN, Verdict.WITHIN_ROUNDING)


def is_right(verdict: Verdict, first: str, fault: str, sites: str) -> bool:
    """Whether a job with *fault*, or none, got the *verdict* it must get, and its *first* origin
    has one of *sites* in its name."""
    if not fault:
        return verdict in _HEALTHY
    if fault == "same_data":
        return verdict is Verdict.INPUTS_DIFFER
    return verdict is Verdict.DIVERGED and any(site in first for site in sites.split("|"))


def main() -> None:
    """Compare all jobs."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--golden", nargs="*", default=list(GOLDEN), choices=list(GOLDEN))
    options.add_argument("--only", default="", help="only jobs with this in their name")
    chosen = options.parse_args()
    sites = {
        tuple(line.split()[:2]): line.split()[2]
        for line in (Path(__file__).parent / "sites.txt").read_text("utf-8").splitlines()
    }
    right: list[bool] = []
    for job in sorted(chosen.folder.iterdir()):
        kind, _, name = job.name.partition("-")
        if name in ("", *GOLDEN.values()) or chosen.only not in job.name:
            continue
        fault = "" if name == "healthy" else name
        for golden in chosen.golden:
            begin = time.process_time()
            run = dg.compare(chosen.folder / f"{kind}-{GOLDEN[golden]}", None, job, None)
            origins = run.data.origins
            first = origins[0].op if origins else ""
            right.append(is_right(run.verdict, first, fault, sites.get((kind, fault), "")))
            mark = "right" if right[-1] else "WRONG"
            seconds = time.process_time() - begin
            print(f"{job.name} against {golden}: {mark} {run.verdict.value} {seconds:.0f} s")
            for each in origins[:3]:
                print(f"    {each.op}: {each.cause}", flush=True)
    print(f"{sum(right)} of {len(right)} right")


if __name__ == "__main__":
    main()
