"""GE graphs converted to JSON by atc: what they say, and what broken ones say."""

from __future__ import annotations

import json
import random

import pytest
from damaged_files import changed, endings

from graphstore.errors import ImportFormatError
from graphstore.model import DType
from importers.registry import detect, read_graph


def attrs(**values):
    return [{"key": key, "value": value} for key, value in values.items()]


MODEL = {
    "attr": attrs(framework_type={"s": "Onnx"}, stream_num={"i": 1}, ratio={"f": 0.10000000149}),
    "custom_version": "1.11.z.0",
    "graph": [
        {
            "attr": attrs(_session_graph_id={"s": "-1_0"}),
            "input": ["x:0"],
            "name": "g",
            "op": [
                {
                    "input": [""],
                    "name": "x",
                    "type": "Data",
                    "output_desc": [{"dtype": "DT_FLOAT"}],
                },
                {
                    "attr": attrs(
                        _datadump_original_op_names={
                            "list": {"s": ["conv", "relu"], "val_type": "VT_LIST_STRING"}
                        },
                        shape_range=None,
                        dst_type={"i": "1"},
                        _is_custom_op={"b": False},
                        empty={"list": {"val_type": "VT_LIST_INT"}},
                        value={"t": {"desc": {"dtype": "DT_INT64", "shape": {"dim": [2]}}}},
                    ),
                    "id": 4,
                    "input": ["x:0", "", "x:-1"],
                    "name": "fused",
                    "output_desc": [
                        {
                            "attr": attrs(
                                _datadump_origin_name={"s": "relu"},
                                origin_format={"s": "NCHW"},
                                origin_shape={"list": {"i": [1, -1]}},
                            ),
                            "dtype": "DT_FLOAT16",
                            "layout": "NC1HWC0",
                            "shape": {"dim": [1, 1, 2, 2, 16]},
                        }
                    ],
                    "type": "Conv2D",
                },
            ],
        }
    ],
    "name": "m",
    "version": 2,
}


@pytest.fixture
def read(tmp_path):
    def read_text(text, name="model.json"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return read_graph(path)

    return read_text


@pytest.mark.parametrize("name", ["model.json", "model.om", "model.onnx", "model"])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_converted_model(read, name, indent):
    graph = read(json.dumps(MODEL, indent=indent), name)
    data, fused = graph.ops
    assert (graph.name, graph.format, graph.kind) == ("g", "ge_json", "device")
    assert graph.attrs == {
        "framework_type": "Onnx",
        "stream_num": 1,
        "ratio": 0.1,
        "_session_graph_id": "-1_0",
    }
    assert data.outputs[0].dtype is DType.FLOAT32
    assert fused.original_names == ("conv", "relu")
    assert [ref and str(ref.producer) for ref in fused.inputs] == ["x:0", None]
    assert (fused.control_inputs, fused.sequence) == (("x",), 4)
    assert (fused.outputs[0].layout, fused.outputs[0].shape) == ("NC1HWC0", (1, 1, 2, 2, 16))
    assert (fused.outputs[0].origin.op, fused.outputs[0].origin.shape) == ("relu", (1, None))
    assert fused.attrs == {
        "_datadump_original_op_names": ("conv", "relu"),
        "dst_type": 1,
        "_is_custom_op": False,
        "empty": (),
        "value": "tensor int64[2]",
    }


def test_maps_may_be_objects_and_lists_single_values(read):
    op = {"name": "a", "type": "Abs", "attr": {"k": {"i": 3}, "s": {"s": "t"}}}
    (found,) = read(json.dumps({"graph": {"op": op, "name": "g"}})).ops
    assert found.attrs == {"k": 3, "s": "t"}


def test_names_kept_as_codes_are_what_they_were(read):
    tables = attrs(
        om_compress_version={"i": 1},
        attr_name_enum={"list": {"s": ["first", "_datadump_original_op_names"]}},
        attr_value_enum={"list": {"s": ["conv"]}},
        attrs_use_string_value={"list": {"b": [False, True]}},
    )
    op = {"name": "a", "type": "Abs", "attr": attrs(**{"\0\2": {"list": {"i": [0]}}})}
    (found,) = read(json.dumps({"attr": tables, "graph": [{"op": [op], "name": "g"}]})).ops
    assert found.original_names == ("conv",)


def test_who_reads_it_and_why(tmp_path):
    path = tmp_path / "anything"
    path.write_text(json.dumps(MODEL), encoding="utf-8")
    ((importer, found),) = detect(path)
    assert (importer.name, found.confidence) == ("ge_json", 2)
    assert '"graph"' in found.reason


@pytest.mark.parametrize(
    "text",
    ['{"graph": []}', '{"nodes": [{"attr": {"key": 1}}]}', "[1, 2]", '{"op": 1, "type": 2}'],
)
def test_other_json_is_not_taken(read, text):
    with pytest.raises(ImportFormatError, match="a JSON text"):
        read(text)


GRAPH = '{"graph": [{"op": [\n'


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (GRAPH + '{"name": "a",}]}]}', 2, "broken JSON"),
        (GRAPH + '{"name": "a"', 2, "broken JSON"),
        (GRAPH + '{"name": "a"}', 2, "ends too early"),
        (GRAPH + '{"name": "a"} {"name": "b"}]}]}', 2, "'{' where ']' belongs"),
        (GRAPH + '{"name": "a"}]}]} {}', 2, "more text after the end"),
        (GRAPH + '{"name": "a"}]}]', 2, "ends too early"),
        (GRAPH + '{"name": 5}]}]}', 2, "5 where a text belongs"),
        (GRAPH + '{"type": "Abs"}]}]}', 2, "an op without a name"),
        (GRAPH + "7]}]}", 2, "'7' where an object belongs"),
        (GRAPH + '{"name": "a", "id": 1.5}]}]}', 2, "1.5 where a whole number belongs"),
        (GRAPH + '{"name": "a", "id": true}]}]}', 2, "True where a whole number belongs"),
        (GRAPH + '{"name": "a", "id": ' + "9" * 5000 + "}]}]}", 2, "with too many digits"),
        (GRAPH + '{"name": "a", "id": ' + "9" * 25 + "}]}]}", 2, "does not fit into 64 bits"),
        (GRAPH + '{"name": "a", "input": [["b"]]}]}]}', 2, "a list in a list"),
        (GRAPH + '{"name": "a", "attr": [3]}]}]}', 2, "3 where a block belongs"),
        (GRAPH + '{"name": ' + "[" * 100_000, 2, "nested too deep"),
        ('{"graph": [{"op": [], "name": "g"}]}', 1, "no op in its first graph"),
        ('{"graph": 3, "op": 1}', 1, "'3' where '{' belongs"),
        ('{"attr": [{"key": 1, "value": {"i": 2}}], "graph": []}', 1, "1 where a text belongs"),
    ],
)
def test_broken_json_says_where(read, text, line, what):
    with pytest.raises(ImportFormatError, match=what) as caught:
        read(text)
    assert caught.value.line == line
    assert "\n" not in str(caught.value)


def test_a_file_cut_or_damaged_anywhere(tmp_path):
    text = json.dumps(MODEL).encode()
    path = tmp_path / "model.json"
    for end in range(60, len(text), 11):
        path.write_bytes(text[:end])
        with pytest.raises(ImportFormatError):
            read_graph(path)
    rng = random.Random(2)
    contents = (changed(text, rng, b'{}[]":,\\\x00\xff9') for _ in range(300))
    assert endings(path, contents) == {"read", "refused"}


@pytest.mark.shared
def test_the_json_of_a_real_model(shared_data):
    graph = read_graph(shared_data / "om" / "model.json")
    assert (graph.name, len(graph.ops)) == ("sub_model_NPU_0", 19)
    assert (graph.ops[0].name, graph.ops[-1].name) == ("boxes_all", "Node_Output")
    types = [op.type for op in graph.ops]
    assert (types.count("Cast"), types.count("Const"), types.count("Transpose")) == (5, 4, 2)
    assert [tensor.shape for tensor in graph.inputs] == [(1000, 80, 4), (1000, 80)]
    assert graph.attrs["soc_version"] == "Ascend310"
    assert graph.warnings == ()
