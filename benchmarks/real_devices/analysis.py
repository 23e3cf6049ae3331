"""One comparison in a process of its own: what the product found, and what it cost.

    python benchmarks/real_devices/analysis.py GOLDEN GOLDEN_DUMP DEVICE DEVICE_DUMP

Prints one line of JSON. A process for each, so that its peak memory is its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "root_cause"))

_NAMED = 8
"""Ops at the top whose causes are kept."""


def analysed(paths: list[Path], limit: float = 600.0) -> dict[str, Any]:
    """What ``analyse`` in a new process finds of the four paths; an ``error`` where it ended
    without an answer or took more than *limit* seconds."""
    command = [sys.executable, __file__, *map(str, paths)]
    before = cpu_of_children()
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer in {limit:g} s"}
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1] if done.stderr else "no answer"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "cpu": cpu_of_children() - before}


def captured(model: Path, feeds: Mapping[str, Path], folder: Path) -> float:
    """CPU seconds of a golden capture of *model* into *folder*, in a process of its own as well."""
    inputs = [word for name, path in feeds.items() for word in ("-i", f"{name}={path}")]
    command = [sys.executable, "-m", "divergraph", "capture", str(model), *inputs]
    before = cpu_of_children()
    subprocess.run([*command, "-o", str(folder)], capture_output=True, check=True)
    return cpu_of_children() - before


def cpu_of_children() -> float:
    """CPU seconds of all processes this one has waited for, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _here(paths: list[Path]) -> dict[str, Any]:
    from analysed import ranking

    from divergraph.comparison.compare_run import CompareRequest, compare
    from divergraph.rootcause.options import MethodChoice
    from graphstore.model import FindingKind

    data = compare(CompareRequest(*paths, method=MethodChoice.ROOT_CAUSE))
    splits = [item.split for item in data.comparisons if item.split is not None]
    causes = {origin.op: origin.cause for origin in (*data.origins, *data.suspects)}
    named = [*data.origins, *data.suspects][:_NAMED]
    return {
        "verdict": data.run.verdict.value,
        "ranking": [
            [each.op, each.suspicion, each.guilty, sorted(each.made), causes.get(each.op)]
            for each in ranking(data)
        ],
        "causes": {
            each.op: [each.label, each.confidence, dict(each.evidence)]
            for each in sorted(data.findings, key=lambda each: each.confidence)
            if each.kind is FindingKind.CAUSE and each.op in {one.op for one in named}
        },
        "judged": sum(not each.failure for each in splits),
        "unknown": sum(bool(each.failure) for each in splits),
        "arithmetic": data.run.analysis.arithmetic.precision,
        "notes": list(data.run.warnings),
        "peak_mib": _peak() / 1024,
    }


def _peak() -> int:
    """The peak memory of this process in KiB. Not ru_maxrss: that starts with the parent's."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


if __name__ == "__main__":
    print(json.dumps(_here([Path(each) for each in sys.argv[1:]])))
