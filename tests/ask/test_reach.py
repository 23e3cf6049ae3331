"""Which origins lie upstream of each op, against networkx, loops included."""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from divergraph.ask.facts import upstream_of_each
from graphstore.traverse.arrays import arrays_from_edges

SIZE = 8
PAIRS = st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)), max_size=20)


@given(PAIRS, st.lists(st.integers(0, SIZE - 1), unique=True, max_size=4))
def test_each_op_names_the_starts_that_reach_it(edges, starts):
    ids = [f"op{number}" for number in range(SIZE)]
    arrays = arrays_from_edges(ids, ([a for a, _ in edges], [b for _, b in edges]))
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(range(SIZE))
    below = [{after for _, after in nx.edge_bfs(graph, start)} for start in starts]
    assert list(upstream_of_each(arrays, starts)) == [
        tuple(place for place in range(len(starts)) if number in below[place])
        for number in range(SIZE)
    ]


def test_ops_reached_from_the_same_starts_share_the_answer():
    arrays = arrays_from_edges(["a", "b", "c", "d"], ([0, 1, 2], [1, 2, 3]))
    first, second, third, fourth = upstream_of_each(arrays, [0, 1])
    assert (first, second, third) == ((), (0,), (0, 1))
    assert third is fourth
