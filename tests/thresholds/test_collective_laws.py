"""Calls between ranks convicted by the statistics of their tensors alone."""

from __future__ import annotations

import numpy as np
import pytest

import divergraph as dg
from benchmarks.recorded_jobs.laws import FAULTS, TYPES, Calls
from benchmarks.recorded_jobs.made_job import Job
from graphstore.model import Verdict


def job(kind: str = "bfloat16", ranks: int = 4, seed: int = 1) -> Calls:
    return Calls(np.random.default_rng(seed), ranks, kind)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_healthy_calls_break_no_law(kind, ranks):
    calls = job(kind, ranks)
    for _ in range(5):
        for flow in sorted({flow for flows in FAULTS.values() for flow in flows}):
            calls.add(flow)
    assert calls.broken() == {}


@pytest.mark.parametrize(
    ("flow", "fault", "words"),
    [
        ("all_reduce", "mean for sum", "ranks: a ratio of 4"),
        ("reduce_mean", "sum for mean", "ranks: a ratio of 4"),
        ("all_reduce", "own values only", "rank 1 got another result than the 3 others"),
        ("all_reduce", "a chunk is lost", "rank 1 got another result than the 3 others"),
        ("broadcast", "the result before", "rank 1 got another tensor than rank 0 gave"),
        ("all_gather_into_tensor", "half of it on one rank", "rank 1 got another result"),
        ("all_to_all_single", "the result before", "the ranks got"),
    ],
)
def test_a_broken_law_says_what_is_wrong(flow, fault, words):
    calls = job(seed=2)
    calls.add(flow, fault)
    (said,) = calls.broken().values()
    assert words in said


def test_the_broken_law_is_the_cause_of_a_job_without_values(tmp_path):
    sides = [
        Job(layout="tensor", mode="statistics", dtype=dtype, fault=fault).run(tmp_path / dtype)
        for dtype, fault in (("float32", ""), ("bfloat16", "all_reduce_means"))
    ]
    run = dg.compare(sides[0], None, sides[1], None)
    (origin,) = run.data.origins
    assert run.verdict is Verdict.DIVERGED
    assert (
        origin.op
        == "ranks0-1/Module.blocks.1.down.Linear.forward.0/Distributed.all_reduce.3.forward"
    )
    assert origin.cause.endswith("of 2 ranks: a ratio of 2")
