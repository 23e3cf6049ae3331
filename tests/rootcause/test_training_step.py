"""A training step, gradients and all, run piece by piece with nothing but the base install."""

from __future__ import annotations

from pathlib import Path

from divergraph.comparison import CompareRequest, compare
from divergraph.rootcause.options import MethodChoice
from graphstore.contract import RunData
from graphstore.model import Role, TensorIO, Verdict


def request(lenet: Path, side: str, method: MethodChoice = MethodChoice.AUTO) -> CompareRequest:
    """What compares one of the demo's device runs."""
    device = lenet / side
    return CompareRequest(
        lenet / "model.ckpt.meta",
        lenet / "golden",
        device / "graph",
        device / "dump",
        method=method,
    )


class TestTheStepOfLeNet:
    def test_rounding_is_no_origin_though_a_gradient_is_far_off(self, lenet: Path) -> None:
        data = compare(request(lenet, "npu_clean"))
        assert data.run.verdict is Verdict.WITHIN_ROUNDING
        assert not data.origins
        assert not data.suspects
        assert worst_error(data) > 0.05

    def test_the_lost_bias_is_found_and_named(self, lenet: Path) -> None:
        data = compare(request(lenet, "npu_fault"))
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


def worst_error(data: RunData) -> float:
    """The largest relative error of a compared output."""
    return max(
        item.metrics.relative_euclidean_distance
        for item in data.comparisons
        if item.metrics is not None and item.io is TensorIO.OUTPUT
    )
