"""An ONNX model made by tf2onnx against what TensorFlow Lite's converter made of the same network:
axes in another order, batch norms folded, names of several ops in one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.golden_capture.capture_model import CaptureRequest, capture
from graphstore.model import Verdict
from importers.dumps.detect import scan_dumps
from importers.dumps.read import read_array
from importers.registry import read_graph

DATA = Path(__file__).parents[2] / "data" / "tflite"


def compared(tmp_path: Path, device: str, dump: str):
    golden = tmp_path / "golden"
    inputs = {"image:0": DATA / "image.npy"}
    capture(CaptureRequest(DATA / "net.onnx", golden, inputs=inputs))
    return compare(CompareRequest(DATA / "net.onnx", golden, DATA / device, DATA / dump))


def test_every_operator_of_a_float_model_is_compared_and_clean(tmp_path):
    data = compared(tmp_path, "net.tflite", "dump")
    assert data.run.verdict is Verdict.CLEAN
    assert all(each.metrics is not None for each in data.comparisons)
    of = {each.op.rpartition("/")[2]: each.golden for each in data.comparisons}
    assert of["mul_1"].op == "functional_1/swish_1/mul_1"
    assert of["Identity"].op == "functional_1/head_1/Softmax"  # only its tensor is called so


def test_whole_numbers_are_compared_as_what_they_stand_for(tmp_path):
    data = compared(tmp_path, "net.int8.tflite", "dump8")
    near = [each.metrics.cosine_similarity for each in data.comparisons if each.metrics]
    assert len(near) == len(data.comparisons)
    assert min(near) > 0.999


def test_a_float_model_and_its_int8_form_have_the_same_tensors():
    golden, device = DATA / "net.tflite", DATA / "net.int8.tflite"
    data = compare(CompareRequest(golden, DATA / "dump", device, DATA / "dump8"))
    compared = [each for each in data.comparisons if each.metrics is not None]
    assert {each.op for each in data.comparisons} - {each.op for each in compared} == {
        "tfl.quantize"
    }
    assert min(each.metrics.cosine_similarity for each in compared) > 0.999
    assert {each.golden.op for each in compared} >= {"functional_1/swish_1/mul_1", "Identity"}
    assert not any("other weights" in each for each in data.run.warnings)


def test_a_model_of_other_weights_is_said_to_be_another(tmp_path):
    content = bytearray((DATA / "net.tflite").read_bytes())
    graph = read_graph(DATA / "net.tflite")
    (weight,) = [each for each in graph.constants if each.tensor.shape == (3, 3, 3, 2)]
    rng = np.random.default_rng(1)
    other = rng.standard_normal((3, 3, 3, 2)).astype(np.float32).tobytes()
    content[weight.offset : weight.offset + len(other)] = other
    (tmp_path / "other.tflite").write_bytes(content)
    data = compare(
        CompareRequest(
            tmp_path / "other.tflite", DATA / "dump", DATA / "net.int8.tflite", DATA / "dump8"
        )
    )
    (said,) = [each for each in data.run.warnings if "other weights" in each]
    assert weight.tensor.name in said


def test_a_dump_of_whole_numbers_gives_their_values():
    graph = read_graph(DATA / "net.int8.tflite")
    index = scan_dumps(DATA / "dump8", graph)
    (key,) = [key for key in index.tensors if key[0].endswith("swish_1/Sigmoid")]
    ref = index.tensors[key]
    stored = np.load(ref.path)
    assert stored.dtype == np.int8
    assert np.array_equal(read_array(ref), (stored.astype(np.float32) + 128) / 256)
