"""Columns of the embedded engine's answers as Python's own values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from graphstore.contract import QueryResult
from graphstore.cypher.arrow_columns import values_of
from graphstore.cypher.returned_names import with_lists_in_order
from graphstore.embedded.spelling import for_engine, with_bounds


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
    ("cypher", "engine_text"),
    [
        ("RETURN o.ids[0], l[ 2 ]", "RETURN coalesce(nullif(o.ids[1:1], []), [null])[1], l[3]"),
        ("RETURN o.ids[-1]", "RETURN coalesce(nullif(o.ids[-1:-1], []), [null])[1]"),
        ("RETURN collect(o.x)[0][1], $in[0]", "RETURN collect(o.x)[1][2], $in[1]"),
        ("RETURN l[1..3], l[..2], l[1..], l[-2..-1]", "RETURN l[2..3], l[..2], l[2..], l[-2..-2]"),
        ("RETURN l[m[0]]", "RETURN l[CASE WHEN (m[1]) < 0 THEN m[1] ELSE (m[1]) + 1 END]"),
        ("MATCH (a)-[:FEEDS*1..9]->(b) WHERE a.x IN [1, 2] RETURN [0], m['k'], l[1:2]", None),
        ("MATCH (a)<-[r]-(b) UNWIND [3] AS x RETURN 'l[0]' // l[0]", None),
    ],
)
def test_places_in_lists_count_from_zero(cypher, engine_text) -> None:
    assert for_engine(cypher) == (engine_text or cypher)


@pytest.mark.parametrize(
    ("cypher", "engine_text"),
    [
        (
            "MATCH (a)-[f {in: 1}]->() WHERE f.in = 1",
            "MATCH (a)-[f {`in`: 1}]->() WHERE f.`in` = 1",
        ),
        ("RETURN labels(n)[0], type(r), o.type", "RETURN [label(n)][1], label(r), o.type"),
        (
            "RETURN round(m.x * 10) / 10, round(1.5, 1)",
            "RETURN round(m.x * 10, 0) / 10, round(1.5, 1)",
        ),
        ("RETURN exists { (o)-[:R]->() }", "RETURN exists { MATCH (o)-[:R]->() }"),
        ("RETURN head(collect(o.x)), last(l)", "RETURN (collect(o.x))[1], l[-1]"),
        ("RETURN COUNT { MATCH (o)-[:R]->() }, count(*)", None),
        (
            "RETURN [x IN l WHERE x > 1 | x * 2]",
            "RETURN list_transform(list_filter(l, x -> x > 1), x -> x * 2)",
        ),
        ("RETURN [n IN nodes(p) | n.name]", "RETURN list_transform(nodes(p), n -> n.name)"),
        ("RETURN [x IN [y IN l | y]]", "RETURN list_transform(l, y -> y)"),
        ("RETURN [x IN l, 2], any(x IN l WHERE x > 1)", None),
    ],
)
def test_what_the_engine_spells_otherwise(cypher, engine_text) -> None:
    assert for_engine(cypher) == (engine_text or cypher)
