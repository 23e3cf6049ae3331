"""What the Ifs of a model compute is captured too: the branches taken, nested ones as well."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, CaptureResult, StandIn, capture
from graphstore.errors import ExecutionError
from graphstore.model import OpState, Verdict
from importers.dumps.arrays.golden import scan_golden_dumps
from importers.dumps.read import read_array
from importers.registry import read_graph

node = helper.make_node


def weight(name: str, seed: int, scale: float = 1.0) -> TensorProto:
    value = np.random.default_rng(seed).standard_normal((4, 4)) * scale
    return numpy_helper.from_array(value.astype(np.float32), name)


def body(name: str, nodes, output: str, *weights: TensorProto) -> onnx.GraphProto:
    end = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
    return helper.make_graph(nodes, name, [], [end], list(weights))


def model(path: Path, fault: float = 1.0) -> Path:
    """x -> Tanh -> If(flag) -> Sigmoid; in the branch a second If on a constant.

    Both branches have ops called ``mul``; *fault* scales a weight of the inner branch.
    """
    inner = body("inner", [node("MatMul", ["m", "w2"], ["i"], "deep")], "i", weight("w2", 2, fault))
    other = body("other", [node("Neg", ["m"], ["o"], "neg")], "o")
    then = body(
        "then",
        [
            node("MatMul", ["t", "w0"], ["m0"], "mul"),
            node("Add", ["m0", "outer"], ["m"], "add"),
            node("If", ["yes"], ["n"], "if_in", then_branch=inner, else_branch=other),
            node("Relu", ["n"], ["r"], "relu"),
        ],
        "r",
        weight("w0", 0),
        numpy_helper.from_array(np.array(True), "yes"),
    )
    then.node.insert(0, node("Identity", ["yes0"], ["yes"], "condition"))
    del then.initializer[:]
    then.initializer.extend([weight("w0", 0), numpy_helper.from_array(np.array(True), "yes0")])
    otherwise = body("else", [node("MatMul", ["t", "w1"], ["e"], "mul")], "e", weight("w1", 1))
    nodes = [
        node("Tanh", ["x"], ["t"], "tanh"),
        node("If", ["flag"], ["b"], "if", then_branch=then, else_branch=otherwise),
        node("Sigmoid", ["b"], ["y"], "sigmoid"),
    ]
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4]),
        helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
    ]
    end = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", given, [end], [weight("outer", 3)])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(made, str(path))
    return path


def captured(path: Path, output: Path, *, flag: bool) -> CaptureResult:
    folder = output.parent
    np.save(folder / "flag.npy", np.array(flag))
    np.save(folder / "x.npy", np.random.default_rng(9).standard_normal((4, 4)).astype(np.float32))
    inputs = {"x": folder / "x.npy", "flag": folder / "flag.npy"}
    return capture(CaptureRequest(path, output, inputs))


def dumped(path: Path, folder: Path) -> dict[str, np.ndarray]:
    tensors = scan_golden_dumps(folder, read_graph(path)).tensors
    return {op: read_array(found) for (op, _, _), found in tensors.items()}


IN = "if/then_branch"


def test_the_branch_taken_is_captured_with_those_inside(tmp_path: Path) -> None:
    path = model(tmp_path / "net.onnx")
    result = captured(path, tmp_path / "golden", flag=True)
    values = dumped(path, tmp_path / "golden")
    inside = {f"{IN}/{name}" for name in ("mul", "condition", "add", "if_in", "relu")}
    assert set(values) == {"tanh", "if", "sigmoid", f"{IN}/if_in/then_branch/deep"} | inside
    assert result.tensors == len(values)
    weights = {name: numpy_helper.to_array(weight(name, k)) for k, name in enumerate(("w0", "w1"))}
    assert np.allclose(values[f"{IN}/mul"], values["tanh"] @ weights["w0"], atol=1e-6)
    assert np.array_equal(values[f"{IN}/relu"], values["if"])
    assert {each.tensor: each.reason for each in result.left_out} == {
        "if/else_branch": "this branch was not taken",
        f"{IN}/if_in/else_branch": "this branch was not taken",
    }


def test_the_other_branch(tmp_path: Path) -> None:
    path = model(tmp_path / "net.onnx")
    result = captured(path, tmp_path / "golden", flag=False)
    assert set(dumped(path, tmp_path / "golden")) == {"tanh", "if", "sigmoid", "if/else_branch/mul"}
    assert len(result.left_out) == 3  # the branches inside of the other one, too


@pytest.mark.parametrize("fault", [1.0, -3.0])
def test_a_fault_inside_a_branch_is_found_there(tmp_path: Path, fault: float) -> None:
    golden, device = model(tmp_path / "golden.onnx"), model(tmp_path / "device.onnx", fault)
    for path in (golden, device):
        captured(path, tmp_path / path.stem, flag=True)
    data = compare(CompareRequest(golden, tmp_path / "golden", device, tmp_path / "device"))
    if fault == 1.0:
        assert data.run.verdict is Verdict.CLEAN
        return
    assert [origin.op for origin in data.origins] == [f"{IN}/if_in/then_branch/deep"]
    assert data.states["if"] is OpState.INHERITED


def test_no_file_stays_behind_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    captured(model(tmp_path / "m" / "net.onnx"), tmp_path / "golden", flag=True)
    assert [each.name for each in (tmp_path / "m").iterdir()] == ["net.onnx"]


def test_made_up_sizes_are_named_where_the_model_fails(tmp_path: Path, capfd) -> None:
    """A reflecting Pad needs more than the one element made up for an unknown size."""
    pads = numpy_helper.from_array(np.array([0, 3, 0, 3]), "pads")
    made = helper.make_graph(
        [node("Pad", ["x", "pads"], ["y"], "pad", mode="reflect")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [pads],
    )
    path = tmp_path / "net.onnx"
    onnx.save_model(
        helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        str(path),
    )
    for device in (StandIn.FP32, StandIn.INT8):
        with pytest.raises(ExecutionError, match="unknown sizes of x were taken as 1"):
            capture(CaptureRequest(path, tmp_path / "out", device=device, seed=1))
    assert capfd.readouterr().err == ""
    assert not (tmp_path / "out").exists()


def test_a_branch_not_taken_need_not_fit_the_inputs(tmp_path: Path) -> None:
    """A model for two sizes of input, each with a branch that Squeezes the other's axis."""
    branches = {
        name: helper.make_graph(
            [node("Squeeze", ["x", f"axis{k}"], [f"s{k}"], f"squeeze{k}")],
            name,
            [],
            [helper.make_tensor_value_info(f"s{k}", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(np.array([k]), f"axis{k}")],
        )
        for k, name in enumerate(("then_branch", "else_branch"))
    }
    nodes = [node("If", ["flag"], ["b"], "if", **branches), node("Tanh", ["b"], ["y"], "tanh")]
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"]),
        helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
    ]
    end = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    made = helper.make_model(
        helper.make_graph(nodes, "net", given, [end]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save_model(made, str(tmp_path / "net.onnx"))
    np.save(tmp_path / "x.npy", np.ones((1, 5), np.float32))
    np.save(tmp_path / "flag.npy", np.array(True))
    inputs = {"x": tmp_path / "x.npy", "flag": tmp_path / "flag.npy"}
    capture(CaptureRequest(tmp_path / "net.onnx", tmp_path / "golden", inputs))
    values = dumped(tmp_path / "net.onnx", tmp_path / "golden")
    assert {name: value.shape for name, value in values.items()} == {
        "if": (5,),
        "if/then_branch/squeeze0": (5,),
        "tanh": (5,),
    }
