"""Depthwise convolutions have kernels of their own, which may take short operands or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dumped_sides import compared, guilty, run_all, written
from onnx import helper

from divergraph.rootcause.arithmetic.contract import FULL, Role, format_named

pytestmark = pytest.mark.thorough

node = helper.make_node
LAYERS, WIDE = 5, 16


class Net:
    """Five pairs of a pointwise and a depthwise convolution, 3x3 and 5x5 in turn."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(9)
        self.folder, self.nodes, self.weights, last = folder, [], {}, "x"
        for k in range(LAYERS):
            size = 3 if k % 2 else 5
            self.weights[f"v{k}"] = rng.normal(0, 0.25, (WIDE, WIDE, 1, 1)).astype(np.float32)
            self.weights[f"w{k}"] = rng.normal(0, 1 / size, (WIDE, 1, size, size)).astype(
                np.float32
            )
            pads = [size // 2] * 4
            self.nodes += [
                node("Conv", [last, f"v{k}"], [f"point{k}"]),
                node("Conv", [f"point{k}", f"w{k}"], [f"depth{k}"], group=WIDE, pads=pads),
            ]
            last = f"depth{k}"
        self.feeds = {"x": rng.normal(0, 1, (1, WIDE, 24, 24)).astype(np.float32)}
        self.model = written(folder / "net.onnx", self.nodes, self.feeds, self.weights, [last])

    def device(self, *short: str) -> dict[str, np.ndarray]:
        """What a device has whose ops of these names take their operands in TF32."""
        values = dict(self.feeds)
        for each in self.nodes:
            kind = format_named("tf32") if each.name in short else FULL
            x, w = values[each.input[0]], self.weights[each.input[1]]
            given = {each.input[0]: kind.operand(x, 1, Role.ACTIVATION)}
            held = {each.input[1]: kind.operand(w, 1, Role.WEIGHT)}
            one = written(self.folder / "op.onnx", [each], given, held, list(each.output))
            values |= {each.output[0]: run_all(one, given)[each.output[0]]}
        return values


MIXED = ["depth0", "depth2", "point0", "point1", "point2", "point3", "point4"]


@pytest.mark.parametrize(
    "short",
    [[f"depth{k}" for k in range(LAYERS)], ["depth1"], MIXED],
    ids=["depthwise alone", "one of them", "mixed"],
)
def test_none_is_guilty_for_its_operands(tmp_path: Path, short: list[str]) -> None:
    net = Net(tmp_path)
    golden = run_all(net.model, net.feeds)
    assert not guilty(compared(net.model, golden, net.device(*short)))


def test_a_fault_among_mixed_ones_is_found(tmp_path: Path) -> None:
    net = Net(tmp_path)
    golden, device = run_all(net.model, net.feeds), net.device(*MIXED)
    device["depth3"] = device["depth3"] * np.float32(1.01)
    assert "depth3" in guilty(compared(net.model, golden, device))
