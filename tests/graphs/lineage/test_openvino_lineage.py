"""An ONNX model against OpenVINO's graphs of it: by tensor names, and by the originals that a
runtime model lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.golden_capture.capture_model import CaptureRequest, capture
from divergraph.graphs.lineage import Unmatched, link_graphs
from graphstore.model import LineageRule, Reason, TensorMatch, TensorRef, Verdict
from importers.registry import read_graph

DATA = Path(__file__).parents[2] / "data" / "openvino"


def linked(device: str):
    return link_graphs(read_graph(DATA / "net.onnx"), read_graph(DATA / device))


def test_tensor_names_match_a_model_that_was_not_compiled():
    outputs = linked("net.xml").outputs
    match = outputs[TensorRef("bn", 0)]
    assert isinstance(match, TensorMatch)
    assert (match.golden, match.rule) == (TensorRef("bn", 0), LineageRule.SAME_TENSOR)


def test_a_fused_op_gives_the_last_of_its_originals():
    lineage = linked("fused.xml")
    conv = next(op for op in lineage.device_ops.values() if op.type == "Convolution")
    match = lineage.outputs[TensorRef(conv.id, 0)]
    assert isinstance(match, TensorMatch)
    assert (match.golden.op, match.rule) == ("clip", LineageRule.ORIGIN_OUTPUT)
    originals = {link.original for link in lineage.links if link.device == conv.id}
    assert originals == {"net/conv", "bn", "swish", "clip"}


def test_a_convolution_without_its_bias_is_a_part():
    outputs = linked("net.xml").outputs
    assert isinstance(outputs[TensorRef("net/conv", 0)], TensorMatch)
    part = linked("dump/runtime.xml").outputs[TensorRef("net/conv/WithoutBiases", 0)]
    assert isinstance(part, Unmatched)
    assert part.reason is Reason.INNER_OF_SPLIT


@pytest.mark.parametrize(
    ("device", "least"), [("net.xml", 8), ("fused.xml", 5), ("dump/runtime.xml", 8)]
)
def test_what_openvino_computes_is_compared_and_clean(tmp_path, device, least):
    golden = tmp_path / "golden"
    inputs = {"x": DATA / "dump" / "x.npy"}
    capture(CaptureRequest(DATA / "net.onnx", golden, inputs=inputs))
    data = compare(CompareRequest(DATA / "net.onnx", golden, DATA / device, DATA / "dump"))
    assert data.run.verdict is Verdict.CLEAN
    compared = [each for each in data.comparisons if each.metrics is not None]
    assert len(compared) >= least
    # no part of a Clip or of a HardSwish is taken for its input
    assert len({each.golden for each in compared}) == len(compared)
