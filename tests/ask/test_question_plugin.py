"""A question in a package outside of the tree: one file and an entry point, asked in every face."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pyarrow as pa
import pytest
from analysed_runs import analysed_runs
from browsing import text_of
from served import served

import divergraph as dg
from divergraph.ask import registry
from divergraph.cli import command_table
from divergraph.present import schema
from divergraph.server import openapi
from divergraph.server.agents import tool_table
from divergraph.server.settings import ServerSettings
from graphstore.errors import InputError, UnknownNameError
from graphstore.open_store import open_store

pytestmark = pytest.mark.thorough

QUESTION = '''
from collections import Counter
from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.question import Parameter, Question, RunName
from divergraph.outcomes import DIVERGED, FINE
from graphstore.model import Side


@dataclass(frozen=True)
class TypeCount:
    type: str
    ops: Annotated[int, "how many ops are of the type"]


@dataclass(frozen=True)
class TypesAnswer:
    run: str
    types: tuple[TypeCount, ...]


@dataclass(frozen=True)
class TypesQuestion(Question[TypesAnswer]):
    """Say how many ops of each type a run has.

    Exit code 1: some type is rarer than --least.
    """

    name = "types"
    example = "divergraph types RUN --least 2"

    run: RunName
    side: Annotated[Side, Parameter("Which graph of the run.")] = Side.DEVICE
    least: Annotated[int, Parameter("How many ops of a type there should be.", minimum=1)] = 1

    def ask(self, store, cancellation=None):
        types = Counter(op.type for op in store.run_data(self.run).device.ops)
        return TypesAnswer(self.run, tuple(TypeCount(*each) for each in sorted(types.items())))

    def outcome(self, answer):
        return DIVERGED if any(each.ops < self.least for each in answer.types) else FINE


@dataclass(frozen=True)
class JobsQuestion(Question[TypesAnswer]):
    """Say nothing of use."""

    name = "jobs"

    def ask(self, store, cancellation=None):
        return TypesAnswer("", ())


class Broken:
    pass


@dataclass(frozen=True)
class LimitQuestion(Question[TypesAnswer]):
    """Say how many, at most."""

    name = "limits"

    limit: int = 1

    def ask(self, store, cancellation=None):
        return TypesAnswer("", ())
'''
ENTRIES = """[divergraph.questions]
types = types_question:TypesQuestion
jobs = types_question:JobsQuestion
broken = types_question:Broken
limited = types_question:LimitQuestion
gone = no_such_module:Question
"""
OPS = {"MatMul": 1, "Neg": 1, "Relu": 1, "Tanh": 1}
CACHES = (
    registry.plugged_questions,
    command_table.command_of,
    schema._plugged,
    openapi.openapi,
    tool_table.all_tools,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs ``bad`` and ``worse`` of a small model."""
    place = tmp_path_factory.mktemp("plugged")
    analysed_runs(place, str(place / "store"))
    return place / "store"


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package, as pip leaves it."""
    facts = tmp_path / "site" / "types_question-1.0.dist-info"
    facts.mkdir(parents=True)
    (tmp_path / "site" / "types_question.py").write_text(QUESTION)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: types_question\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    for cached in CACHES:
        cached.cache_clear()
    yield
    for cached in CACHES:
        cached.cache_clear()


def test_it_is_a_command(divergraph: Callable, store: Path) -> None:
    at = ("--store", store)
    ended = divergraph("types", "bad", *at, "--json")
    assert (ended.code, ended.json["run"]) == (0, "bad")
    assert {each["type"]: each["ops"] for each in ended.json["types"]} == OPS
    text = divergraph("types", "bad", "--limit", "1", *at)
    assert text.out == "run: bad\ntypes: 1\n  type    ops\n  MatMul  1\n"
    assert "3 more" in text.err
    assert divergraph("types", "bad", "--least", "2", *at).code == 1
    assert divergraph("types", "bad", "--least", "0", *at).code == 2
    assert divergraph("types", "none", *at).code == 2
    shown = divergraph("types", "--help").out
    assert all(said in shown for said in ("each type", "--side [golden|device]", "--least 2"))
    assert "Say how many ops of each type a run has." in " ".join(divergraph("--help").out.split())


def test_its_table_is_a_file(divergraph: Callable, store: Path, tmp_path: Path) -> None:
    for name in ("t.csv", "t.arrow", "t.html"):
        assert divergraph("types", "bad", "-o", tmp_path / name, "--store", store).code == 0
    assert (tmp_path / "t.csv").read_text().splitlines()[:2] == ["type,ops", "MatMul,1"]
    table = pa.ipc.open_file(tmp_path / "t.arrow").read_all()
    assert dict(zip(*table.to_pydict().values(), strict=True)) == OPS
    assert "<td>MatMul</td><td>1</td>" in (tmp_path / "t.html").read_text()
    ended = divergraph("types", "bad", "-o", tmp_path / "t.doc", "--store", store)
    assert (ended.code, ".csv, .arrow" in ended.err) == (2, True)


def test_its_json_has_a_schema(divergraph: Callable, store: Path) -> None:
    printed = divergraph("types", "bad", "--store", store, "--json").json
    declared = json.loads(divergraph("schema", "types").out)
    jsonschema.validate(printed, declared)
    of_entry = declared["$defs"]["TypeCount"]["properties"]
    assert of_entry["ops"]["description"] == "how many ops are of the type"


def test_it_is_an_address(store: Path) -> None:
    settings = ServerSettings(str(store), tokens=store / "none", state=store.parent / "state")
    with served(settings) as client:
        assert client.get("/v1/jobs").json() == {"jobs": []}  # ours, not that of the package
        answer = client.get("/v1/runs/bad/types", params={"least": 3})
        assert {each["type"]: each["ops"] for each in answer.json()["types"]} == OPS
        assert client.get("/v1/runs/bad/types", params={"least": 0}).status_code == 400
        assert client.get("/v1/runs/bad/types", params={"most": 1}).status_code == 400
        assert client.get("/v1/runs/none/types").status_code == 404
        table = client.get("/v1/runs/bad/types", params={"format": "csv"})
        assert table.headers["content-type"].startswith("text/csv")
        assert table.text.splitlines()[1] == "MatMul,1"
        described = client.get("/openapi.json").json()
    operation = described["paths"]["/v1/runs/{run}/types"]["get"]
    assert operation["summary"] == "Say how many ops of each type a run has."
    assert {each["name"] for each in operation["parameters"]} == {"run", "side", "least", "format"}
    shape = operation["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema.validate(answer.json(), {**shape, "components": described["components"]})


def test_it_is_a_tool_of_agents(store: Path) -> None:
    protocol = pytest.importorskip("divergraph.server.agents.protocol")
    tool = next(each for each in protocol.described_tools() if each.name == "types")
    assert tool.input_schema["required"] == ["run"]
    assert tool.input_schema["properties"]["least"]["minimum"] == 1
    with open_store(str(store)) as opened:
        answering = protocol.ToolAnswering(opened)
        answer = asyncio.run(answering.answer("types", {"run": "bad", "side": "device"}))
        wrong = asyncio.run(answering.answer("types", {"run": "bad", "side": "left"}))
    assert json.loads(answer.content[0].text)["types"][0] == {"type": "MatMul", "ops": 1}
    assert wrong.is_error


def test_it_is_a_method(store: Path) -> None:
    with dg.open_store(str(store)) as opened:
        run = opened["bad"]
        assert run.types() == run.ask("types") == opened.ask("types", run="bad")
        assert run.table("types").to_arrow()["type"].to_pylist() == list(OPS)
        assert "types" in dir(run)
        with pytest.raises(InputError, match="no parameter 'most'"):
            run.types(most=1)
        with pytest.raises(InputError, match="missing 1 required"):
            opened.ask("types")
        with pytest.raises(UnknownNameError):
            run.ask("kinds")
        with pytest.raises(AttributeError, match="kinds"):
            run.kinds  # noqa: B018 - reading it is what is tried


def test_one_that_cannot_be_asked_is_left_out_and_said(caplog: pytest.LogCaptureFixture) -> None:
    assert set(registry.plugged_questions()) == {"jobs", "types"}
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert "question broken (types_question:Broken) is left out" in said
    assert "(types_question:LimitQuestion) is left out: every command has an option 'limit'" in said
    assert "question gone (no_such_module:Question) is left out" in said


async def test_the_palette_of_the_terminal_has_it(store: Path, tmp_path: Path) -> None:
    from tui.app import DivergraphApp
    from tui.screens.windows.job_form import JobFormWindow
    from tui.session import Session
    from tui.settings import Settings
    from tui.style.glyphs import SETS

    async def until(done: Callable[[], bool]) -> None:
        for _ in range(200):
            if done():
                return
            await pilot.pause(0.05)
        pytest.fail("it never came")

    settings = Settings(glyphs=SETS["unicode"], state_dir=tmp_path / "state")
    app = DivergraphApp(Session(lambda: open_store(str(store)), str(store)), settings, "bad")
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: app.session.target == "bad")
        await pilot.press("colon", *"Ask types")
        await until(lambda: "how many ops of each type" in text_of(app))
        await pilot.press("down", "enter")
        await until(lambda: isinstance(app.screen, JobFormWindow))
        await until(lambda: "least" in text_of(app))
        assert app.screen.texts() == {"run": "bad"}
        app.screen.action_start()
        await until(lambda: "MatMul  1" in text_of(app))
