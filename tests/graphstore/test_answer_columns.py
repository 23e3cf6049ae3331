"""Columns of the embedded engine's answers as Python's own values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from graphstore.contract import QueryResult
from graphstore.cypher.returned_names import with_lists_in_order
from graphstore.embedded.arrow_values import values_of
from graphstore.embedded.refused import with_bounds, with_engine_places


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([["a", None], None, [], ["ü", "b"]], pa.list_(pa.string())),
        ([[1], [2, 3], None], pa.list_(pa.int64())),
        ([[["x"]], None], pa.list_(pa.list_(pa.string()))),
        ([True, None, False], pa.bool_()),
        ([True, False], pa.bool_()),
        ([1, None, 2**62], pa.int64()),
        ([1.5, float("inf")], pa.float64()),
        (["a", None, "ü"], pa.string()),
        ([b"x", None], pa.binary()),
        ([None, None], pa.int64()),
    ],
)
def test_values_and_their_types_are_those_arrow_gives(values, kind) -> None:
    whole = pa.array(values * 2, kind)
    column = pa.chunked_array([whole.slice(1), whole])
    assert values_of(column) == column.to_pylist()
    assert list(map(type, values_of(column))) == list(map(type, column.to_pylist()))


@pytest.mark.parametrize(
    ("cypher", "row"),
    [
        ("MATCH (o) RETURN collect(o.topo), o.ids", ([2, 10], [10, 2])),
        (
            "MATCH (o) WITH collect(DISTINCT o.topo) AS a, o RETURN a AS b, o.ids",
            ([10, 2], [10, 2]),
        ),
        ("MATCH (o) WITH collect(o.topo) AS a, o RETURN a, o.ids ORDER BY a", ([2, 10], [10, 2])),
        ("MATCH (o) WITH o ORDER BY o.x RETURN collect(o.topo) AS a, o.ids", ([10, 2], [10, 2])),
        ("MATCH (o) RETURN size(collect(o.topo)) AS a, o.ids", ([10, 2], [10, 2])),
    ],
)
def test_lists_that_collect_made_are_in_order(cypher, row) -> None:
    answer = QueryResult(("a", "b"), (([10, 2], [10, 2]),))
    assert with_lists_in_order(cypher, answer).rows == (row,)


@pytest.mark.parametrize(
    ("cypher", "bounded"),
    [
        ("WITH o ORDER BY o.x RETURN o", "WITH o ORDER BY o.x SKIP 0 RETURN o"),
        ("WITH o ORDER BY o.x WHERE o.y RETURN o", "WITH o ORDER BY o.x SKIP 0 WHERE o.y RETURN o"),
        ("WITH o ORDER BY o.x LIMIT 3 RETURN o", None),
        ("MATCH (o) WHERE o.x STARTS WITH 'a' RETURN o ORDER BY o.x", None),
        ("WITH o ORDER BY o.call, o.x RETURN o", "WITH o ORDER BY o.call, o.x SKIP 0 RETURN o"),
    ],
)
def test_an_order_gets_the_bound_the_engine_wants(cypher, bounded) -> None:
    assert with_bounds(cypher) == (bounded or cypher)


@pytest.mark.parametrize(
    ("cypher", "for_engine"),
    [
        ("RETURN o.ids[0], o.ids[-1], l[ 2 ]", "RETURN o.ids[1], o.ids[-1], l[3]"),
        ("RETURN collect(o.x)[0][1], $in[0]", "RETURN collect(o.x)[1][2], $in[1]"),
        ("RETURN l[1..3], l[..2], l[1..], l[-2..-1]", "RETURN l[2..3], l[..2], l[2..], l[-2..-2]"),
        ("RETURN l[m[0]]", "RETURN l[CASE WHEN (m[1]) < 0 THEN m[1] ELSE (m[1]) + 1 END]"),
        ("MATCH (a)-[:FEEDS*1..9]->(b) WHERE a.x IN [1, 2] RETURN [0], m['k'], l[1:2]", None),
        ("MATCH (a)<-[r]-(b) UNWIND [3] AS x RETURN 'l[0]' // l[0]", None),
    ],
)
def test_places_in_lists_count_from_zero(cypher, for_engine) -> None:
    assert with_engine_places(cypher) == (for_engine or cypher)
