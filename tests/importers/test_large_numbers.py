"""Numbers longer than the machine's, anywhere in a text: refused or kept, and the store as well."""

from __future__ import annotations

import pytest

from graphstore.errors import ImportFormatError
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
    assert all(len(each) < 500 for each in graph.warnings)
    with open_store(str(tmp_path / "store")) as store:
        store.save_graph(graph, "g")
        assert store.graph("g").ops == graph.ops


GE_FIELD = 'graph {{ op {{ name: "x" type: "Data" id: {value} }} }}'
TF_FIELD = """node {{ name: "x" op: "A"
  attr {{ key: "k" value {{ shape {{ dim {{ size: {value} }} }} }} }} }}
"""
CAFFE_FIELD = """name: "n"
layer {{ name: "d" type: "Input" top: "d" input_param {{ shape {{ dim: {value} }} }} }}
"""
FIELDS = {"ge_proto_1_Build.txt": GE_FIELD, "graph.pbtxt": TF_FIELD, "net.prototxt": CAFFE_FIELD}
NO_NUMBERS = {
    "9" * 20: ("9{20}.* does not fit into 64 bits", "'9{20}', which is no whole number from -9"),
    "9" * 6000: ("a number of 6000 digits", r"'9{40}\.\.\.', which is no whole number from -9"),
    "-" + "9" * 6000: ("-9{39}... is no whole", r"'-9{39}\.\.\.', which is no whole number from"),
    "BATCH_SIZE": ("BATCH_SIZE is no whole", r"'BATCH_SIZE', which is no number \(is a letter"),
}
"""What is said of each; Caffe's schema tells which field it is and what it takes."""


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: value[:9])
@pytest.mark.parametrize(("name", "text"), FIELDS.items(), ids=FIELDS)
def test_a_field_that_no_number_fits_is_told(tmp_path, name, text, value):
    """Also the placeholder of a template that was not filled in."""
    (tmp_path / name).write_text(text.format(value=value))
    with pytest.raises(ImportFormatError, match=NO_NUMBERS[value][name == "net.prototxt"]) as told:
        read_graph(tmp_path / name)
    assert len(str(told.value)) < 400
