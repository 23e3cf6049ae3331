"""Users' own Cypher on every store: limits, stopping, plans, errors, and attacks for real."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from full_run import sample_run
from shaped_runs import shaped_graph

from benchmarks.scale.local_neo4j import LocalServer
from graphstore.cancellation import Cancellation, CancelledError
from graphstore.contract import GraphStore, QueryParameters
from graphstore.cypher.traversals import longest_path
from graphstore.embedded import EmbeddedStore
from graphstore.embedded.database import ReadDatabase
from graphstore.embedded.refused import hop_notes
from graphstore.errors import QueryError
from graphstore.neo4j import Neo4jStore

pytestmark = pytest.mark.thorough

ENDLESS = (
    "MATCH (a:Op), (b:Op), (c:Op), (d:Op) "
    "WHERE a.topo + b.topo + c.topo + d.topo < 0 RETURN count(*)"
)
ASK = """
import sys
from divergraph.cli.main import run
print("ready", flush=True)
sys.exit(run(["query", sys.argv[1], "--run", "wide", "--timeout", "600", "--store", sys.argv[2]]))
"""


@pytest.fixture(scope="module")
def filled(module_store: GraphStore) -> GraphStore:
    """The store with the run ``first`` and a graph ``wide`` of 500 ops: joined with itself three
    times, it has no end."""
    names = [f"op{number}" for number in range(500)]
    module_store.save_graph(shaped_graph("wide", pairwise(names), names), "wide")
    module_store.save_run(sample_run("first"))
    return module_store


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedStore]:
    """An embedded store with the run ``first``."""
    with EmbeddedStore(tmp_path_factory.mktemp("embedded") / "store") as store:
        store.save_run(sample_run("first"))
        yield store


@pytest.mark.slow
def test_a_query_is_stopped_from_another_thread(filled: GraphStore) -> None:
    stop = Cancellation()
    timer = threading.Timer(0.5, stop.cancel)
    timer.start()
    with pytest.raises(CancelledError, match="the query was stopped"):
        filled.query(ENDLESS, QueryParameters(timeout=600, cancellation=stop), "wide")
    with pytest.raises(CancelledError):  # it stays so
        filled.query("RETURN 1", QueryParameters(cancellation=stop), "wide")
    assert filled.query("RETURN 1", QueryParameters(), "wide").rows == ((1,),)


def test_a_query_is_stopped_by_its_time_limit(filled: GraphStore) -> None:
    with pytest.raises(QueryError, match=r"took longer than 0\.3 s"):
        filled.query(ENDLESS, QueryParameters(timeout=0.3), "wide")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent otherwise there")
@pytest.mark.usefixtures("ctrl_c_heard")
def test_ctrl_c_ends_a_query_at_once(filled: GraphStore, address: str) -> None:
    command = [sys.executable, "-c", ASK, ENDLESS, address]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(2.0)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.strip() == "stopped"
    if isinstance(filled, Neo4jStore):
        running = "SHOW TRANSACTIONS YIELD currentQuery WHERE currentQuery CONTAINS 'd:Op' "
        with filled._wire._driver.session() as session:
            left = [row for row in session.run(running + "RETURN currentQuery") if "a:Op" in row[0]]
        assert [row[0] for row in left if "SHOW" not in row[0]] == []


@pytest.mark.slow
def test_the_command_ends_though_the_engine_does_not(tmp_path: Path) -> None:
    """Its clock is looked at between rows only, and this is one."""
    with EmbeddedStore(tmp_path / "store") as store:
        store.save_run(sample_run("first"))
    endless = "RETURN levenshtein(repeat('a', 300000), repeat('b', 300000)) AS n"
    command = [sys.executable, "-m", "divergraph", "query", endless, "--timeout", "0.2"]
    command += ["--run", "first", "--store", str(tmp_path / "store")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "the query took longer than 0.2 s" in ended.stderr


def test_a_parameter_needs_a_value(filled: GraphStore) -> None:
    """ladybug takes one without for true, and would give all ops."""
    with pytest.raises(QueryError, match=r"\$x has no value") as caught:
        filled.query("MATCH (o:Op) WHERE o.name = $x RETURN o.name", QueryParameters(), "first")
    assert caught.value.position == 28
    with pytest.raises(QueryError, match=r"\$run has no value.*ask one run or graph"):
        filled.query("MATCH (m:Metric {run: $run}) RETURN m", QueryParameters())


@pytest.mark.parametrize(
    "value", [1, 1.5, "it's", True, None, [1, 2], ["a", "b"], {"a": 1, "b": [1.5]}, [{"a": "x"}]]
)
def test_parameters_are_json_values(filled: GraphStore, value: object) -> None:
    answer = filled.query("RETURN $x AS x", QueryParameters({"x": value}), "first")
    assert answer.rows == ((value,),)


@pytest.mark.slow
@pytest.mark.parametrize("value", [[1, "a"], 2**70, object()])
def test_parameters_an_engine_cannot_take(filled: GraphStore, value: object) -> None:
    try:
        answer = filled.query("RETURN $x AS x", QueryParameters({"x": value}), "first")
    except QueryError:
        return
    assert answer.rows == ((value,),)


def test_plans_say_how(filled: GraphStore) -> None:
    cypher = "MATCH (o:Op) WHERE o.topo > $least RETURN o.name"
    plan = filled.explain(cypher, QueryParameters(), "first")
    assert "o" in plan
    assert len(plan.splitlines()) > 3
    asked = filled.query(f"EXPLAIN {cypher}", QueryParameters(), "first")
    assert asked.columns == ("plan",)
    assert "\n".join(str(row[0]) for row in asked.rows) == plan
    named = filled.explain("descendants", QueryParameters(), "first")
    assert named.startswith("Answered on arrays")
    with pytest.raises(QueryError) as caught:
        filled.explain("MATCH (o:Op RETURN o", QueryParameters(), "first")
    assert caught.value.position == 12
    with pytest.raises(QueryError):
        filled.explain("MATCH (o:Op) DELETE o", QueryParameters(), "first")


def test_what_the_embedded_engine_does_not_know(embedded: EmbeddedStore) -> None:
    def said(cypher: str) -> tuple[str, int | None]:
        with pytest.raises(QueryError) as caught:
            embedded.query(cypher, QueryParameters(), "first")
        return str(caught.value), caught.value.position

    text, position = said("MATCH (o:Op) RETURN o.name, o.subgrah")
    assert "o has no property subgrah (did you mean subgraph" in text
    assert position == 30
    assert "no label or relationship Opp (did you mean Op?)" in said("MATCH (o:Opp) RETURN o")[0]
    assert said("MATCH (o:Op) RETURN p.name") == (
        "query position 20: Variable p is not in scope.",
        20,
    )


@pytest.mark.slow
def test_more_hops_than_the_embedded_engine_counts(tmp_path: Path) -> None:
    size = 65_540
    names = [f"op{number}" for number in range(size)]
    with EmbeddedStore(tmp_path / "store") as store:
        store.save_graph(shaped_graph("deep", pairwise(names), names), "deep")
        assert longest_path(store.arrays("deep")) == size - 1
        reach = "MATCH (:Op {name: 'none'})-[:FEEDS* SHORTEST 1..65535]->(o) RETURN count(o.name)"
        answer = store.query(reach, QueryParameters(), "deep")
        assert "up to 65539 hops, the embedded engine follows 65534" in answer.notes[0]
        short = "MATCH (:Op {name: 'op0'})-[:FEEDS*1..3]->(o:Op) RETURN count(o.name)"
        assert store.query(short, QueryParameters(), "deep").notes == ()
        with pytest.raises(QueryError, match="counts at most 65535 hops, not 65546") as caught:
            store.query(reach.replace("65535", "65546"), QueryParameters(), "deep")
        assert caught.value.position == reach.index("*")


def test_notes_on_hops_are_for_deep_graphs_only() -> None:
    star = "MATCH (a)-[:FEEDS*]->(b) RETURN b"
    assert hop_notes(star, lambda: [("shallow", 65534)]) == ()
    assert len(hop_notes(star, lambda: [("shallow", 9), ("deep", 65535)])) == 1


@pytest.mark.parametrize(
    "cypher",
    [
        "MATCH (o:Op) RETURN o.type, count(*), count(DISTINCT o.subgraph)",
        "MATCH (o:Op) WITH o.type AS t, collect(DISTINCT o.name) AS ops, max(o.topo) AS m RETURN m",
    ],
)
def test_what_the_embedded_engine_counts_wrongly_is_refused(
    embedded: EmbeddedStore, cypher: str
) -> None:
    with pytest.raises(QueryError, match="wrong beside an aggregate with DISTINCT"):
        embedded.query(cypher, QueryParameters(), "first")


@pytest.mark.slow
@pytest.mark.parametrize(
    "cypher",
    [
        "MATCH (o:Op) RETURN count(*), count(DISTINCT o.type)",
        "MATCH (o:Op) RETURN o.type, count(*), max(o.topo)",
        "MATCH (o:Op) RETURN o.type, count(DISTINCT o.subgraph), collect(DISTINCT o.name)",
        "MATCH (o:Op) WITH o.type AS type, count(*) AS n RETURN type, count(DISTINCT n)",
    ],
)
def test_other_aggregates_are_the_same_on_every_store(filled: GraphStore, cypher: str) -> None:
    answer = filled.query(f"{cypher} AS last", QueryParameters(), "first")
    assert all(0 not in row and None not in row for row in answer.rows if "max" not in cypher)


def test_no_list_after_in_is_refused_where_the_engine_would_crash(embedded: EmbeddedStore) -> None:
    for cypher in ("MATCH (o:Op) WHERE o.name IN $x RETURN o.name", "RETURN 1 IN ($x)"):
        with pytest.raises(QueryError, match=r"\$x after IN is a list, not null"):
            embedded.query(cypher, QueryParameters({"x": None}), "first")


ODD = (
    *(2**63, -(2**63) - 1, [10**30], "\ud800", {"a": ["\udfff"]}, [], [None], [[]], {"a": None}),
    *([1, "a"], [True, 1], [[1], ["a"]], {"a": [1, {"b": 2}]}, [{"a": 1}, {"b": 2}]),
    [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
)
PLAIN = (
    *(2**63 - 1, -(2**63), None, True, "a", {}, [1, None], [1, 2.5], [[], [1]], {"a": {"b": [1]}}),
    *([{"a": 1}, {"a": 2}], [{"a": [1]}, {"a": []}]),
)


def test_parameters_come_back_as_they_were_or_are_refused(embedded: EmbeddedStore) -> None:
    """The engine makes texts of mixed lists and gives all maps in a list the keys of the first."""
    for value in PLAIN:
        asked = QueryParameters({"x": value})
        assert embedded.query("RETURN $x AS x", asked, "first").rows == ((value,),)
    for value in ODD:
        with pytest.raises(QueryError, match=r"\$x is nothing the embedded engine takes: "):
            embedded.query("RETURN $x AS x", QueryParameters({"x": value}), "first")
    with pytest.raises(QueryError, match="half of a surrogate pair"):
        embedded.query(r"RETURN '\ud800' AS x", QueryParameters(), "first")


EMBEDDED_ATTACKS = [
    "LOAD FROM '{secret}' RETURN *",
    "MATCH (o:Op) LOAD FROM '{secret}' RETURN *",
    "EXPLAIN LOAD FROM '{secret}' RETURN *",
    "MATCH (o:Op) load/**/from '{secret}' RETURN *",
    "MATCH (o:Op) WHERE 1 = 1e0LOAD FROM '{secret}' RETURN *",
    "MATCH (o:Op) WHERE 1 = 1!LOAD FROM '{secret}' RETURN *",
    "UNWIND [1] AS x$ LOAD FROM '{secret}' RETURN *",
    "RETURN 1; LOAD FROM '{secret}' RETURN *",
    "COPY (MATCH (o:Op) RETURN o.name) TO '{out}'",
    "PROFILE COPY (MATCH (o:Op) RETURN o.name) TO '{out}'",
    "EXPORT DATABASE '{out}'",
    "ATTACH '{out}' AS other (dbtype lbug)",
    "INSTALL httpfs",
    "CALL threads=1",
    "MATCH (o:Op) SET o.type = 'x'",
]
NEO4J_ATTACKS = [
    "LOAD CSV FROM 'file://{secret}' AS l RETURN l",
    "MATCH (o:Op) \\u004COAD CSV FROM 'file://{secret}' AS l RETURN l",
    "CYPHER 5 LOAD CSV FROM 'file://{secret}' AS l RETURN l",
    "RETURN '\\u0027 AS x LOAD CSV FROM \\u0027file://{secret}' AS l RETURN l",
    "RETURN 1 AS x // it is\rLOAD CSV FROM 'file://{secret}' AS l RETURN l",
    "CALL dbms.listConfig()",
    "SHOW SETTINGS",
    "SHOW TRANSACTIONS",
    "CREATE USER x SET PASSWORD 'yyyyyyyy'",
    "USE system MATCH (n) RETURN n",
    "MATCH (o:Op) CALL (o) {{ SET o.type = 'x' }} IN TRANSACTIONS",
    "INSERT (:Op {{id: 'x'}})",
]


def test_attacks_reach_nothing(filled: GraphStore, tmp_path: Path) -> None:
    secret, out = tmp_path / "secret.csv", tmp_path / "out"
    secret.write_text("SECRET\n", encoding="utf-8")
    attacks = NEO4J_ATTACKS if isinstance(filled, Neo4jStore) else EMBEDDED_ATTACKS
    for attack in attacks:
        for target in ("first", None):
            cypher = attack.format(secret=secret, out=out)
            with pytest.raises(QueryError):
                filled.query(cypher, QueryParameters(), target)
    assert not out.exists()
    types = filled.query("MATCH (o:Op) RETURN DISTINCT o.type", QueryParameters(), "first").rows
    assert ("x",) not in types


def test_the_embedded_engine_alone_would_obey(tmp_path: Path) -> None:
    """Opened read-only, it still reads and writes files: only the check stops it."""
    with EmbeddedStore(tmp_path / "store") as store:
        store.save_run(sample_run("first"))
        store.query("RETURN 1", QueryParameters(), "first")
    (file,) = (tmp_path / "store").rglob("*.lbug")
    out = tmp_path / "out.csv"
    database = ReadDatabase(file)
    database.ask(f"COPY (MATCH (o:Op) RETURN o.name) TO '{out}'", {})
    database.close()
    assert out.exists()


@pytest.mark.neo4j
@pytest.mark.xdist_group("neo4j")
def test_a_procedure_that_does_not_exist_is_the_querys_fault(neo4j_server: LocalServer) -> None:
    """Names of procedures are told apart by case, the list of allowed ones does not."""
    server = neo4j_server
    with (
        Neo4jStore(server.url, server.user, server.password) as store,
        pytest.raises(QueryError, match="no procedure"),
    ):
        store.query("CALL DB.LABELS() YIELD label RETURN label", QueryParameters())


def test_places_in_lists_count_from_zero(filled: GraphStore) -> None:
    text = """
        WITH [10, 20, 30] AS l UNWIND [0, -1] AS i
        RETURN l[0] AS first, l[i] AS one, l[1..] AS tail, l[..-1] AS head, l[0..i + 2] AS some
    """
    rows = filled.query(text, QueryParameters(), "wide").rows
    assert sorted(rows, key=repr) == [
        (10, 10, [20, 30], [10, 20], [10, 20]),
        (10, 30, [20, 30], [10, 20], [10]),
    ]
