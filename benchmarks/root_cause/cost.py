"""What root cause costs: CPU seconds and memory of a comparison, and of the process of its model.

    python benchmarks/root_cause/cost.py --golden model.ckpt.meta --golden-dump GOLDEN \\
        --device GRAPH --device-dump DUMP

The baseline is a comparison of the same dumps by thresholds, which runs no model: the ratio hardly
hangs on the machine, nor on who else computes on it.
"""

from __future__ import annotations

import argparse
import atexit
import resource
import subprocess
import sys
from pathlib import Path

_MEASURED = "--measured"


def main() -> None:
    """Print a line for each method, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("golden", "golden-dump", "device", "device-dump"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument(_MEASURED, default="", help="of this method alone, in this process")
    given = parser.parse_args()
    if given.measured:
        _measure(given)
        return
    seconds = []
    for method in ("thresholds", "root-cause"):
        command = [sys.executable, *sys.argv, _MEASURED, method]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        print(f"{method:10} {said.strip()}", flush=True)
        seconds.append(float(said.split()[0]))
    print(f"{seconds[1] / seconds[0]:.1f} times the CPU seconds")


def _measure(given: argparse.Namespace) -> None:
    atexit.register(_print_usage)  # what is registered first runs last: the model has ended by then

    from divergraph.comparison import CompareRequest, compare
    from divergraph.rootcause.options import MethodChoice

    sides = (given.golden, given.golden_dump, given.device, given.device_dump)
    compare(CompareRequest(*sides, method=MethodChoice(given.measured)))


def _print_usage() -> None:
    ours, models = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    seconds = [each.ru_utime + each.ru_stime for each in (ours, models)]
    print(
        f"{sum(seconds):.2f} s CPU, of the process of the model {seconds[1]:.2f} s; "
        f"at most {ours.ru_maxrss >> 10} MiB and {models.ru_maxrss >> 10} MiB"
    )


if __name__ == "__main__":
    main()
