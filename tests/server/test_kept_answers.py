"""Answers are kept as they were sent: what is kept is what would be made, and only so much."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from full_run import sample_run
from served import served

from divergraph.ask.memory.notes import add_note
from divergraph.ask.questions.ops import OpsQuestion
from divergraph.present.declared_answer import ListedOp, json_of
from divergraph.server import answering
from divergraph.server.answering import encoded
from divergraph.server.kept_answers import EncodedAnswer, EncodedAnswers, EncodedOps
from divergraph.server.settings import ServerSettings
from graphstore.contract import GraphStore
from graphstore.model import Side
from graphstore.open_store import open_store


@pytest.fixture
def store(tmp_path: Path) -> GraphStore:
    with open_store(str(tmp_path / "store")) as store:
        store.save_run(sample_run("first"))
        yield store


def test_each_page_is_what_the_question_says(store: GraphStore, tmp_path: Path) -> None:
    wanted = product(
        Side, ("topo", "-rel", "cos"), (None, "type:Conv*", "state:origin"), (1, 3, None)
    )
    with served(ServerSettings(store.url, tokens=tmp_path / "none")) as client:
        for side, order, where, limit in wanted:
            chosen = {"side": side.value, "sort": order, "where": where, "limit": limit}
            given = {name: value for name, value in chosen.items() if value is not None}
            question = OpsQuestion("first", where, side, order, None, limit)
            url = "/v1/runs/first/ops"
            seen: list[str] = []
            while url:
                asked = client.get(url, params=given if not seen else None)
                answer = question.ask(store)
                assert asked.content == encoded(json_of(question, answer))
                seen += [row.id for row in answer.ops]
                url = asked.links.get("next", {}).get("url", "")
                after = seen[-1] if seen else None
                question = OpsQuestion("first", where, side, order, after, limit)
            whole = OpsQuestion("first", where, side, order)
            assert seen == [row.id for row in whole.ask(store).ops]


def test_a_note_is_seen_with_the_next_question(store: GraphStore, tmp_path: Path) -> None:
    url = "/v1/runs/first/ops?where=state:origin"
    with served(ServerSettings(store.url, tokens=tmp_path / "none")) as client:
        before = client.get(url)
        assert client.get(url).content == before.content
        tag = before.headers["etag"]
        for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
            assert client.get(url, headers={"If-None-Match": known}).status_code == 304
        add_note(store, "first", "conv", "look at this", "ann")
        after = client.get(url, headers={"If-None-Match": tag})
        assert after.status_code == 200
        (op,) = after.json()["ops"]
        assert [note["text"] for note in op["team_notes"]] == ["look at this"]


def test_only_so_much_is_kept() -> None:
    kept = EncodedAnswers(800)
    for number in range(10):
        kept.keep(str(number), EncodedAnswer(b"x" * 100))
        kept.get("0")
    held = [number for number in range(10) if kept.get(str(number))]
    assert held == [0, 3, 4, 5, 6, 7, 8, 9], "what was asked for last stays"
    kept.keep("large", EncodedAnswer(b"x" * 101))
    assert kept.get("large") is None


def test_an_op_is_made_once_while_there_is_room() -> None:
    made: list[int] = []

    def make(numbers: list[int]) -> list[ListedOp]:
        made.extend(numbers)
        return [ListedOp(f"op {number}", ()) for number in numbers]

    def listed(owner: str, numbers: list[int]) -> list[str]:
        return [op.text for op in ops.listed(owner, numbers, make)]

    ops = EncodedOps(1000)
    assert listed("run", [2, 1]) == ["op 2", "op 1"]
    assert listed("run", [1, 3, 2]) == ["op 1", "op 3", "op 2"]
    assert listed("other", [1]) == ["op 1"]
    assert made == [2, 1, 3, 1]
    assert listed("run", [2, 3]) == ["op 2", "op 3"]
    assert made == [2, 1, 3, 1]
    assert listed("run", [1]) == ["op 1"], "asked for longest ago, it had to go"
    assert made == [2, 1, 3, 1, 1]


def test_a_long_list_is_the_same_document(
    store: GraphStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "/v1/runs/first/ops?limit=3"
    with served(ServerSettings(store.url, tokens=tmp_path / "none")) as client:
        monkeypatch.setattr(answering, "_LONG", 2)
        from_file = client.get(url)
        monkeypatch.undo()
        short = client.get(url)
        assert from_file.content == short.content
        assert {**from_file.headers, "date": ""} == {**short.headers, "date": ""}
        seen = client.get(url, headers={"If-None-Match": from_file.headers["etag"]})
        assert seen.status_code == 304
