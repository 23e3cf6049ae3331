"""Attention in 16 bits whose kernel rounds the softmax between its two products."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import divergraph as dg
from benchmarks.recorded_jobs.made_job import Job
from graphstore.model import Guilt

CALL = "Functional.scaled_dot_product_attention.0.forward"


def attention(job: Job, query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
    """What a kernel of the job's type gives."""
    scores = query @ np.swapaxes(key, -1, -2) / math.sqrt(query.shape[-1])
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares = job.round((shares / shares.sum(-1, keepdims=True)).astype(np.float32))
    return job.round(shares @ value)


def recorded(folder: Path, dtype: str, gain: float = 1.0) -> Path:
    """A dump of attention over values that cancel, and of calls of the same type around it."""
    job, draw = Job(dtype=dtype), np.random.default_rng(3)
    (recorder,) = job.recorders
    query, key = (job.round(draw.normal(size=(1, 2, 64, 8)) / 4) for _ in range(2))
    # Values of two rows next to each other are opposite: what is left of a sum is its rounding.
    value = draw.normal(size=(1, 2, 32, 8)).repeat(2, -2) * 10
    value[..., 1::2, :] *= -1
    value = job.round(value)
    made = job.round(attention(job, query, key, value) * np.float32(gain))
    recorder.add(CALL, [query, key, value], {}, [made], {}, "attention")
    for number in range(4):
        factor = job.round(draw.normal(size=made.shape))
        name = f"Tensor.__mul__.{number}.forward"
        recorder.add(name, [made, factor], {}, [job.round(made * factor)], {}, "gate")
    recorder.write(folder)
    return folder


def judged(tmp_path: Path, gain: float) -> tuple[Guilt, dict[str, float]]:
    """How the call is judged, and by its tolerances how much wider each makes the floor."""
    golden = recorded(tmp_path / "golden", "float32")
    device = recorded(tmp_path / "device", "bfloat16", gain)
    run = dg.compare(golden, golden, device, device)
    (split,) = (e.split for e in run.data.comparisons if e.split and e.op.endswith(CALL))
    adjusted = (a for each in run.record.analysis.reckonings for a in each.adjustments)
    return split.guilt, {each.tolerance: each.after / each.before for each in adjusted}


def test_it_is_no_error(tmp_path) -> None:
    guilt, _ = judged(tmp_path, gain=1.0)
    assert guilt is Guilt.NONE


def test_it_hides_none(tmp_path) -> None:
    guilt, wider = judged(tmp_path, gain=1.5)
    assert guilt is Guilt.GUILTY
    assert wider["rounded inside"] > 10
