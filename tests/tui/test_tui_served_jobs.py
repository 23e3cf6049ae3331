"""The jobs of a server in the view of jobs: asked for by a form, followed, stopped; the server
may be gone for a while."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from browsing import SIZE, Browser, said, text_of
from jobs_on_screen import jobs_app, one_op_model, until, until_ended
from served import served
from whole_run import PartBrowser

from divergraph.ask.model_parts import ModelParts
from divergraph.server.settings import Limits, ServerSettings
from graphstore.errors import InputError
from tui.screens.windows.export_form import FolderInput
from tui.screens.windows.job_form import JobFormWindow
from tui.screens.windows.overlays import TextOverlay

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


@pytest.fixture
def settings(tmp_path):
    """A server that runs one job at once, of models below the root ``models``."""
    (tmp_path / "models").mkdir()
    one_op_model(tmp_path / "models" / "net.onnx")
    return ServerSettings(
        str(tmp_path / "store"),
        roots=(("models", tmp_path / "models"),),
        tokens=tmp_path / "none",
        state=tmp_path / "state of the server",
        limits=Limits(jobs=1),
    )


async def fill(b: Browser, name: str, text: str) -> None:
    b.app.screen.query_one(f"#field-{name}").value = text
    await b.settle(b.pilot)


async def test_a_job_is_asked_for_and_followed(settings, tmp_path, settle):
    with served(settings) as client:
        async with Browser(jobs_app(str(client.base_url), tmp_path), settle) as b:
            await until(b, lambda: b.app.watched.elsewhere is not None)
            await b.press("8", "n")
            assert "capture" not in text_of(b.app), "the server runs none"
            await b.press("escape")
            b.app.screen.open_form("import", {})
            await b.settle(b.pilot)
            assert isinstance(b.app.screen, JobFormWindow)
            text = text_of(b.app)
            assert "on the server: divergraph import" in text
            told = str(b.app.screen.query_one("#form-help").render())
            assert "A path of the server begins with models: or uploads:" in told
            await fill(b, "path", "/etc/passwd")
            await b.press("f5")
            assert isinstance(b.app.screen, JobFormWindow), "it is no path of the server"
            await fill(b, "path", "models:net.onnx")
            await fill(b, "name", "net")
            await b.press("f5")
            await until_ended(b)
            text = text_of(b.app)
            assert "import models:net.onnx --name net" in text
            assert "on the server" in text
            assert str(tmp_path) not in text
            assert [info.name for info in b.app.session.targets()[1]] == ["net"]
            await b.press("D")
            assert "the server keeps its list of jobs itself" in said(b.app)
            await b.press("i")
            assert b.app.screen.query_one("#field-path").value == "models:net.onnx"


async def test_jobs_stay_in_view_while_the_server_is_gone(settings, tmp_path, settle):
    (tmp_path / "models" / "cut.onnx").write_bytes(b"\x08")
    wish = {"command": "import", "options": {"path": "models:cut.onnx"}}
    with served(settings) as client:
        url, port = str(client.base_url), client.base_url.port
        b = Browser(jobs_app(url, tmp_path), settle)
        await b.__aenter__()
        assert client.post("/v1/jobs", json=wish).status_code == 202
        await b.press("8")
        await until_ended(b)
        assert "not a graph in a known format" in text_of(b.app)
    await until(b, lambda: bool(b.app.job_trouble))
    assert "cannot reach the server" in said(b.app)
    assert "not a graph in a known format" in text_of(b.app)
    assert "as they were when the server answered" in text_of(b.app)
    with served(settings, port=port):
        await until(b, lambda: not b.app.job_trouble)
        assert "the server answers again" in said(b.app)
        await b.__aexit__(None, None, None)


async def test_a_part_is_written_by_the_server_and_brought_here(
    whole_store_to_change, tmp_path, settle, monkeypatch
):
    def opened_apart(_parts, _progress):
        raise InputError("the files are on the server's machine")

    monkeypatch.setattr(ModelParts, "opened_apart", opened_apart)
    settings = ServerSettings(
        whole_store_to_change, tokens=tmp_path / "none", state=tmp_path / "state"
    )
    with served(settings) as client:
        app = jobs_app(str(client.base_url), tmp_path, start="whole")
        async with PartBrowser(app, settle, SIZE) as b:
            await until(b, lambda: b.app.watched.elsewhere is not None)
            await b.press("5")
            await b.mark(["mul1"], ["relu1"])
            assert "structure only: the files are on the server's machine" in text_of(b.app)
            await b.press("x")
            b.app.screen.query_one(FolderInput).value = str(tmp_path / "out")
            await b.press("enter")
            await until(b, lambda: "written to" in said(b.app))
            (bundle,) = (tmp_path / "out").iterdir()
            manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
            assert manifest["ops"] == ["mul1", "relu1"]
            await b.press("A")
            await until(b, lambda: isinstance(b.app.screen, TextOverlay))
            assert "tried: " in text_of(b.app)


async def test_a_job_that_waits_is_stopped(settings, tmp_path, settle):
    wish = {"command": "import", "options": {"path": "models:net.onnx"}}
    with served(replace(settings, limits=Limits(jobs=0))) as client:
        assert client.post("/v1/jobs", json=wish).status_code == 202
        async with Browser(jobs_app(str(client.base_url), tmp_path), settle) as b:
            await b.press("8")
            await until(b, lambda: "waiting for its turn" in text_of(b.app))
            await b.press("X", *"yes", "enter")
            await until_ended(b)
            assert [look.job.state.value for look in b.app.looks] == ["stopped"]
