"""TensorFlow models run as written: each tensor of one step, whatever the memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divergraph.execute.contract import Array, Executor
from divergraph.execute.installed import open_executor
from divergraph.execute.tensorflow.files import tensorflow
from graphstore.errors import ExecutionError, InputError
from importers.registry import read_graph

pytestmark = pytest.mark.tensorflow
Build = Callable[[Any], object]
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def graph_file(folder: Path, build: Build, name: str = "model.pb") -> Path:
    """A GraphDef of what *build* makes with ``tf.compat.v1``."""
    tf = tensorflow()
    graph = tf.Graph()
    with graph.as_default():
        build(tf.compat.v1)
    text = name.endswith("txt")
    tf.io.write_graph(graph, str(folder), name, as_text=text)
    return folder / name


def meta_file(folder: Path, build: Build, *, checkpoint: bool = True) -> Path:
    """A MetaGraphDef, with a checkpoint beside it in which each variable is 0.5 more."""
    tf = tensorflow()
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        build(v1)
        saver = v1.train.Saver()
        if checkpoint:
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                for variable in v1.trainable_variables():
                    session.run(v1.assign_add(variable, tf.fill(variable.shape, 0.5)))
                saver.save(session, str(folder / "model.ckpt"))
        else:
            v1.train.export_meta_graph(str(folder / "model.ckpt.meta"))
    return folder / "model.ckpt.meta"


def opened(path: Path, **options: str) -> Executor:
    return open_executor(path, read_graph(path), options, "tensorflow")


def ran(path: Path, feeds: dict[str, Array], memory: int = 1 << 30, **options: str) -> Any:
    executor = opened(path, **options)
    values = dict(executor.run(feeds, memory=memory))
    reasons = {each.tensor: each.reason for each in executor.unavailable}
    executor.close()
    return values, reasons


def dense(v1: Any) -> None:
    x = v1.placeholder("float32", [None, 4], "x")
    w = v1.constant(np.eye(4, 2, dtype=np.float32), name="w")
    v1.nn.relu(v1.matmul(x, w, name="product"), name="out")
    v1.as_string(x, name="text")


@pytest.mark.parametrize("name", ["model.pb", "model.pbtxt"])
def test_every_tensor_of_a_frozen_graph(tmp_path: Path, name: str) -> None:
    values, reasons = ran(graph_file(tmp_path, dense, name), {"x:0": X})
    assert list(values) == ["w:0", "product:0", "out:0"]
    np.testing.assert_array_equal(values["product:0"], X[:, :2])
    np.testing.assert_array_equal(values["out:0"], np.maximum(X[:, :2], 0))
    assert reasons == {"text:0": "texts"}


@pytest.mark.parametrize(
    ("feeds", "said"),
    [
        ({}, "no value for input 'x:0'"),
        ({"x:0": X, "y:0": X}, "no input 'y:0'"),
        ({"x:0": X[0]}, "has shape ?x4"),
        ({"x:0": X.astype(np.int32)}, "takes float32"),
    ],
)
def test_feeds_are_checked(tmp_path: Path, feeds: dict[str, Array], said: str) -> None:
    executor = opened(graph_file(tmp_path, dense))
    with pytest.raises(InputError, match=said.replace("?", r"\?")):
        list(executor.run(feeds))


def test_only_what_is_wanted_and_known(tmp_path: Path) -> None:
    executor = opened(graph_file(tmp_path, dense))
    assert [name for name, _ in executor.run({"x:0": X}, ["out:0"])] == ["out:0"]
    with pytest.raises(InputError, match="makes no tensor 'nope:0'"):
        list(executor.run({"x:0": X}, ["nope:0"]))


def test_an_inner_tensor_can_be_fed_in_place_of_computing_it(tmp_path: Path) -> None:
    executor = opened(graph_file(tmp_path, dense), feed="product:0")
    assert [tensor.name for tensor in executor.inputs] == ["product:0"]
    values = dict(executor.run({"product:0": X[:, 2:]}, ["out:0"]))
    np.testing.assert_array_equal(values["out:0"], np.maximum(X[:, 2:], 0))


def training(v1: Any) -> None:
    x = v1.placeholder("float32", [3, 4], "x")
    with v1.variable_scope("net", use_resource=False):
        w = v1.get_variable("w", [4, 2], initializer=v1.random_normal_initializer(seed=3))
    noise = v1.identity(v1.random_uniform([3, 4]), name="noise")  # no seed
    out = v1.matmul(x * noise, w, name="out")
    loss = v1.reduce_sum(out * out, name="loss")
    step = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss, name="train")
    v1.add_to_collection("train_op", step)
    other = v1.assign_add(w, w, name="elsewhere")
    v1.identity(other, name="behind")


def test_all_tensors_are_of_one_step_however_small_the_memory(tmp_path: Path) -> None:
    model = meta_file(tmp_path, training)
    whole, _ = ran(model, {"x:0": X})
    parts, reasons = ran(model, {"x:0": X}, memory=100)
    assert set(whole) == set(parts)
    for name, value in whole.items():
        np.testing.assert_array_equal(parts[name], value, err_msg=name)
    # Each library adds up a product in its own order.
    np.testing.assert_allclose(
        whole["out:0"], (X * whole["noise:0"]) @ whole["net/w/read:0"], rtol=1e-5, atol=1e-6
    )
    assert reasons["behind:0"] == "changes variables outside of the step"


def test_values_before_and_after_the_step_are_told_apart(tmp_path: Path) -> None:
    values, _ = ran(meta_file(tmp_path, training), {"x:0": X}, memory=100)
    gradient = values["gradients/out_grad/MatMul_1:0"]
    before = values["net/w:0"]
    np.testing.assert_array_equal(before, values["net/w/read:0"])
    np.testing.assert_allclose(gradient, 2 * (X * values["noise:0"]).T @ values["out:0"], rtol=1e-5)
    after = values["train/update_net/w/ApplyMomentum:0"]
    np.testing.assert_allclose(after, before - np.float32(0.1) * gradient, rtol=1e-6)


def test_variables_come_from_the_checkpoint_beside_else_from_their_initial_values(
    tmp_path: Path,
) -> None:
    (tmp_path / "bare").mkdir()
    saved, _ = ran(meta_file(tmp_path, training), {"x:0": X})
    bare = meta_file(tmp_path / "bare", training, checkpoint=False)
    first, _ = ran(bare, {"x:0": X})
    again, _ = ran(bare, {"x:0": X}, checkpoint=str(tmp_path / "model.ckpt"))
    np.testing.assert_allclose(saved["net/w:0"], first["net/w:0"] + 0.5)
    np.testing.assert_array_equal(again["net/w:0"], saved["net/w:0"])


def test_variables_can_come_from_a_dump(tmp_path: Path) -> None:
    model = meta_file(tmp_path, training)
    dump = tmp_path / "dump"
    dump.mkdir()
    values = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.save(dump / "net_w_read.0.1664180551000000.npy", values)
    given, _ = ran(model, {"x:0": X}, variables=str(dump))
    np.testing.assert_array_equal(given["net/w/read:0"], values)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="none of the model's variables"):
        opened(model, variables=str(tmp_path / "empty"))


def resource_training(v1: Any) -> None:
    x = v1.placeholder("float32", [3, 4], "x")
    w = v1.get_variable("w", [4, 2], initializer=v1.ones_initializer(), use_resource=True)
    loss = v1.reduce_sum(v1.matmul(x, w, name="out"), name="loss")
    v1.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")


def test_resource_variables_and_a_named_train_op(tmp_path: Path) -> None:
    model = meta_file(tmp_path, resource_training)
    values, reasons = ran(model, {"x:0": X}, train_op="train", memory=50)
    np.testing.assert_array_equal(values["w/Read/ReadVariableOp:0"], np.full((4, 2), 1.5))
    assert reasons["w:0"] == "a resource"
    assert "gradients/out_grad/MatMul_1:0" in values
    with pytest.raises(InputError, match="no op 'nope'"):
        opened(model, train_op="nope")


def test_variables_that_nothing_gives_a_value_are_said(tmp_path: Path) -> None:
    def build(v1: Any) -> None:
        v1.raw_ops.VariableV2(shape=[2], dtype="float32", name="lost") + 1.0

    tf = tensorflow()
    model = graph_file(tmp_path, lambda v1: build(tf))
    with pytest.raises(ExecutionError, match=r"nothing says the value of variable 'lost'.*--check"):
        opened(model)
    with pytest.raises(InputError, match="no checkpoint has this prefix"):
        opened(model, checkpoint=str(tmp_path / "nowhere"))


def branches(v1: Any) -> None:
    x = v1.placeholder("float32", [3, 4], "x")
    tf = tensorflow()
    tf.compat.v1.disable_control_flow_v2()
    pick = v1.reduce_sum(x) > 100.0
    v1.cond(pick, lambda: v1.exp(x, name="big"), lambda: v1.negative(x, name="small"))
    v1.while_loop(lambda k: k < 3, lambda k: v1.add(k, 1, name="next"), [0], name="loop")
    tf.compat.v1.enable_control_flow_v2()


def test_untaken_branches_and_loops_of_the_old_kind_are_said(tmp_path: Path) -> None:
    values, reasons = ran(graph_file(tmp_path, branches), {"x:0": X})
    np.testing.assert_array_equal(values["cond/small:0"], -X)
    np.testing.assert_array_equal(values["cond/Merge:0"], -X)
    assert values["loop/Exit:0"] == 3
    assert reasons["cond/big:0"] == "its branch is not taken on these inputs"
    assert reasons["loop/next:0"] == "computed again in each turn of a loop"
    values, reasons = ran(graph_file(tmp_path, branches), {"x:0": X + 100})
    np.testing.assert_array_equal(values["cond/Merge:0"], values["cond/big:0"])
    assert "cond/small:0" in reasons


def test_branches_and_loops_of_the_new_kind(tmp_path: Path) -> None:
    def build(v1: Any) -> None:
        x = v1.placeholder("float32", [3, 4], "x")
        v1.identity(v1.cond(v1.reduce_sum(x) > 100.0, lambda: x * 2, lambda: -x), name="a")
        v1.identity(v1.while_loop(lambda k: k < 3, lambda k: k + 1, [0]), name="b")

    tensorflow().compat.v1.enable_control_flow_v2()
    values, _ = ran(graph_file(tmp_path, build), {"x:0": X})
    np.testing.assert_array_equal(values["a:0"], -X)
    assert values["b:0"] == 3


def test_queues_are_not_waited_for(tmp_path: Path) -> None:
    def build(v1: Any) -> None:
        x = v1.placeholder("float32", [2], "x")
        queue = v1.FIFOQueue(3, ["float32"], [[2]])
        v1.negative(queue.dequeue(), name="behind")
        v1.negative(x, name="free")

    values, reasons = ran(graph_file(tmp_path, build), {"x:0": X[0, :2]})
    assert list(values) == ["free:0"]
    assert reasons["behind:0"] == "waits for a queue that nothing fills here"


def test_a_dataset_is_started_anew_for_each_part(tmp_path: Path) -> None:
    def build(v1: Any) -> None:
        x = v1.placeholder("float32", [6, 4], "x")
        data = v1.data.make_initializable_iterator(v1.data.Dataset.from_tensor_slices(x).batch(2))
        batch = v1.identity(data.get_next(), name="batch")
        v1.multiply(batch, 3.0, name="more")

    model = graph_file(tmp_path, build)
    rows = np.arange(24, dtype=np.float32).reshape(6, 4)
    for memory in (1 << 30, 10):
        values, _ = ran(model, {"x:0": rows}, memory=memory)
        np.testing.assert_array_equal(values["batch:0"], rows[:2])
        np.testing.assert_array_equal(values["more:0"], rows[:2] * 3)


def test_narrow_floats_come_as_float32(tmp_path: Path) -> None:
    def build(v1: Any) -> None:
        v1.cast(v1.placeholder("float32", [2], "x"), "bfloat16", name="narrow")

    values, _ = ran(graph_file(tmp_path, build), {"x:0": np.float32([1.0, 3.0625])})
    assert values["narrow:0"].dtype == np.float32
    np.testing.assert_array_equal(values["narrow:0"], [1.0, 3.0625])


def test_one_failing_op_does_not_take_the_others_along(tmp_path: Path) -> None:
    def build(v1: Any) -> None:
        x = v1.placeholder("int32", [2], "x")
        v1.floordiv(x, x, name="divided")
        v1.negative(x, name="free")

    values, reasons = ran(graph_file(tmp_path, build), {"x:0": np.int32([1, 0])})
    np.testing.assert_array_equal(values["free:0"], [-1, 0])
    assert "division by zero" in reasons["divided:0"]


def test_ops_tensorflow_does_not_have_are_said_in_one_line(tmp_path: Path) -> None:
    model = tmp_path / "odd.pbtxt"
    model.write_text('node { name: "a" op: "NoSuchOp" }\n')
    with pytest.raises(ExecutionError, match="NoSuchOp") as raised:
        opened(model)
    assert "\n" not in str(raised.value)


def saved_model(folder: Path) -> Path:
    tf = tensorflow()

    class Net(tf.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.w = tf.Variable(np.eye(4, 2, dtype=np.float32), name="w")

        @tf.function
        def layer(self, x: Any) -> Any:
            return tf.nn.relu(tf.matmul(x, self.w, name="product"), name="act")

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def whole(self, x: Any) -> Any:
            return {"y": self.layer(x) + self.layer(-x)}

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="z")])
        def other(self, z: Any) -> Any:
            return {"y": self.layer(z)}

    net = Net()
    net.w.assign_add(np.full((4, 2), 0.25, np.float32))
    signatures = {"serving_default": net.whole, "other": net.other}
    tf.saved_model.save(net, str(folder / "net"), signatures=signatures)
    return folder / "net"


def test_what_happens_in_the_functions_of_a_saved_model(tmp_path: Path) -> None:
    model = saved_model(tmp_path)
    executor = opened(model)
    assert [tensor.name for tensor in executor.inputs] == ["serving_default_x:0"]
    values = dict(executor.run({"serving_default_x:0": X}))
    weights = np.eye(4, 2, dtype=np.float32) + np.float32(0.25)
    products = [value for name, value in values.items() if name.endswith("product:0")]
    wanted = X @ weights
    for product, found in zip(
        (wanted, -wanted), sorted(products, key=lambda p: p[0, 0]), strict=True
    ):
        np.testing.assert_allclose(found, product, rtol=1e-6)
    reasons = {each.reason for each in executor.unavailable}
    assert "belongs to signature other" in reasons
    names = {tensor.name for op in read_graph(model).ops for tensor in op.outputs}
    assert set(values) <= names


def test_another_signature(tmp_path: Path) -> None:
    model = saved_model(tmp_path)
    executor = opened(model, signature="other")
    assert [tensor.name for tensor in executor.inputs] == ["other_z:0"]
    assert sum(name.endswith("product:0") for name in executor.tensors) == 1
    with pytest.raises(InputError, match="no signature 'third'"):
        opened(model, signature="third")


def test_options_another_framework_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"takes no .colour.*checkpoint"):
        opened(graph_file(tmp_path, dense), colour="red")
