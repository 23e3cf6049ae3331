"""Jobs recorded as msprobe does: verdicts of healthy, faulty and otherwise split ones.

``benchmarks/recorded_jobs/sweep.py`` has all cases, in all modes; here are some of each kind.
"""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest

import divergraph as dg
from benchmarks.recorded_jobs.made_job import LAYOUTS, Job
from benchmarks.recorded_jobs.sweep import Case, judged
from divergraph.graphs.lineage.sequences import aligned
from graphstore.model import TensorIO, Verdict

CASES = [
    Case(1, "tensor", dtype="bfloat16"),
    Case(1, "md5"),
    *[
        Case(2, "tensor", dtype="bfloat16", fault=fault)
        for fault in ("kernel_zeroes_a_channel", "weight_stale", "call_missing", "call_extra")
    ],
    Case(2, "statistics", dtype="bfloat16", fault="argument_epsilon"),
    Case(2, "statistics", dtype="bfloat16", fault="kernel_softmax_of_another_axis"),
    Case(2, "md5", fault="kernel_zeroes_a_channel"),
    Case(2, "md5", fault="data_other"),
    *[Case(1, "statistics", device=split, dtype="bfloat16") for split in ("tensor", "data")],
    *[Case(1, "tensor", device=split, dtype="bfloat16") for split in LAYOUTS[1:]],
    Case(1, "tensor", "tensor", "tensor", "bfloat16", "kernel_on_one_rank"),
    Case(1, "tensor", "tensor", "tensor", "bfloat16", "all_reduce_means"),
    Case(1, "tensor", "data", "data", "bfloat16"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_job_is_judged_right(case, tmp_path):
    assert judged(case, tmp_path).wrong == []


@pytest.fixture(scope="module")
def golden(tmp_path_factory) -> Path:
    return Job().run(tmp_path_factory.mktemp("golden") / "job")


def test_the_cause_is_said_and_all_inputs_are_compared(golden, tmp_path):
    device = Job(dtype="bfloat16", fault="argument_epsilon").run(tmp_path / "job")
    run = dg.compare(golden, golden, device, device)
    (origin,) = run.data.origins
    assert (origin.type, origin.cause) == ("layer_norm", "eps 0.3, golden 1e-05")
    inputs = [item for item in run.data.comparisons if item.io is TensorIO.INPUT]
    assert len(inputs) > 100
    assert all(item.compared for item in inputs)


@pytest.mark.parametrize(
    ("fault", "relation"),
    [
        ("weight_of_a_norm", "golden's times 1.4"),
        ("weight_transposed", "golden's with axes 0, 1 exchanged"),
        ("weight_of_another_layer", "it is that of Module.blocks.1.q.Linear.forward.0, weight"),
        ("weight_without_a_row", "golden's with zeros at 3 of axis 0"),
        ("weight_negated", "golden's times -0.9999"),
    ],
)
def test_how_a_weight_follows_from_goldens_is_said(golden, tmp_path, fault, relation):
    device = Job(dtype="bfloat16", fault=fault).run(tmp_path / "job")
    origins = dg.compare(golden, golden, device, device).data.origins
    assert relation in str(origins[0].cause)


def test_one_call_less_shifts_nothing_behind_it(golden, tmp_path):
    device = Job(fault="call_missing").run(tmp_path / "job")
    run = dg.compare(golden, golden, device, device)
    twins = {link.device: link.original for link in run.data.links}
    named = {op.partition("/")[2]: twins[op].partition("/")[2] for op in twins}
    assert named["Tensor.__add__.2.forward"] == "Tensor.__add__.3.forward"
    assert (
        run.data.origins[0].cause
        == "golden calls Tensor.__add__.2.forward, which the device does not"
    )


def test_what_the_other_rank_brings_is_no_fault_of_this_one(tmp_path):
    sides = [
        Job(layout="tensor", dtype=dtype, fault=fault).run(tmp_path / dtype) / "step0" / "rank0"
        for dtype, fault in (("float32", ""), ("bfloat16", "kernel_on_one_rank"))
    ]
    run = dg.compare(sides[0], sides[0], sides[1], sides[1])
    assert run.verdict is Verdict.INPUTS_DIFFER
    assert "input 0 of rank 1 is off" in run.record.analysis.doubt


def test_another_layout_is_said_with_what_shows_it(golden, tmp_path):
    device = Job(layout="tensor", dtype="bfloat16", mode="statistics").run(tmp_path / "job")
    device = device / "step0" / "rank1"
    run = dg.compare(golden, golden, device, device)
    said = run.record.analysis.doubt
    assert "2 ranks against 1" in said
    assert "18 weights are parts of the other side's (first Module.blocks.0.q.Linear weight" in said
    assert not any(item.over for item in run.data.comparisons)


@pytest.mark.parametrize("mode", ["tensor", "statistics"])
def test_a_mask_is_no_finding(mode, tmp_path):
    job = Job(mode=mode).run(tmp_path / "job")
    assert dg.check_consistency(job, job).findings == ()


def test_the_advisor_calls_no_activation_an_input(golden, tmp_path):
    device = Job(dtype="bfloat16", fault="kernel_scales").run(tmp_path / "job")
    run = dg.compare(golden, golden, device, device)
    assert not any("input" in each.label for each in run.advise().findings)


def test_infinities_alike_on_both_sides_are_no_difference(tmp_path):
    masked = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [8, 8]}
    masked |= {"Max": 2.0, "Min": float("-inf"), "Mean": float("-inf"), "Norm": float("inf")}
    for side in ("npu", "gpu"):
        (tmp_path / side).mkdir()
        data = {"Tensor.masked_fill.0.forward": {"input_args": [], "output": [masked]}}
        content = {"task": "statistics", "level": "L1", "framework": "pytorch", "data": data}
        (tmp_path / side / "dump.json").write_text(json.dumps(content))
    run = dg.compare(*[tmp_path / side for side in ("gpu", "gpu", "npu", "npu")])
    assert run.verdict is Verdict.CLEAN


def longest(one: list[int], other: list[int]) -> int:
    """The length of the longest common subsequence, by its definition."""
    rows = [0] * (len(other) + 1)
    for item in one:
        before = 0
        for at, each in enumerate(other, 1):
            before, rows[at] = rows[at], before + 1 if item == each else max(rows[at], rows[at - 1])
    return rows[-1]


def test_sequences_are_aligned_as_far_as_they_can_be():
    draw = random.Random(5)
    for _ in range(300):
        one, other = ([draw.randrange(4) for _ in range(draw.randrange(12))] for _ in range(2))
        pairs = list(aligned(one, other))
        assert all(one[x] == other[y] for x, y in pairs)
        assert pairs == sorted(set(pairs))
        assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))
        assert len(pairs) == longest(one, other)
