"""Gradients of a layer norm's bias, added up in 16 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import divergraph as dg
from benchmarks.recorded_jobs.made_job import Job
from graphstore.model import Guilt

CALL = "Functional.layer_norm.0.backward"
ROWS, WIDTH, EPS = 2048, 16, 1e-5


def recorded(folder: Path, dtype: str, gain: float = 1.0) -> Path:
    """A dump of a layer norm there and back; the type's kernel adds rows up in turn."""
    job, draw = Job(dtype=dtype), np.random.default_rng(3)
    (recorder,) = job.recorders
    value, slope = (job.round(draw.normal(size=(ROWS, WIDTH))) for _ in range(2))
    weight, bias = (job.round(draw.normal(size=WIDTH)) for _ in range(2))
    root = np.sqrt(value.var(-1, keepdims=True) + EPS)
    normal = (value - value.mean(-1, keepdims=True)) / root
    made = job.round(normal * weight + bias)
    scaled = slope * weight
    mean, along = scaled.mean(-1, keepdims=True), (scaled * normal).mean(-1, keepdims=True)
    by_value = job.round((scaled - mean - normal * along) / root)
    by_weight, by_bias = np.zeros((2, WIDTH), np.float32)
    for row in range(ROWS):
        by_weight = job.round(by_weight + slope[row] * normal[row])
        by_bias = job.round(by_bias + slope[row])
    arguments = [value, [WIDTH], weight, bias, EPS]
    recorder.add("Functional.layer_norm.0.forward", arguments, {}, [made], {}, "norm")
    gradients = [by_value, by_weight, job.round(by_bias * np.float32(gain))]
    recorder.add(CALL, [slope], {}, gradients, {}, "norm")
    for number in range(4):
        factor = job.round(draw.normal(size=made.shape))
        name = f"Tensor.__mul__.{number}.forward"
        recorder.add(name, [made, factor], {}, [job.round(made * factor)], {}, "gate")
    recorder.write(folder)
    return folder


def judged(tmp_path: Path, gain: float) -> list[Guilt]:
    """How the gradients by value, weight and bias are judged."""
    golden = recorded(tmp_path / "golden", "float32")
    device = recorded(tmp_path / "device", "bfloat16", gain)
    run = dg.compare(golden, None, device, None)
    splits = [e.split for e in run.data.comparisons if e.split and e.op.endswith(CALL)]
    return [split.guilt for split in splits]


def test_they_are_no_error(tmp_path) -> None:
    assert judged(tmp_path, gain=1.0) == [Guilt.NONE] * 3


def test_they_hide_none(tmp_path) -> None:
    assert judged(tmp_path, gain=4.0) == [Guilt.NONE, Guilt.NONE, Guilt.GUILTY]
