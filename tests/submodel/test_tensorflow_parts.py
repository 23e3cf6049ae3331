"""Parts of TensorFlow graphs as frozen graphs of their own: they give the same values."""

from __future__ import annotations

import random

import numpy as np
import pytest

from divergraph.execute.installed import open_executor
from divergraph.execute.tensorflow.files import new_session, tensorflow
from divergraph.submodel.constants import values_of_the_run
from divergraph.submodel.export.contract import PartSource
from divergraph.submodel.export.tensorflow_export import write_tensorflow_part
from divergraph.submodel.select import Selector
from divergraph.submodel.selection import RefusalRule, SelectionRequest, TensorFacts
from graphstore.errors import InputError
from graphstore.model import DType, TensorIO
from importers.dumps.arrays.golden import scan_golden_dumps
from importers.dumps.read import read_array
from importers.registry import read_graph

pytestmark = pytest.mark.tensorflow
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def graph_file(folder, build, name="model.pb"):
    tf = tensorflow()
    graph = tf.Graph()
    with graph.as_default():
        build(tf.compat.v1)
    tf.io.write_graph(graph, str(folder), name, as_text=name.endswith("txt"))
    return folder / name


def meta_file(folder, build):
    tf = tensorflow()
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        build(v1)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            v1.train.Saver().save(session, str(folder / "model.ckpt"))
    return folder / "model.ckpt.meta"


class Cutter:
    """A model with the values of its tensors, to cut from and to check against."""

    def __init__(self, path, values):
        self.path, self.graph, self.values = path, read_graph(path), values
        self.ops = self.graph.op_index()
        self.selector = Selector(self.graph, self.facts)

    @classmethod
    def run(cls, path, feeds):
        executor = open_executor(path, read_graph(path), {})
        values = dict(executor.run(feeds)) | feeds
        executor.close()
        return cls(path, values)

    def value(self, ref):
        return self.values.get(self.ops[ref.op].outputs[ref.port].name)

    def facts(self, key):
        found = self.values.get(key) if isinstance(key, str) else self.value(key)
        known = found is not None and found.dtype.kind in "fiub"
        dtype = DType(found.dtype.name) if known else None
        return TensorFacts(dtype, None if found is None else found.shape, found is not None)

    def cut(self, starts, ends, folder, **wish):
        part = self.selector.between(starts, ends, SelectionRequest(**wish))
        assert not part.refused, part.refused
        return part, self.write(part, folder)

    def write(self, part, folder):
        values = values_of_the_run(self.ops, part.ops, self.value)
        values |= {t.name: self.values[t.name] for t in part.inputs if t.frozen}
        folder.mkdir(exist_ok=True)
        return write_tensorflow_part(PartSource(self.graph, self.path, None, values), part, folder)

    def check(self, part, written):
        """The part gives the values of the whole; how many were compared."""
        tf = tensorflow()
        graph = tf.Graph()
        with graph.as_default():
            definition = tf.compat.v1.GraphDef.FromString(written.files[0].read_bytes())
            tf.import_graph_def(definition, name="")
        called = written.names
        feeds = {
            called.get(t.name, t.name): self.values[t.name] for t in part.inputs if not t.frozen
        }
        wanted = [t.name for t in part.outputs if t.name in self.values]
        with new_session(graph) as session:
            made = session.run([called.get(name, name) for name in wanted], feeds)
        for name, value in zip(wanted, made, strict=True):
            expected = self.values[name].astype(np.float64)
            norm = np.linalg.norm(np.asarray(value, np.float64) - expected)
            assert np.shape(value) == expected.shape
            assert norm <= 1e-6 * np.linalg.norm(expected), name
        return len(wanted)


def small(v1):
    x = v1.placeholder(v1.float32, (3, 4), "x")
    left, right = v1.split(x, 2, axis=1, name="halves")
    weight = v1.constant(np.full((2, 5), 0.25, np.float32), name="weight")
    hidden = v1.nn.relu(v1.matmul(right, weight, name="product"), name="hidden")
    v1.add(hidden, v1.reduce_sum(left, name="sum"), name="joined")


@pytest.fixture
def cutter(tmp_path):
    return Cutter.run(graph_file(tmp_path, small), {"x:0": X})


@pytest.mark.parametrize("name", ["model.pb", "model.pbtxt"])
def test_a_part_of_a_frozen_graph_in_either_form(tmp_path, name):
    cutter = Cutter.run(graph_file(tmp_path, small, name), {"x:0": X})
    part, written = cutter.cut(["product"], ["joined"], tmp_path / "out")
    assert [tensor.name for tensor in part.inputs] == ["halves:1", "sum:0"]
    assert written.names["halves:1"] == "halves_1:0"
    assert cutter.check(part, written) == 1
    again = read_graph(written.files[0])
    assert {tensor.name: tensor.shape for tensor in again.inputs} == {
        "halves_1:0": (3, 2),
        "sum:0": (),
    }
    assert "weight" in {op.id for op in again.ops}


def test_the_models_own_input_as_a_start_is_given_to_the_part(cutter, tmp_path):
    part, written = cutter.cut(["x"], ["hidden"], tmp_path / "out")
    assert [tensor.name for tensor in part.inputs] == ["x:0"]
    assert cutter.check(part, written) == 1


def training(v1):
    tf = tensorflow()
    x = v1.placeholder(v1.float32, (3, 4), "x")
    weight = v1.get_variable("weight", (4, 2), v1.float32, use_resource=False)
    bias = v1.get_variable("bias", (2,), v1.float32, use_resource=True)
    made = v1.nn.relu(v1.matmul(x, weight, name="product") + bias, name="made")
    loss = v1.reduce_mean(made * made, name="loss")
    gradient = tf.gradients(loss, [weight])[0]
    v1.identity(gradient, name="gradient")
    v1.assign(weight, weight - 0.1 * gradient, name="update")


def test_variables_become_constants_with_the_values_of_the_run(tmp_path):
    cutter = Cutter.run(meta_file(tmp_path, training), {"x:0": X})
    part, written = cutter.cut(["product"], ["loss"], tmp_path / "out")
    assert cutter.check(part, written) == 1
    types = {op.type for op in read_graph(written.files[0]).ops}
    assert not types & {"VariableV2", "VarHandleOp", "ReadVariableOp", "Assign", "RestoreV2"}
    part, written = cutter.cut(["product"], ["gradient"], tmp_path / "gradients")
    assert cutter.check(part, written) == 1


def test_a_part_that_changes_a_variable_is_refused(tmp_path):
    cutter = Cutter.run(meta_file(tmp_path, training), {"x:0": X})
    part = cutter.selector.between(["gradient"], ["gradient"])
    assert not part.refused
    maker = cutter.ops["update"].inputs[1].producer.op
    part = cutter.selector.between([maker], ["update"])
    with pytest.raises(InputError, match=r"update \(Assign\) changes the variable weight"):
        cutter.write(part, tmp_path / "out")


def test_a_variable_whose_value_nobody_dumped_is_refused(tmp_path):
    cutter = Cutter.run(meta_file(tmp_path, training), {"x:0": X})
    for name in ("weight:0", "weight/read:0"):
        cutter.values.pop(name, None)
    part = cutter.selector.between(["product"], ["loss"])
    with pytest.raises(InputError, match="the value of weight:0 is not in the golden dump"):
        cutter.write(part, tmp_path / "out")


def test_drawn_numbers_are_those_of_the_run(tmp_path):
    def noisy(v1):
        x = v1.placeholder(v1.float32, (3, 4), "x")
        first = v1.identity(x, name="first")
        noise = v1.random.normal(v1.shape(first), seed=3, name="noise")
        v1.add(first, noise, name="sum")

    cutter = Cutter.run(graph_file(tmp_path, noisy), {"x:0": X})
    part, written = cutter.cut(["first"], ["sum"], tmp_path / "out")
    assert cutter.check(part, written) == 1


def loop(v1):
    x = v1.placeholder(v1.float32, (3, 4), "x")
    start = v1.nn.relu(x, name="start")
    _, made = v1.while_loop(
        lambda count, _: count < 3,
        lambda count, value: (count + 1, v1.tanh(value, name="inner") * 2.0),
        [v1.constant(0), start],
        name="loop",
    )
    v1.negative(made, name="end")


def test_an_old_loop_goes_whole_and_functions_of_a_new_one_come_along(tmp_path):
    v1 = tensorflow().compat.v1
    for new in (False, True):
        (v1.enable_control_flow_v2 if new else v1.disable_control_flow_v2)()
        folder = tmp_path / str(new)
        folder.mkdir()
        cutter = Cutter.run(graph_file(folder, loop), {"x:0": X})
        part, written = cutter.cut(["start"], ["end"], folder / "out")
        assert cutter.check(part, written) == 1
        if not new:
            cut = cutter.selector.between(["start"], ["loop/Merge_1"])
            assert cut.refused[0].rule is RefusalRule.LOOP_CUT
    v1.disable_control_flow_v2()


def test_control_inputs_from_outside_are_left_out_and_noted(tmp_path):
    def controlled(v1):
        x = v1.placeholder(v1.float32, (3, 4), "x")
        check = v1.debugging.assert_all_finite(x, "not finite", name="check")
        with v1.control_dependencies([check]):
            v1.nn.relu(v1.negative(x, name="negative"), name="end")

    cutter = Cutter.run(graph_file(tmp_path, controlled), {"x:0": X})
    part, written = cutter.cut(["negative"], ["end"], tmp_path / "out")
    assert any("control inputs from outside left out" in note for note in written.notes)
    assert cutter.check(part, written) == 1


def random_parts(cutter, seed, count, folder):
    """Writes and checks *count* random parts; how many tensors were compared."""
    rng = random.Random(seed)
    arrays = cutter.selector.arrays
    dumped = [
        op.id
        for op in cutter.graph.ops
        if op.outputs and op.outputs[0].name in cutter.values and op.type not in ("Const",)
    ]
    compared = tried = done = 0
    while done < count and tried < 40 * count:
        tried += 1
        start, end = sorted(rng.sample(dumped, 2), key=arrays.number.__getitem__)
        part = cutter.selector.between([start], [end], SelectionRequest(whole=True))
        if part.refused or not part.chosen:
            continue
        try:
            written = cutter.write(part, folder)
        except InputError as error:
            if "variable" not in str(error) and "session" not in str(error):
                raise
            continue
        compared += cutter.check(part, written)
        done += 1
    return compared


@pytest.mark.shared
def test_random_parts_of_a_training_step(shared_data, tmp_path):
    folder = shared_data / "tf_lenet_train"
    path = folder / "model.ckpt.meta"
    graph = read_graph(path)
    ops = graph.op_index()
    index = scan_golden_dumps(folder / "golden", graph)
    values = {
        ops[op].outputs[port].name: read_array(ref)
        for (op, io, port), ref in index.tensors.items()
        if io is TensorIO.OUTPUT
    }
    cutter = Cutter(path, values)
    assert random_parts(cutter, 1, 12, tmp_path / "out") >= 10
    part, written = cutter.cut(["LeNet/conv1/Conv2D"], ["LeNet/fc5/BiasAdd"], tmp_path / "net")
    assert cutter.check(part, written) == 1


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "feeds"),
    [
        ("autoencoder_hh.pb", {"input:0": (100, 784)}),
        ("tf2onnx_fc_layers_frozen.pb", None),
        ("tf2onnx_lstm_frozen.pb", None),
        ("tf2onnx_regression_frozen.pb", None),
    ],
)
def test_random_parts_of_shared_graphs(shared_data, tmp_path, name, feeds):
    path = shared_data / "tf" / name
    rng = np.random.default_rng(5)
    if feeds is None:
        executor = open_executor(path, read_graph(path), {})
        feeds = {tensor.name: tensor.shape for tensor in executor.inputs}
        executor.close()
    given = {
        key: rng.standard_normal([size or 2 for size in shape or (2,)]).astype(np.float32)
        for key, shape in feeds.items()
    }
    cutter = Cutter.run(path, given)
    assert random_parts(cutter, 2, 10, tmp_path / "out") >= 4


def test_parts_of_functions_in_functions_of_a_saved_model(tmp_path):
    tf = tensorflow()

    class Model(tf.Module):
        def __init__(self):
            self.weight = tf.Variable(np.full((4, 5), 0.3, np.float32))
            self.bias = tf.Variable(np.ones(5, np.float32))

        @tf.function
        def __call__(self, x):
            hidden = tf.nn.relu(tf.matmul(x, self.weight) + self.bias)
            left, right = tf.split(hidden, [2, 3], axis=1)
            return tf.reduce_sum(right) + tf.tanh(left)

    model, path = Model(), tmp_path / "saved"
    signature = model.__call__.get_concrete_function(tf.TensorSpec((3, 4), tf.float32))
    tf.saved_model.save(model, str(path), signatures=signature)
    executor = open_executor(path, read_graph(path))
    feeds = {tensor.name: X for tensor in executor.inputs}
    cutter = Cutter(path, dict(executor.run(feeds)) | feeds)
    executor.close()
    op = {op.name: op.id for op in cutter.graph.ops if op.subgraph}
    for start, end in (("MatMul", "add_1"), ("Relu", "Tanh"), ("add", "Sum")):
        part, written = cutter.cut([op[start]], [op[end]], tmp_path / f"{start}_{end}")
        assert cutter.check(part, written) == 1
    assert [tensor.name for tensor in part.inputs] == [f"{op['MatMul']}:0"]


def test_hostile_names_stay_names(tmp_path):
    names = {"product": "../x", "hidden": "h" * 300, "sum": "../../sum", "joined": "a.b/../c"}
    tf = tensorflow()
    definition = tf.compat.v1.GraphDef.FromString(graph_file(tmp_path, small).read_bytes())
    for node in definition.node:
        node.name = names.get(node.name, node.name)
        node.input[:] = [names.get(entry, entry) for entry in node.input]
    path = tmp_path / "hostile.pb"
    path.write_bytes(definition.SerializeToString())
    cutter = Cutter.run(path, {"x:0": X})
    part, written = cutter.cut([names["hidden"]], [names["joined"]], tmp_path / "out")
    assert sorted(tensor.name for tensor in part.inputs) == ["../../sum:0", "../x:0"]
    assert cutter.check(part, written) == 1
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["dump.pb"]
