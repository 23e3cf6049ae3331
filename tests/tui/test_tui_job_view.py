"""Views of jobs and of the beginning, with real processes: every key, and the mouse."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pexpect
import pytest
from browsing import SIZE, Browser, said, shown_ops, text_of
from jobs_on_screen import (
    PATIENCE,
    STAGES,
    demo_words,
    jobs_app,
    jobs_of_the_past,
    one_op_model,
    past_job,
    paused,
    shelf_of,
    states,
    until,
    until_ended,
    until_stage,
)

from divergraph.api.demo import demo_data
from divergraph.jobs.background.shelf import BackgroundState, JobShelf, store_key
from graphstore.open_store import open_store
from tui.jobs.forms import YES
from tui.screens.jobs import JobsScreen
from tui.screens.ops import OpsScreen
from tui.screens.overview import OverviewScreen
from tui.screens.start import StartScreen
from tui.screens.windows.choose_command import ChooseCommandOverlay
from tui.screens.windows.job_form import JobFormWindow
from tui.screens.windows.leave import LeaveOverlay
from tui.screens.windows.line_form import LineForm
from tui.screens.windows.overlays import TextOverlay
from tui.widgets.form_fields import ChoiceField
from tui.widgets.lines import Tab
from tui.widgets.row_list import RowList

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


@pytest.fixture
def url(tmp_path):
    return str(tmp_path / "store")


@pytest.fixture
def open_app(tmp_path, url, settle):
    def start(size=SIZE):
        return Browser(jobs_app(url, tmp_path), settle, size)

    return start


@pytest.fixture
def running(tmp_path, url):
    """A comparison under way, which nobody in the app started."""
    shelf = shelf_of(tmp_path)
    job = shelf.start(demo_words(url), store_key(url))
    yield job
    for each in shelf.jobs():
        shelf.stop(each, grace=1)


def value(b, name):
    return b.app.screen.query_one(f"#field-{name}").value


async def fill(b, name, text):
    b.app.screen.query_one(f"#field-{name}").value = text
    await b.settle(b.pilot)


async def test_an_empty_store_begins_with_what_can_be_done(open_app, tmp_path):
    async with open_app() as b:
        assert isinstance(b.app.screen, StartScreen)
        text = text_of(b.app)
        assert "Nothing is stored here yet" in text
        assert "nothing here fits together" in text
        for key, command in (("n", "compare"), ("i", "import"), ("c", "capture")):
            await b.press(key)
            assert isinstance(b.app.screen, JobFormWindow)
            assert f"$ divergraph {command}" in text_of(b.app)
            await b.press("escape")
        one_op_model(tmp_path / "net.onnx")
        await b.press("r")
        assert "1 graph and 0 dumps found" in text_of(b.app)


async def test_looking_below_the_folder_is_stopped_by_esc(open_app):
    async with open_app() as b:
        await b.pilot.press("r")
        await b.pilot.pause()
        await b.pilot.press("r")
        await b.pilot.pause()
        assert "it is looking; esc stops" in said(b.app)
        await b.press("escape")
        assert "stopped looking" in text_of(b.app)
        assert all(worker.is_finished for worker in b.app.workers)


async def test_what_fits_together_is_compared_and_opened(open_app, tmp_path):
    shutil.copytree(demo_data().folder, tmp_path / "lenet")
    async with open_app() as b:
        assert "149 of 164" in text_of(b.app)
        await b.press("j", "enter")
        assert isinstance(b.app.screen, JobFormWindow)
        assert value(b, "golden").endswith("lenet/model.ckpt.meta")
        assert "npu_fault/dump" in value(b, "device_dump")
        await fill(b, "name", "lenet")
        await b.press("f5")
        with paused(tmp_path, "comparing tensors"):
            await until_stage(b, "comparing tensors")
            assert isinstance(b.app.screen, JobsScreen)
            # The title line tells of it, at its next turn.
            await until(b, lambda: "compare" in text_of(b.app).split("\n")[0])
        await until_ended(b)
        assert "compare: diverged" in said(b.app)
        assert "diverged" in text_of(b.app)
        await b.press("enter")
        assert isinstance(b.app.screen, OverviewScreen)
        assert b.app.session.target == "lenet"
        assert any("compare --golden" in line for line in b.app.session.commands)


async def test_the_demo_by_its_key(open_app, tmp_path):
    async with open_app() as b:
        await b.press("d")
        await until(b, lambda: any(look.runs for look in b.app.looks))
        with paused(tmp_path):
            assert isinstance(b.app.screen, JobsScreen)
            await b.press("i")
            assert "it has no form" in said(b.app)
            await b.press("X", *"no", "enter")
            assert "it goes on" in said(b.app)
            await b.press("X", *"yes", "enter")  # at once: the demo ends in seconds
        await until_ended(b)
        assert states(tmp_path) == [BackgroundState.STOPPED]


async def test_a_command_is_chosen_filled_in_and_started(open_app, tmp_path, url):
    model = one_op_model(tmp_path / "net.onnx")
    async with open_app() as b:
        await b.press("8", "n")
        assert isinstance(b.app.screen, ChooseCommandOverlay)
        await b.press("j", "enter")
        assert isinstance(b.app.screen, JobFormWindow)
        await b.press("f5")
        assert "this is needed" in text_of(b.app), "what is missing is said at its field"
        await fill(b, "path", str(model)[:-3])
        await b.press("ctrl+n")
        assert value(b, "path") == str(model), "the path is completed"
        assert f"import {model}" in "".join(text_of(b.app).split("\n")).replace("│", "")
        await b.press("enter")
        assert b.app.screen.focused.id == "field-name", "enter goes on to the next field"
        await b.press("up", "down", "down", "right")
        assert value(b, "replace_it") == YES
        await b.press("left", "f5")
        await until_ended(b)
        assert "done" in text_of(b.app)
        await b.press("l")
        assert isinstance(b.app.screen, TextOverlay)
        assert "net: onnx original graph" in text_of(b.app)
        await b.press("escape", "R")
        assert "it is done" in said(b.app)
        await b.press("i")
        assert value(b, "path") == str(model), "the form once more, filled in"
        await b.press("escape", "enter")
        assert isinstance(b.app.screen, OpsScreen)
        await b.press("8", "D")
        assert states(tmp_path) == []
        assert "no job yet" in text_of(b.app)
    with open_store(url) as store:
        assert [graph.name for graph in store.graphs()] == ["net"]


async def test_a_stopped_job_goes_on(open_app, running, tmp_path):
    with ExitStack() as still:
        still.enter_context(paused(tmp_path, "comparing tensors"))
        async with open_app() as b:
            await b.press("8")
            await b.press("D")
            assert "it runs; X stops it" in said(b.app)
            await b.press("X", *"yes")
            still.close()
            await b.press("enter")
            await until_ended(b)
            assert "stopped; R goes on" in text_of(b.app)
            await b.press("R")
            await until(b, lambda: any(look.runs for look in b.app.looks))
            await until_ended(b)
            await until(b, lambda: "attempt 2" in text_of(b.app))
            assert states(tmp_path) == [BackgroundState.ENDED]


async def test_leaving_lets_a_job_go_on_and_a_later_app_finds_it(open_app, running, tmp_path):
    async with open_app() as b:
        await until(b, lambda: any(look.runs for look in b.app.looks))
        with paused(tmp_path):
            await b.press("q")
            assert isinstance(b.app.screen, LeaveOverlay)
            await b.press("escape")
            assert not b.app._exit
            await b.press("q", "b")
            assert b.app._exit
            assert states(tmp_path) == [BackgroundState.RUNNING]
    async with open_app() as b:
        await until_ended(b)
        await b.press("8")
        assert "lenet" in text_of(b.app)
        await b.press("q")
        assert b.app._exit, "nothing runs: nothing is asked"


async def test_leaving_stops_a_job(open_app, running, tmp_path):
    async with open_app() as b:
        await until(b, lambda: any(look.runs for look in b.app.looks))
        await b.press("ctrl+c", "X")
        await until(b, lambda: b.app._exit)
    assert states(tmp_path) == [BackgroundState.STOPPED]


async def test_a_store_that_goes_away_fails_the_job_with_a_sentence(
    open_app, running, tmp_path, url
):
    with ExitStack() as still:
        still.enter_context(paused(tmp_path, "reading graphs"))
        async with open_app() as b:
            await b.press("8")
            shutil.rmtree(url, ignore_errors=True)
            Path(url).write_text("no store")
            still.close()
            await until_ended(b)
            (look,) = b.app.looks
            assert look.job.exit_code in (2, 3)
            assert look.told.failed[:30] in text_of(b.app)


@pytest.mark.exhaustive
async def test_all_by_mouse(open_app, tmp_path):
    model = one_op_model(tmp_path / "net.onnx")
    async with open_app() as b:
        choices = b.app.screen.query_one("#choices", RowList)
        await b.pilot.click(choices, offset=(5, 4), times=2)
        await b.settle(b.pilot)
        assert "$ divergraph import" in text_of(b.app)
        await fill(b, "path", str(model))
        await b.pilot.click("#field-replace_it")
        await b.settle(b.pilot)
        assert b.app.screen.query_one("#field-replace_it", ChoiceField).value == YES
        await b.pilot.click("#form-start")
        await until_ended(b)
        listed = b.app.screen.query_one("#jobs", RowList)
        await b.pilot.click(listed, offset=(5, 2), times=2)
        await b.settle(b.pilot)
        assert isinstance(b.app.screen, OpsScreen)
        await b.pilot.click(next(tab for tab in b.app.screen.query(Tab) if tab.view == "jobs"))
        await b.settle(b.pilot)
        assert isinstance(b.app.screen, JobsScreen)


async def test_runs_lead_to_the_beginning(open_app, url):
    async with open_app() as b:
        await b.press("0", "n")
        assert isinstance(b.app.screen, StartScreen)
        assert isinstance(b.app.screen_stack[-1], StartScreen)


async def test_jobs_of_the_past_are_said_for_what_they_are(settle, tmp_path):
    jobs_of_the_past(tmp_path)
    async with Browser(jobs_app(".divergraph", tmp_path), settle) as b:
        await b.press("8")
        text = text_of(b.app)
        assert "its process was ended from outside; R starts it again" in text
        assert "diverged" in text
        assert "no such file" in text
        await b.press("X")
        assert "it does not run" in said(b.app)
        assert "conv_77:0: dump file is damaged" in text
        await b.press("G", "D", "y")
        assert "minimize bert-1" not in text_of(b.app)


async def test_what_a_job_tells_cannot_reach_the_terminal(settle, tmp_path, hostile_name):
    told = [*STAGES, {"stage": hostile_name, "total": 3}, {"problem": hostile_name}]
    words = ["import", hostile_name, "--name", hostile_name]
    past_job(tmp_path, 1, words, [*told, {"failed": hostile_name}], 2)
    async with Browser(jobs_app(".divergraph", tmp_path), settle) as b:
        await b.press("8")
        shown = text_of(b.app)
        assert "\x1b" not in shown
        assert "failed" in shown
        await b.press("i")
        assert isinstance(b.app.screen, JobFormWindow)
        assert "\x1b" not in text_of(b.app)


async def test_a_question_that_is_asked_in_a_small_window(open_app, running, tmp_path):
    async with open_app((60, 20)) as b:
        await until(b, lambda: any(look.runs for look in b.app.looks))
        with paused(tmp_path):
            await b.press("8", "X")
            assert isinstance(b.app.screen, LineForm)
            await b.press("escape", "q")
            assert "stop it, and leave" in text_of(b.app)


async def test_what_a_job_writes_anew_is_loaded_anew(open_app, tmp_path, url):
    one_op_model(tmp_path / "old.onnx")
    one_op_model(tmp_path / "new.onnx", ops=("first", "second"))
    words = ("import", str(tmp_path / "old.onnx"), "--name", "net", "--store", url)
    async with open_app() as b:
        b.app.start_job(words)
        await until_ended(b)
        await b.press("enter")
        assert isinstance(b.app.screen, OpsScreen)
        assert shown_ops(b.app) == ["relu"]
        b.app.start_job(
            ("import", str(tmp_path / "new.onnx"), *words[2:4], "--replace", *words[4:])
        )
        await until(b, lambda: len(b.app.looks) == 2)
        await b.press("2")
        await until_ended(b)
        await until(b, lambda: shown_ops(b.app) == ["first", "second"])


async def test_commands_and_words_of_the_view(settle, tmp_path):
    jobs_of_the_past(tmp_path)
    async with Browser(jobs_app(".divergraph", tmp_path), settle) as b:
        await b.press("8", "f1")
        assert "its process ended without a word" in text_of(b.app)
        await b.press("escape", "question_mark")
        assert "go on with a job that was stopped or failed" in text_of(b.app)
        await b.press("escape", "colon", *"fill in its form", "enter")
        assert isinstance(b.app.screen, ChooseCommandOverlay)


def test_a_job_goes_on_when_the_app_is_killed(tmp_path, url):
    home = tmp_path / "home"
    environment = {**os.environ, "XDG_STATE_HOME": str(home), "TERM": "xterm-256color"}
    words = ["-m", "divergraph", "tui", "--store", url]
    terminal = pexpect.spawn(
        sys.executable, words, env=environment, cwd=tmp_path, dimensions=(40, 120), timeout=60
    )
    terminal.expect("Nothing is stored here yet")
    terminal.send("d")
    shelf = JobShelf(home / "divergraph" / "jobs")
    wait(lambda: bool(shelf.jobs()))
    terminal.kill(signal.SIGKILL)
    terminal.close()
    (job,) = shelf.jobs(store_key(url))
    assert job.state is BackgroundState.RUNNING
    wait(lambda: shelf.jobs()[0].state is not BackgroundState.RUNNING)
    assert shelf.jobs()[0].exit_code == 0
    with open_store(url) as store:
        assert [run.name for run in store.runs()] == ["demo"]


def wait(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never comes"
        time.sleep(0.1)
