"""User Cypher: what passes, what is refused, and where the error points."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphstore.cypher.queries import Dialect
from graphstore.cypher.read_only import check_read_only
from graphstore.cypher.text import hop_bounds, parameters, tokens
from graphstore.errors import QueryError

HARMLESS = [
    "MATCH (o:Op) RETURN o",
    "match (o:Op) where o.name = 'CREATE (x) SET y DELETE z' return o;",
    'MATCH (o:Op) WHERE o.name = "LOAD CSV FROM \\"x\\" DELETE" RETURN o',
    "MATCH (o:Op) // DELETE o\nRETURN o /* MERGE (x) */",
    "MATCH (o:`CREATE`) RETURN o.`SET`, o.set, o.delete AS removed",
    "MATCH (o {set: 1, load: 2}) RETURN o",
    "MATCH (set:Op)-[create:FEEDS]->(merge) RETURN count(set)",
    "WITH $set AS x RETURN x",
    "WITH $ set AS x RETURN x LIMIT$load",
    "MATCH (o:Op:Load|Create) RETURN o",
    "EXPLAIN MATCH (o) RETURN o",
    "PROFILE MATCH (o) RETURN o",
    "UNWIND [1, 2] AS x RETURN x",
    "MATCH (set:Op) WHERE set.topo > 1 RETURN set.op, set.type ORDER BY set.op",
    "MATCH (load:Op) WITH load, load.topo AS create RETURN create, load LIMIT 3",
    "RETURN 1 AS set",
    "MATCH (show:Op) WHERE show.topo > 1 RETURN show, show.type AS x ORDER BY show.topo",
    "RETURN 1 AS create ORDER BY create",
    "WITH 1 AS delete RETURN delete",
    "WITH {drop: 1, load: [2]} AS remove RETURN remove.drop + remove.load[0]",
    "MATCH (o:Op) RETURN {copy: o.name, attach: o.type} AS export LIMIT 1",
    "MATCH (o:Op {name: 'a;b'}) RETURN o; ",
    "RETURN 'C:\\\\' AS path, \"it's; DELETE\" AS text",
    "MATCH (a)-[:FEEDS*1..3]->(b) WHERE a.use = b.import RETURN DISTINCT b",
    "MATCH (a:Op) WHERE NOT EXISTS { MATCH (a)-[:FEEDS]->(set) } RETURN a",
    "MATCH (o) RETURN CASE WHEN o.set THEN o.merge ELSE o.drop END AS x",
    "MATCH (o) RETURN count(o) AS install, 2*3 AS use",
    "MATCH (use:Op)-->(set) WHERE use.x = 1 AND set IS NOT NULL RETURN use, set ORDER BY use.x",
    "MATCH (o:Op) RETURN CASE WHEN o.x THEN 1 END AS set UNION RETURN 2 AS set",
    "RETURN 1.5e3, 0.5, 1..2, 1E-5, 0x1F, 0o17, 1_000",
    "MATCH (o:!Load) WHERE o:!(Copy|!Create) RETURN o",
]

REFUSED = [
    ("CREATE (:Op)", 0),
    ("INSERT (:Op)", 0),
    ("MATCH (o) INSERT (:Op)", 10),
    ("MATCH (o) SET o.x = 1", 10),
    ("MATCH (o) DETACH DELETE o", 10),
    ("MATCH (o) NODETACH DELETE o", 10),
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
    ("UNINSTALL httpfs", 0),
    ("LOAD FROM 'x' RETURN *", 0),
    ("LOAD EXTENSION 'x'", 0),
    ("MATCH (o) LOAD FROM 'x' RETURN *", 10),
    ("MATCH (o) LOAD CSV FROM 'http://x' AS l RETURN l", 10),
    ("MATCH (o) load\u2003CSV FROM 'http://x' AS l RETURN l", 10),
    ("MATCH (o)/**/LOAD/**/CSV FROM 'http://x' AS l RETURN l", 13),
    ("RETURN 1 // comment\rCREATE (x)", 20),
    ("MATCH (o) FOREACH (x IN [1] | SET o.x = x)", 10),
    ("PROFILE CREATE (:Op)", 8),
    ("EXPLAIN COPY Op TO 'x'", 8),
    ("EXPLAIN PROFILE CREATE (:Op)", 16),
    ("WITH as CREATE (n)", 8),
    ("WITH 1 AS x CREATE (n)", 12),
    ("RETURN 1CREATE (n)", 8),
    ("RETURN 1.CREATE (n)", 9),
    ("MATCH (o) WITH o.x AS x SHOW\\u000a[TRANSACTIONS]", 28),
    ("MATCH (o) WHERE 1 = 1e0LOAD FROM 'x' RETURN *", 23),
    ("MATCH (o) WHERE 1 = .5E+1CALL other() RETURN *", 25),
    ("MATCH (o) WHERE 1 = 0x1fLOAD FROM 'x' RETURN *", 24),
    ("MATCH (o) WHERE 1 = 1eLOAD FROM 'x' RETURN *", 21),
    ("MATCH (o) WHERE 1 = 1!LOAD FROM 'x' RETURN *", 22),
    ("UNWIND [1] AS x$ LOAD FROM 'x' RETURN *", 17),
    ("UNWIND [1] AS x$$ LOAD FROM 'x' RETURN *", 18),
    ("MATCH (o) WHERE 1 = 1! LOAD FROM 'x' RETURN *", 23),
    ("MATCH (o) LOAD WITH HEADERS (a STRING) FROM 'x' RETURN *", 10),
    ("MATCH (n) CALL { CREATE (x) } RETURN n", 17),
    ("MATCH (n) WHERE EXISTS { CREATE (x) } RETURN n", 25),
    ("USE other MATCH (o) RETURN o", 0),
    ("MATCH (o) USE other RETURN o", 10),
    ("MATCH (o) RETURN 'open", 17),
    ("MATCH (o) /* open", 10),
    ("MATCH (o) RETURN \u200bo", 17),
    ("SHOW USERS", 0),
    ("TERMINATE TRANSACTION 'x'", 0),
    ("SHOW TRANSACTIONS", 0),
    ("GRANT ROLE x TO y", 0),
    ("ALTER TABLE Op ADD x INT64", 0),
    ("BEGIN", 0),
    ("CHECKPOINT", 0),
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
    check_read_only("CALL `db`.labels() YIELD label RETURN label", Dialect.NEO4J)
    check_read_only("MATCH (x) CALL (x) { MATCH (x)-->(y) RETURN y } RETURN y", Dialect.NEO4J)
    check_read_only("CALL { MATCH (y) RETURN y } RETURN y", Dialect.NEO4J)
    check_read_only("RETURN date.truncate('day', date())", Dialect.NEO4J)


@pytest.mark.parametrize(
    ("cypher", "dialect"),
    [
        ("CALL threads=4", Dialect.EMBEDDED),
        ("CALL show_tables = 4", Dialect.EMBEDDED),
        ("CALL show_tables", Dialect.EMBEDDED),
        ("CALL show_attached_databases() RETURN *", Dialect.EMBEDDED),
        ("CYPHER 5 MATCH (o) RETURN o", Dialect.EMBEDDED),
        ("CALL dbms.shutdown()", Dialect.NEO4J),
        ("CALL `dbms`.`shutdown`()", Dialect.NEO4J),
        ("CALL `dbms.shutdown`()", Dialect.NEO4J),
        ("CALL db.labels.x()", Dialect.NEO4J),
        ("MATCH (n) CALL with.some.procedure() RETURN n", Dialect.NEO4J),
        ("CALL dbms.listConfig()", Dialect.NEO4J),
        ("CALL apoc.load.json('x') YIELD value RETURN value", Dialect.NEO4J),
        ("OPTIONAL CALL apoc.load.json('x') YIELD value RETURN value", Dialect.NEO4J),
        ("RETURN apoc.cypher.runFirstColumnSingle('...', {})", Dialect.NEO4J),
        ("RETURN genai.vector.encode('secret', 'OpenAI', {})", Dialect.NEO4J),
        ("RETURN `genai` . `vector`\n.encode('secret', 'OpenAI', {})", Dialect.NEO4J),
        ("CYPHER 5 CREATE (n)", Dialect.NEO4J),
        ("CYPHER 25 RETURN 1 AS x NEXT SHOW SETTINGS YIELD name RETURN name", Dialect.NEO4J),
        ("RETURN 1 AS x NEXT SHOW TRANSACTIONS YIELD currentQuery RETURN *", Dialect.NEO4J),
        ("CYPHER runtime=slotted CREATE (n)", Dialect.NEO4J),
        ("EXPLAIN CYPHER 5 LOAD CSV FROM 'x' AS l RETURN l", Dialect.NEO4J),
        ("MATCH (x) CALL (x) { DELETE x } IN TRANSACTIONS", Dialect.NEO4J),
        (
            "MATCH (x) CALL (x) { RETURN 1 AS y } IN 1+1+1+1+1+1+1+1+1+1 CONCURRENT TRANSACTIONS",
            Dialect.NEO4J,
        ),
        (
            "MATCH (x) CALL (x) { RETURN 1 AS y } IN 2 CONCURRENT TRANSACTIONS RETURN y",
            Dialect.NEO4J,
        ),
    ],
)
def test_other_calls_are_refused(cypher: str, dialect: Dialect) -> None:
    with pytest.raises(QueryError):
        check_read_only(cypher, dialect)


def test_neo4js_prefix_is_no_obstacle() -> None:
    check_read_only("CYPHER 5 runtime=slotted planner=cost MATCH (o) RETURN o", Dialect.NEO4J)
    check_read_only("EXPLAIN CYPHER 25 MATCH (o) RETURN o", Dialect.NEO4J)


@pytest.mark.parametrize(
    ("cypher", "position"),
    [
        ("MATCH (o) \\u004COAD CSV FROM 'x' AS l RETURN l", 10),
        ("RETURN '\\u0027 CREATE (n) //'", 15),
        ("RETURN 1 // \\u000aCREATE (n)", 18),
        ("RETURN '\\\\\\u0027 CREATE (n) //'", 17),
        ("RETURN 1 AS x \\u0043REATE (n)", 14),
    ],
)
def test_escapes_are_read_as_neo4j_reads_them(cypher: str, position: int) -> None:
    with pytest.raises(QueryError) as caught:
        check_read_only(cypher, Dialect.NEO4J)
    assert caught.value.position == position


def test_an_escape_in_a_text_is_harmless() -> None:
    check_read_only("MATCH (o {name: 'caf\\u00e9'}) RETURN o", Dialect.NEO4J)


SPACE = st.lists(
    st.sampled_from([" ", "\n", "\t", "\r\n", "\u00a0", "\u2003", "/* it's */", "// `x\n", "//\r"]),
    min_size=1,
    max_size=3,
).map("".join)
ATTACKS = [
    ("CREATE", "(n)"),
    ("MERGE", "(n)"),
    ("SET", "o.x = 1"),
    ("DETACH DELETE", "o"),
    ("DELETE", "o"),
    ("REMOVE", "o.x"),
    ("LOAD", "FROM 'f' RETURN *"),
    ("LOAD", "CSV FROM 'f' AS l RETURN l"),
    ("COPY", "Op TO 'f'"),
    ("INSERT", "(n)"),
    ("FOREACH", "(x IN [1] | CREATE (n))"),
]
READS = [
    "MATCH (o:Op)",
    "MATCH (o) WHERE o.a = 'x'",
    "WITH 1 AS o",
    'UNWIND ["a;b"] AS o',
    "MATCH (`o'`)",
]


@given(
    read=st.sampled_from(READS),
    attack=st.sampled_from(ATTACKS),
    spaces=st.tuples(SPACE, SPACE),
    upper=st.lists(st.booleans(), min_size=16, max_size=16),
    prefix=st.sampled_from(["", "EXPLAIN ", "PROFILE ", "/* */"]),
    dialect=st.sampled_from(list(Dialect)),
)
def test_a_clause_that_writes_is_found_however_it_is_spaced(
    read: str,
    attack: tuple[str, str],
    spaces: tuple[str, str],
    upper: list[bool],
    prefix: str,
    dialect: Dialect,
) -> None:
    clause = "".join(
        letter.upper() if up else letter.lower()
        for letter, up in zip(attack[0], upper, strict=False)
    )
    cypher = f"{prefix}{read}{spaces[0]}{clause}{spaces[1]}{attack[1]}"
    with pytest.raises(QueryError):
        check_read_only(cypher, dialect)


@given(
    text=st.text(st.characters(codec="utf-8", exclude_characters="'\"`\\"), max_size=20),
    quote=st.sampled_from("'\"`"),
    dialect=st.sampled_from(list(Dialect)),
)
def test_nothing_in_quotes_is_refused(text: str, quote: str, dialect: Dialect) -> None:
    attack = f"{quote}{text} CREATE (n); DELETE n // /* LOAD{quote}"
    check_read_only(f"MATCH (o) WHERE o.x = {attack} RETURN o", dialect)


@given(cypher=st.text(st.sampled_from("MATCHRETUN o()[]{}'\"`\\/*-:.,;$=|u0027\r\n"), max_size=40))
def test_any_text_passes_or_is_refused_at_a_place_in_it(cypher: str) -> None:
    for dialect in Dialect:
        place: int | None = 0
        try:
            check_read_only(cypher, dialect)
        except QueryError as error:
            place = error.position
        assert place is None or 0 <= place <= len(cypher)


def test_parameters_are_found_outside_texts_only() -> None:
    cypher = "RETURN $a, $`b c`, $ d, '$e' // $f\n, $a"
    assert parameters(tokens(cypher)) == {"a": 7, "b c": 11, "d": 19}


@pytest.mark.parametrize(
    ("cypher", "bounds"),
    [
        ("MATCH (a)-[:F*]->(b) RETURN b", [None]),
        ("MATCH (a)-[*]->(b) RETURN b", [None]),
        ("MATCH (a)-[r:F* SHORTEST 1..65535]->(b) RETURN b", [65535]),
        ("MATCH (a)-[:F*..70000 (r, n | WHERE r.x * 3 > 2)]-(b) RETURN b", [70000]),
        ("MATCH (a)<-[:F*2..]-(b)-[:G*5]->(c) RETURN b", [None, 5]),
        ("MATCH (a) RETURN [a.x * 100000], (a.x) * 3, count(*)", []),
    ],
)
def test_ways_of_any_length_are_found(cypher: str, bounds: list[int | None]) -> None:
    assert [bound.most for bound in hop_bounds(tokens(cypher))] == bounds
