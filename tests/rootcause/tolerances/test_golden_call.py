"""A definition that gives golden's own output only nearly: the device is held to no more."""

from __future__ import annotations

import numpy as np
import pytest

import divergraph as dg
from benchmarks.recorded_jobs import made_job
from benchmarks.recorded_jobs.made_job import Job
from graphstore.model import Guilt

exact = made_job._gelu


@pytest.mark.parametrize(("off", "guilt"), [(1.0, Guilt.NONE), (60.0, Guilt.GUILTY)])
def test_a_device_as_near_as_golden_is_right(tmp_path, monkeypatch, off, guilt) -> None:
    """Both sides' Gelu is off by some 1e-4, each in its own way."""

    def nearly(size: float, turn: float):
        return lambda a: exact(a) * (1 + size * 1e-4 * np.sin(7 * a + turn))

    monkeypatch.setattr(made_job, "_gelu", nearly(1.0, 0.0))
    golden = Job(seed=4).run(tmp_path / "golden")
    monkeypatch.setattr(made_job, "_gelu", nearly(off, 1.0))
    device = Job(seed=4).run(tmp_path / "device")
    run = dg.compare(golden, golden, device, device)
    guilts = {
        each.split.guilt
        for each in run.data.comparisons
        if each.split is not None and "gelu" in each.op and each.op.endswith("forward")
    }
    assert guilts == {guilt}
