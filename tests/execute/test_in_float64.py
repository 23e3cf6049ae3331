"""Models computed in float64, each result rounded once to its own type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, ValueInfoProto, helper
from onnx.reference import ReferenceEvaluator

import divergraph as dg
from divergraph.execute.contract import Array, RunnableSubgraph
from divergraph.execute.installed import open_executor
from divergraph.execute.onnx.in_float64 import in_float64
from divergraph.execute.onnx.session import open_session, plain_options, run_session
from graphstore.errors import InputError
from importers.registry import read_graph

DOUBLE = {"precision": "float64"}
CONVOLUTIONS: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
    (
        "Conv",
        [(2, 4, 9, 8), (6, 2, 3, 2), (6,)],
        {"group": 2, "strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]},
    ),
    ("Conv", [(2, 4, 9, 8), (6, 4, 3, 3)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("Conv", [(1, 3, 20), (5, 3, 4)], {"strides": [3]}),
    ("Conv", [(1, 3, 5, 6, 4), (5, 3, 2, 2, 3)], {"pads": [1, 1, 1, 0, 0, 1]}),
    (
        "ConvTranspose",
        [(2, 4, 5, 6), (4, 3, 3, 2), (6,)],
        {"group": 2, "strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 0]},
    ),
    ("ConvTranspose", [(2, 4, 5, 6), (4, 3, 3, 3)], {"strides": [2, 2], "output_shape": [10, 12]}),
    ("AveragePool", [(2, 3, 9, 8)], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}),
    (
        "AveragePool",
        [(2, 3, 9, 8)],
        {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1},
    ),
]


def one_node(kind: str, values: dict[str, Array], **attrs: Any) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)
        for name, value in values.items()
    ]
    node = helper.make_node(kind, list(values), ["y"], **attrs)
    graph = helper.make_graph([node], "one", inputs, [ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def run(model: onnx.ModelProto, feeds: dict[str, Array]) -> Array:
    session = open_session(model, Path(), plain_options())
    return np.asarray(run_session(session, [each.name for each in model.graph.output], feeds)[0])


@pytest.mark.parametrize(("kind", "shapes", "attrs"), CONVOLUTIONS)
def test_windows_are_computed_in_double(
    kind: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any]
) -> None:
    rng = np.random.default_rng(0)
    values = {f"x{at}": rng.standard_normal(shape) for at, shape in enumerate(shapes)}
    model = one_node(kind, {name: v.astype("f4") for name, v in values.items()}, **attrs)
    wide, feeds, as_before = in_float64(model, values)
    found = run(wide, feeds)
    assert not as_before
    assert found.dtype == np.float64
    plain = run(model, {name: value.astype("f4") for name, value in values.items()})
    np.testing.assert_allclose(found, plain, rtol=1e-4, atol=1e-4)
    if kind != "ConvTranspose":  # onnx's own reference leaves out some of its paddings
        (wanted,) = ReferenceEvaluator(model).run(None, values)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
        return
    parts = [{**values, "x0": part} for part in (values["x0"] * 0.25, values["x0"] * 0.75)]
    halves = [run(*in_float64(model, part)[:2]) for part in parts]
    both = sum(halves) - (values["x2"].reshape(1, -1, 1, 1) if "x2" in values else 0)
    np.testing.assert_allclose(found, both, rtol=1e-12, atol=1e-12)


def test_what_has_no_wider_kernel_is_computed_as_before() -> None:
    value = np.linspace(-1, 1, 5)
    model = one_node("Erf", {"x": value.astype("f4")})
    wide, feeds, as_before = in_float64(model, {"x": value})
    assert as_before == {"Erf"}
    np.testing.assert_array_equal(run(wide, feeds), run(model, {"x": value.astype("f4")}))


DEEP = """<ir_version: 8, opset_import: ["": 17]>
deep (float[4, 64] x, float[64, 64] w, int64[1] at) => (float[4, 1] y)
{ a = MatMul(x, w) b = Tanh(a) c = MatMul(b, w) d = Cast<to = 10>(c) e = Cast<to = 1>(d)
  f = Softmax(e) y = ReduceSum(f, at) }"""


@pytest.mark.parametrize("memory", [1 << 30, 1 << 11], ids=["in one part", "in many parts"])
def test_each_result_of_a_model_is_rounded_once(tmp_path: Path, memory: int) -> None:
    path = tmp_path / "deep.onnx"
    onnx.save(onnx.parser.parse_model(DEEP), path)
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((4, 64), (64, 64)))
    executor = open_executor(path, read_graph(path), DOUBLE)
    feeds = {"x": x, "w": w, "at": np.array([1])}
    found = dict(executor.run(feeds, memory=memory))
    piece = RunnableSubgraph("c", ("b", "w"), ("c",))
    (alone,) = executor.run_subgraphs([piece], lambda _: {"b": found["b"], "w": w})
    executor.close()
    a = x.astype(np.float64) @ w
    c = np.tanh(a) @ w
    np.testing.assert_array_equal(found["a"], a.astype(np.float32))
    np.testing.assert_array_equal(found["c"], c.astype(np.float32))
    assert found["d"].dtype == np.float16
    np.testing.assert_array_equal(found["e"], c.astype(np.float32))
    np.testing.assert_array_equal(
        alone.values["c"], (found["b"].astype(np.float64) @ w).astype(np.float32)
    )
    assert "in float64" in executor.name


def test_a_model_of_another_framework_is_captured_so(tmp_path: Path) -> None:
    net = tmp_path / "net.prototxt"
    net.write_text(
        'input: "data" input_shape { dim: 2 dim: 3 dim: 8 dim: 8 }\n'
        'layer { name: "mvn" type: "MVN" bottom: "data" top: "mvn" }\n'
        'layer { name: "pow" type: "Power" bottom: "mvn" top: "pow" power_param { power: 3 } }\n'
    )
    for precision in ("float32", "float64"):
        result = dg.capture(net, tmp_path / precision, seed=1, precision=precision)
        assert ("float64" in result.executor) == (precision == "float64")
    single, double = (
        np.load(next((tmp_path / each).glob("pow.0.*"))) for each in ("float32", "float64")
    )
    assert single.dtype == double.dtype == np.float32
    assert 0 < np.abs(single - double).max() < 1e-3


def test_another_precision_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.onnx"
    onnx.save(onnx.parser.parse_model(DEEP), path)
    with pytest.raises(InputError, match="no precision 'float8'"):
        open_executor(path, read_graph(path), {"precision": "float8"})
    with pytest.raises(InputError, match="a stand-in has its own precision"):
        dg.capture(path, tmp_path / "out", seed=1, device="fp16", precision="float64")
