"""A training step, gradients and all, run piece by piece by TensorFlow."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from divergraph.comparison import CompareRequest, compare
from divergraph.rootcause.options import MethodChoice
from graphstore.contract import RunData
from graphstore.errors import ExecutionError
from graphstore.model import Method, Role, TensorIO, Verdict


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


@pytest.mark.tensorflow
class TestWithTensorFlow:
    def test_rounding_is_no_origin_though_a_gradient_is_far_off(self, lenet: Path) -> None:
        data = compare(request(lenet, "npu_clean"))
        assert data.run.verdict is Verdict.NOISE
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


@pytest.mark.skipif(find_spec("tensorflow") is not None, reason="needs TensorFlow to be absent")
class TestWithoutTensorFlow:
    def test_origins_are_by_thresholds_and_the_extra_is_named(self, lenet: Path) -> None:
        data = compare(request(lenet, "npu_fault"))
        assert data.run.method is Method.THRESHOLDS
        assert any("divergraph[tensorflow]" in warning for warning in data.run.warnings)

    def test_asking_for_root_causes_is_refused(self, lenet: Path) -> None:
        with pytest.raises(ExecutionError, match="tensorflow"):
            compare(request(lenet, "npu_fault", MethodChoice.ROOT_CAUSE))


def worst_error(data: RunData) -> float:
    """The largest relative error of a compared output."""
    return max(
        item.metrics.relative_euclidean_distance
        for item in data.comparisons
        if item.metrics is not None and item.io is TensorIO.OUTPUT
    )
