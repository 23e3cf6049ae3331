"""Offline models to JSON and text: what ``om_compress`` replaced is written out."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from divergraph.graph_formats.ge_schema import model_class
from importers.registry import read_graph


def attr(holder: Any, key: bytes, **value: Any) -> None:
    entry = holder.attr.add(key=key)
    for name, content in value.items():
        if isinstance(content, list):
            kind, _, field = name.partition("_")
            getattr(getattr(entry.value, kind), field).extend(content)
        else:
            setattr(entry.value, name, content)


def offline(*models: Any) -> bytes:
    """An offline model of the given models, their definitions alone."""
    body = b""
    for model in models:
        data = model.SerializeToString()
        body += struct.pack("<I", 1) + struct.pack("<III", 0, 0, len(data)) + data
    header = bytearray(256)
    struct.pack_into("<4sII", header, 0, b"IMOD", 256, 0x20000000)
    struct.pack_into("<I", header, 76, len(body))
    struct.pack_into("<I", header, 156, len(models))
    return bytes(header) + body


@pytest.fixture
def compressed(tmp_path) -> Path:
    """Attribute 0 is a text, 1 a list of texts, 2 a number; kernels and tasks lie in it."""
    model = model_class()(name=b"net", version=2)
    attr(model, b"om_compress_version", i=1)
    attr(model, b"attr_name_enum", list_s=[b"kind", b"_datadump_original_op_names", b"count"])
    attr(model, b"attr_value_enum", list_s=[b"vector", b"conv\303\244", b"relu"])
    attr(model, b"attrs_use_string_value", list_b=[True, True, False])
    attr(model, b"tasks", bt=b"\0" * 9)
    op = model.graph.add(name=b"net_0").op.add(name=b"conv", type=b"Conv2D", id=0)
    attr(op, b"\0\1", i=0)
    attr(op, b"\0\2", list_i=[1, 2])
    attr(op, b"\0\3", i=5)
    attr(op, b"_tbe_kernel_buffer", bt=b"\177ELF")
    attr(op, b"plain", s=b"kept")
    made = op.output_desc.add(dtype=1, layout=b"ND")
    made.shape.SetInParent()
    attr(made, b"\0\1", i=2)
    path = tmp_path / "net.om"
    path.write_bytes(offline(model))
    return path


def test_codes_are_written_out(divergraph, compressed, tmp_path):
    out = tmp_path / "net.json"
    done = divergraph("convert", compressed, "-t", "json", "-out", out)
    assert (done.code, done.err.splitlines()[0]) == (
        0,
        "note: kernels and tasks were left out: they stay in the offline model",
    )
    content = json.loads(out.read_text(encoding="utf-8"))
    (op,) = content["graph"][0]["op"]
    assert {each["key"]: each["value"] for each in op["attr"]} == {
        "kind": {"s": "vector"},
        "_datadump_original_op_names": {"list": {"s": ["convä", "relu"]}},
        "count": {"i": 5},
        "plain": {"s": "kept"},
    }
    assert op["output_desc"][0]["attr"] == [{"key": "kind", "value": {"s": "relu"}}]
    assert "tasks" not in {each["key"] for each in content["attr"]}


@pytest.mark.parametrize("form", ["json", "ge_proto"])
def test_the_graph_comes_back(divergraph, compressed, tmp_path, form):
    out = tmp_path / "out"
    assert divergraph("convert", compressed, "-t", form, "-out", out).code == 0
    (was,), (is_now,) = read_graph(compressed).ops, read_graph(out).ops
    assert is_now.original_names == was.original_names == ("convä", "relu")
    assert is_now.outputs == was.outputs
    kept = {k: v for k, v in was.attrs.items() if k != "_tbe_kernel_buffer"}
    assert dict(is_now.attrs) == kept


def test_graphs_of_all_models_are_joined(divergraph, tmp_path):
    """A later model of a file is the compiled form of a sub-graph of the first one."""
    root, inner = model_class()(), model_class()()
    call = root.graph.add(name=b"root").op.add(name=b"call", type=b"PartitionedCall")
    call.subgraph_name.append(b"sub")
    root.graph.add(name=b"sub").op.add(name=b"early", type=b"Add")
    inner.graph.add(name=b"sub").op.add(name=b"compiled", type=b"Add")
    path, out = tmp_path / "two.om", tmp_path / "two.json"
    path.write_bytes(offline(root, inner))
    assert divergraph("convert", path, "-t", "json", "-out", out).code == 0
    graphs = json.loads(out.read_text())["graph"]
    assert [(g["name"], g["op"][0]["name"]) for g in graphs] == [
        ("root", "call"),
        ("sub", "compiled"),
    ]


def test_a_code_out_of_range_is_damage(divergraph, compressed, tmp_path):
    data = compressed.read_bytes()
    compressed.write_bytes(data.replace(b"\n\2\0\3", b"\n\2\0\11"))
    done = divergraph("convert", compressed, "-t", "json", "-out", tmp_path / "x")
    assert done.code == 2
    assert "attribute code 8 of 3" in done.err
    assert not (tmp_path / "x").exists()


def test_attributes_nested_as_deep_as_can_be_read(divergraph, tmp_path):
    path, out = tmp_path / "ge_proto_1.txt", tmp_path / "out"
    for depth in (10, 45, 60):
        inner = 'attr { key: "g" value { g { ' * depth
        path.write_text(f'graph {{ op {{ name: "a" type: "T" {inner}{"} } } " * depth} }} }}')
        done = divergraph("convert", path, "-t", "json", "-out", out)
        assert done.code in (0, 2)
        assert "internal error" not in done.err
