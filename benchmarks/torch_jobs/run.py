"""PyTorch jobs dumped by msprobe: is the call at fault named, first and alone, and its cause?
And what share of the calls does ``trace`` reach from the first one? (Optimizer calls on parameters
and moments alone, and tables of positions, depend on no input.)

    python benchmarks/torch_jobs/run.py FOLDER...

A folder holds ``golden`` jobs and others beside them, as ``make.py`` writes them
(``MODEL-golden``, ``MODEL-FUNCTION-NUMBER-FAULT``), or the unpacked ``one_process.tar.xz`` of the
sample data (``golden``, ``healthy_bf16``, ``fault_lost_bias``, ...). Prints a line for each.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2]))

import divergraph as dg
from graphstore.model import Method, ModelGraph, Verdict

SAMPLES = {
    "fault_epsilon_argument": ("Tensor.__add__.7.forward", "argument 1 is 0.01, golden 1e-06"),
    "fault_gradient_doubled": ("Module.blocks.1.mlp.up.Linear.backward.0", "exactly 2"),
    "fault_lost_bias": ("Functional.linear.7.forward", "bias missing"),
    "fault_mask_off_by_one": (
        "Functional.scaled_dot_product_attention.0.forward",
        "mask shifted by one",
    ),
    "fault_stale_weight": ("Functional.linear.12.forward", "its weight differs"),
    "fault_transposed": ("Functional.linear.10.forward", "swapped"),
}
"""Of the sample data the call at fault, and a word of its cause."""
CAUSES = {
    "scale": "1.2", "negate": "-", "shift": "shifted by +1", "channel": "1.29", "nan": "NaN",
    "lost_channel": "all zero", "no_bias": "bias missing", "eps": "eps", "dim": "", "half": "",
}  # fmt: skip
SETTINGS = {
    "detached": "takes no gradient", "frozen": "is frozen", "without_bias": "golden a tensor",
    "without_mask": "golden", "untied": "share the weight", "kept_gradients": "set to zero",
    "row_lost": "zeros", "epsilon": "0.1, golden",
}  # fmt: skip
_HEALTHY = (Verdict.CLEAN, Verdict.WITHIN_ROUNDING)
"""Of statistics a healthy job may be undecided, too."""


def expected(job: Path) -> tuple[str, str] | None:
    """The call at fault and a word of its cause; None for a healthy job."""
    if job.name in SAMPLES:
        return SAMPLES[job.name]
    parts = job.name.split("-")
    if len(parts) < 4:
        return None
    _, name, at, fault = parts
    if name == "setting":
        return "", SETTINGS[fault]
    if name == "weight":
        return "", "differs from golden's"
    return (
        ("", f".{name}.")
        if fault == "missing"
        else (f".{name}.{at}.forward", CAUSES.get(fault, ""))
    )


def call_at_fault(graph: ModelGraph, ending: str) -> str:
    """The end of the name of the call that ``.rms_norm.1.forward`` is: of a module whose function
    is not recorded, the module."""
    parts = ending.split(".")
    if len(parts) < 4 or any(op.id.endswith(ending) for op in graph.ops):
        return ending
    kind, at = parts[1].replace("_", ""), int(parts[2])
    modules = [op.id for op in graph.ops if op.type.lower().startswith(kind)]
    return modules[at] if at < len(modules) else ending


def golden_of(job: Path) -> Path:
    """The golden job it is held against."""
    named = job.parent / f"{job.name.partition('-')[0]}-golden"
    prefix = next((each for each in ("statistics_", "md5_") if job.name.startswith(each)), "")
    return named if named.exists() else job.parent / f"{prefix}golden"


def reach(graph: ModelGraph) -> float:
    """The share of the calls of *graph* that depend on its first one."""
    found = {graph.ops[0].id}
    for op in graph.ops:  # in the order they ran: what feeds a call comes before it
        if any(ref.op in found for ref in op.takes):
            found.add(op.id)
    return len(found) / len(graph.ops)


def main() -> None:
    """Judge all jobs and count."""
    right = named = healthy = quiet = causes = silent = 0
    origins, seconds, reached = [], [], []
    for folder in map(Path, sys.argv[1:]):
        for job in sorted(folder.iterdir()):
            golden = golden_of(job)
            if not (job / "step0").is_dir() or job == golden or not golden.exists():
                continue
            began = time.process_time()
            run = dg.compare(golden, golden, job, job)
            seconds.append(time.process_time() - began)
            reached.append(reach(run.data.device))
            answer = expected(job)
            if answer is None or job.name.startswith(("statistics_", "md5_")):
                healthy += answer is None and "fault" not in job.name
                is_quiet = run.verdict in _HEALTHY or (
                    run.verdict is Verdict.UNDECIDED and run.data.run.method is Method.THRESHOLDS
                )
                quiet += answer is None and "fault" not in job.name and is_quiet
                print(f"{job.name:48} {run.verdict}")
                continue
            first = run.data.origins[0] if run.data.origins else None
            cause = "" if first is None else first.cause or ""
            ending = call_at_fault(run.data.golden, answer[0])
            # Of functions that were not recorded, what comes next is fed wrong.
            is_recorded = any(op.id.endswith(ending) for op in run.data.golden.ops)
            is_next = not is_recorded and "no recorded call made it" in cause
            is_first = first is not None and (is_next or first.op.endswith(ending or first.op))
            is_first &= bool(ending) or answer[1] in cause
            is_told = is_first and answer[1] in cause
            named, right, causes = named + 1, right + is_first, causes + is_told
            origins.append(len(run.data.origins))
            silent += first is None
            mark = "first" if is_first else "silent" if first is None else "WRONG"
            print(f"{job.name:48} {mark} of {len(run.data.origins)}: {cause[:80]}", flush=True)
    print(
        f"\n{quiet} of {healthy} healthy jobs quiet; {right} of {named} faults first, "
        f"{silent} silent, {causes} causes right, "
        f"median of origins {median(origins or [0])}; trace reaches {median(reached or [0]):.0%} "
        f"of the calls from the first; {median(seconds or [0]):.1f} CPU s a pair"
    )


if __name__ == "__main__":
    main()
