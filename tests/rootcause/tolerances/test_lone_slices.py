"""One channel or head that errs many times as much as all others is guilty."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dumped_sides import compared, guilty, run_all, written
from onnx import helper

from divergraph.rootcause.devices.precision import precision_named
from divergraph.rootcause.tolerances.slices import lone_slice

node = helper.make_node


class Products:
    """A convolution, products of heads, and a linear layer, on a device that rounds."""

    def __init__(self, folder: Path, kind: str) -> None:
        rng = np.random.default_rng(6)
        nodes = [
            node("Conv", ["x", "c"], ["conv"], pads=[1, 1, 1, 1]),
            node("Reshape", ["conv", "flat"], ["rows"]),
            node("MatMul", ["rows", "w"], ["linear"]),
            node("Reshape", ["linear", "cut"], ["parts"]),
            node("Transpose", ["parts"], ["heads"], perm=[0, 2, 1, 3]),
            node("Transpose", ["parts"], ["turned"], perm=[0, 2, 3, 1]),
            node("MatMul", ["heads", "turned"], ["scores"]),
        ]
        weights = {
            "c": rng.normal(0, 0.3, (32, 3, 3, 3)).astype(np.float32),
            "w": rng.normal(0, 0.12, (64, 96)).astype(np.float32),
            "flat": np.array([1, 32, 64]),
            "cut": np.array([1, 32, 12, 8]),
        }
        self.rounded = precision_named(kind).rounded
        self.feeds = {"x": self.rounded(rng.normal(0, 1, (1, 3, 8, 8)).astype(np.float32))}
        self.model = written(folder / "net.onnx", nodes, self.feeds, weights, ["scores"])
        held = {n: self.rounded(x) if x.dtype == np.float32 else x for n, x in weights.items()}
        other = written(folder / "device.onnx", nodes, self.feeds, held, ["scores"])
        self.device = {n: self.rounded(x) for n, x in run_all(other, self.feeds).items()}

    def compared(self):
        return compared(self.model, run_all(self.model, self.feeds), self.device)


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_none_of_a_healthy_device_is_alone(tmp_path: Path, kind: str) -> None:
    assert not guilty(Products(tmp_path, kind).compared())


@pytest.mark.parametrize("by", [0.025, 0.05, 0.1])
@pytest.mark.parametrize(("name", "axis"), [("conv", 1), ("linear", 2), ("scores", 1)])
def test_a_channel_that_is_a_few_per_cent_too_large_is_guilty(
    tmp_path: Path, name: str, axis: int, by: float
) -> None:
    made = Products(tmp_path, "bf16")
    value = made.device[name].copy()
    value[(slice(None),) * axis + (5,)] *= np.float32(1 + by)
    made.device[name] = made.rounded(value)
    assert name in guilty(made.compared())


@pytest.mark.parametrize(("seen", "alone"), [(5, False), (49, True)])
def test_of_a_channel_that_is_mostly_zero_a_few_values_tell_little(seen: int, alone: bool) -> None:
    rng = np.random.default_rng(9)
    exact = np.ones((64, 49))
    exact[5, seen:] = 0  # as behind a Relu
    first, second = 1e-3 * rng.standard_normal((2, 64, 49)) * exact
    first[5], second[5] = 4e-3 * exact[5], 1e-3 * exact[5] * rng.choice((-1, 1), 49)
    assert (lone_slice(exact, exact + first, [exact + second], 1e-6, 0.0) > 0) is alone


@pytest.mark.parametrize("gated", [True, False])
def test_a_channel_that_is_off_by_its_gate_has_one_error_and_not_as_many_as_values(
    gated: bool,
) -> None:
    """What a gate of 16 bits multiplies is off by one rounding, which is as large as chance has it:
    a device with a little more noise than its type made a channel of a healthy run guilty."""
    rng = np.random.default_rng(2)
    exact = rng.standard_normal((64, 49))
    first, second = 1e-3 * rng.standard_normal((2, 64, 49)) * exact
    first[5] = 1e-1 * exact[5]
    second[5] = 6e-3 * exact[5] * (1.0 if gated else rng.standard_normal(49))
    assert (lone_slice(exact, exact + first, [exact + second], 1e-6, 0.0) > 0) is not gated
