"""Named queries, ours and those of packs, do on every store what their files say."""

from __future__ import annotations

import pytest
from asking import rows_of

from divergraph.api.query_packs import check_queries
from graphstore.contract import GraphStore
from graphstore.cypher.queries import load, own_queries
from graphstore.cypher.query_check import QueryChecks
from graphstore.cypher.query_packs import known_packs, read_pack
from graphstore.errors import QueryError

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

LOUD = """\
// Answers: ops that feed an op and are off.
// Parameter op: op
// Parameter limit: factor
// Columns: op, error
// Hits op=relu limit=0.1:
//   add: Add error=0.5
//   relu: Relu(add) error=0.5
// Misses op=add limit=0.1:
//   add: Add error=0.5
//   relu: Relu(add) error=0.5
MATCH (m:Metric {run: $run, io: 'output'})-[:OF]->(p:Op)-[:FEEDS]->(o:Op {id: $op})
WHERE m.relative_euclidean_distance > $limit
RETURN p.name AS op, m.relative_euclidean_distance AS error ORDER BY op
"""
CHECKED = [query.name for query in own_queries() if query.cases]


@pytest.mark.parametrize(
    "part",
    [
        slice(0, None, 4),
        *(pytest.param(slice(n, None, 4), marks=pytest.mark.exhaustive) for n in (1, 2, 3)),
    ],
)
def test_our_own_queries_hit_and_miss_where_they_must(store: GraphStore, part: slice) -> None:
    assert len(CHECKED) >= 15
    with QueryChecks(store) as checks:
        asked = (load(name, store.dialect) for name in CHECKED[part])
        assert not [fault for query in asked for fault in checks.faults(query)]
    assert not store.runs(), "the small runs are gone"


def test_a_query_of_a_pack_is_asked_like_ours(store: GraphStore, shaped_run, tmp_path) -> None:
    (tmp_path / "loud.cypher").write_text(LOUD)
    store.save_run(shaped_run("run", [("a", "b"), ("c", "b")], {"a": True, "b": True, "c": False}))
    with known_packs([tmp_path]):
        answer = store.named("loud", "run", {"op": "b", "limit": 0.5})
        assert rows_of(answer) == [{"op": "a", "error": 2.0}]
        assert store.named("loud", "run", {"op": "b", "limit": -1}, limit=1).truncated
        for wrong, said in [({"op": "b"}, "takes"), ({"op": "b", "limit": "x"}, "is a number")]:
            with pytest.raises(QueryError, match=said):
                store.named("loud", "run", wrong)


SPOILT = {
    LOUD.replace("> $limit", ">= $limit * 0").replace("Misses op=add", "Misses op=relu"): (
        8,
        "finds something in a graph in which it must not: add, 0.5",
    ),
    LOUD.replace("> $limit", "> $limit * 9"): (5, "finds nothing in a graph in which it must"),
    LOUD.replace("op, error", "op, size"): (5, "gives the columns op, error"),
    LOUD.replace("Hits op=relu", "Hits op=pool"): (5, "no op named 'pool'"),
    LOUD.replace("Relu(add)", "Relu(sub)", 1): (7, "takes sub, which is no op"),
    LOUD.replace("// Hits", "// Sometimes hits"): (1, "has no `// Hits:` graph"),
}


def test_a_check_says_what_a_query_does_not_do(store: GraphStore, tmp_path) -> None:
    path = tmp_path / "loud.cypher"
    with QueryChecks(store) as checks:
        for text, (line, said) in SPOILT.items():
            path.write_text(text)
            first = next(checks.faults(read_pack("team", tmp_path).queries["loud"]))
            assert (first.place, first.store) == (f"{path}:{line}", store.dialect.value)
            assert said in first.said
    assert not store.runs()


def test_a_pack_is_checked_on_a_store_of_its_own_and_on_that_given(store, tmp_path) -> None:
    path = tmp_path / "loud.cypher"
    path.write_text(LOUD)
    assert not check_queries(tmp_path, store)
    path.write_text(LOUD.replace("op, error", "op"))
    faults = check_queries(path, store)
    assert [fault.store for fault in faults] == ["embedded"] * 2 + [store.dialect.value] * 2
