"""A golden dump made on what the device was fed, as its own dump holds it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from device_alone import MODEL, write_device

from divergraph.api.capture import capture
from divergraph.ask.advisor.advisor import advise
from divergraph.comparison import CompareRequest, compare
from graphstore.errors import InputError
from graphstore.model import Reason, Verdict


@pytest.fixture
def device(tmp_path: Path) -> tuple[Path, Path]:
    """A device's graph, and its dump without golden's and without the Data op's file."""
    return write_device(tmp_path)


def test_the_golden_side_of_a_device_dump_alone(tmp_path, device):
    model = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), model)
    made = capture(model, tmp_path / "golden", from_device=device)
    assert made.notes == ("x is what relu has, rounded to float16",)
    found = compare(CompareRequest(model, tmp_path / "golden", *device))
    assert found.run.verdict is Verdict.DIVERGED
    assert [origin.op for origin in found.origins] == ["neg"]


def test_what_the_dump_does_not_hold_is_named(tmp_path, device):
    model = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(MODEL.replace("(x)", "(w)").replace("] x", "] w")), model)
    with pytest.raises(InputError, match="the device's graph has no input 'w'"):
        capture(model, tmp_path / "golden", from_device=device)


def test_inputs_that_the_device_preprocesses_are_refused(tmp_path, device):
    model = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), model)
    file = next(device[1].glob("*input.0.npy"))
    np.save(file, np.ones((2, 3), np.uint8))
    with pytest.raises(InputError, match="AIPP"):
        capture(model, tmp_path / "golden", from_device=device)


def test_what_the_device_makes_of_its_input_is_what_the_model_is_fed(tmp_path, device):
    graph, dump = device
    model = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), model)
    graph.write_text(graph.read_text().replace("trans_Cast_0", "pre").replace('"Cast"', '"Aipp"'))
    np.save(dump / "Aipp.pre.1.1.1795727148374619.input.0.npy", np.ones((2, 3), np.uint8))
    capture(model, tmp_path / "golden", from_device=device)
    (x,) = (tmp_path / "golden").glob("x.0.*.npy")
    fed = next(dump.glob("Relu*input.0.npy"))
    assert np.array_equal(np.load(x), np.load(fed).astype(np.float32))


@pytest.mark.parametrize("preprocessed", [False, True])
def test_a_device_that_was_fed_something_else_is_no_op_s_fault(tmp_path, device, preprocessed):
    """The input of an ONNX model is no op: only what reads it on the device tells."""
    graph, dump = device
    model = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), model)
    if preprocessed:
        graph.write_text(graph.read_text().replace('"Cast"', '"Aipp"'))
    neg = next(dump.glob("Neg*"))
    np.save(neg, -np.load(neg))
    np.save(tmp_path / "other.npy", np.full((2, 3), 7, np.float32))
    capture(model, tmp_path / "golden", inputs={"x": tmp_path / "other.npy"})
    found = compare(CompareRequest(model, tmp_path / "golden", *device))
    assert not found.origins
    given = next(each for each in found.comparisons if each.op == "x")
    assert (given.reason, "an input of the golden model" in given.detail) == (Reason.NO_TASK, True)
    (mismatch,) = found.run.analysis.mismatches
    assert mismatch.tensor == "x"
    (finding,) = advise(found).findings
    assert (finding.label, finding.op) == ("input_inconsistent", "x")
    assert ("AIPP" in finding.sentence) is preprocessed


KIND = 'attr { key: "T" value { type: DT_FLOAT } }'
FED = (
    'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } '
    'attr { key: "shape" value { shape { dim { size: 2 } dim { size: 3 } } } } }\n'
    f'node {{ name: "relu" op: "Relu" input: "x" {KIND} }}\n'
    f'node {{ name: "neg" op: "Neg" input: "relu" {KIND} }}\n'
)


@pytest.mark.parametrize("between", ["Cast", "Aipp"])
def test_an_input_that_is_an_op_of_golden_s_is_told_once(tmp_path, device, between):
    graph, dump = device
    model = tmp_path / "m.pbtxt"
    model.write_text(FED)
    empty = f'"{between}" attr {{ key: "_datadump_original_op_names" value {{ list {{}} }} }}'
    graph.write_text(graph.read_text().replace('"Cast"', empty))
    neg = next(dump.glob("Neg*"))
    np.save(neg, -np.load(neg))
    fed = np.load(next(dump.glob("Relu*input.0.npy")))
    np.save(dump / f"{between}.trans_Cast_0.1.1.1795727148374619.output.0.npy", fed)
    np.save(tmp_path / "other.npy", np.full((2, 3), 7, np.float32))
    capture(model, tmp_path / "golden", inputs={"x": tmp_path / "other.npy"})
    found = compare(CompareRequest(model, tmp_path / "golden", *device))
    assert not found.origins
    (finding,) = advise(found).findings
    assert finding.label == "input_inconsistent"
    assert ("AIPP" in finding.sentence) is (between == "Aipp")


DRAWING = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: 2 } } } } }
node { name: "s" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
  attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 2 } } } }
node { name: "r" op: "RandomStandardNormal" input: "s"
  attr { key: "T" value { type: DT_INT32 } } attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "y" op: "AddV2" input: "x" input: "r" attr { key: "T" value { type: DT_FLOAT } } }
"""  # noqa: E501
DEVICE_OF_DRAWING = """graph { name: "g"
op { name: "x" type: "Data" output_desc { dtype: DT_FLOAT } }
op { name: "r" type: "FrameworkOp" output_desc { dtype: DT_FLOAT } }
op { name: "y" type: "Add" input: "x:0" input: "r:0" output_desc { dtype: DT_FLOAT } }
}
"""


def test_both_sides_go_on_from_what_the_device_drew(tmp_path):
    model, graph, dump = tmp_path / "m.pbtxt", tmp_path / "ge_proto_1_Build.txt", tmp_path / "npu"
    model.write_text(DRAWING)
    graph.write_text(DEVICE_OF_DRAWING)
    dump.mkdir()
    x, drawn = np.array([1, 2], np.float32), np.array([0.25, -4], np.float32)
    np.save(dump / "FrameworkOp.r.1.1.1795727148374620.output.0.npy", drawn)
    np.save(dump / "Add.y.2.1.1795727148374621.input.0.npy", x)
    made = capture(model, tmp_path / "golden", from_device=(graph, dump))
    assert not made.left_out
    (file,) = (tmp_path / "golden").glob("y.0.*.npy")
    assert np.array_equal(np.load(file), x + drawn)
