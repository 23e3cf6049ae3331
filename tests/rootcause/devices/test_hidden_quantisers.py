"""A device quantises what no golden tensor stands for: healthy ops must not look guilty."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.model import Verdict

RNG = np.random.default_rng(11)
W = (RNG.standard_normal((16, 16)) / 4).astype(np.float32)
B = RNG.standard_normal(16).astype(np.float32)


def saved(path: Path, nodes, weights) -> Path:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 8, 16])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


def golden(path: Path) -> Path:
    """A product of three axes and its bias."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "act"),
        helper.make_node("MatMul", ["a", "w"], ["m"], "product"),
        helper.make_node("Add", ["m", "b"], ["s"], "bias"),
        helper.make_node("Tanh", ["s"], ["y"], "end"),
    ]
    return saved(path, nodes, {"w": W, "b": B})


def quantised(path: Path, weights=W) -> Path:
    """As ONNX Runtime writes it: a Gemm of two axes between Reshapes, all in 8 bits."""
    step = np.float32(np.abs(W).max() / 127)
    stored = np.clip(np.rint(weights / step), -128, 127).astype(np.int8)
    zero = np.int8(0)

    def through(source, target, scale):
        return [
            helper.make_node("QuantizeLinear", [source, scale, "zero"], [f"{target}_q"]),
            helper.make_node("DequantizeLinear", [f"{target}_q", scale, "zero"], [target]),
        ]

    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "act"),
        helper.make_node("Reshape", ["a", "flat"], ["a2"], "flatten"),
        *through("a2", "a3", "in_scale"),
        helper.make_node("DequantizeLinear", ["wq", "w_scale", "zero"], ["wd"]),
        helper.make_node("Gemm", ["a3", "wd", "b"], ["g"], "product/fused"),
        *through("g", "g2", "out_scale"),
        helper.make_node("Reshape", ["g2", "deep"], ["s"], "unflatten"),
        helper.make_node("Tanh", ["s"], ["y"], "end"),
    ]
    constants = {
        "flat": np.array([16, 16]),
        "deep": np.array([2, 8, 16]),
        "wq": stored,
        "w_scale": step,
        "in_scale": np.float32(3.5 / 127),
        "out_scale": np.float32(6 / 127),
        "zero": zero,
        "b": B,
    }
    return saved(path, nodes, constants)


@pytest.mark.parametrize("weights", [W, W * 0.3], ids=["healthy", "wrong weights"])
def test_eight_bits_between_reshapes(tmp_path: Path, weights) -> None:
    sides = golden(tmp_path / "golden.onnx"), quantised(tmp_path / "device.onnx", weights)
    np.save(tmp_path / "x.npy", RNG.standard_normal((2, 8, 16)).astype(np.float32))
    for side in sides:
        capture(CaptureRequest(side, tmp_path / side.stem, inputs={"x": tmp_path / "x.npy"}))
    data = compare(CompareRequest(sides[0], tmp_path / "golden", sides[1], tmp_path / "device"))
    if weights is W:
        assert data.run.verdict is not Verdict.DIVERGED, data.origins
    else:
        assert data.origins[0].op == "unflatten"


def quantised_by_itself(path: Path) -> Path:
    """A golden model that computes its product in integers, with a scale of its inputs."""
    step = np.float32(np.abs(W).max() / 127)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"], "quantise"),
        helper.make_node("MatMulInteger", ["q", "wq", "zero"], ["sum"], "product"),
        helper.make_node("Cast", ["sum"], ["float"], "float", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["scale", "step"], ["scales"], "scales"),
        helper.make_node("Mul", ["float", "scales"], ["scaled"], "rescale"),
        helper.make_node("Add", ["scaled", "b"], ["s"], "bias"),
        helper.make_node("Tanh", ["s"], ["y"], "end"),
    ]
    stored = np.rint(W / step).astype(np.int8)
    return saved(path, nodes, {"wq": stored, "step": step, "b": B})


@pytest.mark.parametrize("gain", [1.0, 1.005], ids=["healthy", "half a per cent too large"])
def test_what_the_golden_model_computes_in_integers_itself_is_judged_exactly(tmp_path, gain):
    """Nothing is unknown of such integers, so no floor of unseen quantising hides the fault."""
    path = quantised_by_itself(tmp_path / "golden.onnx")
    np.save(tmp_path / "x.npy", RNG.standard_normal((2, 8, 16)).astype(np.float32))
    for side in ("golden", "device"):
        capture(CaptureRequest(path, tmp_path / side, inputs={"x": tmp_path / "x.npy"}))
    dumps = {each.name.partition(".")[0]: each for each in (tmp_path / "device").glob("*.npy")}
    for name, dump in dumps.items():
        if name in ("quantise", "product", "float", "scales", "rescale"):
            dump.unlink()
    biased = np.load(dumps["bias"]) * np.float32(gain)
    np.save(dumps["bias"], biased)
    np.save(dumps["end"], np.tanh(biased))
    data = compare(CompareRequest(path, tmp_path / "golden", path, tmp_path / "device"))
    assert [origin.op for origin in data.origins] == ([] if gain == 1.0 else ["bias"])


def test_a_table_quantised_before_it_is_turned(tmp_path: Path) -> None:
    """One scale fits the values of a constant in any order; golden's own are not theirs."""
    table = RNG.standard_normal((12, 8)).astype(np.float32)
    step = np.float32(np.abs(table).max() / 127)
    moved = [
        helper.make_node("Transpose", ["rows"], ["turned"], "turn", perm=[1, 0]),
        helper.make_node("Unsqueeze", ["turned", "first"], ["wide"], "widen"),
        helper.make_node("Add", ["x", "wide"], ["y"], "end"),
    ]
    picked = [helper.make_node("Gather", ["table", "which"], ["rows"], "pick")]
    stored = [
        helper.make_node("Gather", ["stored", "which"], ["integers"], "pick"),
        helper.make_node("DequantizeLinear", ["integers", "step", "zero"], ["rows"], "scale"),
    ]
    common = {"which": np.arange(16) % 12, "first": np.array([0])}
    eight = {"stored": np.rint(table / step).astype(np.int8), "step": step, "zero": np.int8(0)}
    sides = (
        saved(tmp_path / "golden.onnx", [*picked, *moved], {**common, "table": table}),
        saved(tmp_path / "device.onnx", [*stored, *moved], {**common, **eight}),
    )
    np.save(tmp_path / "x.npy", RNG.standard_normal((2, 8, 16)).astype(np.float32))
    for side in sides:
        capture(CaptureRequest(side, tmp_path / side.stem, inputs={"x": tmp_path / "x.npy"}))

    data = compare(CompareRequest(sides[0], tmp_path / "golden", sides[1], tmp_path / "device"))

    assert not data.origins


def packed(path: Path, weight, *, stored=None) -> Path:
    """As ONNX Runtime's 4-bit tool writes it: blocks of 16 weights of a column share a scale."""
    blocks = weight.T.reshape(16, 1, 16)
    low = np.minimum(blocks.min(axis=-1), 0)
    scale = (np.maximum(blocks.max(axis=-1), 0) - low) / 15
    zero = np.rint(-low / scale)
    steps = np.clip(np.rint(blocks / scale[..., None]) + zero[..., None], 0, 15).astype(np.uint8)
    constants = {
        "wq": steps[..., 0::2] | (steps[..., 1::2] << 4),
        "scales": (scale.reshape(-1) if stored is None else stored(scale)).astype(np.float32),
        "zeros": zero.astype(np.uint8).reshape(-1),
        "b": B,
    }
    attrs = {"K": 16, "N": 16, "bits": 4, "block_size": 16}
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "act"),
        helper.make_node(
            "MatMulNBits",
            ["a", "wq", "scales", "zeros"],
            ["m"],
            "product",
            domain="com.microsoft",
            **attrs,
        ),
        helper.make_node("Add", ["m", "b"], ["s"], "bias"),
        helper.make_node("Tanh", ["s"], ["y"], "end"),
    ]
    model = onnx.load(saved(path, nodes, constants))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize(
    ("stored", "origins"),
    [(None, []), (lambda scale: scale.reshape(-1) * 2, ["product"])],
    ids=["healthy", "scales of another op"],
)
def test_weights_of_four_bits_in_blocks(tmp_path: Path, stored, origins) -> None:
    sides = golden(tmp_path / "golden.onnx"), packed(tmp_path / "device.onnx", W)
    ran = sides[1] if stored is None else packed(tmp_path / "ran.onnx", W, stored=stored)
    np.save(tmp_path / "x.npy", RNG.standard_normal((2, 8, 16)).astype(np.float32))
    for side, name in ((sides[0], "golden"), (ran, "device")):
        capture(CaptureRequest(side, tmp_path / name, inputs={"x": tmp_path / "x.npy"}))
    data = compare(CompareRequest(sides[0], tmp_path / "golden", sides[1], tmp_path / "device"))
    assert [origin.op for origin in data.origins] == origins
