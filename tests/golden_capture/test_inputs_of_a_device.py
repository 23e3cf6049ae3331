"""A golden dump made on what the device was fed, as its own dump holds it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from device_alone import MODEL, write_device

from divergraph.api.capture import capture
from divergraph.comparison import CompareRequest, compare
from graphstore.errors import InputError
from graphstore.model import Verdict


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
