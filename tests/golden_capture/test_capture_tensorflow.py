"""``divergraph capture`` of TensorFlow models: the dump CANN's guides make with tfdbg."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from divergraph.cli.main import run
from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from graphstore.errors import ExecutionError, InputError
from graphstore.model import Verdict
from importers.dumps.arrays.golden import scan_golden_dumps
from importers.registry import read_graph


def batch(lenet: Path) -> dict[str, Path]:
    """The images and labels of the step that was dumped."""
    files = {port: next((lenet / "golden").glob(f"IteratorGetNext.{port}.*")) for port in (0, 1)}
    return {"IteratorGetNext": files[0], "IteratorGetNext:1": files[1]}


def stems(folder: Path) -> dict[str, Path]:
    """The files of a dump by their names without the time."""
    return {path.name.rsplit(".", 2)[0]: path for path in folder.glob("*.npy")}


def assert_same(captured: Path, dumped: Path) -> None:
    """The same values, but for the order of sums: TensorFlow's kernels differ by processor."""
    value, expected = np.load(captured), np.load(dumped)
    if expected.dtype.kind == "f":
        bound = 1e-6 * float(np.abs(expected).max(initial=0.0))
        np.testing.assert_allclose(
            value, expected, rtol=0, atol=bound, err_msg=dumped.name, strict=True
        )
    else:
        np.testing.assert_array_equal(value, expected, err_msg=dumped.name, strict=True)


@pytest.mark.tensorflow
def test_a_training_step_is_captured_as_it_was_dumped(lenet: Path, tmp_path: Path) -> None:
    model = lenet / "model.ckpt.meta"
    result = capture(CaptureRequest(model, tmp_path / "golden", batch(lenet)))
    captured, dumped = stems(result.folder), stems(lenet / "golden")
    assert set(dumped) <= set(captured)
    assert len(captured) == result.tensors + 2  # the inputs are written, too
    for stem, path in dumped.items():
        assert_same(captured[stem], path)
    told = json.loads((result.folder / "capture.json").read_text())
    assert told["inputs"].keys() == {"IteratorGetNext:0", "IteratorGetNext:1"}
    assert told["executor"].startswith("tensorflow ")
    reasons = {each["reason"] for each in told["left_out"]}
    assert "its branch is not taken on these inputs" in reasons


@pytest.mark.tensorflow
def test_the_capture_finds_the_origin_of_a_fault(lenet: Path, tmp_path: Path) -> None:
    model = lenet / "model.ckpt.meta"
    capture(CaptureRequest(model, tmp_path / "golden", batch(lenet), memory=1 << 18))
    device = lenet / "npu_fault"
    graph = next((device / "graph").iterdir())
    compared = compare(CompareRequest(model, tmp_path / "golden", graph, device / "dump"))
    assert compared.run.verdict is Verdict.DIVERGED
    assert [origin.op for origin in compared.origins] == ["LeNet/conv2/Conv2DRelu"]


@pytest.mark.tensorflow
def test_the_data_set_is_run_on_what_its_placeholders_are_fed(lenet: Path, tmp_path: Path) -> None:
    golden = stems(lenet / "golden")
    images = np.zeros((8, 28, 28, 1), np.float32)
    labels = np.zeros(8, np.int64)
    images[:2] = np.load(golden["IteratorGetNext.0"])
    labels[:2] = np.load(golden["IteratorGetNext.1"])
    np.save(tmp_path / "images.npy", images)
    np.save(tmp_path / "labels.npy", labels)
    files = {name: tmp_path / f"{name}.npy" for name in ("images", "labels")}
    result = capture(CaptureRequest(lenet / "model.ckpt.meta", tmp_path / "out", files))
    captured = stems(result.folder)
    for stem, path in golden.items():
        assert_same(captured[stem], path)


@pytest.mark.tensorflow
def test_variables_of_a_dump_and_inputs_made_up(
    lenet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = lenet / "model.ckpt.meta", tmp_path / "out"
    given = ("--random", "3", "--variables", str(lenet / "golden"), "--train-op", "train_op")
    assert run(["capture", str(model), "-o", str(out), *given]) == 0
    said = capsys.readouterr()
    assert "tensors" in said.out
    assert "branch is not taken" in said.err
    weights = "LeNet_conv1_kernel_read.0"
    np.testing.assert_array_equal(
        np.load(stems(out)[weights]), np.load(stems(lenet / "golden")[weights])
    )
    assert json.loads((out / "capture.json").read_text())["options"]["train_op"] == "train_op"


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("request_of", "said"),
    [
        ({"inputs": {"nowhere": Path("x.npy")}}, "no input 'nowhere'"),
        ({}, r"no value for images:0 \(float32 8x28x28x1\), labels:0"),
        ({"seed": 1, "options": {"checkpoint": "/nowhere"}}, "no checkpoint has this prefix"),
        ({"seed": 1, "options": {"train_op": "nowhere"}}, "no op 'nowhere'"),
        ({"seed": 1, "device": StandIn.FP16}, "no fp16 stand-in for tensorflow"),
    ],
)
def test_what_cannot_be_done_leaves_nothing(
    lenet: Path, tmp_path: Path, request_of: dict[str, object], said: str
) -> None:
    request = CaptureRequest(lenet / "model.ckpt.meta", tmp_path / "out", **request_of)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=said):
        capture(request)
    assert not list(tmp_path.iterdir())


@pytest.mark.tensorflow
def test_a_capture_of_a_saved_model_is_found_again(tmp_path: Path) -> None:
    from divergraph.execute.tensorflow.files import tensorflow as load

    tf = load()
    layer = tf.Module()
    layer.w = tf.Variable(np.eye(4, dtype=np.float32))
    spec = tf.TensorSpec([2, 4], tf.float32, name="x")
    layer.call = tf.function(
        lambda x: tf.nn.softmax(tf.nn.relu(tf.matmul(x, layer.w))), input_signature=[spec]
    )
    model = tmp_path / "net"
    tf.saved_model.save(layer, str(model), signatures=layer.call)
    result = capture(CaptureRequest(model, tmp_path / "out", seed=1))
    graph = read_graph(model)
    index = scan_golden_dumps(result.folder, graph)
    types = {op.id: op.type for op in graph.ops}
    assert {"MatMul", "Relu", "Softmax"} <= {types[op] for op, _, _ in index.tensors}
    assert not index.unmatched
    assert not index.problems


@pytest.mark.skipif(find_spec("tensorflow") is not None, reason="TensorFlow is installed here")
def test_without_the_extra_the_hint_says_what_to_install(
    lenet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(lenet / "model.ckpt.meta")
    assert run(["capture", model, "--random", "1", "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err.strip()
    assert "pip install 'divergraph[tensorflow]'" in said
    assert "\n" not in said
    with pytest.raises(ExecutionError, match="nothing says the value of variable"):
        capture(CaptureRequest(Path(model), tmp_path / "out", seed=1))
    assert not list(tmp_path.iterdir())
