"""150 questions that only read and mean no good: too much, too deep, or another thing than said."""

from __future__ import annotations

from collections.abc import Iterator

_MARKS = (
    "\u202e",
    "\ufeff",
    "\u200b",
    "\x00",
    "\x1b[2J",
    "\ud800",
    "\U0001f600",
    "\u2028",
    "\u0301",
)


def hostile_queries() -> dict[str, str]:
    """The questions by what they try."""
    found = {}
    for group, texts in _GROUPS.items():
        for number, text in enumerate(texts()):
            found[f"{group} {number}"] = text
    return found


def quick_queries() -> dict[str, str]:
    """One or two of each kind."""
    return {
        name: text
        for name, text in hostile_queries().items()
        if name.endswith((" 0", " 3")) or name in _KNOWN
    }


_KNOWN = ("doubling 1", "deep 6")
"""That which ended Neo4j, and what ended a reader of ours."""


def _products() -> Iterator[str]:
    for nodes in (2, 4, 6, 8):
        names = [f"n{number}" for number in range(nodes)]
        pattern = ", ".join(f"({name})" for name in names)
        yield f"MATCH {pattern} RETURN count(*)"
        yield f"MATCH {pattern} RETURN {', '.join(names)}"
        yield f"MATCH {pattern} RETURN DISTINCT n0.name ORDER BY n0.name"


def _ranges() -> Iterator[str]:
    for power in (8, 10, 15):
        start = f"UNWIND range(1, {10**power}) AS x RETURN"
        yield from (f"{start} {what}" for what in ("x", "collect(x)", "count(DISTINCT x)"))
        yield f"{start} x ORDER BY x DESC LIMIT 1"
        yield f"RETURN range(1, {10**power})"
    yield "RETURN range(1, 9223372036854775807)"
    yield "RETURN range(-9223372036854775808, 9223372036854775807, 1)"


def _unwinds() -> Iterator[str]:
    for depth in (2, 3, 5, 9):
        steps = " ".join(f"UNWIND range(1, 100000) AS x{place}" for place in range(depth))
        yield f"{steps} RETURN sum(x0)"
        yield f"{steps} RETURN x0, x1"


def _deep() -> Iterator[str]:
    for depth in (20, 300, 5000, 100_000):
        yield f"RETURN {'[' * depth}1{']' * depth} AS x"
        yield f"RETURN {'(' * depth}1{')' * depth} AS x"
        yield f"RETURN {'NOT ' * depth}true AS x"
        yield f"RETURN {'-' * (2 * depth)}1 AS x"
    for depth in (20, 300, 3000):
        yield f"RETURN {'+'.join(['1'] * depth)} AS x"
        yield f"RETURN {'CASE WHEN true THEN ' * depth}1{' END' * depth} AS x"
        yield f"{'WITH 1 AS x ' * depth}RETURN x"
        yield " UNION ALL ".join(["RETURN 1 AS x"] * depth)


def _doublings() -> Iterator[str]:
    steps = " ".join(f"WITH s + s AS s, {step} AS n" for step in range(60))
    yield f"WITH 'a' AS s {steps} RETURN size(s)"
    yield "RETURN reduce(s='a', x IN range(1,60) | s+s)"
    yield "RETURN reduce(s=[1], x IN range(1,60) | s+s)"
    yield f"WITH [1] AS s {steps} RETURN size(s)"
    yield "RETURN repeat('a', 9000000000)"
    yield "RETURN lpad('a', 2000000000, 'b')"
    yield "UNWIND range(1, 100000) AS x WITH collect(x) AS xs UNWIND xs AS y RETURN y, xs"
    yield "UNWIND range(1, 1000000) AS x RETURN collect(toString(x) + 'aaaaaaaaaaaaaaaaaaaaaaa')"


def _paths() -> Iterator[str]:
    for bound in ("*", "*1..", "*1..30", "*0..65535", "*1..99999999999", "*30..1"):
        yield f"MATCH (a)-[r:FEEDS{bound}]-(b) RETURN count(*)"
        yield f"MATCH p = (a)-[{bound}]-(b)-[{bound}]-(c) RETURN p"
    yield "MATCH (a:Op), (b:Op) MATCH p = (a)-[* SHORTEST 1..30]-(b) RETURN length(p)"
    yield "MATCH p = shortestPath((a:Op)-[*]-(b:Op)) RETURN length(p)"


def _regexes() -> Iterator[str]:
    for pattern in ("(a+)+b", "(a|a)*b", "(a*)*b", "(.*a){25}b", "(((a{1,100}){1,100}){1,100})b"):
        yield f"RETURN '{'a' * 40}' =~ '{pattern}'"
    yield f"RETURN 'a' =~ '{'(' * 5000}a{')' * 5000}'"
    yield "MATCH (o:Op) WHERE o.name =~ '(' RETURN o.name"


def _literals() -> Iterator[str]:
    yield f"RETURN size('{'a' * 3_000_000}')"
    yield f"RETURN size([{','.join(['1'] * 100_000)}])"
    yield f"RETURN {'9' * 400}"
    yield "RETURN 1e400"
    yield f"RETURN 1{'0' * 5000}.5e-5000"
    yield f"RETURN {{{', '.join(f'k{number}: {number}' for number in range(5000))}}} AS m"
    yield f"MATCH (`{'n' * 100_000}`) RETURN 1"
    yield f"RETURN 1 AS `{'n' * 100_000}`"
    yield "RETURN -9223372036854775808 - 1"
    yield "RETURN $p"


def _unicode() -> Iterator[str]:
    for mark in _MARKS:
        yield f"RETURN '{mark}' AS x"
        yield f"RETURN 1 AS `{mark}`"
    yield "RETURN '\\u0027 DETACH DELETE n //'"
    yield "MATCH (n) RETURN n.`\U0001f600`"
    yield "MATCH (n:`\u202egraph`) RETURN n"


def _hidden() -> Iterator[str]:
    yield "MATCH (n) /* only reads */ DETACH DELETE n"
    yield "MATCH (n) RETURN n // \n DETACH DELETE n"
    yield "MATCH (n)/**/SET/**/n.name = 'x' RETURN n"
    yield "MATCH (n) RETURN n; MATCH (n) DETACH DELETE n"
    yield "RETURN 1 /*"
    yield "EXPLAIN CREATE (n:Op)"
    yield "PROFILE MATCH (n) REMOVE n.name RETURN n"
    yield "MATCH (n) FOREACH (x IN [1] | SET n.name = 'x') RETURN n"
    yield "CALL { CREATE (n:Op) RETURN n } RETURN n"
    yield "MERGE (n:Op {id: 1}) RETURN n"


def _calls() -> Iterator[str]:
    for procedure in (
        "dbms.killQueries(['x'])",
        "db.clearQueryCaches()",
        "dbms.listConfig()",
        "apoc.load.json('file:///etc/passwd')",
        "dbms.security.createUser('x', 'y')",
        "show_tables()",
        "threads=99",
        "clear_attached_db_schema()",
    ):
        yield f"CALL {procedure} RETURN 1"
    yield "LOAD CSV FROM 'file:///etc/passwd' AS line RETURN line"
    yield "LOAD FROM '/etc/passwd' RETURN *"
    yield "COPY (MATCH (n) RETURN n) TO '/tmp/hostile.csv'"
    yield "EXPORT DATABASE '/tmp/hostile'"
    yield "ATTACH '/etc/passwd' AS x (dbtype 'sqlite')"
    yield "INSTALL httpfs"
    yield "USE system SHOW USERS"


def _types() -> Iterator[str]:
    values = ("1", "'a'", "[1]", "true", "null", "1.5", "{k: 1}", "date('2026-01-01')")
    for place, left in enumerate(values):
        right = values[(place + 3) % len(values)]
        yield f"RETURN {left} + {right} AS x, {left} < {right} AS y"
    yield "RETURN 1 / 0"
    yield "RETURN 2 ^ 100000"
    yield "RETURN [1, 2, 3][9223372036854775807]"
    yield "RETURN substring('abc', -1, 9223372036854775807)"
    yield "RETURN toInteger('x') + date('x')"
    yield "MATCH (a)-[r]->(b) RETURN a, label(r), b"
    yield "MATCH (a)-[r]->(b) RETURN a, type(r), b"


_GROUPS = {
    "product": _products,
    "range": _ranges,
    "unwind": _unwinds,
    "deep": _deep,
    "doubling": _doublings,
    "path": _paths,
    "regex": _regexes,
    "literal": _literals,
    "unicode": _unicode,
    "hidden": _hidden,
    "call": _calls,
    "type": _types,
}
