"""States, origins' descriptions and the verdict follow from levels and lineage."""

from __future__ import annotations

from math import nan

import pytest

from divergraph.ask.overview_answers import worst_ops
from divergraph.ask.questions.verdict import worst_first
from divergraph.thresholds.verdicts import (
    count,
    describe_origins,
    op_states,
    outputs_by_op,
    verdict,
    worst,
)
from graphstore.model import (
    Comparison,
    Level,
    LineageLink,
    LineageRule,
    Metric,
    MetricSet,
    Op,
    OpState,
    Reason,
    Side,
    TensorIO,
    TensorRef,
    Verdict,
)
from graphstore.op_row import OpRow
from tests.made.op_columns import columns_of


def metrics(error=0.0, cosine=1.0, nonfinite=0, in_golden=0):
    return MetricSet(
        cosine_similarity=cosine,
        max_absolute_error=error,
        accumulated_relative_error=0.0,
        relative_euclidean_distance=error,
        kullback_leibler_divergence=0.0,
        standard_deviation=(0.0, 1.0, 0.0, 1.0),
        mean_absolute_error=0.0,
        root_mean_square_error=0.0,
        max_relative_error=0.0,
        mean_relative_error=0.0,
        device_nonfinite=nonfinite,
        golden_nonfinite=in_golden,
    )


def compared(op, level=Level.PASS, port=0, io=TensorIO.OUTPUT, golden=None, **values):
    return Comparison(
        op,
        io,
        port,
        golden,
        metrics=metrics(**values),
        level=level,
        failed=(Metric.COSINE_SIMILARITY,) if level is Level.FAIL else (),
    )


def test_each_state_has_its_cause():
    items = [
        compared("born", Level.FAIL, error=0.2),
        compared("carried", Level.FAIL, error=0.2),
        compared("exploded", Level.FAIL, error=nan, nonfinite=3),
        compared("close", Level.WARN, error=0.02),
        compared("fine"),
        Comparison("left out", TensorIO.OUTPUT, 0, reason=Reason.NO_DEVICE_DUMP),
    ]
    states = op_states([item.op for item in items], outputs_by_op(items), frozenset({"born"}))
    assert states == {
        "born": OpState.ORIGIN,
        "carried": OpState.INHERITED,
        "exploded": OpState.BROKEN,
        "close": OpState.DRIFTING,
        "fine": OpState.CLEAN,
        "left out": OpState.NOT_COMPARED,
    }


def test_inputs_do_not_decide_an_ops_state():
    items = [compared("op", Level.FAIL, io=TensorIO.INPUT), compared("op", Level.PASS)]
    assert op_states(["op"], outputs_by_op(items), frozenset()) == {"op": OpState.CLEAN}


def test_the_worst_output_is_the_broken_one_then_the_most_wrong():
    small, big = compared("op", Level.FAIL, 0, error=0.1), compared("op", Level.FAIL, 1, error=0.3)
    broken = compared("op", Level.FAIL, 2, error=nan, cosine=nan, nonfinite=1)
    assert worst([small, big]) is big
    assert worst([small, broken, big]) is broken
    assert worst([Comparison("op", TensorIO.OUTPUT, 0, reason=Reason.INSERTED)]) is None


def test_a_mask_of_the_same_infinities_is_no_worst_output():
    mask = compared("op", Level.PASS, 0, error=nan, cosine=nan, nonfinite=6, in_golden=6)
    close = compared("op", Level.PASS, 1, error=0.001)
    assert worst([close, mask]) is close
    assert worst_first([mask, close]) == [close, mask]
    same = compared("op", Level.PASS, 2)
    assert worst_first([same, mask]) == [same, mask]
    rows = [op_row(topo, item) for topo, item in enumerate((same, mask, close))]
    assert worst_ops(columns_of(rows), 3) == [2, 0, 1]


def op_row(topo: int, item: Comparison) -> OpRow:
    return OpRow(
        *(topo, f"op{topo}", f"op{topo}", "T", Side.DEVICE, "", "", None, "", 1, ()),
        level=item.level,
        metrics=item.metrics,
    )


def test_an_origin_lists_the_compared_tensor_first_and_all_originals():
    item = compared("fused", Level.FAIL, golden=TensorRef("relu", 0), error=0.2)
    links = [
        LineageLink("fused", name, LineageRule.ORIGINAL_NAMES) for name in ("conv", "bias", "relu")
    ]
    ops = {"fused": Op("fused", "fused", "Conv2D")}
    (origin,) = describe_origins(["fused"], ops, [item], links)
    assert (origin.rank, origin.op, origin.type, origin.output) == (1, "fused", "Conv2D", 0)
    assert origin.golden == (TensorRef("relu", 0), TensorRef("conv", -1), TensorRef("bias", -1))


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([], Verdict.NOT_COMPARED),
        ([Level.PASS, Level.PASS], Verdict.CLEAN),
        ([Level.PASS, Level.WARN], Verdict.WITHIN_ROUNDING),
        ([Level.PASS, Level.FAIL], Verdict.DIVERGED),
    ],
)
def test_the_verdict_sums_up(levels, expected):
    items = [compared(f"op{number}", level) for number, level in enumerate(levels)]
    bad = [item.op for item in items if item.over]
    ops = {item.op: Op(item.op, item.op, "T") for item in items}
    origins = describe_origins(bad, ops, items, [])
    assert verdict(count(len(items), items), origins, items) is expected


def test_counts_leave_out_ops_without_outputs_from_the_tensors():
    items = [
        compared("a", Level.FAIL),
        Comparison("b", TensorIO.OUTPUT, 0, reason=Reason.NO_GOLDEN_DUMP),
        Comparison("end", TensorIO.OUTPUT, -1, reason=Reason.NO_OUTPUT),
    ]
    counts = count(3, items)
    assert (counts.ops, counts.tensors, counts.compared, counts.over, counts.not_compared) == (
        3,
        2,
        1,
        1,
        1,
    )


def test_a_call_that_reads_and_gives_other_shapes_is_as_far_off_as_can_be():
    """A T5 without its mask, whose first odd call makes a copy: it ended in a KeyError."""
    call = Op("copy", "copy", "contiguous")
    items = [
        Comparison("copy", io, 0, reason=Reason.SHAPE_MISMATCH)
        for io in (TensorIO.INPUT, TensorIO.OUTPUT)
    ]
    causes = {"copy": "golden calls where"}
    (origin,) = describe_origins(["copy"], {"copy": call}, items, [], causes)
    assert (origin.output, origin.level, origin.golden) == (0, Level.FAIL, ())
    assert origin.metrics.shapes_differ
    assert origin.cause == "golden calls where"
