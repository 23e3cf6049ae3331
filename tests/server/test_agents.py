"""`divergraph mcp`: an agent's client starts it, and calls each tool well and wrongly."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from valued_run import kept_values

from divergraph.ask.registry import all_questions
from divergraph.server.agents.tool_table import all_tools
from graphstore.errors import InputError

HERE = Path(__file__)
needs_mcp = pytest.mark.skipif(find_spec("mcp") is None, reason="needs the extra mcp")

RUN = {"run": "values"}
RELU = {**RUN, "op": "relu"}
NAMES = "MATCH (o:Op) RETURN DISTINCT o.name ORDER BY o.name"
ASKED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "runs": ({}, ["runs"]),
    "recurring": ({}, ["recurring"]),
    "regressions": ({"hours": 1e6}, ["regressions", "--hours", "1e6"]),
    "model": ({**RUN, "last": 2}, ["model", "values", "--last", "2"]),
    "gate": ({**RUN, "baseline": "values"}, ["gate", "values", "--baseline", "values"]),
    "advise": (RUN, ["advise", "values"]),
    "origins": ({**RUN, "explain": True}, ["origins", "values", "--explain"]),
    "trace": ({**RELU, "to": "tanh"}, ["trace", "values", "relu", "--to", "tanh"]),
    "ops": ({**RUN, "where": "type:Relu", "limit": 1}, ["ops", "values", "--where", "type:Relu"]),
    "op": ({**RELU, "side": "golden"}, ["op", "values", "relu", "--side", "golden"]),
    "lineage": (RELU, ["lineage", "values", "relu"]),
    "tensor": ({**RELU, "top": 2, "output": None}, ["tensor", "values", "relu", "--top", "2"]),
    "roles": ({**RUN, "sort": "topo"}, ["roles", "values"]),
    "between": ({**RUN, "start": "relu", "end": "tanh"}, ["between", "values", "relu", "tanh"]),
    "findings": (RUN, ["findings", "values"]),
    "fusion": ({**RUN, "ops": ["relu"]}, ["fusion", "values", "relu"]),
    "graph": ({**RUN, "group": 0}, ["graph", "values"]),
    "neighbourhood": ({**RELU, "depth": 1}, ["op", "values", "relu", "--depth", "1"]),
    "unmatched": (RUN, ["lineage", "values", "--unmatched"]),
    "notes": (RUN, ["note", "list", "values"]),
    "baselines": ({}, ["baseline", "list"]),
    "tensor-values": ({**RELU, "at": "0"}, ["tensor", "values", "relu", "--at", "0"]),
    "tensor-histogram": ({**RELU, "bins": 3}, ["tensor", "values", "relu", "--bins", "3"]),
    "query": ({"cypher": NAMES}, ["query", NAMES]),
    "queries": ({}, ["query", "--list"]),
}
VERDICT = "verdict"
"""No command prints it again."""

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "runs": ({"a": 1}, "a: there is no such parameter (it has none)"),
    "recurring": ({"a": 1}, "a: there is no such parameter (it has none)"),
    VERDICT: ({"run": "valuse"}, "no run named 'valuse' (did you mean values?)"),
    "gate": (RUN, "the model of values has no baseline"),
    "advise": ({}, "run: a parameter is missing"),
    "origins": ({**RUN, "explain": "perhaps"}, "explain: 'perhaps' is not a valid boolean"),
    "trace": ({**RUN, "op": "rellu"}, "no op named 'rellu' (did you mean relu?)"),
    "ops": ({**RUN, "where": "cos<"}, "filter column 1: cos< needs a value"),
    "op": ({**RELU, "side": "left"}, "side: 'left' is not one of 'golden', 'device'"),
    "lineage": ({**RUN, "op": ["relu"]}, "op: it must be a text, a number or true or false"),
    "tensor": ({**RELU, "output": 7}, "output 7"),
    "query": ({"cypher": "CREATE (o:Op)"}, "only reading is allowed"),
    "blame": (RUN, "blame has not been run on 'values'"),
    "consistency": ({}, "run: a parameter is missing"),
    "ranks": (RUN, "values is not a run of a job of several ranks"),
    "minimize": (RUN, "minimize has not been run on 'values'"),
    "submodel": ({**RUN, "start": ["relu"]}, "end: a parameter is missing"),
    "compare-runs": ({"old": "values", "new": "none"}, "no run named 'none'"),
    "fusion-trial": (RUN, "against: a parameter is missing"),
    "queries": (RUN, "run: there is no such parameter (it has none)"),
}
LONG = "UNWIND range(1, 1000) AS n RETURN n, 'so that each row takes more than forty letters'"


@dataclass
class Session:
    """What the client was told."""

    store: str
    instructions: str
    tools: dict[str, Any]
    answers: dict[str, Any]
    errors: dict[str, Any]
    long: Any


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """One process that answers every call of this file."""
    place = tmp_path_factory.mktemp("agents")
    return asyncio.run(_session(kept_values(place), place))


async def _session(store: str, folder: Path) -> Session:
    from mcp.client.session import ClientSession
    from mcp.client.stdio import StdioServerParameters, stdio_client

    words = ["-m", "divergraph", "mcp", "--store", store]
    started = StdioServerParameters(command=sys.executable, args=words, cwd=folder)
    with (folder / "log").open("w") as log:
        async with stdio_client(started, log) as streams, ClientSession(*streams) as client:
            told = await client.initialize()
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            calls = {name: arguments for name, (arguments, _) in ASKED.items()} | {VERDICT: RUN}
            answers = {name: await client.call_tool(name, given) for name, given in calls.items()}
            errors = {
                name: await client.call_tool(name, given) for name, (given, _) in WRONG.items()
            }
            errors["delete"] = await client.call_tool("delete", {"name": "values"})
            errors["no such run"] = await client.call_tool(VERDICT, {"run": "x" * 100_000})
            long = await client.call_tool("query", {"cypher": LONG})
    return Session(store, told.instructions or "", tools, answers, errors, long)


@pytest.fixture
def bounded_answer():
    """The function, imported late: who only collects the tests need not wait for all of MCP."""
    from divergraph.server.agents import protocol

    return protocol.bounded_answer


@needs_mcp
def test_every_tool_is_called_here_and_only_reads(session):
    assert set(session.tools) == set(all_tools()) == {*WRONG, *ASKED}
    for name, (given, _) in ASKED.items():
        tool = session.tools[name]
        assert tool.annotations.read_only_hint
        stated = {field: value for field, value in given.items() if value is not None}
        jsonschema.validate(stated, tool.input_schema)
        assert all("description" in each for each in tool.input_schema["properties"].values())


@needs_mcp
@pytest.mark.parametrize("tool", ASKED)
def test_a_tool_answers_what_the_command_prints(session, divergraph, tool):
    answer, words = session.answers[tool], ASKED[tool][1]
    assert not answer.is_error, answer
    assert [each.text for each in answer.content] == [
        divergraph(*words, "--store", session.store, "--json").out
    ]


@needs_mcp
def test_the_verdict_comes_with_the_worst_tensors(session):
    found = json.loads(session.answers[VERDICT].content[0].text)
    assert found["verdict"] == "diverged"
    assert {each["op"] for each in found["worst"]} == {"relu", "tanh"}


@needs_mcp
@pytest.mark.parametrize("tool", [*WRONG, "delete"])
def test_a_wrong_call_is_answered_by_a_sentence(session, tool):
    said = WRONG[tool][1] if tool in WRONG else "there is no tool 'delete' (there are advise, "
    answer = session.errors[tool]
    assert answer.is_error
    assert said in answer.content[0].text
    assert "\n" not in answer.content[0].text


@needs_mcp
def test_a_long_name_is_not_said_back_whole(session):
    said = session.errors["no such run"].content[0].text
    assert said.startswith("no run named 'xxx")
    assert len(said) < 3000


@needs_mcp
def test_a_client_that_reads_no_more_is_no_error_of_ours(session):
    words = [sys.executable, "-m", "divergraph", "mcp", "--store", session.store]
    asked = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(words, input=asked, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@needs_mcp
def test_a_long_answer_is_cut_and_says_so(session):
    text, cut = (each.text for each in session.long.content)
    rows = len(json.loads(text)["rows"])
    assert 100 < rows < 1000
    assert cut == f"cut: rows (up to 1000) show {rows}; ask for less to see the rest"


@needs_mcp
def test_the_client_is_told_the_workflow(session, divergraph):
    skill = divergraph("mcp", "--skill").out
    assert skill.startswith("---\nname: divergraph\ndescription: ")
    assert skill.endswith(f"---\n\n{session.instructions}\n")


def test_the_workflow_is_short_and_names_each_tool(divergraph):
    skill = divergraph("mcp", "--skill").out
    assert len(skill.split()) < 280
    missing = [name for name in all_tools() if f"`{name}`" not in skill]
    assert set(missing) <= set(all_questions())  # which say themselves what they answer
    assert (HERE.parents[2] / "SKILL.md").read_text(encoding="utf-8") == skill


def test_most_is_cut_where_most_is_written(bounded_answer):
    path = {"steps": list(range(40))}
    shape = {"steps": ["s" * 30] * 200, "paths": [path], "run": "a"}
    text, cut = bounded_answer(shape, 1500)
    found = json.loads(text)
    assert len(text) <= 1500
    assert found["paths"] == [path]
    assert cut == f"cut: steps (up to 200) show {len(found['steps'])}; ask for less to see the rest"


def test_a_list_in_entries_of_one_is_cut_when_a_single_entry_is_left(bounded_answer):
    paths = [{"steps": list(range(40))}, {"steps": list(range(90))}]
    text, cut = bounded_answer({"paths": paths}, 400)
    (path,) = json.loads(text)["paths"]
    shown = len(path["steps"])
    assert cut == (
        f"cut: paths (up to 2) show 1, paths.steps (up to 90) show {shown}; "
        "ask for less to see the rest"
    )


def test_an_answer_that_no_cut_makes_short_is_refused(bounded_answer):
    with pytest.raises(InputError, match="ask for less"):
        bounded_answer({"text": "a" * 100}, 50)


def test_without_the_library_it_says_how_to_install_it(divergraph, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.delitem(sys.modules, "divergraph.server.agents.protocol", raising=False)
    ended = divergraph("mcp")
    assert (ended.code, ended.out) == (2, "")
    assert "the MCP library is not installed (pip install 'divergraph[mcp]')" in ended.err


def test_what_the_workflow_names_are_commands(divergraph):
    """But for the two tools whose command it gives."""
    skill = (HERE.parents[2] / "SKILL.md").read_text(encoding="utf-8")
    steps = "`".join(skill.split("\n1. ")[1:]).split("Where a line")[0]
    named = {word for word in steps.split("`")[1::2] if word.isalpha()}
    tools = named & {
        "runs",
        "verdict",
        "origins",
        "op",
        "tensor",
        "lineage",
        "trace",
        "advise",
        "queries",
        "query",
        "ops",
    }
    assert len(tools) == 11
    wrong = {name for name in tools if divergraph(name, "--help").code != 0}
    assert wrong == {"verdict", "queries"}
    assert divergraph("export", "--help").code == divergraph("query", "--help").code == 0
