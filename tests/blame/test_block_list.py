"""The list of nodes to keep in float32, given to a real converter: it does what blame predicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession
from onnxruntime.transformers.float16 import convert_float_to_float16


def write(path: Path, *, constants_as_nodes: bool = False) -> Path:
    """A normalisation with variances that are no halves, and the length of what comes out."""
    draw = np.random.default_rng(4)
    constants = {
        "gamma": np.full(16, 8000, np.float32),
        "beta": 10 * draw.standard_normal(16).astype(np.float32),
        "mean": np.zeros(16, np.float32),
        "variance": draw.uniform(2e5, 2e6, 16).astype(np.float32),
        "axis": np.array([1]),
        "factor": np.array(1.5, np.float32),
        "w": draw.standard_normal((16, 8)).astype(np.float32),
    }
    nodes = [
        helper.make_node(
            "BatchNormalization", ["x", "gamma", "beta", "mean", "variance"], ["normal"], "normal"
        ),
        helper.make_node("MatMul", ["normal", "w"], ["y"], "last"),
        helper.make_node("Mul", ["normal", "normal"], ["squares"], "square"),
        helper.make_node("ReduceSum", ["squares", "axis"], ["sum"], "sum", keepdims=1),
        helper.make_node("Mul", ["sum", "factor"], ["scaled"], "scale"),
        helper.make_node("Sqrt", ["scaled"], ["length"], "root"),
    ]
    held = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    if constants_as_nodes:
        made = [helper.make_node("Constant", [], [t.name], f"c_{t.name}", value=t) for t in held]
        nodes, held = [*made, *nodes], []
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 16])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 8]),
            helper.make_tensor_value_info("length", TensorProto.FLOAT, [8, 1]),
        ],
        held,
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


def ran(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    return np.asarray(InferenceSession(model.SerializeToString()).run(None, {"x": x})[0])


@pytest.fixture
def x(tmp_path: Path) -> np.ndarray:
    values = (np.random.default_rng(5).uniform(20, 80, (8, 16))).astype(np.float32)
    np.save(tmp_path / "x.npy", values)
    return values


@pytest.mark.slow
def test_a_converter_given_the_list_does_what_is_predicted(divergraph, tmp_path, x) -> None:
    model, blocked = write(tmp_path / "m.onnx"), tmp_path / "block.txt"
    blamed(divergraph, tmp_path, model)
    told = divergraph(
        *("blame", "r", "--output", "y", "--top", "1", "--block-list", blocked),
        *("--store", tmp_path / "store", "--json"),
    ).json
    (kept,) = told["keep"]
    names = blocked.read_text().splitlines()
    assert (kept["op"], names) == ("normal", ["normal"])
    golden = ran(onnx.load_model(str(model)), x)

    def off(blocked: list[str]) -> float:
        half = convert_float_to_float16(
            onnx.load_model(str(model)), keep_io_types=True, node_block_list=blocked
        )
        return float(np.linalg.norm(ran(half, x) - golden) / np.linalg.norm(golden))

    assert off([]) == pytest.approx(told["outputs"][0]["error"], rel=0.1)
    assert off([]) > 0.5
    assert kept["left"] < 0.01
    assert off(names) / off([]) < 0.01


@pytest.mark.slow
def test_what_takes_numbers_too_large_for_halves_is_kept_too(divergraph, tmp_path, x) -> None:
    # Behind a node that is kept converters cast to halves: the squares would be lost.
    model, blocked = write(tmp_path / "m.onnx", constants_as_nodes=True), tmp_path / "block.txt"
    blamed(divergraph, tmp_path, model)
    asked = ("blame", "r", "--output", "scaled", "--store", tmp_path / "store")
    told = divergraph(*asked, "--block-list", blocked, "--json")
    assert {"sum", "scale"}.isdisjoint(each["op"] for each in told.json["keep"])
    names = blocked.read_text().splitlines()
    assert {"square", "sum", "scale", "root"} <= set(names)
    assert "Constant node" in told.err


@pytest.mark.slow
def test_of_plain_rounding_it_does_not_promise_much(divergraph, tmp_path, x) -> None:
    # All 24 ops round alike, and their results are halves again behind those kept.
    model = layers(tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", x / 80)
    blamed(divergraph, tmp_path, model)
    told = divergraph("blame", "r", "--store", tmp_path / "store", "--json").json
    expected = [each["anew"] for each in told["keep"]]
    assert expected == sorted(expected, reverse=True)
    assert 0.5 < expected[-1] < 1


def layers(path: Path) -> Path:
    """Twelve layers whose last has four numbers."""
    draw = np.random.default_rng(8)
    nodes, held, last = [], [], "x"
    for place in range(12):
        width = 4 if place == 11 else 16
        weights = (draw.standard_normal((16, width)) / 4).astype(np.float32)
        held.append(numpy_helper.from_array(weights, f"w{place}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{place}"], [f"m{place}"], f"m{place}"))
        last = "y" if place == 11 else f"t{place}"
        nodes.append(helper.make_node("Softsign", [f"m{place}"], [last], f"s{place}"))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, width])
        for name, width in (("x", 16), ("y", 4))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], held)
    opset = [helper.make_opsetid("", 17)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


def blamed(divergraph, folder: Path, model: Path) -> None:
    """Keep a comparison of *model* with itself in float16 as run ``r``."""
    for side, more in (("golden", ()), ("half", ("--device", "fp16"))):
        divergraph("capture", model, "-i", f"x={folder / 'x.npy'}", "-o", folder / side, *more)
    divergraph(
        *("compare", "--golden", model, "--golden-dump", folder / "golden"),
        *("--device", folder / "half" / "m.fp16.onnx", "--device-dump", folder / "half"),
        *("--run", "r", "--store", folder / "store"),
    )
