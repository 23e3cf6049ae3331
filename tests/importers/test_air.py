"""Models in Ascend's IR before the compiler, against protobuf's own writer."""

from __future__ import annotations

from graphstore.model import GraphKind
from importers.registry import detect, read_graph


def test_an_air_model_is_an_original_graph(ge_model, tmp_path):
    model = ge_model()
    model.name, model.version = b"net", 1
    graph = model.graph.add()
    graph.name = b"net"
    data = graph.op.add(name=b"x", type=b"Data")
    data.output_desc.add()
    relu = graph.op.add(name=b"relu", type=b"Relu")
    relu.input.append(b"x:0")
    relu.output_desc.add()
    file = tmp_path / "net.air"
    file.write_bytes(model.SerializeToString())
    assert next(importer.name for importer, _ in detect(file)) == "air"
    found = read_graph(file)
    assert (found.kind, found.format) == (GraphKind.ORIGINAL, "air")
    assert [str(ref) for ref in found.op_index()["relu"].takes] == ["x:0"]
