"""View 7: Cypher by name and by hand, and what can be done with an answer."""

from __future__ import annotations

import csv

import pytest
from browsing import Browser, op_under_cursor, said, shown_ops, text_of
from textual.widgets import Static

from divergraph.ask.cypher_words import completions
from graphstore.errors import InputError
from tui.query_files import QueryFiles
from tui.query_words import parse_settings
from tui.screens.ops import OpsScreen
from tui.screens.windows.overlays import TextOverlay
from tui.widgets.cypher_editor import CypherEditor
from tui.widgets.row_list import RowList
from tui.widgets.text_pane import TextPane

pytestmark = pytest.mark.thorough

WORST = "model/layer_2/Softmax"


@pytest.fixture
def browse(browse, made_store):
    """Browses the run ``14``."""
    return browse(made_store)


def answer(app) -> list[list[str]]:
    source = app.screen.query_one("#answer", RowList).source
    return [[cell.text for cell in source.row(index)] for index in range(len(source))]


async def type_query(b, text: str) -> None:
    await b.press("7")
    editor = b.app.screen.query_one(CypherEditor)
    editor.text = text
    editor.focus()
    await b.press("f5")


@pytest.mark.slow
async def test_the_first_diverging_op_by_a_named_query_and_opened_in_four_keys(browse):
    async with browse as b:
        await b.press("Q", "enter")
        assert isinstance(b.app.screen, OpsScreen)
        assert op_under_cursor(b.app) == WORST


@pytest.mark.slow
async def test_a_named_query_of_the_list(browse):
    async with browse as b:
        await b.press("7")
        known = b.app.screen.query_one("#known", RowList)
        names = [known.source.row(n)[0].text for n in range(len(known.source))]
        known.focus()
        known.cursor = names.index("ops_by_type")
        await b.press("enter")
        assert ["Softmax", "6"] in [row[:2] for row in answer(b.app)]
        assert f"{len(answer(b.app))} rows" in text_of(b.app)


@pytest.mark.slow
async def test_own_cypher_and_the_ops_of_its_answer(browse, tmp_path):
    async with browse as b:
        await type_query(
            b, "MATCH (o:Op {graph: $device, type: 'Softmax'}) RETURN o.name AS op, o.topo AS topo"
        )
        assert len(answer(b.app)) == 6
        await b.press("x")
        (path,) = tmp_path.glob("*.csv")
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        assert rows[0] == ["op", "topo"]
        assert len(rows) == 7
        await b.press("F")
        assert isinstance(b.app.screen, OpsScreen)
        assert {op.rpartition("/")[2] for op in shown_ops(b.app)} == {"Softmax"}


@pytest.mark.slow
async def test_a_mistake_is_pointed_at(browse):
    async with browse as b:
        await type_query(b, "MATCH (o:Op) RETRUN o.name")
        editor = b.app.screen.query_one(CypherEditor)
        assert editor.has_focus
        assert "RETRUN" in text_of(b.app)
        assert answer(b.app) == []


@pytest.mark.slow
async def test_writing_is_refused_and_nothing_is_lost(browse):
    async with browse as b:
        await type_query(b, "MATCH (o:Op) DELETE o")
        assert "read" in text_of(b.app)
        await b.press("escape", "2")
        assert len(shown_ops(b.app)) == 36


@pytest.mark.slow
async def test_questions_asked_before_come_back_and_can_be_kept(browse):
    async with browse as b:
        await type_query(b, "MATCH (r:Run) RETURN r.name AS run")
        assert answer(b.app) == [["14"]]
        await b.press("i", "ctrl+s", *"mine", "enter")
        known = b.app.screen.query_one("#known", RowList)
        assert [cell.text for cell in known.source.row(0)] == ["mine", "mine"]
        editor = b.app.screen.query_one(CypherEditor)
        await type_query(b, "RETURN 1 AS one")
        editor.text = ""
        editor.focus()
        await b.press("ctrl+up", "ctrl+up")
        assert editor.text == "MATCH (r:Run) RETURN r.name AS run"
        await b.press("ctrl+down")
        assert editor.text == "RETURN 1 AS one"


@pytest.mark.slow
async def test_how_a_question_would_be_answered(browse):
    async with browse as b:
        await b.press("7")
        editor = b.app.screen.query_one(CypherEditor)
        editor.text = "MATCH (r:Run) RETURN r.name AS run"
        editor.focus()
        await b.press("f8")
        assert isinstance(b.app.screen, TextOverlay)
        assert "SCAN_NODE_TABLE" in text_of(b.app)


@pytest.mark.slow
async def test_words_are_completed(browse):
    async with browse as b:
        await b.press("7")
        editor = b.app.screen.query_one(CypherEditor)
        editor.focus()
        await b.press(*"MATCH (o:Tens", "ctrl+n")
        assert editor.text == "MATCH (o:Tensor"


@pytest.mark.slow
async def test_an_answer_without_ops_says_so(browse):
    async with browse as b:
        await type_query(b, "MATCH (r:Run) RETURN r.ops AS ops")
        await b.press("enter")
        assert "no op of the device in it" in said(b.app)


class TestSettings:
    def test_parameters_and_limits_as_on_the_command_line(self):
        read = parse_settings("op='a b' -p $times=2 --limit 5 --timeout=0.5")
        assert read.given == {"op": "a b", "times": "2"}
        assert (read.limit, read.timeout) == (5, 0.5)

    @pytest.mark.parametrize("text", ["op", "--limit x", "--limit", "'open", "--timeout 0"])
    def test_anything_else_is_refused(self, text: str):
        with pytest.raises(InputError):
            parse_settings(text)


class TestCompletion:
    def test_labels_properties_and_parameters(self):
        assert completions("MATCH (m:Met") == ("Metric",)
        assert completions("MATCH ()-[:FUS") == ("FUSES",)
        assert "cosine_similarity" in completions("RETURN m.cos")
        of_op = completions("MATCH (o:Op)-[:PRODUCES]->(t:Tensor) RETURN o.")
        assert ("type" in of_op, "dtype" in of_op) == (True, False)
        assert "PRODUCES" not in completions("MATCH (o:")
        assert "Op" not in completions("-[:")
        assert completions("WHERE o.graph = $de") == ("$device",)
        assert completions("x = $ti", ["times"]) == ("$times",)
        assert "RETURN" in completions("ret")

    def test_nothing_is_offered_for_nothing(self):
        assert completions("MATCH (o) ") == ()


class TestFiles:
    def test_a_name_that_would_leave_the_folder_is_refused(self, tmp_path):
        with pytest.raises(InputError, match="no name"):
            QueryFiles(tmp_path).keep("../x", "RETURN 1")

    def test_a_history_cut_off_in_the_middle_is_read_as_far_as_it_goes(self, tmp_path):
        files = QueryFiles(tmp_path / "queries")
        files.remember("RETURN 1", "")
        files.remember("RETURN 2", "a=1")
        path = tmp_path / "queries" / "history.jsonl"
        path.write_text(path.read_text() + '{"cypher": "RET')
        assert files.asked() == [("RETURN 1", ""), ("RETURN 2", "a=1")]


@pytest.mark.slow
async def test_a_query_of_a_pack_is_listed_and_asked(browse, tmp_path, monkeypatch):
    text = "// Answers: all.\nMATCH (o:Op {graph: $graph}) RETURN count(*) AS ops"
    (tmp_path / "counted.cypher").write_text(text)
    monkeypatch.setenv("DIVERGRAPH_PACKS", str(tmp_path))
    async with browse as b:
        await b.press("7")
        known = b.app.screen.query_one("#known", RowList)
        rows = [[cell.text for cell in known.source.row(n)] for n in range(len(known.source))]
        known.focus()
        known.cursor = rows.index(["counted", tmp_path.name])
        await b.press("enter")
        assert len(answer(b.app)) == 1
        (tmp_path / "counted.cypher").write_text("spoilt")
        known.focus()
        await b.press("enter")
        assert str(tmp_path)[:40] in text_of(b.app), "it names the file that is none"


async def test_letters_are_text_wherever_the_focus_is(browse):
    async with browse as b:
        theme = b.app.theme
        await b.press("7", "M", "A", "T")
        b.app.screen.query_one("#answer", RowList).focus()
        await b.press("q", "T", "W")
        assert b.app.screen.query_one(CypherEditor).text == "MATqTW"
        assert (b.app.theme, said(b.app)) == (theme, "")


async def test_the_schema_stands_beside_the_editor_where_there_is_room(
    make_app, settle, made_store
):
    async with Browser(make_app(made_store), settle, (200, 40)) as b:
        await b.press("7")
        shown = b.app.screen.query_one("#schema", TextPane).query_one(Static).render()
        assert "(:Op)-[:FUSES]->(:Op)" in str(shown)
