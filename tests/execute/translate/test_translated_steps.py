"""TensorFlow models translated to ONNX: whole steps, pieces, variables; without TensorFlow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from divergraph.execute.contract import (
    OP_TYPE,
    Additive,
    Alterable,
    QuantisedRead,
    Quantising,
    RunnableSubgraph,
)
from divergraph.execute.installed import open_executor
from divergraph.execute.translate.coverage import coverage
from divergraph.execute.translate.executor import TranslatedExecutor
from divergraph.execute.translate.tensorflow.factory import TranslatedTensorFlowFactory
from divergraph.execute.translate.tensorflow.rows import ROWS
from divergraph.execute.translate.tensorflow.step import tensorflow_program
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.values.one_tensor import read_tensor
from divergraph.values.unread import or_raise
from graphstore.errors import ExecutionError, InputError
from graphstore.model import TensorIO
from importers.dumps.arrays.golden import scan_golden_dumps
from importers.registry import read_graph

ENGINE = "tensorflow_as_onnx"
NET = Path(__file__).parents[2] / "data" / "tensorflow" / "net.ckpt.meta"
X = np.array([[1, 2, 3], [-1, 0, 1]], np.float32)
WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4) / 8
BIAS = np.array([1, -2, 3, -4], np.float32)


def dumped(lenet: Path) -> dict[str, np.ndarray]:
    """The golden values of the step by tensor."""
    graph = read_graph(lenet / "model.ckpt.meta")
    refs = scan_golden_dumps(lenet / "golden", graph).tensors
    return {
        f"{op}:{port}": or_raise(read_tensor(ref))
        for (op, io, port), ref in refs.items()
        if io is TensorIO.OUTPUT
    }


@pytest.mark.parametrize("memory", [1 << 30, 1 << 18], ids=["in one part", "in many parts"])
def test_a_training_step_gives_what_tensorflow_dumped(lenet: Path, memory: int) -> None:
    values = dumped(lenet)
    path = lenet / "model.ckpt.meta"
    options = {
        "variables": str(lenet / "golden"),
        "feed": "IteratorGetNext:0,IteratorGetNext:1",
    }
    executor = open_executor(path, read_graph(path), options, ENGINE)
    feeds = {each.name: values[each.name] for each in executor.inputs}
    compared = 0
    for name, value in executor.run(feeds, memory=memory):
        if name in values:
            assert value.dtype == values[name].dtype
            np.testing.assert_allclose(value, values[name], rtol=1e-4, atol=1e-6, err_msg=name)
            compared += 1
    left_out = {each.tensor: each.reason for each in executor.unavailable}
    executor.close()
    assert compared > 120
    assert "its branch is not taken on these inputs" in left_out.values()
    assert left_out["save/Const:0"] == "texts"


def test_pieces_run_side_by_side_on_what_they_are_given(lenet: Path) -> None:
    values = dumped(lenet)
    path = lenet / "model.ckpt.meta"
    graph = read_graph(path)
    executor = open_executor(path, graph, engine=ENGINE)
    pieces = [
        RunnableSubgraph(
            op.id,
            tuple(ref.tensor for ref in op.inputs if ref and ref.tensor in values),
            tuple(tensor.name for tensor in op.outputs),
        )
        for op in graph.ops
        if op.type in ("Conv2D", "MaxPoolGrad", "Conv2DBackpropFilter", "ReluGrad", "MatMul")
    ]
    found = list(
        executor.run_subgraphs(pieces, lambda piece: {name: values[name] for name in piece.inputs})
    )
    executor.close()
    assert len(found) == len(pieces) > 15
    for result in found:
        assert not result.failure
        for name, value in result.values.items():
            np.testing.assert_allclose(value, values[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_the_piece_that_needs_more_than_it_is_given_is_named(lenet: Path) -> None:
    path = lenet / "model.ckpt.meta"
    executor = open_executor(path, read_graph(path), engine=ENGINE)
    piece = RunnableSubgraph("a", (), ("LeNet/conv1/Conv2D:0",))
    (result,) = executor.run_subgraphs([piece], lambda _: {})
    executor.close()
    assert "is not among what is given" in result.failure


SPLIT = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "at" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
  attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 } } } }
node { name: "both" op: "Split" input: "at" input: "x" attr { key: "num_split" value { i: 2 } }
  attr { key: "T" value { type: DT_FLOAT } } }
node { name: "y" op: "AddV2" input: "both" input: "both:1"
  attr { key: "T" value { type: DT_FLOAT } } }
"""


def test_an_op_is_run_for_one_output_while_another_is_given(tmp_path: Path) -> None:
    path = tmp_path / "net.pbtxt"
    path.write_text(SPLIT)
    executor = open_executor(path, read_graph(path), engine=ENGINE)
    given = {"x:0": np.array([1, 2, 3, 4], np.float32), "both:0": np.array([10, 20], np.float32)}
    piece = RunnableSubgraph("y", tuple(given), ("y:0",))
    (found,) = executor.run_subgraphs([piece], lambda _: given)
    executor.close()
    assert not found.failure
    np.testing.assert_array_equal(found.values["y:0"], [13, 24])


def test_variables_come_from_the_checkpoint_beside_the_model() -> None:
    executor = open_executor(NET, read_graph(NET), {}, ENGINE)
    found = dict(executor.run({"x:0": X}))
    executor.close()
    np.testing.assert_array_equal(found["y:0"], np.maximum(X @ WEIGHTS + BIAS, 0))
    assert found["count:0"] == 8
    assert found["count:0"].dtype == np.int64


def test_an_unknown_checkpoint_is_refused(tmp_path: Path) -> None:
    options = {"checkpoint": str(tmp_path / "other.ckpt")}
    with pytest.raises(InputError, match="no checkpoint has this prefix"):
        open_executor(NET, read_graph(NET), options, ENGINE)


def test_else_they_get_the_first_values_the_model_gives_them(tmp_path: Path) -> None:
    alone = tmp_path / "net.meta"
    alone.write_bytes(NET.read_bytes())
    executor = open_executor(alone, read_graph(alone), {}, ENGINE)
    found = dict(executor.run({"x:0": X}))
    executor.close()
    np.testing.assert_array_equal(found["y:0"], np.maximum(X @ WEIGHTS + BIAS, 0))


def test_variables_that_are_drawn_first_are_named(lenet: Path) -> None:
    path = lenet / "model.ckpt.meta"
    with pytest.raises(ExecutionError, match="nothing says the value of variable") as refused:
        open_executor(path, read_graph(path), {}, ENGINE)
    assert "divergraph[tensorflow]" in refused.value.hint


def test_a_captured_model_is_the_golden_side_of_a_comparison(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    request = CaptureRequest(NET, tmp_path / "golden", {"x": tmp_path / "x.npy"})
    result = capture(request)
    assert result.executor.startswith("onnxruntime ")
    graph = read_graph(NET)
    index = scan_golden_dumps(result.folder, graph)
    assert ("y", TensorIO.OUTPUT, 0) in index.tensors
    assert not index.problems


def test_errors_are_added_to_tensors_inside() -> None:
    executor = open_executor(NET, read_graph(NET), {}, ENGINE)
    assert isinstance(executor, Additive)
    run = executor.with_additions({"x:0": X}, ["BiasAdd:0"], ["y:0"])
    assert run.tensors == ("BiasAdd:0",)
    plain = run.run({})["y:0"]
    more = run.run({"BiasAdd:0": np.full((2, 4), 10, np.float32)})["y:0"]
    executor.close()
    np.testing.assert_array_equal(plain, np.maximum(X @ WEIGHTS + BIAS, 0))
    np.testing.assert_array_equal(more, np.maximum(X @ WEIGHTS + BIAS + 10, 0))


ZEROS = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: 2 } } } } }
node { name: "none" op: "ZerosLike" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "y" op: "AddV2" input: "x" input: "none" attr { key: "T" value { type: DT_FLOAT } } }
"""


def test_errors_are_added_to_constants_too(tmp_path: Path) -> None:
    path = tmp_path / "net.pbtxt"
    path.write_text(ZEROS)
    executor = open_executor(path, read_graph(path), {}, ENGINE)
    assert isinstance(executor, Additive)
    x = np.array([1, 2], np.float32)
    run = executor.with_additions({"x:0": x}, ["none:0"], ["none:0", "y:0"])
    plain, more = run.run({}), run.run({"none:0": np.array([3, 5], np.float32)})
    given = executor.with_additions({"y:0": x}, ["y:0"], ["y:0"]).run({"y:0": x})
    np.testing.assert_array_equal(given["y:0"], [2, 4])
    number = executor.with_additions({"y:0": x[0]}, ["y:0"], ["y:0"])
    assert number.run({"y:0": np.float32(2)})["y:0"] == 3
    np.testing.assert_array_equal(plain["none:0"], [0, 0])
    np.testing.assert_array_equal(plain["y:0"], [1, 2])
    np.testing.assert_array_equal(more["y:0"], [4, 7])
    executor.close()


def test_an_op_reads_in_8_bits() -> None:
    executor = open_executor(NET, read_graph(NET), {}, ENGINE)
    assert isinstance(executor, Quantising)
    product = next(op for op in read_graph(NET).ops if op.type == "MatMul")
    assert product.inputs[1] is not None
    weights = product.inputs[1].tensor
    readings = [
        QuantisedRead("MatMul:0", "x:0", np.array(0.75, np.float32), np.array(0)),
        QuantisedRead("MatMul:0", weights, np.array([0.5, 0.25, 1, 0.125], "f4"), np.zeros(4)),
    ]
    run = executor.with_readings({"x:0": X}, ["BiasAdd:0"], ["y:0"], readings)
    assert run.makers == ("MatMul:0",)
    exact = run.run({})["y:0"]
    rounded = run.run_quantised({}, ())["y:0"]
    executor.close()
    steps = readings[1].scale
    x, w = np.rint(X / 0.75) * 0.75, np.rint(WEIGHTS / steps) * steps
    np.testing.assert_array_equal(exact, np.maximum(X @ WEIGHTS + BIAS, 0))
    np.testing.assert_allclose(rounded, np.maximum(x @ w + BIAS, 0), rtol=1e-6)
    assert np.abs(rounded - exact).max() > 0.1


def test_an_op_runs_with_other_attributes() -> None:
    executor = open_executor(NET, read_graph(NET), {}, ENGINE)
    assert isinstance(executor, Alterable)
    piece = RunnableSubgraph("m", ("x:0",), ("MatMul:0",))
    found = executor.run_altered(piece, {"x:0": X[:, :1].T}, "MatMul:0", {"transpose_a": True})
    refused = executor.run_altered(piece, {"x:0": X}, "MatMul:0", {"transpose_b": True})
    last = RunnableSubgraph("r", ("BiasAdd:0",), ("y:0",))
    other = executor.run_altered(last, {"BiasAdd:0": X}, "y:0", {OP_TYPE: "Neg"})
    none = executor.run_altered(last, {"BiasAdd:0": X}, "y:0", {OP_TYPE: "NoSuchOp"})
    executor.close()
    assert found is None  # 1 x 2 transposed does not fit 3 x 4
    assert refused is None
    assert other is not None
    np.testing.assert_array_equal(other["y:0"], -X)
    assert none is None


ASKING = """
node { name: "w" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "there" op: "VarIsInitializedOp" input: "w" }
node { name: "not" op: "LogicalNot" input: "there" }
"""


def test_before_a_step_every_variable_has_a_value(tmp_path: Path) -> None:
    path = tmp_path / "net.pbtxt"
    path.write_text(ASKING)
    executor = open_executor(path, read_graph(path), {}, ENGINE)
    found = dict(executor.run({}))
    executor.close()
    assert found["there:0"]
    assert not found["not:0"]


FAILING = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "s" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "sum" op: "AddV2" input: "x" input: "s" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "behind" op: "Neg" input: "sum" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "beside" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "odd" op: "Unheard" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
"""


def test_an_op_that_does_not_run_is_lost_alone(tmp_path: Path) -> None:
    path = tmp_path / "net.pbtxt"
    path.write_text(FAILING)
    executor = TranslatedExecutor(tensorflow_program(read_graph(path), "", {}, (), ()))
    feeds = {"x:0": np.ones((2, 3), np.float32), "s:0": np.ones((4, 5), np.float32)}
    found = dict(executor.run(feeds))
    assert set(found) == {"beside:0"}
    reasons = {each.tensor: each.reason for each in executor.unavailable}
    assert "sum:0" in reasons
    assert "behind:0" in reasons
    assert reasons["odd:0"] == "no translation of ops of type Unheard"


def test_what_feeds_the_model_needs_no_rows(lenet: Path) -> None:
    graph = read_graph(lenet / "model.ckpt.meta")
    assert any(op.type == "TensorSliceDataset" for op in graph.ops)
    assert TranslatedTensorFlowFactory().covers(graph, None)


def test_each_row_says_where_its_op_is_defined() -> None:
    assert len(ROWS.entries) > 170
    assert all(entry.source.startswith("tensorflow/core/") for entry in ROWS.entries.values())


@pytest.mark.shared
@pytest.mark.parametrize("name", ["PNet-18.meta", "tf2onnx_regression_model.meta"])
def test_public_training_graphs_are_covered(shared_data: Path, name: str) -> None:
    found = coverage(read_graph(shared_data / "tf" / name))
    assert found.translated >= 0.97 * found.ops


_SMALL = {"lr": 0.1, "momentum": 0.9}
_ADAM = {"beta1_power": 0.8, "beta2_power": 0.9, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-7}


@pytest.mark.tensorflow
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "states", "said"),
    [
        ("ResourceApplyKerasMomentum", ("accum",), {**_SMALL, "use_nesterov": False}),
        ("ResourceApplyKerasMomentum", ("accum",), {**_SMALL, "use_nesterov": True}),
        ("ResourceSparseApplyKerasMomentum", ("accum",), {**_SMALL, "use_nesterov": True}),
        ("ResourceApplyAdamWithAmsgrad", ("m", "v", "vhat"), {"lr": 0.1, **_ADAM}),
    ],
)
def test_what_ops_leave_of_resources(
    tmp_path: Path, kind: str, states: tuple[str, ...], said: dict[str, float | bool]
) -> None:
    import tensorflow as tf

    path, rng = tmp_path / "net.pb", np.random.default_rng(1)
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        gradient = tf.compat.v1.placeholder(tf.float32, [2, 3], name="gradient")
        held = {}
        for name in ("var", *states):
            held[name] = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[4, 3], shared_name=name)
            first = np.abs(rng.standard_normal((4, 3))).astype(np.float32)
            session.run(tf.raw_ops.AssignVariableOp(resource=held[name], value=first))
        rows = np.array([2, 0], np.int32)
        numbers = {
            name: each if isinstance(each, bool) else np.float32(each)
            for name, each in said.items()
        }
        if "Sparse" in kind:
            changed = {"grad": gradient, "indices": rows}
        else:
            changed = {"grad": tf.scatter_nd(rows[:, None], gradient, [4, 3])}
        step = getattr(tf.raw_ops, kind)(**held, **numbers, **changed)
        with tf.control_dependencies([step]):
            read = tf.raw_ops.ReadVariableOp(resource=held["var"], dtype=tf.float32)
        before = dict(
            zip(
                held,
                session.run(
                    [
                        tf.raw_ops.ReadVariableOp(resource=each, dtype=tf.float32)
                        for each in held.values()
                    ]
                ),
                strict=True,
            )
        )
        given = rng.standard_normal((2, 3)).astype(np.float32)
        wanted = session.run(read, {gradient: given})
        path.write_bytes(graph.as_graph_def().SerializeToString())
    handles = {each.op.name: before[name] for name, each in held.items()}
    program = tensorflow_program(read_graph(path), "", handles, [step.name], ())
    found = dict(TranslatedExecutor(program).run({"gradient:0": given}))
    np.testing.assert_allclose(found[read.name], wanted, rtol=1e-5)


@pytest.mark.tensorflow
@pytest.mark.slow
def test_a_saved_model_runs_on_the_values_beside_it(tmp_path: Path) -> None:
    import tensorflow as tf

    class Net(tf.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.inner = [tf.Variable(WEIGHTS), tf.Variable(BIAS)]

        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
        def whole(self, x: object) -> object:
            return {"y": tf.nn.relu(tf.matmul(x, self.inner[0]) + self.inner[1])}

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="z")])
        def other(self, z: object) -> object:
            return {"y": z * self.inner[1]}

    net, folder = Net(), tmp_path / "net"
    signatures = {"serving_default": net.whole, "other": net.other}
    tf.saved_model.save(net, str(folder), signatures=signatures)
    executor = open_executor(folder, read_graph(folder), {}, ENGINE)
    assert [each.name for each in executor.inputs] == ["serving_default_x:0"]
    found = dict(executor.run({"serving_default_x:0": X}))
    executor.close()
    wanted = np.maximum(X @ WEIGHTS + BIAS, 0)
    (made,) = (value for name, value in found.items() if name.endswith("Relu:0"))
    np.testing.assert_allclose(made, wanted, rtol=1e-6)
    with pytest.raises(InputError, match="no signature 'third'"):
        open_executor(folder, read_graph(folder), {"signature": "third"}, ENGINE)
