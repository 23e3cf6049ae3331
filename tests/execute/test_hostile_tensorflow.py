"""TensorFlow models that try to reach outside: nothing is read, written or printed for them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divergraph.execute.contract import RunnableSubgraph
from divergraph.execute.installed import open_executor
from divergraph.execute.tensorflow.files import tensorflow
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.submodel.check import check_bundle
from graphstore.errors import ExecutionError
from importers.registry import read_graph

pytestmark = pytest.mark.tensorflow
X = np.linspace(-1, 1, 4, dtype=np.float32)
SECRET = "the secret of this machine"
Hostile = Callable[[Any, Any, Path], Any]


def reading_a_file(tf: Any, x: Any, place: Path) -> Any:
    text = tf.raw_ops.ReadFile(filename=str(place / "secret"), name="spy")
    return tf.io.decode_raw(text, tf.uint8)


def listing_a_folder(tf: Any, x: Any, place: Path) -> Any:
    found = tf.raw_ops.MatchingFiles(pattern=str(place / "*"), name="spy")
    return tf.strings.length(found)


def mapping_a_file(tf: Any, x: Any, place: Path) -> Any:
    region = f"{place}/secret"
    return tf.raw_ops.ImmutableConst(
        dtype=tf.uint8, shape=[4], memory_region_name=region, name="spy"
    )


def debugging_to_a_file(tf: Any, x: Any, place: Path) -> Any:
    return tf.raw_ops.DebugIdentityV2(
        input=x,
        tfdbg_context_id="c",
        op_name="x",
        output_slot=0,
        tensor_debug_mode=2,
        debug_urls=[f"file://{place}/written"],
        name="spy",
    )


def old_debugging_to_a_file(tf: Any, x: Any, place: Path) -> Any:
    urls = [f"file://{place}/written"]
    return tf.raw_ops.DebugIdentity(input=x, tensor_name="x:0", debug_urls=urls, name="spy")


def writing_records(tf: Any, x: Any, place: Path) -> Any:
    data = tf.raw_ops.TensorSliceDataset(components=[["a", "b"]], output_shapes=[[]])
    wrote = tf.raw_ops.DatasetToTFRecord(
        input_dataset=data, filename=f"{place}/written", compression_type="", name="spy"
    )
    with tf.control_dependencies([wrote]):
        return tf.identity(x)


def writing_a_summary(tf: Any, x: Any, place: Path) -> Any:
    writer = tf.raw_ops.SummaryWriter(shared_name="w", container="")
    made = tf.raw_ops.CreateSummaryFileWriter(
        writer=writer,
        logdir=f"{place}/written",
        max_queue=1,
        flush_millis=1,
        filename_suffix=".x",
        name="spy",
    )
    with tf.control_dependencies([made]):
        return tf.identity(x)


def writing_a_file(tf: Any, x: Any, place: Path) -> Any:
    wrote = tf.raw_ops.WriteFile(filename=f"{place}/written", contents="x", name="spy")
    with tf.control_dependencies([wrote]):
        return tf.identity(x)


def writing_a_file_in_a_function(tf: Any, x: Any, place: Path) -> Any:
    @tf.function
    def write(value: Any) -> Any:
        return value + tf.cast(tf.size(reading_a_file(tf, x, place)), tf.float32)

    @tf.function
    def outer(value: Any) -> Any:
        tf.raw_ops.WriteFile(filename=f"{place}/written", contents="x", name="spy")
        return write(value)

    return outer(x)


def writing_a_file_in_a_loop(tf: Any, x: Any, place: Path) -> Any:
    def turn(k: Any) -> Any:
        urls = [f"file://{place}/written"]
        return [tf.raw_ops.DebugIdentity(input=k + 1, debug_urls=urls, name="spy")]

    return tf.while_loop(lambda k: k < 3, turn, [0])[0]


def writing_while_shapes_are_found(tf: Any, x: Any, place: Path) -> Any:
    urls = [f"file://{place}/written"]
    shape = tf.raw_ops.DebugIdentity(input=[2, 2], tensor_name="s:0", debug_urls=urls, name="spy")
    return tf.reshape(x, shape)


def reading_records(tf: Any, x: Any, place: Path) -> Any:
    data = tf.data.TextLineDataset(str(place / "secret"))
    iterator = tf.compat.v1.data.make_initializable_iterator(data)
    return tf.strings.length(iterator.get_next(name="spy"))


def keeping_data_in_a_file(tf: Any, x: Any, place: Path) -> Any:
    data = tf.data.Dataset.from_tensor_slices(x).cache(f"{place}/written")
    return tf.compat.v1.data.make_initializable_iterator(data).get_next(name="spy")


def a_table_of_a_file(tf: Any, x: Any, place: Path) -> Any:
    lines = tf.lookup.TextFileInitializer(
        str(place / "secret"), tf.string, 0, tf.int64, 1, delimiter=" "
    )
    return tf.lookup.StaticHashTable(lines, -1).lookup(tf.constant(["the"]), name="spy")


def a_variable_of_a_file(tf: Any, x: Any, place: Path) -> Any:
    first = tf.strings.length(tf.io.read_file(str(place / "secret")))
    return tf.compat.v1.get_variable("spied", initializer=first, use_resource=True) + 1


HOSTILE: list[Hostile] = [
    reading_a_file,
    listing_a_folder,
    mapping_a_file,
    debugging_to_a_file,
    old_debugging_to_a_file,
    writing_records,
    writing_a_summary,
    writing_a_file,
    writing_a_file_in_a_function,
    writing_a_file_in_a_loop,
    writing_while_shapes_are_found,
    reading_records,
    keeping_data_in_a_file,
    a_table_of_a_file,
]


def hostile_model(folder: Path, build: Hostile) -> tuple[Path, Path]:
    """A model of *build* with an honest half, and the folder it tries to reach."""
    tf = tensorflow()
    place = folder / "place"
    place.mkdir()
    (place / "secret").write_text(f"{SECRET}\n")
    tf.compat.v1.enable_control_flow_v2()
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [4], "x")
        tf.multiply(x, 2.0, name="honest")
        tf.identity(build(tf, x, place), name="stolen")
    # Writing the graph down already runs what gives a shape.
    shutil.rmtree(place / "written", ignore_errors=True)
    tf.io.write_graph(graph, str(folder), "model.pb", as_text=False)
    return folder / "model.pb", place


@pytest.mark.parametrize("build", HOSTILE, ids=lambda build: build.__name__)
def test_nothing_is_read_or_written_and_the_rest_runs(tmp_path: Path, build: Hostile) -> None:
    model, place = hostile_model(tmp_path, build)
    np.save(tmp_path / "x.npy", X)
    out = tmp_path / "out"
    result = capture(CaptureRequest(model, out, {"x": tmp_path / "x.npy"}))
    assert [path.name for path in place.iterdir()] == ["secret"]
    values = {path.name.partition(".")[0]: np.load(path) for path in out.glob("*.npy")}
    np.testing.assert_array_equal(values["honest"], X * 2)
    kept = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    assert SECRET.encode() not in kept
    reasons = {each.tensor: each.reason for each in result.left_out}
    if "stolen" in values:  # what only wrote is left out, and what came after it is not
        expected = 3 if build is writing_a_file_in_a_loop else X
        np.testing.assert_array_equal(values["stolen"].ravel(), expected)
    else:
        assert "reaches outside of the model" in reasons["stolen:0"]
        assert "it and what needs it are not run" in reasons["stolen:0"]


def test_the_refusal_names_the_op(tmp_path: Path) -> None:
    model, _ = hostile_model(tmp_path, reading_a_file)
    executor = open_executor(model, read_graph(model), engine="tensorflow")
    reasons = {each.tensor: each.reason for each in executor.unavailable}
    assert reasons["spy:0"] == reasons["stolen:0"]
    assert reasons["spy:0"].startswith("spy (ReadFile) reaches outside")


@pytest.mark.parametrize("build", [reading_a_file, debugging_to_a_file], ids=lambda b: b.__name__)
def test_pieces_do_not_run_it_either(tmp_path: Path, build: Hostile) -> None:
    model, place = hostile_model(tmp_path, build)
    executor = open_executor(model, read_graph(model), engine="tensorflow")
    subgraphs = [
        RunnableSubgraph("a", ("x:0",), ("stolen:0",)),
        RunnableSubgraph("b", ("x:0",), ("honest:0",)),
    ]
    stolen, honest = executor.run_subgraphs(subgraphs, lambda subgraph: {"x:0": X})
    assert "reaches outside of the model" in stolen.failure
    np.testing.assert_array_equal(honest.values["honest:0"], X * 2)
    assert [path.name for path in place.iterdir()] == ["secret"]


@pytest.mark.parametrize("build", [reading_a_file, writing_a_file], ids=lambda b: b.__name__)
def test_the_check_of_a_part_does_not_run_it(tmp_path: Path, build: Hostile) -> None:
    model, place = hostile_model(tmp_path, build)
    manifest = {"runner": "tf", "files": [model.name]}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "replay.py").write_text("import sys; sys.exit(0)")
    check = check_bundle(tmp_path)
    assert check.passed is None
    assert "not run" in check.lines[0]
    assert [path.name for path in place.iterdir()] == ["secret"]


def test_a_variable_is_not_filled_from_a_file(tmp_path: Path) -> None:
    model, _ = hostile_model(tmp_path, a_variable_of_a_file)
    with pytest.raises(ExecutionError, match=r"value of variable 'spied': .*ReadFile.*outside"):
        open_executor(model, read_graph(model), engine="tensorflow")


def test_what_is_fed_is_not_refused(tmp_path: Path) -> None:
    model, _ = hostile_model(tmp_path, reading_a_file)
    graph = read_graph(model)
    decoded = next(op.id for op in graph.ops if op.type == "DecodeRaw")
    executor = open_executor(model, graph, {"feed": f"{decoded}:0"}, "tensorflow")
    values = dict(executor.run({"x:0": X, f"{decoded}:0": np.uint8([1, 2])}, ["stolen:0"]))
    np.testing.assert_array_equal(values["stolen:0"], [1, 2])


def test_printing_hands_on_what_it_prints(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def printing(tf: Any, x: Any, place: Path) -> Any:
        with tf.control_dependencies([tf.print("\x1b[2J", x)]):
            return tf.compat.v1.Print(x, [x], "\x1b[2J")

    model, _ = hostile_model(tmp_path, printing)
    executor = open_executor(model, read_graph(model), engine="tensorflow")
    values = dict(executor.run({"x:0": X}))
    np.testing.assert_array_equal(values["stolen:0"], X)
    assert "[2J" not in capfd.readouterr().err


def test_a_checkpoint_is_only_read_where_the_user_says(tmp_path: Path) -> None:
    tf = tensorflow()
    v1 = tf.compat.v1
    other = tf.Graph()
    with other.as_default():
        secret = v1.get_variable("w", initializer=np.float32([42, 42]), use_resource=True)
        with v1.Session() as session:
            session.run(secret.initializer)
            v1.train.Saver().save(session, str(tmp_path / "other"), write_meta_graph=False)
    graph = tf.Graph()
    with graph.as_default():
        w = v1.get_variable("w", initializer=np.float32([1, 2]), use_resource=True)
        tf.identity(w, name="read")
        stolen = tf.raw_ops.RestoreV2(
            prefix=str(tmp_path / "other"),
            tensor_names=["w"],
            shape_and_slices=[""],
            dtypes=[tf.float32],
            name="spy",
        )
        tf.identity(stolen[0], name="stolen")
        saver = v1.train.Saver()
        with v1.Session() as session:
            session.run(w.initializer)
            saver.save(session, str(tmp_path / "model.ckpt"))
    model = tmp_path / "model.ckpt.meta"
    executor = open_executor(model, read_graph(model), engine="tensorflow")
    values = dict(executor.run({}))
    np.testing.assert_array_equal(values["read:0"], [1, 2])
    reasons = {each.tensor: each.reason for each in executor.unavailable}
    assert "spy (RestoreV2)" in reasons["stolen:0"]


def saved_with_words(folder: Path, words: Path, *, beside: bool) -> Path:
    """A SavedModel that looks words up in a file, which may be put beside it."""
    v1 = tensorflow().compat.v1
    with tensorflow().Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder("float32", [3], "x")
        lines = v1.lookup.TextFileInitializer(str(words), "string", -2, "int64", -1)
        table = v1.lookup.StaticHashTable(lines, 7)
        if not beside:
            graph.clear_collection(v1.GraphKeys.ASSET_FILEPATHS)
        found = v1.identity(table.lookup(v1.constant(["c", "a", "z"])), name="found")
        one = v1.get_variable("one", initializer=np.float32([1, 1, 1]))
        y = v1.multiply(x * one, v1.cast(found, "float32"), name="times")
        session.run([v1.tables_initializer(), one.initializer])
        builder = v1.saved_model.Builder(str(folder))
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {"serving_default": signature},
            assets_collection=graph.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=v1.tables_initializer(),
        )
        builder.save()
    return folder


@pytest.mark.parametrize("beside", [True, False])
def test_only_words_beside_a_saved_model_are_read(tmp_path: Path, beside: bool) -> None:
    words = tmp_path / "words.txt"
    words.write_text("a\nb\nc\n")
    model = saved_with_words(tmp_path / "net", words, beside=beside)
    words.write_text("z\n")
    executor = open_executor(model, read_graph(model), engine="tensorflow")
    if beside:
        values = dict(executor.run({"x:0": np.float32([1, 1, 1])}))
        np.testing.assert_array_equal(values["times:0"], [2, 0, 7])
    else:
        reasons = {each.tensor: each.reason for each in executor.unavailable}
        assert "(InitializeTableFromTextFileV2) reaches outside" in reasons["times:0"]


def test_every_op_of_this_tensorflow_that_names_a_place_is_refused() -> None:
    from divergraph.execute import tensorflow_outside as allowed

    tf = tensorflow()
    names = [name for name in dir(tf.raw_ops) if name[0].isupper()]
    assert len(names) > 1000
    may = [name for name in names if allowed.may_run(name)]
    assert {"Conv2D", "ReadVariableOp", "RandomUniform", "While", "ShardedFilename"} <= set(may)
    assert [name for name in may if names_a_place(allowed.definition_of(name))] == []


def names_a_place(definition: Any) -> bool:
    """Whether an op is called, or takes a text that is called, as what works with files is."""
    if definition.name in ("ShardedFilename", "ShardedFilespec"):  # they only make up a name
        return False
    texts = ("string", "list(string)")
    said = [definition.name, *(attr.name for attr in definition.attr if attr.type in texts)]
    said += [
        arg.name for arg in definition.input_arg if arg.type == tensorflow().string.as_datatype_enum
    ]
    words = ("file", "path", "url", "directory", "address", "summarywriter", "pyfunc", "rpccall")
    return any(word in text.lower() for text in said for word in words)
