"""ONNX models run by ONNX Runtime, a fault put into the weights of the device's copy."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

pytestmark = pytest.mark.thorough

BASIC = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
EXTENDED = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
RANDOM = np.random.default_rng(3)


def weights(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def node(kind, inputs, outputs, name="", **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), name=name, **attributes)


def value(name, shape=None, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, constants):
    initializers = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 9
    return made


def louder(array):
    """Every other column is half as large again."""
    return array * np.where(np.arange(array.shape[-1]) % 2, 1.5, 1)


def stronger(array):
    return array * 1.5 + 1


def names(answer):
    return [origin["op"] for origin in answer["origins"]]


@pytest.fixture
def mixed(case):
    """Several outputs, odd names, all kinds of element types, an empty and a scalar tensor."""
    nodes = [
        node("MatMul", "x w1", "mm:0", "net/lay er.1:MatMul"),
        node("Split", "mm:0 parts", "s/a s/b s/c", "net/Split", axis=1),
        node("TopK", "s/a two", "top places", "gr\u00f6\u00dfe/TopK"),
        node("MatMul", "s/b w2", "h.0", "h.0"),
        node("Relu", "h.0", "h_0", "h/0"),
        node("Add", "s/c h_0", "add.out"),
        node("Greater", "add.out limit", "gt", "net/gt"),
        node("Cast", "gt", "gi", "net/cast", to=TensorProto.INT64),
        node("Cast", "add.out", "dd", "net/dbl", to=TensorProto.DOUBLE),
        node("Cast", "add.out", "hh", "net/half", to=TensorProto.FLOAT16),
        node("ReduceMean", "dd", "mean", "net/mean", keepdims=0),
        node("Slice", "add.out nil nil nil", "empty", "net/empty"),
    ]
    outputs = [value("mean", None, TensorProto.DOUBLE), value("gi", None, TensorProto.INT64)]
    constants = {
        "w1": weights(8, 12),
        "w2": weights(4, 4),
        "parts": np.array([4, 4, 4]),
        "two": np.array([2]),
        "limit": np.float32(0),
        "nil": np.array([0]),
    }
    return case(model(nodes, [value("x", [5, 8])], outputs, constants), x=weights(5, 8))


@pytest.mark.slow
def test_a_run_equals_itself_in_every_tensor(mixed):
    answer = mixed.compare(mixed.golden)
    assert answer["verdict"] == "clean"
    assert answer["counts"]["compared"] == 15
    assert answer["counts"]["not_compared"] == 0


@pytest.mark.parametrize(
    ("weight", "origin"),
    [("w1", "net/lay er.1:MatMul"), ("w2", "h.0"), ("limit", "net/gt")],
)
def test_the_faulty_op_is_the_first_and_only_origin(mixed, weight, origin):
    assert names(mixed.compare(mixed.with_fault(weight, stronger))) == [origin]


@pytest.fixture
def bodies(case):
    """A Loop and an If whose bodies take tensors from around them by name."""
    flag, count = TensorProto.BOOL, TensorProto.INT64
    body = helper.make_graph(
        [
            node("MatMul", "carried w", "product", "body/mm"),
            node("Tanh", "product", "next", "body/tanh"),
            node("Identity", "go", "go_on", "body/go"),
        ],
        "body",
        [value("i", [], count), value("go", [], flag), value("carried", [5, 8])],
        [value("go_on", [], flag), value("next", [5, 8])],
    )
    then, other = (
        helper.make_graph([node(kind, "h factor", out, out)], out, [], [value(out, [5, 8])])
        for kind, out in (("Mul", "product"), ("Add", "sum"))
    )
    nodes = [
        node("Add", "x b", "start", "before"),
        node("Loop", "times go0 start", "h", "loop", body=body),
        node("If", "yes", "y", "if", then_branch=then, else_branch=other),
        node("Relu", "y", "z", "after"),
    ]
    constants = {
        "w": weights(8, 8),
        "b": weights(8),
        "factor": np.float32(2),
        "times": np.array(3),
        "go0": np.array(True),
        "yes": np.array(True),
    }
    return case(model(nodes, [value("x", [5, 8])], [value("z")], constants), x=weights(5, 8))


@pytest.mark.parametrize(("weight", "origin"), [("b", "before"), ("w", "loop"), ("factor", "if")])
def test_a_fault_inside_a_body_is_its_owners(bodies, weight, origin):
    answer = bodies.compare(bodies.with_fault(weight, stronger))
    assert names(answer) == [origin]
    assert {item["reason"] for item in answer["not_compared"]} == {"no_device_dump"}


@pytest.fixture
def network(case):
    """Convolution, normalisation and a projection over more than two axes."""
    nodes = [
        node("Conv", "x c1", "a1", "/conv1/Conv", pads=[1] * 4),
        node("BatchNormalization", "a1 scale bias mean var", "n1", "/bn1"),
        node("Relu", "n1", "r1", "/relu1"),
        node("Conv", "r1 c2", "a2", "/conv2/Conv", pads=[1] * 4),
        node("Relu", "a2", "r2", "/relu2"),
        node("MatMul", "r2 p", "m1", "/proj/MatMul"),
        node("Add", "m1 pb", "o", "/proj/Add"),
        node("Sigmoid", "o", "y", "/sigmoid"),
    ]
    constants = {
        "c1": weights(16, 3, 3, 3) * 0.3,
        "scale": abs(weights(16)) + 0.5,
        "bias": weights(16),
        "mean": weights(16),
        "var": abs(weights(16)) + 0.5,
        "c2": weights(16, 16, 3, 3) * 0.1,
        "p": weights(8, 6),
        "pb": weights(6),
    }
    made = model(nodes, [value("x", [2, 3, 8, 8])], [value("y", [2, 16, 8, 6])], constants)
    return case(made, x=weights(2, 3, 8, 8))


@pytest.mark.parametrize("level", [BASIC, EXTENDED], ids=str)
def test_what_an_optimiser_makes_of_a_model_is_no_error(network, level):
    answer = network.compare(network.optimised(network.golden, level))
    assert answer["verdict"] == "clean"
    assert answer["counts"]["not_compared"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("level", [BASIC, EXTENDED], ids=str)
@pytest.mark.parametrize(
    ("weight", "originals"),
    [
        ("c1", {"/conv1/Conv", "/bn1"}),
        ("c2", {"/conv2/Conv"}),
        ("p", {"/proj/MatMul", "/proj/Add"}),
    ],
)
def test_a_fault_in_an_optimised_model_names_the_fused_originals(network, level, weight, originals):
    device = network.optimised(network.with_fault(weight, louder), level)
    first = network.compare(device)["origins"][0]
    assert originals <= {golden["op"] for golden in first["golden"]}
