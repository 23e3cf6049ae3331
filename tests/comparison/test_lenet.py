"""The main job: one training step of LeNet, with and without a fault."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import pytest

from divergraph.present.csv_report import write_csv
from graphstore.model import OpState, Reason, Role, TensorIO, TensorRef, Verdict

_OWN_WORDS = {
    "CompareFailReason",
    "DataType",  # the reference calls an int64 golden tensor int32
    "Shape",  # the reference flattens matrices it does not convert
}


def test_the_fault_is_found_where_it_was_made(lenet_runs):
    data = lenet_runs["npu_fault"]
    first = data.origins[0]
    assert data.run.verdict is Verdict.DIVERGED
    assert (first.rank, first.op, first.type, first.output) == (
        1,
        "LeNet/conv2/Conv2DRelu",
        "Conv2D",
        0,
    )
    assert first.golden[0] == TensorRef("LeNet/conv2/Relu", 0)
    assert {ref.op for ref in first.golden} == {
        "LeNet/conv2/Conv2D",
        "LeNet/conv2/BiasAdd",
        "LeNet/conv2/Relu",
    }
    assert first.metrics.cosine_similarity > 0.99, "the usual cosine limit does not see it"


def test_its_cause_is_named_and_all_others_pass_it_on(lenet_runs):
    data = lenet_runs["npu_fault"]
    assert [origin.op for origin in data.origins] == ["LeNet/conv2/Conv2DRelu"]
    assert "bias missing" in (data.origins[0].cause or "")
    roles = {
        item.op: item.split.role
        for item in data.comparisons
        if item.io is TensorIO.OUTPUT and item.split is not None
    }
    assert [op for op, role in roles.items() if role is Role.INTRODUCES] == [
        "LeNet/conv2/Conv2DRelu"
    ]


def test_rounding_is_no_origin_though_a_gradient_is_far_off(lenet_runs):
    data = lenet_runs["npu_clean"]
    assert (data.run.verdict, data.origins, data.suspects) == (Verdict.WITHIN_ROUNDING, (), ())
    worst = max(
        item.metrics.relative_euclidean_distance
        for item in data.comparisons
        if item.metrics is not None and item.io is TensorIO.OUTPUT
    )
    assert worst > 0.05


def test_nothing_before_the_fault_is_blamed(lenet_runs):
    data = lenet_runs["npu_fault"]
    order = list(data.states)
    before = order[: order.index("LeNet/conv2/Conv2DRelu")]
    assert {data.states[op] for op in before} <= {
        OpState.CLEAN,
        OpState.DRIFTING,
        OpState.NOT_COMPARED,
    }


def test_every_device_tensor_is_compared_or_says_why_not(lenet_runs):
    for data in lenet_runs.values():
        outputs = {(item.op, item.port) for item in data.comparisons if item.io is TensorIO.OUTPUT}
        for op in data.device.ops:
            for port in range(len(op.outputs)):
                assert (op.id, port) in outputs
        assert all(item.compared != (item.reason is not None) for item in data.comparisons)
        not_compared = {item.reason for item in data.comparisons if not item.compared}
        assert not_compared == {Reason.NO_TASK, Reason.NO_OUTPUT, Reason.INSERTED}


@pytest.mark.parametrize("side", ["npu_clean", "npu_fault"])
def test_every_number_agrees_with_the_reference_comparator(lenet_runs, lenet, tmp_path, side):
    report = tmp_path / "report.csv"
    write_csv(report, lenet_runs[side])
    header, ours = _by_tensor(report)
    reference_header, theirs = _by_tensor(lenet / side / "msaccucmp_result.csv")
    assert header == reference_header
    assert len(theirs) > 120
    wrong = [
        (tensor, column, expected, ours[tensor][number])
        for tensor, row in theirs.items()
        for number, (column, expected) in enumerate(zip(header, row, strict=True))
        if column not in _OWN_WORDS and not _agree(expected, ours[tensor][number])
    ]
    assert wrong == []


def _by_tensor(path: Path) -> tuple[list[str], dict[str, list[str]]]:
    with path.open(newline="") as stream:
        header, *rows = csv.reader(stream)
    at = header.index("TensorIndex")
    cosine = header.index("CosineSimilarity")
    return header, {row[at]: row for row in rows if row[at] != "NaN" and row[cosine] != "NaN"}


def _agree(expected: str, found: str) -> bool:
    """Equal texts, or numbers within the float32 sums of the reference."""
    if expected == found:
        return True
    pattern = r"-?\d+\.\d+"
    if re.sub(pattern, "", expected) != re.sub(pattern, "", found):
        return False
    one, other = re.findall(pattern, expected), re.findall(pattern, found)
    slack = 1.1e-3 if expected.startswith("(") else 2e-6
    return all(
        math.isclose(float(a), float(b), rel_tol=2e-5, abs_tol=slack)
        for a, b in zip(one, other, strict=True)
    )
