"""User Cypher: what passes, what is refused, and where the error points."""

from __future__ import annotations

import pytest

from graphstore.errors import QueryError
from graphstore.queries import Dialect
from graphstore.read_only import check_read_only

HARMLESS = [
    "MATCH (o:Op) RETURN o",
    "match (o:Op) where o.name = 'CREATE (x) SET y DELETE z' return o;",
    'MATCH (o:Op) WHERE o.name = "LOAD CSV FROM \\"x\\" DELETE" RETURN o',
    "MATCH (o:Op) // DELETE o\nRETURN o /* MERGE (x) */",
    "MATCH (o:`CREATE`) RETURN o.`SET`, o.set, o.delete AS removed",
    "MATCH (o {set: 1, load: 2}) RETURN o",
    "MATCH (set:Op)-[create:FEEDS]->(merge) RETURN count(set)",
    "WITH $set AS x RETURN x",
    "MATCH (o:Op:Load|Create) RETURN o",
    "EXPLAIN MATCH (o) RETURN o",
    "UNWIND [1, 2] AS x RETURN x",
]

REFUSED = [
    ("CREATE (:Op)", 0),
    ("MATCH (o) SET o.x = 1", 10),
    ("MATCH (o) DETACH DELETE o", 10),
    ("MATCH (o) REMOVE o.x", 10),
    ("/* MATCH */ MERGE (o:Op)", 12),
    ("MATCH (o) RETURN 'it''s' CREATE (x)", 25),
    ("MATCH (o) RETURN '\\'' DELETE o", 22),
    ("MATCH (o) RETURN `a``b` MERGE (x)", 24),
    ("RETURN 1; DROP TABLE Op", 8),
    ("RETURN 1;;", 8),
    ("COPY Op TO 'x.csv'", 0),
    ("EXPORT DATABASE 'x'", 0),
    ("IMPORT DATABASE 'x'", 0),
    ("ATTACH 'x' AS y", 0),
    ("INSTALL httpfs", 0),
    ("LOAD FROM 'x' RETURN *", 0),
    ("LOAD EXTENSION 'x'", 0),
    ("MATCH (o) LOAD CSV FROM 'http://x' AS l RETURN l", 10),
    ("MATCH (o) FOREACH (x IN [1] | SET o.x = x)", 10),
    ("PROFILE CREATE (:Op)", 8),
    ("EXPLAIN COPY Op TO 'x'", 8),
    ("WITH as CREATE (n)", 8),
    ("MATCH (n) CALL { CREATE (x) } RETURN n", 17),
    ("USE other MATCH (o) RETURN o", 0),
    ("MATCH (o) RETURN 'open", 17),
    ("MATCH (o) /* open", 10),
    ("SHOW USERS", 0),
    ("BEGIN", 0),
]


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("cypher", HARMLESS)
def test_reading_passes(cypher: str, dialect: Dialect) -> None:
    check_read_only(cypher, dialect)


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize(("cypher", "position"), REFUSED)
def test_anything_else_is_refused_at_its_place(
    cypher: str, position: int, dialect: Dialect
) -> None:
    with pytest.raises(QueryError) as caught:
        check_read_only(cypher, dialect)
    if "CALL {" not in cypher or dialect is Dialect.NEO4J:
        assert caught.value.position == position


@pytest.mark.parametrize("cypher", ["", "  \n", "// only a comment", "/* and another */"])
def test_nothing_to_run(cypher: str) -> None:
    with pytest.raises(QueryError, match="empty"):
        check_read_only(cypher, Dialect.EMBEDDED)


def test_calls_by_list() -> None:
    check_read_only("CALL show_tables() RETURN *", Dialect.EMBEDDED)
    check_read_only("CALL db.labels() YIELD label RETURN label", Dialect.NEO4J)
    check_read_only("MATCH (x) CALL (x) { MATCH (x)-->(y) RETURN y } RETURN y", Dialect.NEO4J)
    check_read_only("CALL { MATCH (y) RETURN y } RETURN y", Dialect.NEO4J)


@pytest.mark.parametrize(
    ("cypher", "dialect"),
    [
        ("CALL threads=4", Dialect.EMBEDDED),
        ("CALL show_tables = 4", Dialect.EMBEDDED),
        ("CALL dbms.shutdown()", Dialect.NEO4J),
        ("CALL `dbms`.`shutdown`()", Dialect.NEO4J),
        ("CALL apoc.load.json('x') YIELD value RETURN value", Dialect.NEO4J),
        ("MATCH (x) CALL (x) { DELETE x } IN TRANSACTIONS", Dialect.NEO4J),
        (
            "MATCH (x) CALL (x) { RETURN 1 AS y } IN 2 CONCURRENT TRANSACTIONS RETURN y",
            Dialect.NEO4J,
        ),
    ],
)
def test_other_calls_are_refused(cypher: str, dialect: Dialect) -> None:
    with pytest.raises(QueryError):
        check_read_only(cypher, dialect)
