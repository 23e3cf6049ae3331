"""Leaving at once and with a whole terminal, although a question never ends."""

from __future__ import annotations

import os
import select
import signal
import sys
import time

import pytest

pty = pytest.importorskip("pty", reason="needs a POSIX terminal")

ENTER_SCREEN, LEAVE_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"
PATIENCE = 60
"""Seconds; only a failing test waits so long."""

ON_A_STORE_THAT_NEVER_ANSWERS = """
import threading
from tui.app import DivergraphApp
from tui.leaving import run_app
from tui.session import Session
from tui.settings import Settings

raise SystemExit(run_app(DivergraphApp(Session(threading.Event().wait, "store"), Settings())))
"""


class Terminal:
    """A child process on a terminal of its own."""

    def __init__(self) -> None:
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm-256color"
            os.execv(sys.executable, [sys.executable, "-c", ON_A_STORE_THAT_NEVER_ANSWERS])
        self.output = b""
        self.ended = False

    def read(self) -> None:
        if not select.select([self.descriptor], [], [], 0.1)[0]:
            return
        try:
            self.output += os.read(self.descriptor, 65536)
        except OSError:  # Linux says so that the other end is closed
            time.sleep(0.1)

    def read_until(self, words: bytes) -> None:
        end = time.monotonic() + PATIENCE
        while words not in self.output:
            assert time.monotonic() < end, self.output[-2000:]
            self.read()

    def exit_code(self) -> int:
        end = time.monotonic() + PATIENCE
        while True:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self.ended = True
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < end, "the process does not end"
            self.read()


@pytest.fixture
def terminal(ctrl_c_heard, request):
    signal.signal(signal.SIGINT, getattr(request, "param", signal.default_int_handler))
    started = Terminal()
    yield started
    if not started.ended:
        os.kill(started.pid, signal.SIGKILL)
        os.waitpid(started.pid, 0)
    os.close(started.descriptor)


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
    terminal.read_until(b"loading")
    assert ENTER_SCREEN in terminal.output
    if isinstance(leave, bytes):
        os.write(terminal.descriptor, leave)
    else:
        os.kill(terminal.pid, leave)
    terminal.read_until(LEAVE_SCREEN)
    assert terminal.exit_code() == code


@pytest.mark.slow
@pytest.mark.parametrize("terminal", [signal.SIG_IGN], indirect=True, ids=["SIGINT ignored"])
def test_who_starts_it_deaf_to_interrupts_is_obeyed(terminal):
    terminal.read_until(b"loading")
    os.kill(terminal.pid, signal.SIGINT)
    os.write(terminal.descriptor, b"q")
    terminal.read_until(LEAVE_SCREEN)
    assert terminal.exit_code() == 0
