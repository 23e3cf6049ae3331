"""A constant that several ops share, of which a device in 8 bits holds a copy for each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.root_cause import unlike_inputs
from divergraph.blame.quantised_reads import find_readings
from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from divergraph.rootcause.devices.constants import DeviceConstants
from graphstore.model import Verdict


def test_a_bias_has_the_scale_of_each_convolution_that_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two images, each with a convolution of the same kernel and bias: 3 % between their scales
    made the second guilty."""
    monkeypatch.setattr(unlike_inputs, "_SEED", [3])
    net = unlike_inputs.two_images()
    golden = unlike_inputs.golden_of(net, tmp_path / "golden")
    healthy = next(case for case in unlike_inputs.cases(net) if case.name.startswith("healthy"))

    data = unlike_inputs.ran(net, healthy, StandIn.INT8, tmp_path / "device", golden)

    assert data.run.verdict is Verdict.WITHIN_ROUNDING


@pytest.mark.parametrize(("second", "zero"), [(0.02, 0), (0.01, 64)], ids=["scale", "zero point"])
def test_the_copies_of_a_weight_are_read_by_their_own_ops(
    tmp_path: Path, second: float, zero: int
) -> None:
    """Two products of one weight; the device holds a copy for each, with a scale or zero point of
    its own."""
    weight = np.linspace(-0.6, 0.6, 16, dtype=np.float32).reshape(4, 4)
    sides = {"first": (0.01, 0), "second": (second, zero)}
    for quantised in (False, True):
        nodes, constants = [], {"w": weight}
        for number, (name, (scale, point)) in enumerate(sides.items()):
            read = f"{name}_d" if quantised else "w"
            constants[f"{name}_s"] = np.float32(scale)
            constants[f"{name}_z"] = np.int8(point)
            parameters = [f"{name}_s", f"{name}_z"]
            if quantised:
                nodes.append(helper.make_node("QuantizeLinear", ["w", *parameters], [f"{name}_q"]))
                nodes.append(
                    helper.make_node("DequantizeLinear", [f"{name}_q", *parameters], [read])
                )
            nodes.append(helper.make_node("MatMul", [f"x{number}", read], [f"x{number + 1}"], name))
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x0", TensorProto.FLOAT, (2, 4))],
            [helper.make_tensor_value_info("x2", TensorProto.FLOAT, (2, 4))],
            [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
        )
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        onnx.save_model(model, tmp_path / f"{quantised}.onnx")
    np.save(tmp_path / "x0.npy", np.ones((2, 4), np.float32))
    golden, device = tmp_path / "False.onnx", tmp_path / "True.onnx"
    for model in (golden, device):
        capture(CaptureRequest(model, tmp_path / model.stem, {"x0": tmp_path / "x0.npy"}))
    request = CompareRequest(golden, tmp_path / "False", device, tmp_path / "True")
    data = compare(request)

    with DeviceConstants(device, data.device) as constants:
        reads = find_readings(data, constants.value).of_ops

    copies = {read.maker: (round(float(read.scale), 6), int(read.zero)) for read in reads}
    assert copies == {"x1": sides["first"], "x2": sides["second"]}
    assert not data.origins
