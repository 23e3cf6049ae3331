"""Where the shapes of pictures stand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from full_run import feed, sample_run
from hypothesis import given
from hypothesis import strategies as st

from divergraph.server.pages.pictures.layered_layout import layered
from divergraph.server.pages.pictures.near_ops import MOST, near_ops
from divergraph.server.pages.pictures.neighbourhood import neighbourhood
from graphstore.contract import GraphStore
from graphstore.model import Framework, GraphKind, ModelGraph, Op, Side, Tensor
from graphstore.open_store import open_store

EDGES = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30, unique=True)


@given(EDGES)
def test_nothing_overlaps_and_lines_go_from_end_to_end(edges: list[tuple[int, int]]) -> None:
    edges = [edge for edge in edges if edge[0] != edge[1]]
    drawing = layered(12, edges)
    for layer in range(drawing.layers):
        across = sorted(column for column, at in drawing.places if at == layer)
        assert all(after - before > 0.999 for before, after in pairwise(across))
    for source, target in edges:
        route = drawing.routes[source, target]
        assert (route[0], route[-1]) == (drawing.places[source], drawing.places[target])
        assert all(abs(below - above) <= 1 for (_, above), (_, below) in pairwise(route))
        if source < target:
            assert drawing.places[source][1] < drawing.places[target][1]


@pytest.fixture
def wide(tmp_path) -> GraphStore:
    """A graph in which ``hub`` is read by a hundred ops, and ``end`` by nobody."""
    readers = [f"reader{at}" for at in range(100)]
    ops = (
        Op("hub", "hub", "Const", outputs=(Tensor("hub:0", shape=(7,)),)),
        *(
            Op(name, name, "Relu", (feed("hub"),), outputs=(Tensor(f"{name}:0"),))
            for name in readers
        ),
        Op("end", "end", "Add", (feed("reader0"), feed("reader1")), outputs=(Tensor("end:0"),)),
    )
    graph = ModelGraph("wide", GraphKind.DEVICE, Framework.ASCEND, "ge_proto", ops)
    with open_store(str(tmp_path / "store")) as store:
        store.save_graph(graph, "wide")
        yield store


def test_a_neighbourhood_is_small_and_says_what_it_leaves_out(wide: GraphStore) -> None:
    near = near_ops(wide, "wide", "hub", Side.DEVICE)
    assert len(near.rows) <= MOST
    assert near.hidden[near.focus] == 92
    picture = neighbourhood(near, "state")
    assert {box.row.id for box in picture.boxes if box.is_focus} == {"hub"}
    assert {line.text for line in picture.lines} <= {"7", "?"}


def test_a_hub_is_shown_and_not_gone_beyond(wide: GraphStore) -> None:
    near = near_ops(wide, "wide", "end", Side.DEVICE)
    assert {row.id for row in near.rows} == {"hub", "reader0", "reader1", "end"}


def test_fused_originals_stand_in_their_box(tmp_path) -> None:
    with open_store(str(tmp_path / "store")) as store:
        store.save_run(sample_run("first"))
        near = near_ops(store, "first", "conv", Side.DEVICE)
    (box,) = [each for each in neighbourhood(near, "state").boxes if each.is_focus]
    texts = [text for _, text in box.lines]
    assert texts[-4:] == ["fused of 3:", "  conv", "  block/bias", "  block/relu"]
