"""Columns of the embedded engine's answers as Python's own values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from graphstore.contract import QueryResult
from graphstore.cypher.returned_names import with_lists_in_order
from graphstore.embedded.database import _values
from graphstore.embedded.refused import with_bounds


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
    assert _values(column) == column.to_pylist()
    assert list(map(type, _values(column))) == list(map(type, column.to_pylist()))


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
