"""One graph in all of GE's forms: text, JSON and offline model give the same values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from graphstore.errors import ImportFormatError
from graphstore.model import ModelGraph, Op
from importers.registry import read_graph

pytestmark = pytest.mark.thorough

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAME = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)
INT = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(width=32, allow_nan=False)
DTYPE = st.integers(0, 4) | st.sampled_from([7, 8, 11, 27])
DIMS = st.lists(st.integers(-2, 300), max_size=5)
LAYOUT = st.sampled_from(["", "ND", "NCHW", "NC1HWC0", "FRACTAL_Z", "FORMAT_RESERVED"])
ATTR_KEYS = st.sampled_from(
    [
        "_datadump_origin_name",
        "_datadump_origin_output_index",
        "_datadump_original_op_names",
        "origin_format",
        "origin_shape",
        "_parent_node_index",
        "other",
        'odd "key"\n\u6211',
    ]
)


@st.composite
def attrs(draw: Any, depth: int = 1) -> dict[str, Any]:
    return draw(st.dictionaries(ATTR_KEYS, attr_values(depth), max_size=4))


def attr_values(depth: int) -> Any:
    plain = (
        st.builds(lambda v: {"s": v.encode()}, TEXT)
        | st.builds(lambda v: {"i": v}, INT)
        | st.builds(lambda v: {"f": v}, FLOAT)
        | st.builds(lambda v: {"b": v}, st.booleans())
        | st.builds(lambda v: {"dt": v}, st.integers(0, 41))
        | st.builds(lambda v: {"func": {"name": v}}, TEXT)
        | st.builds(lambda v: {"list": {"s": [t.encode() for t in v]}}, st.lists(TEXT, max_size=3))
        | st.builds(lambda v: {"list": {"i": v}}, st.lists(INT, max_size=4))
        | st.builds(lambda v: {"list": {"f": v}}, st.lists(FLOAT, max_size=4))
        | st.builds(lambda v: {"list": {"b": v}}, st.lists(st.booleans(), max_size=4))
        | st.builds(
            lambda v: {"list_list_int": {"list_list_i": [{"list_i": row} for row in v]}},
            st.lists(st.lists(INT, max_size=3), max_size=3),
        )
        | st.just({})
    )
    if depth == 0:
        return plain
    return plain | st.builds(lambda v: {"td": v}, descs(0)) | st.builds(tensor, descs(0))


def tensor(desc: dict[str, Any]) -> dict[str, Any]:
    return {"t": {"desc": desc, "data": b""}}


def descs(depth: int = 1) -> Any:
    return st.fixed_dictionaries(
        {"dtype": DTYPE, "shape": st.fixed_dictionaries({"dim": DIMS}), "layout": LAYOUT},
        optional={"attr": attrs(depth), "size": INT},
    )


OPS = st.fixed_dictionaries(
    {
        "name": NAME,
        "type": st.sampled_from(["Conv2D", "Const", "Data", "NetOutput", "PartitionedCall"]),
    },
    optional={
        "input": st.lists(st.one_of(st.just(""), NAME.map("{}:0".format)), max_size=3),
        "attr": attrs(),
        "id": st.integers(0, 99),
        "input_desc": st.lists(descs(), max_size=2),
        "output_desc": st.lists(descs(), max_size=3),
        "subgraph_name": st.lists(st.sampled_from(["g1", "g2", "gone"]), max_size=2),
    },
)
GRAPHS = st.lists(st.lists(OPS, min_size=1, max_size=4), min_size=1, max_size=3)


def made(ge_model: Any, graphs: list[list[dict[str, Any]]]) -> Any:
    """The message; like GE it writes no attribute value, list or data that is not there."""
    parts = [{"name": f"g{number}", "op": ops} for number, ops in enumerate(graphs)]
    return ge_model(graph=parts)


def same_but_for_the_file(graph: ModelGraph) -> ModelGraph:
    attrs = {key: value for key, value in graph.attrs.items() if not key.startswith("om_")}
    ops = tuple(without_places(op) for op in graph.ops)
    return replace(graph, ops=ops, attrs=attrs, format="", source="", sha256="")


def without_places(op: Op) -> Op:
    kept = {key: v for key, v in op.attrs.items() if not key.startswith("weight_")}
    return replace(op, attrs=kept)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("forms")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(graphs=GRAPHS)
def test_all_forms_of_a_graph_read_the_same(folder, ge_model, om_bytes, atc_json, graphs):
    message = made(ge_model, graphs)
    forms = {
        "ge_proto": text_format.MessageToString(message, as_utf8=True).encode(),
        "short": text_format.MessageToString(message, as_one_line=True).encode(),
        "ge_json": atc_json(message).encode(),
        "om": om_bytes([(0, message.SerializeToString())]),
        "wide": om_bytes([(0, message.SerializeToString()), (1, b"")], wide=True),
        "old": om_bytes([(1, b""), (0, message.SerializeToString())], version=0x10000000),
    }
    read = {}
    for form, content in forms.items():
        path = folder / "graph.dat"
        path.write_bytes(content)
        graph = read_graph(path)
        assert graph.format == {"short": "ge_proto", "wide": "om", "old": "om"}.get(form, form)
        read[form] = same_but_for_the_file(graph)
    first = read.pop("ge_proto")
    for form, graph in read.items():
        assert graph == first, form


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(graphs=GRAPHS)
def test_text_says_what_protobuf_says(folder, ge_model, graphs):
    message = made(ge_model, graphs)
    path = folder / "graph.txt"
    path.write_text(text_format.MessageToString(message), encoding="utf-8")
    graph = read_graph(path)
    nodes = [node for part in message.graph for node in part.op]
    for op, node in zip(graph.ops, nodes, strict=True):
        assert (op.name, op.type) == (node.name, node.type)
        said = {key for key, attr in node.attr.items() if attr.WhichOneof("value")}
        assert set(op.attrs) == said
        for key in said:
            kind = node.attr[key].WhichOneof("value")
            if kind in ("i", "b", "f"):
                assert op.attrs[key] == pytest.approx(getattr(node.attr[key], kind), rel=1e-7)
            elif kind == "s":
                assert op.attrs[key] == node.attr[key].s.decode()


def officially(ge_model: Any, text: str) -> Any:
    """What protobuf reads, None where it refuses.

    An escape nobody defined (``\\e``) it takes for now, with a warning, which is an error here.
    """
    try:
        return text_format.Parse(text, ge_model())
    except (text_format.ParseError, UnicodeDecodeError, DeprecationWarning):
        return None


def ours(path: Any, text: str) -> ModelGraph | ImportFormatError:
    path.write_text(text, encoding="utf-8")
    try:
        return read_graph(path)
    except ImportFormatError as error:
        return error


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(graphs=GRAPHS, data=st.data())
def test_a_cut_text_is_refused_where_protobuf_refuses_it(folder, ge_model, graphs, data):
    text = text_format.MessageToString(made(ge_model, graphs), as_utf8=True)
    cut = text[: data.draw(st.integers(1, len(text)))]
    model = officially(ge_model, cut)
    found = ours(folder / "graph.txt", cut)
    if model is None:
        assert isinstance(found, ImportFormatError)
        assert found.line is not None or "not a graph" in str(found)
    else:
        assert isinstance(found, ModelGraph)
        assert len(found.ops) == sum(len(part.op) for part in model.graph)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(graphs=GRAPHS, data=st.data())
def test_what_protobuf_reads_of_a_changed_text_we_read_too(folder, ge_model, graphs, data):
    text = text_format.MessageToString(made(ge_model, graphs), as_utf8=True)
    at = data.draw(st.integers(0, len(text) - 1))
    sign = data.draw(st.sampled_from(["", *" \n;,:#{}<>[]'\"\\x0-.a9"]))
    changed = text[:at] + sign + text[at + data.draw(st.integers(0, 1)) :]
    model = officially(ge_model, changed)
    if model is None or not model.graph or not model.graph[0].op:
        return
    if any(not node.name for part in model.graph for node in part.op):
        return  # protobuf does not ask for a name
    found = ours(folder / "graph.txt", changed)
    assert isinstance(found, ModelGraph), found
    nodes = [node for part in model.graph for node in part.op]
    assert [(op.name, op.type) for op in found.ops] == [(node.name, node.type) for node in nodes]
    for op, node in zip(found.ops, nodes, strict=True):
        said = {key for key, attr in node.attr.items() if attr.WhichOneof("value")}
        assert set(op.attrs) == said
