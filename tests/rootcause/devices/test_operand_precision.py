"""Devices whose matrix ops take operands with fewer bits than float32 has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper, numpy_helper

from divergraph.api.arguments import root_cause_of
from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.rootcause.arithmetic.contract import (
    FULL,
    OperandFormat,
    Role,
    format_named,
    whole_formats,
)
from divergraph.rootcause.arithmetic.families import Family, family_of
from divergraph.rootcause.devices.precisions.bf16 import BF16
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.options import RootCauseOptions
from graphstore.model import Guilt, Op, TensorIO

pytestmark = pytest.mark.thorough

Array = np.ndarray
HF32, TF32, BF16_OPERANDS = map(format_named, ("hf32", "tf32", "bf16"))
HF32_CUT, TF32_CUT = map(format_named, ("hf32, cut", "tf32, cut"))
CANDIDATES = [each for each in whole_formats() if not each.scaled]
singles = hnp.arrays(np.float32, 20, elements=st.floats(-(2.0**99), 2.0**99, width=32))
MATRIX = ("Conv", "MatMul")


def run_with(
    sides, operands: OperandFormat, types=MATRIX, fault: Callable[[str, Array], Array] | None = None
):
    """Dump what a device makes of the network that takes the operands of *types* so."""
    made = sides()
    model = onnx.load_model(str(made.folder / "golden.onnx"))
    values = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    values["x"] = np.load(made.folder / "x.npy")
    for node in model.graph.node:
        feeds = {
            name: operands.operand(values[name], -1, Role.ACTIVATION)
            if node.op_type in types and place < 2
            else values[name]
            for place, name in enumerate(node.input)
        }
        value = run_one(node, feeds)
        values[node.output[0]] = value if fault is None else fault(node.name, value)
        np.save(made.dumped(node.name), values[node.output[0]])
    return made


def run_one(node: onnx.NodeProto, feeds: dict[str, Array]) -> Array:
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info(k, TensorProto.FLOAT, v.shape) for k, v in feeds.items()],
        [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)[0]


@pytest.mark.parametrize(
    ("operands", "said"),
    [
        (TF32, "fp32/tf32"),
        (HF32_CUT, "fp32/"),
    ],
)
def test_a_healthy_device_with_short_operands_has_no_origin(sides, operands, said):
    data = compare(run_with(sides, operands).request)
    assert not data.origins
    assert not data.suspects
    assert str(data.run.analysis.arithmetic).startswith(said)
    assert any("bits of mantissa" in warning for warning in data.run.warnings)


@pytest.mark.parametrize(("operands", "origins"), [(BF16_OPERANDS, []), (FULL, ["relu2"])])
def test_a_tensor_held_in_the_type_of_the_operands_is_no_fault(sides, operands, origins):
    """A device whose convolutions read bfloat16 may hold what one of them reads in it."""

    def held(name, value):
        return BF16.rounded(value) if name == "relu2" else value

    data = compare(run_with(sides, operands, fault=held).request)
    assert str(data.run.analysis.arithmetic) == ("fp32" if operands is FULL else "fp32/bf16")
    assert [each.op for each in (*data.origins, *data.suspects)] == origins


def test_a_fault_in_one_convolution_is_found_all_the_same(sides):
    def weaker(name, value):
        return value * np.float32(0.99) if name == "conv2" else value

    data = compare(run_with(sides, HF32, fault=weaker).request)
    assert [origin.op for origin in data.origins] == ["conv2"]
    assert str(data.run.analysis.arithmetic) == "fp32/hf32"


@pytest.mark.parametrize(("gain", "origins"), [(1.0, []), (0.998, ["matmul"])])
def test_only_convolutions_may_be_short(sides, gain, origins):
    def weaker(name, value):
        return value * np.float32(gain) if name == "matmul" else value

    made = run_with(sides, HF32, types=("Conv",), fault=weaker)
    assert [origin.op for origin in compare(made.request).origins] == origins


def test_full_operands_are_believed_of_a_device_with_one_fault(sides):
    def weaker(name, value):
        return value * np.float32(0.9995) if name == "conv1" else value

    data = compare(run_with(sides, FULL, fault=weaker).request)
    assert str(data.run.analysis.arithmetic) == "fp32"
    assert [origin.op for origin in data.origins] == ["conv1"]


@pytest.mark.slow
def test_the_user_may_say_it(sides):
    made = run_with(sides, HF32)
    strict = compare(replace(made.request, root_cause=RootCauseOptions(precision=FP32)))
    assert {origin.op for origin in strict.origins} >= {f"conv{k}" for k in range(4)}
    said = compare(replace(made.request, root_cause=root_cause_of(6, 10, "hf32", 1024)))
    assert not said.origins
    floors = [
        item.split.floor
        for item in said.comparisons
        if item.op == "conv1" and item.io is TensorIO.OUTPUT and item.split is not None
    ]
    assert 5e-5 < floors[0] < 5e-4
    assert all(item.split is None or item.split.guilt is Guilt.NONE for item in said.comparisons)


@given(singles, st.sampled_from([each for each in CANDIDATES if each.name != "fp16"]))
def test_operands_are_off_by_a_unit_of_their_bits_at_most(values, operands):
    taken = operands.operand(values, -1, Role.WEIGHT)
    assert np.array_equal(operands.operand(taken, -1, Role.WEIGHT), taken)
    bits = {BF16_OPERANDS: 7, TF32: 10, TF32_CUT: 10}.get(operands, 11)
    large = np.abs(values) > 1e-30
    assert np.all(np.abs(taken - values)[large] <= 2.0**-bits * np.abs(values)[large])


def test_whole_numbers_are_no_operands_to_shorten():
    sizes = np.array([1 << 30, 3])
    assert HF32.operand(sizes, -1, Role.WEIGHT) is sizes


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("Conv", Family.CONVOLUTION),
        ("Conv2DBackpropFilter", Family.CONVOLUTION),
        ("DepthwiseConv2dNative", Family.GROUPED),
        ("BatchMatMulV2", Family.PRODUCT),
        ("Gemm", Family.PRODUCT),
        ("LSTM", Family.RECURRENT),
        ("ConvInteger", None),
        ("Convert", None),
        ("Relu", None),
    ],
)
def test_families_of_ops(kind, family):
    assert family_of(Op(id="op", name="op", type=kind, inputs=(), outputs=())) is family


def test_a_gain_of_the_only_op_over_the_floor_is_no_short_operand(tmp_path) -> None:
    """0.3 %: as much as operands of bfloat16 cost, but not the errors these make."""
    rng = np.random.default_rng(8)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="y")],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [30, 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(rng.standard_normal((40, 50)).astype(np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "model.onnx"
    onnx.save_model(model, str(path))
    for side in ("golden", "device"):
        capture(CaptureRequest(path, tmp_path / side, seed=4))
    (dumped,) = (tmp_path / "device").glob("y.0.*.npy")
    np.save(dumped, np.load(dumped) * np.float32(1.003))
    request = CompareRequest(path, tmp_path / "golden", path, tmp_path / "device")
    assert [each.op for each in compare(request).origins] == ["y"]
