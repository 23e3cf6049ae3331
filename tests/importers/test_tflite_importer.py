"""TensorFlow Lite files: operators, options, quantisation, called sub-graphs, places of values.

The files in tests/data/tflite were written by TensorFlow's converter; ``make.py`` beside them made
them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from graphstore.model import DType, Framework, GraphKind, TensorRef
from importers.dumps.arrays.golden import scan_golden_dumps
from importers.registry import detect, read_graph

DATA = Path(__file__).parents[1] / "data" / "tflite"


def by_type(name):
    return {op.type: op for op in read_graph(DATA / name).ops}


def test_its_files_are_found_by_content(tmp_path):
    shutil.copy(DATA / "net.tflite", tmp_path / "renamed")
    ((importer, found),) = detect(tmp_path / "renamed")
    assert (importer.name, found.confidence) == ("tflite", 2)


def test_an_operator_knows_the_ops_it_was_made_of():
    graph = read_graph(DATA / "net.tflite")
    assert (graph.framework, graph.kind) == (Framework.TFLITE, GraphKind.DEVICE)
    stem = next(op for op in graph.ops if op.type == "CONV_2D")
    assert [name.removeprefix("functional_1/") for name in stem.original_names[1:]] == [
        "stem_1/convolution",
        "stem_bn_1/batchnorm/add_1",
        "stem_relu_1/Relu",
    ]
    made = stem.outputs[0]
    assert (made.dtype, made.shape) == (DType.FLOAT32, (1, 8, 6, 3))
    assert [given.name for given in graph.inputs] == ["image"]


def test_options_are_attributes_by_their_names():
    conv = by_type("net.tflite")["CONV_2D"]
    depthwise = by_type("net.tflite")["DEPTHWISE_CONV_2D"]
    assert (conv.attrs["padding"], conv.attrs["stride_w"]) in {("SAME", 1), ("VALID", 1)}
    assert depthwise.attrs["fused_activation_function"] == "RELU6"
    assert depthwise.attrs["stride_h"] == 2
    assert by_type("net.tflite")["MEAN"].attrs == {"keep_dims": False}


def test_values_lie_where_it_says():
    graph = read_graph(DATA / "net.tflite")
    weights = next(each for each in graph.constants if each.tensor.shape == (3, 3, 3, 2))
    data = (DATA / "net.tflite").read_bytes()
    values = np.frombuffer(data, np.float32, 54, weights.offset)
    stored = {
        name: np.load(DATA / "dump" / f"{number}.npy")
        for number, name in (
            line.split(",") for line in (DATA / "dump" / "mapping.csv").read_text().split()
        )
    }
    assert np.array_equal(values, stored[weights.tensor.name].ravel())


def test_quantised_outputs_tell_scale_and_zero_point():
    ops = read_graph(DATA / "net.int8.tflite").ops
    assert (ops[0].type, ops[0].is_inserted, ops[0].outputs[0].dtype) == (
        "QUANTIZE",
        True,
        DType.INT8,
    )
    sigmoid = next(op for op in ops if op.type == "LOGISTIC")
    assert sigmoid.attrs == {"scale": (1 / 256,), "zero_point": (-128,)}


def test_called_sub_graphs_are_bodies():
    graph = read_graph(DATA / "rounds.tflite")
    bodies = {body.name: body for body in graph.subgraphs}
    loop = next(op for op in graph.ops if op.type == "WHILE")
    choice = next(op for op in graph.ops if op.type == "IF")
    assert loop.owns == ("while/cond", "while/body")
    assert bodies["while/cond"].outputs == ()
    assert bodies["while/body"].outputs[0] == (0, TensorRef("while/body/while/add", 0))
    # input 0 of an If is its condition
    assert [position for position, _ in bodies[choice.owns[0]].inputs] == [1]
    calls = {(edge.source, edge.target) for edge in graph.calls()}
    assert any(source == "while/body/while/add" for source, _ in calls)


def test_weights_that_an_interpreter_gives_as_well_are_no_files_of_another_graph(tmp_path):
    graph = read_graph(DATA / "net.tflite")
    weight = graph.constants[0].tensor
    for name in (weight.name, "other"):
        np.save(tmp_path / f"{name.replace('/', '_')}.npy", np.zeros(weight.shape, np.float32))

    index = scan_golden_dumps(tmp_path, graph)
    assert [path.name for path in index.unmatched] == ["other.npy"]
