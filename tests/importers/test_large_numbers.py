"""Numbers longer than the machine's, anywhere in a text: refused or kept, and the store as well."""

from __future__ import annotations

import pytest

from graphstore.open_store import open_store
from importers.registry import read_graph

GE = """graph {{
  name: "g"
  op {{ name: "x" type: "Data" output_desc {{ name: "y" }} }}
  op {{ name: "a" type: "Relu" id: 1 input: "x:{port}" output_desc {{ name: "y" }} }}
}}
"""
TF = """node {{ name: "x" op: "Placeholder" }}
node {{ name: "a" op: "Relu" input: "x:{port}" }}
"""
FILES = {"ge_proto_1_Build.txt": GE, "graph.pbtxt": TF}
LONG = {
    "damage": "65537",
    "65 bits": "9223372036854775808",
    "below": "-9223372036854775809",
    "digits": "9" * 5000,
}


@pytest.mark.parametrize("port", LONG.values(), ids=LONG)
@pytest.mark.parametrize(("name", "text"), FILES.items(), ids=FILES)
def test_an_output_nobody_has_is_told_and_kept_as_a_name(tmp_path, name, text, port):
    (tmp_path / name).write_text(text.format(port=port))
    graph = read_graph(tmp_path / name)
    (ref,) = next(op for op in graph.ops if op.name == "a").inputs
    assert ref.producer is None
    assert any(f"x:{port[:9]}" in each for each in graph.warnings)
    with open_store(str(tmp_path / "store")) as store:
        store.save_graph(graph, "g")
        assert store.graph("g").ops == graph.ops
