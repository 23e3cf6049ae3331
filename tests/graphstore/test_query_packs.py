"""Query packs: folders of named queries, and what is said of a file that is none."""

from __future__ import annotations

import pytest

from graphstore.cypher.queries import Dialect, list_queries, load, own_queries
from graphstore.cypher.query_packs import known_packs
from graphstore.cypher.small_runs import small_run
from graphstore.errors import InputError, UnknownNameError
from graphstore.model import OpState, Reason, TensorRef

LOUD = """\
// Answers: ops of a type that are off.
// Parameter type: text
// Columns: op
// Hits type=Add:
//   add: Add error=0.5
// Misses type=Add:
//   conv: Conv error=0.5
MATCH (m:Metric {run: $run})-[:OF]->(o:Op {type: $type})
// a comment inside is no line of the query
WHERE m.compared
RETURN o.name AS op
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "team").mkdir()
    return tmp_path / "team"


def test_a_pack_is_listed_and_loaded_like_ours(folder):
    (folder / "loud.cypher").write_text(LOUD)
    (folder / "notes.txt").write_text("no query")
    with known_packs([folder]):
        query = next(each for each in list_queries() if each.name == "loud")
        assert load("loud", Dialect.NEO4J) == query
    assert (query.pack, query.answers) == ("team", "ops of a type that are off.")
    assert (dict(query.parameters), query.columns) == ({"type": "text"}, ("op",))
    assert [(case.hits, dict(case.given), case.lines) for case in query.cases] == [
        (True, {"type": "Add"}, ((5, "add: Add error=0.5"),)),
        (False, {"type": "Add"}, ((7, "conv: Conv error=0.5"),)),
    ]
    assert list_queries() == own_queries(), "known only while it is asked for"
    with pytest.raises(UnknownNameError):
        load("loud", Dialect.EMBEDDED)


def test_the_environment_names_packs(folder, monkeypatch):
    (folder / "loud.embedded.cypher").write_text(LOUD)
    (folder / "loud.neo4j.cypher").write_text(LOUD.replace("WHERE m.compared", "WHERE m.over"))
    monkeypatch.setenv("DIVERGRAPH_PACKS", str(folder))
    assert "m.over" in load("loud", Dialect.NEO4J).text
    assert [each.text for each in list_queries() if each.name == "loud"] == [
        load("loud", Dialect.EMBEDDED).text
    ]


BAD = {
    "no_head": ("MATCH (o:Op) RETURN o.name", 1, "does not say what it answers"),
    "internal": ("// Internal: x.\nMATCH (o:Op) RETURN o.name", 1, "internal"),
    "kind": (LOUD.replace("type: text", "type: word"), 2, "no known kind: 'word'"),
    "target": (LOUD.replace("Parameter type", "Parameter run"), 2, "comes from the run"),
    "undeclared": (LOUD.replace("WHERE m.compared", "WHERE m.port = $port"), 10, "$port"),
    "unused": (LOUD.replace("$type", "'Add'"), 1, "does not use $type"),
    "writes": (LOUD.replace("WHERE m.compared", "SET o.name = 'x'"), 10, "SET is not allowed"),
    "reaches": (LOUD + "UNION CALL apoc.load.json('x') YIELD value RETURN value", 12, "apoc"),
    "open": (LOUD.replace("AS op", "AS 'op"), 11, "is not closed"),
    "empty": ("// Answers: nothing.\n", 1, "the query is empty"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_with_its_line(folder, name):
    text, line, said = BAD[name]
    (folder / f"{name}.cypher").write_text(text)
    with known_packs([folder]), pytest.raises(InputError) as refused:
        list_queries()
    assert refused.value.where == f"{folder / name}.cypher:{line}"
    assert said in str(refused.value)


def test_names_belong_to_one_pack(folder, tmp_path):
    (folder / "roles.cypher").write_text(LOUD)
    with known_packs([folder]), pytest.raises(InputError, match="roles already, of the program"):
        list_queries()
    (folder / "roles.cypher").rename(folder / "loud.cypher")
    other = tmp_path / "other"
    other.mkdir()
    (other / "loud.cypher").write_text(LOUD)
    with known_packs([folder, other]), pytest.raises(InputError, match=r"team/loud\.cypher"):
        list_queries()


def test_what_is_no_pack_is_refused(folder, tmp_path):
    with pytest.raises(InputError, match="no such folder"), known_packs([tmp_path / "gone"]):
        pass
    with known_packs([folder]), pytest.raises(InputError, match="no queries in it"):
        list_queries()
    (folder / "Loud Ops.cypher").write_text(LOUD)
    with known_packs([folder]), pytest.raises(InputError, match="cannot be named so"):
        list_queries()
    (folder / "Loud Ops.cypher").unlink()
    (folder / "loud.cypher").write_bytes(LOUD.encode() + b"\xff")
    with known_packs([folder]), pytest.raises(InputError, match=r"cypher:12: it is not UTF-8"):
        list_queries()


def test_a_small_run_is_what_its_lines_say():
    lines = ["conv: Conv error=0.01", "add: Add(conv) error=0.5 origin originals=add,bias"]
    lines += ["cast: Cast(add) originals= reason=inserted"]
    data = small_run("small", list(enumerate(lines, 1)), "x.cypher")
    assert [op.type for op in data.device.ops] == ["Conv", "Add", "Cast"]
    assert [op.id for op in data.golden.ops] == ["conv", "add", "bias"]
    assert data.golden.ops[2].takes == (TensorRef("add", 0),)
    assert list(data.states.values()) == [OpState.CLEAN, OpState.ORIGIN, OpState.NOT_COMPARED]
    assert data.comparisons[2].reason is Reason.INSERTED
    assert [origin.op for origin in data.origins] == ["add"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("conv Conv", "is no op"),
        ("conv: Conv(gone)", "takes gone, which is no op"),
        ("conv: Conv error=much", "error is a number"),
        ("conv: Conv loud", "'loud' says nothing of an op"),
        ("conv: Conv mass=3", "'mass' says nothing of an op"),
        ("conv: Conv over", "past a limit, but without error"),
        ("conv: Conv reason=mood", "'mood' is no reason"),
        ("conv: Conv error=1 guilt=some", "'some' is no guilt"),
    ],
)
def test_a_line_of_a_small_run_that_cannot_be_is_named(line, said):
    with pytest.raises(InputError, match=r"^x\.cypher:7: ") as refused:
        small_run("small", [(7, line)], "x.cypher")
    assert said in str(refused.value)
