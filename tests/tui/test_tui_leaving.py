"""Leaving at once and with a whole terminal, although a question never ends."""

from __future__ import annotations

import os
import signal
import sys

import pytest

terminals = pytest.importorskip("terminal", reason="needs a POSIX terminal")

ON_A_STORE_THAT_NEVER_ANSWERS = """
import threading
from tui.app import DivergraphApp
from tui.leaving import run_app
from tui.session import Session
from tui.settings import Settings

raise SystemExit(run_app(DivergraphApp(Session(threading.Event().wait, "store"), Settings())))
"""


@pytest.fixture
def terminal(ctrl_c_heard, request):
    signal.signal(signal.SIGINT, getattr(request, "param", signal.default_int_handler))
    started = terminals.Terminal([sys.executable, "-c", ON_A_STORE_THAT_NEVER_ANSWERS])
    yield started
    started.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("leave", "code"),
    [
        pytest.param(b"q", 0, id="q"),
        pytest.param(b"\x03", 0, id="ctrl+c"),
        pytest.param(signal.SIGTERM, 128 + signal.SIGTERM, id="SIGTERM"),
        pytest.param(signal.SIGINT, 128 + signal.SIGINT, id="SIGINT"),
    ],
)
def test_the_terminal_is_given_back_although_a_question_still_runs(terminal, leave, code):
    terminal.until_written(b"loading")
    assert terminals.ENTER_SCREEN in terminal.output
    if isinstance(leave, bytes):
        os.write(terminal.descriptor, leave)
    else:
        os.kill(terminal.pid, leave)
    terminal.until_written(terminals.LEAVE_SCREEN)
    assert terminal.exit_code() == code


@pytest.mark.slow
@pytest.mark.parametrize("terminal", [signal.SIG_IGN], indirect=True, ids=["SIGINT ignored"])
def test_who_starts_it_deaf_to_interrupts_is_obeyed(terminal):
    terminal.until_written(b"loading")
    os.kill(terminal.pid, signal.SIGINT)
    os.write(terminal.descriptor, b"q")
    terminal.until_written(terminals.LEAVE_SCREEN)
    assert terminal.exit_code() == 0
