"""OpenVINO's files: IR with bodies and values in the ``.bin``, and runtime models with originals.

The files in tests/data/openvino were written by OpenVINO; ``make.py`` beside them made them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from graphstore.model import DType, Framework, GraphKind, TensorOrigin, TensorRef
from importers.registry import detect, read_graph

DATA = Path(__file__).parents[1] / "data" / "openvino"


@pytest.mark.parametrize("name", ["net.xml", "fused.xml", "bodies.xml", "dump/runtime.xml"])
def test_its_files_are_found_by_content(name, tmp_path):
    path = tmp_path / "renamed"
    shutil.copy(DATA / name, path)
    (importer, found), *others = detect(path)
    assert (importer.name, found.confidence, others) == ("openvino", 2, [])


def test_a_model_keeps_the_names_of_the_framework():
    graph = read_graph(DATA / "net.xml")
    assert (graph.framework, graph.kind) == (Framework.OPENVINO, GraphKind.ORIGINAL)
    assert [given.name for given in graph.inputs] == ["x"]
    ops = {op.id: op for op in graph.ops}
    conv = ops["net/conv/WithoutBiases"]
    assert (conv.type, conv.attrs["strides"], conv.attrs["pads_begin"]) == (
        "Convolution",
        (1, 1),
        (1, 1),
    )
    assert [ref.tensor for ref in conv.inputs] == ["x", "w"]
    assert ops["bn"].outputs[0].name == "n"  # the tensor's, of the ONNX model
    assert [str(ref) for ref in graph.outputs] == ["y:0"]
    places = {op.id: place for place, op in enumerate(graph.ops)}
    assert all(places[ref.op] < places[op.id] for op in graph.ops for ref in op.takes)


def test_values_of_constants_are_found_in_the_bin():
    graph = read_graph(DATA / "net.xml")
    weights = next(each for each in graph.constants if each.tensor.name == "w")
    assert (weights.tensor.dtype, weights.tensor.shape) == (DType.FLOAT32, (4, 2, 3, 3))
    assert (weights.location, weights.nbytes) == ("net.bin", 4 * 72)
    data = (DATA / weights.location).read_bytes()
    values = np.frombuffer(data, np.float32, 72, weights.offset)
    made = np.random.default_rng(7).normal(size=(4, 2, 3, 3)).astype(np.float32)
    assert np.array_equal(values.reshape(made.shape), made)


def test_values_that_are_not_there_are_told():
    graph = read_graph(DATA / "half.xml")  # its .bin is left out on purpose
    assert any("'half.bin' holds the values, which is not there" in line for line in graph.warnings)
    kept = {each.tensor.dtype for each in graph.constants}
    assert DType.FLOAT16 in kept


def test_a_runtime_model_tells_the_originals_of_its_ops():
    graph = read_graph(DATA / "fused.xml")
    assert graph.kind is GraphKind.DEVICE
    ops = {op.type: op for op in graph.ops}
    conv = ops["Convolution"]
    assert conv.original_names[-2:] == ("swish", "clip")
    made = conv.outputs[0]
    assert (made.name, made.origin, made.layout) == ("clip", TensorOrigin("clip", 0), "acdb")
    assert (made.dtype, conv.computes_in) == (DType.FLOAT32, DType.FLOAT32)
    assert ops["Reorder"].is_inserted
    order = [op.sequence for op in graph.ops]
    assert order == sorted(order)


def test_results_that_were_named_name_what_they_take():
    graph = read_graph(DATA / "dump" / "runtime.xml")
    pool = next(op for op in graph.ops if op.name == "pool")
    assert (pool.outputs[0].name, pool.outputs[0].origin) == ("pool:0", TensorOrigin("pool", 0))


def test_bodies_are_subgraphs():
    graph = read_graph(DATA / "bodies.xml")
    bodies = {body.name: body for body in graph.subgraphs}
    assert set(bodies) == {"choice/then_body", "choice/else_body", "rounds/body"}
    then = bodies["choice/then_body"]
    assert then.inputs == ((1, "choice/then_body/p1"),)
    assert then.outputs == ((0, TensorRef("choice/then_body/inner_add", 0)),)
    # what counts the rounds comes from no input of the loop
    assert bodies["rounds/body"].inputs == ((2, "rounds/body/q"),)
    calls = {(edge.source, edge.target) for edge in graph.calls()}
    assert ("choice/then_body/inner_add", "rounds/body/q") in calls


def test_names_with_commas_and_tensors_of_any_rank():
    graph = read_graph(DATA / "bodies.xml")
    odd, cond, rows = graph.inputs
    assert (odd.name, odd.shape) == ("x,odd", None)
    assert (cond.shape, rows.shape) == ((), (None, 3))
    relu = next(op for op in graph.ops if op.name == "r")
    assert relu.outputs[0].name == "r,1"
