"""The view of parts: marks, what lies between, refusals, export, the minimal failing part."""

import json

import pytest
from browsing import SIZE, said, text_of
from jobs_on_screen import jobs_app, one_op_model, shelf_of, until, until_ended
from whole_run import PartBrowser

from graphstore.model import Side
from graphstore.open_store import open_store
from importers.registry import read_graph
from tui.address import parse_address
from tui.part_chooser import PartOp
from tui.render.part_marks import MarkHistory, Marks
from tui.screens.ops import OpsScreen
from tui.screens.submodel import SubmodelScreen
from tui.screens.windows.export_form import ExportForm, FolderInput, PlainCheckbox
from tui.screens.windows.job_form import JobFormWindow
from tui.screens.windows.overlays import TextOverlay
from tui.style.glyphs import UNICODE
from tui.widgets.row_list import RowList

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


def roles(app):
    """Each op with the bracket before it and its role, those without left out."""
    rows = app.screen.query_one("#part-ops", RowList).source
    cells = [rows.row(at) for at in range(len(rows))]
    return {row[3].text: (row[0].text.split()[-1], row[6].text) for row in cells if row[0].text}


@pytest.fixture
def browse(make_app, settle):
    """Starts the app on a store, presses keys, waits after each."""

    def start(url, start=None, size=SIZE):
        return PartBrowser(make_app(url, start), settle, size)

    return start


@pytest.fixture
def browse_with_jobs(settle, tmp_path, monkeypatch, whole_store_to_change):
    """The same on the run ``whole``, with jobs as real processes; they end with the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield lambda: PartBrowser(
        jobs_app(whole_store_to_change, tmp_path, start="whole"), settle, SIZE
    )
    for job in shelf_of(tmp_path).jobs():
        shelf_of(tmp_path).stop(job, grace=1)


async def test_the_set_between_the_marks_and_its_boundary(browse, whole_store):
    async with browse(whole_store, "whole") as b:
        await b.press("5")
        assert isinstance(b.app.screen, SubmodelScreen)
        await b.mark(["mul1"], ["join"])
        assert roles(b.app) == {
            "mul1": ("S", "START"),
            "relu1": (UNICODE.inside, "inside"),
            "join": ("E", "END"),
        }
        shown = text_of(b.app)
        assert "inputs (1)  32 bytes" in shown
        assert "weights (1)  w1" in shown
        assert "every input was dumped" in shown
        assert "3 original ops, 3 on the device" in shown
        assert "may be cut out" in shown
        command = b.app.session.commands[-1]
        assert command.startswith("divergraph submodel whole --start mul1 --end join")


async def test_what_enters_behind_the_starts_is_named(browse, whole_store):
    async with browse(whole_store, "whole") as b:
        await b.press("5")
        await b.mark(["relu1"], ["join"])
        assert "from the side" in text_of(b.app)
        await b.press("minus")
        assert "END" not in {role for _, role in roles(b.app).values()}
        assert "mark an end with B" in text_of(b.app)
        await b.press("u", "u")
        assert roles(b.app) == {"relu1": ("S", "START")}


async def test_several_starts_and_an_op_between_in_order_only(browse, whole_store):
    async with browse(whole_store, "whole") as b:
        await b.press("5")
        await b.mark(["mul0", "relu1"], ["relu1", "join"])
        assert b.app.session.marks.now.starts == ("mul0", "relu1")
        assert set(roles(b.app)) == {"mul0", "relu0", "mul1", "relu1", "join"}
        await b.press("5")
        assert roles(b.app)["relu1"] == ("S", "START END")


async def test_an_end_before_its_start_is_refused_and_the_other_way_is_offered(browse, whole_store):
    async with browse(whole_store, "whole") as b:
        await b.press("5")
        await b.mark(["relu1"], ["mul0"])
        assert "the end mul0 comes before the start relu1" in text_of(b.app)
        assert "a: start at mul0 and end at relu1" in text_of(b.app)
        await b.press("x")
        assert "no part is chosen that may be cut" in said(b.app)
        await b.press("a")
        assert b.app.session.marks.now == Marks(Side.DEVICE, ("mul0",), ("relu1",))
        assert "may be cut out" in text_of(b.app)
        await b.press("a")
        assert "nothing else is offered" in said(b.app)


async def test_the_part_is_exported_and_gives_the_golden_outputs(browse_with_jobs, tmp_path):
    async with browse_with_jobs() as b:
        await b.press("5")
        await b.mark(["mul1"], ["relu1"])
        await b.press("x")
        assert isinstance(b.app.screen, ExportForm)
        assert b.app.screen.query_one(PlainCheckbox).value
        b.app.screen.query_one(FolderInput).value = str(tmp_path / "out")
        await b.press("enter")
        assert isinstance(b.app.screen, SubmodelScreen), "its job is followed here"
        await until_ended(b)
        (bundle,) = (tmp_path / "out").iterdir()
        manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
        assert manifest["ops"] == ["mul1", "relu1"]
        assert str(bundle) in said(b.app)
        assert "run again, the part gives the golden outputs" in said(b.app)
        assert "written to" in text_of(b.app).splitlines()[-2], "in the status line, too"
        assert "--check" in b.app.session.commands[-1]


async def test_a_part_is_marked_exported_and_searched_in_six_keys(
    browse_with_jobs, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    async with browse_with_jobs() as b:
        await b.press("5", "b", "B", "x", "enter")
        await until_ended(b)
        assert "written to" in text_of(b.app)
        await b.press("A")
        await until(b, lambda: isinstance(b.app.screen, TextOverlay))
        assert "tried: " in text_of(b.app)


async def test_a_folder_that_cannot_be_written_is_a_sentence(browse_with_jobs, tmp_path):
    taken = tmp_path / "file"
    taken.write_text("", encoding="utf-8")
    async with browse_with_jobs() as b:
        await b.press("5")
        await b.mark(["mul1"], ["relu1"])
        await b.press("x")
        b.app.screen.query_one(FolderInput).value = ""
        await b.press("enter")
        assert "say a folder" in said(b.app)
        b.app.screen.query_one(FolderInput).value = str(taken)
        await b.press("enter")
        await until_ended(b)
        assert f"submodel: {taken}: the folder cannot be written" in said(b.app)
        assert isinstance(b.app.screen, SubmodelScreen)


async def test_the_minimal_failing_part_and_what_was_tried(browse_with_jobs, whole_store_to_change):
    async with browse_with_jobs() as b:
        await b.press("5", "t")
        await until(b, lambda: "A searches first" in said(b.app))
        await b.press("G")
        await b.press("A")
        assert "a search is under way" in b.app.screen.why_not("part.minimize")
        await until(b, lambda: isinstance(b.app.screen, TextOverlay))
        assert f"{UNICODE.inside} mul1" in text_of(b.app)
        assert "tried: " in text_of(b.app)
        await b.press("escape")
        assert b.app.session.marks.now == Marks(Side.DEVICE, ("mul1",), ("mul1",))
        assert roles(b.app) == {"mul1": ("S", "START END")}
        assert b.app.screen.address().op == "mul1", "the part comes into view"
        await b.press("t")
        assert isinstance(b.app.screen, TextOverlay)
    async with browse_with_jobs() as b:
        await b.press("5", "t")
        assert isinstance(b.app.screen, TextOverlay), "it is kept with the run"
    with open_store(whole_store_to_change) as store:
        kept = json.loads(store.run("whole").analysis.minimized)
    assert kept["ops"] == ["mul1"]
    assert kept["probes"]


async def test_without_the_files_the_set_is_shown_but_not_exported(browse, whole_store):
    async with browse(whole_store, "gone") as b:
        await b.press("5")
        await b.mark(["mul1"], ["join"])
        assert set(roles(b.app)) == {"mul1", "relu1", "join"}
        assert "structure only" in text_of(b.app)
        await b.press("x", "A")
        assert said(b.app).count("models and dumps cannot be opened") == 2
        assert isinstance(b.app.screen, SubmodelScreen)


async def test_marks_made_in_the_list_of_ops(browse, whole_store):
    async with browse(whole_store, "run/whole/op/mul1?view=ops") as b:
        await b.press("b")
        assert "1 start and 0 ends marked" in said(b.app)
        assert isinstance(b.app.screen, OpsScreen)
        await b.press("B", "5")
        assert roles(b.app) == {"mul1": ("S", "START END")}


async def test_a_link_leads_to_the_same_part(browse, whole_store):
    address = "run/whole/op/relu1?view=submodel&start=mul0&end=join"
    async with browse(whole_store, address) as b:
        assert set(roles(b.app)) == {"mul0", "relu0", "mul1", "relu1", "join"}
        assert b.app.screen.address() == parse_address(address)
        await b.press("enter")
        assert b.app.screen.address().op == "relu1"
        await b.press("left_square_bracket")
        assert isinstance(b.app.screen, SubmodelScreen)


async def test_a_fused_op_stands_for_all_its_originals(browse, fused_store):
    async with browse(fused_store, "14") as b:
        await b.press("5")
        fused = "model/layer_1/MatMul"
        await b.mark([fused], ["model/layer_1/Softmax"])
        assert "3 original ops, 2 on the device" in text_of(b.app)
        await b.press("o")
        marks = b.app.session.marks.now
        assert marks == Marks(Side.GOLDEN, (f"{fused}/core",), ("model/layer_1/Softmax",))
        await b.press("o")
        assert b.app.session.marks.now.starts == (fused,)


async def test_a_cut_inside_a_fused_op_offers_the_whole(browse, fused_store):
    async with browse(fused_store, "14") as b:
        await b.press("5", "o")
        bias = "model/layer_1/MatMul/bias"
        await b.mark([bias], ["model/layer_1/Softmax"])
        assert "it cuts the fused op model/layer_1/MatMul" in text_of(b.app)
        await b.press("a")
        marks = b.app.session.marks.now
        assert (marks.side, marks.starts) == (Side.GOLDEN, ("model/layer_1/MatMul/core",))
        assert "may be cut out" in text_of(b.app)


async def test_an_inserted_op_is_no_start(browse, fused_store):
    async with browse(fused_store, "14") as b:
        await b.press("5")
        await b.mark(["model/layer_1/Cast"], ["model/layer_1/Add"])
        assert "stands for no original op" in text_of(b.app)


async def test_parts_of_an_imported_graph(browse, several_store):
    async with browse(several_store, "bert [v2]") as b:
        await b.press("5", "o")
        assert "an imported graph has no other side" in said(b.app)
        await b.mark(["model/layer_1/MatMul"], ["model/layer_1/Add"])
        assert roles(b.app)["model/layer_1/MatMul"] == ("S", "START")
        assert "on the device" not in text_of(b.app)
        assert "an imported graph has no dumps" in text_of(b.app)
        await b.press("x")
        form = b.app.screen
        assert isinstance(form, JobFormWindow)
        assert form.texts()["ends"] == "model/layer_1/Add"


@pytest.mark.exhaustive
async def test_a_part_of_an_imported_graph_is_written(settle, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one_op_model(tmp_path / "net.onnx", ("first", "second"))
    with open_store(str(tmp_path / "store")) as store:
        store.save_graph(read_graph(tmp_path / "net.onnx"), "net")
    app = jobs_app(str(tmp_path / "store"), tmp_path, start="net")
    async with PartBrowser(app, settle, SIZE) as b:
        await b.press("5")
        await b.mark(["second"], ["second"])
        await b.press("x")
        b.app.screen.query_one("#field-seed").value = "1"
        await b.press("f5")
        await until_ended(b)
        (bundle,) = tmp_path.glob("dump_result_*")
        assert f"written to {bundle}" in said(b.app)
        await b.press("8", "enter")
        assert isinstance(b.app.screen, OpsScreen), "of the graph"
    for job in shelf_of(tmp_path).jobs():
        shelf_of(tmp_path).stop(job, grace=1)


def test_marks_toggle_and_go_back():
    history = MarkHistory()
    history.set(history.now.toggled("start", "a"))
    history.set(history.now.toggled("end", "a"))
    history.set(history.now.toggled("start", "a"))
    assert history.now == Marks(ends=("a",))
    history.set(history.now)
    history.undo()
    assert history.now == Marks(starts=("a",), ends=("a",))
    assert history.now.without("a") == Marks()
    for _ in range(5):
        history.undo()
    assert not history.now


async def test_the_part_grows_to_where_fewer_bytes_go_in(browse, whole_store):
    async with browse(whole_store, "whole") as b:
        await b.press("5")
        await b.mark(["join"], ["join"])
        await b.press("i")
        assert "32 bytes go in, not 64 bytes" in said(b.app)
        assert "inputs (1)" in text_of(b.app)
        before = b.app.session.marks.now
        await b.press("i")
        assert "nowhere near do fewer bytes go in" in said(b.app)
        assert b.app.session.marks.now == before
        await b.press("u")
        assert b.app.session.marks.now == Marks(Side.DEVICE, ("join",), ("join",))


@pytest.mark.parametrize("side", ["device", "golden"])
async def test_the_cursor_goes_to_the_origin_without_leaving_the_view(browse, whole_store, side):
    async with browse(whole_store, "whole") as b:
        await b.press("5", *(["o"] if side == "golden" else []), "g", "f")
        assert isinstance(b.app.screen, SubmodelScreen)
        assert b.app.screen.address().op == "mul1"
        await b.press("E")
        assert "no origin there" in said(b.app)


async def test_a_key_describes_no_ops(browse, whole_store, monkeypatch):
    """A worker without a description gets one of all it is given: seconds for 100,000 ops."""
    described = []
    monkeypatch.setattr(PartOp, "__repr__", lambda op: described.append(op.id) or op.id)
    async with browse(whole_store, "whole") as b:
        await b.press("5")
        await b.mark(["mul1"], ["join"])
        await b.press("o")
    assert not described
