"""A small network, run as it is and as a device with a fault would."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest
from divergraph.golden_capture import CaptureRequest, StandIn, capture

Array = np.ndarray
Change = Callable[[dict[str, Array]], None]


def network(path: Path, change: Change | None = None) -> Path:
    """Four convolutions with ReLUs, a branch, a mean and a softmax; *change* its weights."""
    rng = np.random.default_rng(7)
    weights = {
        f"w{k}": (rng.standard_normal((8, 8 if k else 3, 3, 3)) / (5 + 3 * k)).astype(np.float32)
        for k in range(4)
    }
    weights |= {f"b{k}": rng.uniform(0.1, 0.5, 8).astype(np.float32) for k in range(4)}
    weights["m"] = rng.standard_normal((8, 5)).astype(np.float32)
    if change is not None:
        change(weights)
    nodes, last = [], "x"
    for k in range(4):
        inputs = [last, f"w{k}", f"b{k}"]
        nodes.append(
            helper.make_node("Conv", inputs, [f"c{k}"], name=f"conv{k}", pads=[1, 1, 1, 1])
        )
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"], name=f"relu{k}"))
        last = f"r{k}"
    nodes.append(helper.make_node("Add", ["r0", "r3"], ["sum"], name="join"))
    nodes.append(helper.make_node("GlobalAveragePool", ["sum"], ["pool"], name="pool"))
    nodes.append(helper.make_node("Flatten", ["pool"], ["flat"], name="flat"))
    nodes.append(helper.make_node("MatMul", ["flat", "m"], ["logits"], name="matmul"))
    nodes.append(helper.make_node("Softmax", ["logits"], ["y"], name="softmax"))
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, str(path))
    return path


@dataclass(frozen=True)
class Sides:
    """A golden and a device run of the network, and where their files are."""

    folder: Path

    @property
    def request(self) -> CompareRequest:
        """What compares them."""
        device = next(self.folder.glob("device_run/*.onnx"), self.folder / "device.onnx")
        return CompareRequest(
            self.folder / "golden.onnx", self.folder / "golden", device, self.folder / "device_run"
        )

    def dumped(self, tensor_file: str) -> Path:
        """The device's dump of an op's first output."""
        (found,) = self.folder.glob(f"device_run/{tensor_file}.0.*.npy")
        return found

    def value(self, side: str, op: str) -> Array:
        """What an op gave out."""
        (found,) = self.folder.glob(f"{side}/{op}.0.*.npy")
        return np.load(found)

    def overwrite(self, op: str, change: Callable[[Array], Array]) -> None:
        """Let the device have dumped something else."""
        path = self.dumped(op)
        value = np.load(path)
        np.save(path, change(value).astype(value.dtype))


Sided = Callable[..., Sides]


@pytest.fixture
def sides(tmp_path: Path) -> Sided:
    """Makes both runs: *change* alters the device's weights, *device* its arithmetic.

    *both* alters the weights of both.
    """

    def make(
        change: Change | None = None, device: StandIn = StandIn.FP32, both: Change | None = None
    ) -> Sides:
        change = change or both
        golden = network(tmp_path / "golden.onnx", both)
        faulty = network(tmp_path / "device.onnx", change)
        feed = tmp_path / "x.npy"
        np.save(feed, np.random.default_rng(1).uniform(-1, 1, (1, 3, 12, 12)).astype(np.float32))
        inputs: Mapping[str, Path] = {"x": feed}
        capture(CaptureRequest(golden, tmp_path / "golden", inputs))
        capture(CaptureRequest(faulty, tmp_path / "device_run", inputs, device=device))
        return Sides(tmp_path)

    return make
