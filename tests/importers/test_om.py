"""Offline models: containers of all ages, several models, compressed attributes."""

from __future__ import annotations

import pytest
from offline_models import ABS, DATA, NAMES, code, compressed, const, model

from graphstore.errors import ImportFormatError
from importers.om.constants import weights
from importers.om.container import Tables, read_tables
from importers.registry import detect, read_graph


@pytest.mark.parametrize("ending", [".om", ".onnx", ".txt", ""])
def test_the_first_bytes_tell(tmp_path, om_bytes, ge_model, ending):
    path = tmp_path / f"model{ending}"
    path.write_bytes(om_bytes([(0, model(ge_model, DATA, ABS))]))
    ((importer, found), *others) = detect(path)
    assert (importer.name, found.confidence) == ("om", 2)
    assert "IMOD" in found.reason
    assert not [each for each in others if each[1].confidence == 2]


@pytest.mark.parametrize(
    "options",
    [{}, {"wide": True}, {"version": 0x10000000}],
    ids=["32 bit", "64 bit", "header version 1"],
)
def test_containers_of_every_kind(om, ge_model, options):
    tasks, kernels = b"T" * 7, b"\x7fELF" * 3
    parts = [(0, model(ge_model, DATA, ABS)), (1, b""), (3, kernels), (2, tasks)]
    graph = read_graph(om(parts, **options))
    assert [op.id for op in graph.ops] == ["x", "abs"]
    assert graph.ops[1].inputs[0].producer.op == "x"
    size = len(parts[0][1])
    table = 4 + 4 * 12 if not options.get("wide") else 8 + 4 * 24
    start = 256 + table
    assert graph.attrs["om_partitions"] == (
        f"model definition: {size} bytes at {start}",
        f"weights: 0 bytes at {start + size}",
        f"kernels: 12 bytes at {start + size}",
        f"tasks: 7 bytes at {start + size + 12}",
    )
    assert graph.attrs["om_platform_version"] == "1.11"


def test_binaries_stay_in_the_file(om, ge_model):
    attrs = {"tasks": {"bt": b"\0" * 5000}, "long": {"s": b"x" * 50_000}}
    op = {**ABS, "attr": {"_tbe_kernel_buffer": {"bt": b"\1" * 300}}}
    graph = read_graph(om([(0, model(ge_model, DATA, op, **attrs))]))
    assert graph.attrs["tasks"] == "5000 bytes, left out"
    assert graph.attrs["long"] == "text of 50000 characters, left out"
    assert graph.ops[1].attrs["_tbe_kernel_buffer"] == "300 bytes, left out"


def test_compressed_attributes_are_what_they_were(om, ge_model):
    flags = [index in (2, 129, 200) for index in range(300)]
    desc = {"dtype": 1, "attr": {code(129): {"i": 1}, "origin_format": {"s": b"NHWC"}}}
    op = {
        "name": "fused",
        "type": "Conv2D",
        "attr": {
            code(2): {"list": {"i": [1, 0]}},
            code(200): {"i": 2},
            code(299): {"i": -4},
            "plain": {"b": True},
        },
        "output_desc": [desc],
    }
    tables = compressed(NAMES, [b"conv", b"relu", "\u6211".encode()], flags)
    (read,) = read_graph(om([(0, model(ge_model, op, **tables))])).ops
    assert read.original_names == ("relu", "conv")
    assert read.outputs[0].origin.op == "relu"
    assert read.outputs[0].origin.layout == "NHWC"
    assert read.attrs == {
        "_datadump_original_op_names": ("relu", "conv"),
        "key200": "\u6211",
        "key299": -4,
        "plain": True,
    }


def test_a_later_model_is_a_body_and_its_codes_may_lead_to_the_first(om, ge_model):
    call = {**ABS, "name": "call", "type": "PartitionedCall", "subgraph_name": ["sub"]}
    index = {"i": 0}
    inner = {"name": "d", "type": "Data", "attr": {code(130): index}}
    abs_ = {"name": "a", "type": "Abs", "input": ["d:0"], "attr": {code(7): {"i": 1}}}
    end = {
        "name": "o",
        "type": "NetOutput",
        "input": ["a:0"],
        "input_desc": [{"dtype": 1, "attr": {code(130): index}}],
    }
    tables = compressed(NAMES, [b"zero", b"one"], [number == 7 for number in range(300)])
    root = ge_model(
        graph=[{"name": "root", "op": [DATA, call]}, {"name": "sub", "op": [inner, abs_, end]}],
        attr=tables,
    )
    again = compressed([code(130), code(7)], [], [False, False])
    sub = ge_model(
        graph=[
            {
                "name": "sub",
                "op": [
                    {**inner, "attr": {code(0): index}},
                    {**abs_, "attr": {code(1): {"i": 1}}, "id": 9},
                    {**end, "input_desc": [{"dtype": 1, "attr": {code(0): index}}]},
                    const("w", (2,), "ND", None, 0, 4),
                ],
            }
        ],
        attr=again,
    )
    blocks = [(0, root.SerializeToString())], [(0, sub.SerializeToString()), (1, b"\0<\0@")]
    path = om(*blocks, wide=True)
    graph = read_graph(path)
    assert [op.id for op in graph.ops] == ["x", "call", "sub/d", "sub/a", "sub/o", "sub/w"]
    (body,) = graph.subgraphs
    assert (body.owner, body.inputs) == ("call", ((0, "sub/d"),))
    assert [(port, str(ref)) for port, ref in body.outputs] == [(0, "sub/a:0")]
    assert graph.op_index()["sub/a"].attrs["key7"] == "one"
    assert weights(path)["sub/w"].tolist() == [1.0, 2.0]
    assert graph.attrs["om_partitions"][1].startswith("model 2, model definition")


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        (code(300), {"i": 1}, "attribute code 300 of 300"),
        (code(5), {"i": 7}, "text 7 of 1"),
        (code(5), {"i": -1}, "text -1 of 1"),
        ("\0", {"i": 1}, "is not an attribute code"),
        ("\0" + "\x7f" * 9, {"i": 1}, "is not an attribute code"),
        ("\0\u6211", {"i": 1}, "is not an attribute code"),
    ],
)
def test_codes_that_stand_for_nothing(om, ge_model, key, value, what):
    op = {**ABS, "attr": {key: value}}
    tables = compressed(NAMES, [b"one"], [True] * 300)
    with pytest.raises(ImportFormatError, match=what) as caught:
        read_graph(om([(0, model(ge_model, op, **tables))]))
    assert caught.value.offset


def test_an_unknown_compression_is_refused():
    entry = [(b"key", "om_compress_version"), (b"value", [(b"i", 2)])]
    with pytest.raises(ValueError, match="way 2; only way 1"):
        read_tables([entry], None)
    assert read_tables([], None) == Tables()


@pytest.mark.shared
def test_a_real_model_is_the_graph_its_json_says(shared_data):
    made = read_graph(shared_data / "om" / "autoencoder_hh_om.om")
    told = read_graph(shared_data / "dumps" / "autoencoder_hh" / "hh_om.json")
    assert (made.name, len(made.ops)) == ("hh_om_0", 46)
    assert sum(op.is_fused for op in made.ops) == 9
    assert list(made.edges()) == list(told.edges())
    for op, same in zip(made.ops, told.ops, strict=True):
        assert (op.id, op.type, op.outputs, op.original_names) == (
            same.id,
            same.type,
            same.outputs,
            same.original_names,
        )
        for key, value in same.attrs.items():
            binary = isinstance(value, str) and value.startswith("bytes, ")
            assert binary or op.attrs[key] == value


@pytest.mark.shared
def test_a_real_file_of_three_models(shared_data):
    path = shared_data / "om" / "dynamic_and_static_graph_without_unfold.om"
    graph = read_graph(path)
    assert [body.owner for body in graph.subgraphs] == ["known_op", "unknown_op"]
    assert [op.subgraph for op in graph.ops] == [""] * 6 + ["sub_1"] * 4 + ["sub_2"] * 4
    assert not any(key.startswith("\0") for op in graph.ops for key in op.attrs)
    ops = graph.op_index()
    assert ops["known_op"].attrs["_kernelname"] == "FakeKernelName"
    assert ops["sub_2/mul"].attrs["_ge_attr_op_kernel_lib_name"] == "aicpu_ascend_kernel"
    assert ops["sub_2/mul"].attrs["OwnerGraphIsUnknown"] is True
    assert sorted(weights(path)) == ["sub_1/const_1", "sub_2/const_2"]
    assert graph.warnings == ()
