"""A tensor that is quantised, handed on, and quantised again with another scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.model import Verdict

SCALES = {"wide": 4 / 127, "unit": 1 / 127, "again": 0.4 / 127}


def network(path: Path, *, quantised: bool) -> Path:
    """Products, each quantised on the device; behind the last a Softmax that is quantised twice."""
    rng, names = np.random.default_rng(3), [f"p{n}" for n in range(8)]
    values = {f"w_{name}": rng.normal(0, 0.2, (24, 24)).astype(np.float32) for name in names}
    if quantised:
        values |= {name: np.asarray(each, np.float32) for name, each in SCALES.items()}
        values["zero"] = np.asarray(0, np.int8)
    nodes: list[onnx.NodeProto] = []

    def add(kind: str, given: list[str], made: str, scale: str) -> str:
        nodes.append(helper.make_node(kind, given, [made], name=made))
        if not quantised:
            return made
        last = made
        for step, each in (("QuantizeLinear", f"{made}_q"), ("DequantizeLinear", f"{made}_dq")):
            nodes.append(helper.make_node(step, [last, scale, "zero"], [each], name=each))
            last = each
        return last

    last = "x"
    for name in names:
        last = add("MatMul", [last, f"w_{name}"], name, "wide")
    soft = add("Softmax", [last], "soft", "unit")
    kept = add("Identity", [soft], "kept", "again")
    nodes.append(helper.make_node("MatMul", [kept, "w_p0"], ["y"], name="y"))
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [16, 24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, str(path))
    return path


@pytest.mark.parametrize("gain", [1.0, 1.02])
def test_each_output_is_held_to_the_quantiser_that_made_it(tmp_path: Path, gain: float) -> None:
    golden = network(tmp_path / "golden.onnx", quantised=False)
    device = network(tmp_path / "device.onnx", quantised=True)
    feed = tmp_path / "x.npy"
    np.save(feed, np.random.default_rng(4).standard_normal((16, 24)).astype(np.float32))
    for model, folder in ((golden, "golden"), (device, "device")):
        capture(CaptureRequest(model, tmp_path / folder, {"x": feed}))
    (path,) = (tmp_path / "device").glob("p3_dq.0.*.npy")
    np.save(path, np.load(path) * np.float32(gain))
    data = compare(CompareRequest(golden, tmp_path / "golden", device, tmp_path / "device"))
    guilty = [each.op for each in data.origins]
    assert guilty[:1] == ([] if gain == 1.0 else ["p3_dq"])
    assert (data.run.verdict is Verdict.DIVERGED) == bool(guilty)
