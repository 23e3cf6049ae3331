"""Whatever a graph holds, its ge_proto text and its JSON give the same graph when read."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from divergraph.graph_formats.ge_from_graph import to_ge
from divergraph.graph_formats.ge_writers import write_json, write_text
from graphstore.model import (
    DType,
    Framework,
    GraphKind,
    InputRef,
    ModelGraph,
    Op,
    Subgraph,
    Tensor,
    TensorOrigin,
    TensorRef,
    op_id,
)
from importers.ge_json.importer import read_ge_json
from importers.ge_proto.importer import read_ge_text

# Any text but lone surrogates, which no file of UTF-8 can hold.
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
ints = st.integers(-(1 << 63), (1 << 63) - 1)
floats = (
    st.floats(width=32)
    .filter(lambda value: value == value)
    .map(lambda value: value if value in (float("inf"), -float("inf")) else shortest(value))
)
scalars = st.one_of(texts, ints, floats, st.booleans())
attr_values = st.one_of(
    scalars,
    st.lists(texts, max_size=4).map(tuple),
    st.lists(ints, max_size=4).map(tuple),
    st.lists(floats, max_size=4).map(tuple),
    st.lists(st.booleans(), max_size=4).map(tuple),
    st.lists(st.lists(ints, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple),
)
KEPT = {"_parent_node_index", "_datadump_original_op_names"}
attrs = st.dictionaries(texts.filter(lambda key: key not in KEPT), attr_values, max_size=4)
shapes = st.none() | st.lists(st.none() | st.integers(0, 1 << 40), max_size=4).map(tuple)
no_number = (DType.UINT4, DType.FLOAT8_E4M3FNUZ, DType.FLOAT8_E5M2FNUZ)
dtypes = st.none() | st.sampled_from([dtype for dtype in DType if dtype not in no_number])
layouts = st.none() | st.sampled_from(["NCHW", "NC1HWC0", "FRACTAL_Z:4", "ND", "odd one"])
origins = st.none() | st.builds(
    TensorOrigin, texts, st.integers(0, 9), layout=layouts, dtype=dtypes, shape=shapes
)


def shortest(value: float) -> float:
    """The number as readers of GE's files give it: with the fewest digits of a float32."""
    return float(str(np.float32(value)))


@st.composite
def bodies(draw: st.DrawFn, body: str) -> list[Op]:
    """The ops of one body: each takes outputs of others, in any order, by data or control."""
    names = draw(st.lists(texts.filter(bool), min_size=1, max_size=5, unique=True))
    ops = []
    outputs = {name: draw(st.integers(0, 3)) for name in names}
    sources = [(name, port) for name, count in outputs.items() for port in range(count)]
    for name in names:
        taken = draw(st.lists(st.none() | st.sampled_from(sources), max_size=3)) if sources else []
        ops.append(
            Op(
                id=op_id(name, body),
                name=name,
                type=draw(texts),
                inputs=tuple(
                    None
                    if each is None
                    else InputRef(f"{each[0]}:{each[1]}", TensorRef(op_id(each[0], body), each[1]))
                    for each in taken
                ),
                control_inputs=tuple(
                    op_id(each, body) for each in draw(st.lists(st.sampled_from(names), max_size=2))
                ),
                outputs=tuple(
                    draw(
                        st.builds(
                            Tensor, st.just(f"{name}:{port}"), dtypes, shapes, layouts, origins
                        )
                    )
                    for port in range(outputs[name])
                ),
                attrs=draw(attrs),
                subgraph=body,
                original_names=draw(
                    st.none() | st.lists(texts.filter(bool), max_size=3).map(tuple)
                ),
            )
        )
    return ops


@st.composite
def graphs(draw: st.DrawFn) -> ModelGraph:
    root = draw(bodies(""))
    inner = draw(bodies("inner")) if root and draw(st.booleans()) else []
    subgraphs = []
    if inner:
        owner = root[0]
        subgraphs = [Subgraph("inner", owner.id, "")]
        root[0] = Op(
            owner.id,
            owner.name,
            "Odd",
            owner.inputs,
            owner.control_inputs,
            owner.outputs,
            owner.attrs,
            owns=("inner",),
            original_names=owner.original_names,
        )
    return ModelGraph(
        "net",
        GraphKind.DEVICE,
        Framework.ASCEND,
        "test",
        tuple(root + inner),
        tuple(subgraphs),
        attrs=draw(attrs),
    )


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=graphs().filter(lambda graph: bool(graph.ops)))
def test_any_graph_comes_back(tmp_path: Path, form: str, graph: ModelGraph) -> None:
    path = tmp_path / "graph"
    out = io.StringIO()
    model, notes = to_ge(graph)
    if form == "text":
        write_text(model, out)
    else:
        write_json(model, out, offline=False)
    path.write_text(out.getvalue(), encoding="utf-8", newline="")
    again = read_ge_text(path) if form == "text" else read_ge_json(path)
    assert notes == []
    assert [op.id for op in again.ops] == [op.id for op in graph.ops]
    for was, is_now in zip(graph.ops, again.ops, strict=True):
        kept = {k: v for k, v in is_now.attrs.items() if k != "_datadump_original_op_names"}
        assert kept == was.attrs
        for field in (
            *("name", "type", "inputs", "control_inputs", "outputs", "subgraph", "owns"),
            "original_names",
        ):
            assert getattr(is_now, field) == getattr(was, field), field
    assert list(again.edges()) == list(graph.edges())
    assert [(b.name, b.owner) for b in again.subgraphs] == [
        (b.name, b.owner) for b in graph.subgraphs
    ]
    assert again.attrs == graph.attrs
