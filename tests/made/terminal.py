"""A command on a terminal of its own, and what that terminal shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pyte
from rich.segment import Segment
from textual._compositor import LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

_ROUND = 0.05
PATIENCE = 60
"""Seconds; only a failing test waits so long."""

ENTER_SCREEN, LEAVE_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"

# Questions to a terminal and settings of its keyboard, which the emulator would draw.
_UNKNOWN_HERE = re.compile(rb"\x1b_[^\x1b]*\x1b\\|\x1b\[[?>=<][0-9;]*(?:\$p|u|c|q)|\x1b\[[0-9;]+t")

KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "space": " ",
    "backspace": "\x7f",
    "pagedown": "\x1b[6~",
    "pageup": "\x1b[5~",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "down": "\x1b[B",
    "up": "\x1b[A",
    "f1": "\x1bOP",
    "f5": "\x1b[15~",
    "ctrl+c": "\x03",
    "ctrl+l": "\x0c",
}
"""What a terminal sends for the keys that are no character."""

Shown: TypeAlias = list[list[tuple[str, str, str, bool, bool]]]


class Terminal:
    """A child process that runs *command*, and the terminal it draws on."""

    def __init__(
        self,
        command: Sequence[str],
        size: tuple[int, int] = (120, 40),
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        cell: tuple[int, int] = (0, 0),
    ) -> None:
        known = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        known |= environment or {}
        # Given as a whole: readline, which pytest imports, sets COLUMNS behind Python's back.
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            known.pop(name, None)
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            if folder is not None:
                os.chdir(folder)
            os.execve(command[0], list(command), known)
        self.screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self.screen)
        self._rest = b""
        self.output = b""
        self.ended = False
        self._cell = cell
        self.resize(size)

    def resize(self, size: tuple[int, int]) -> None:
        """Give the terminal *size*, (columns, lines)."""
        columns, lines = size
        self.screen.resize(lines, columns)
        width, height = self._cell
        told = struct.pack("HHHH", lines, columns, columns * width, lines * height)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, told)

    def read(self, patience: float = 0.1) -> bytes:
        """What was written until now, or nothing if nothing comes for *patience* seconds."""
        if not select.select([self.descriptor], [], [], patience)[0]:
            return b""
        try:
            data = os.read(self.descriptor, 65536)
        except OSError:  # Linux says so that the other end is closed
            time.sleep(0.1)
            return b""
        self.output += data
        # A sequence may be cut in two by the end of what was read.
        whole, escape, begun = (self._rest + data).rpartition(b"\x1b")
        self._stream.feed(_UNKNOWN_HERE.sub(b"", whole))
        self._rest = escape + begun
        if self._rest and re.fullmatch(rb"\x1b\[[0-9;?]*[A-Za-z][^\x1b]*", self._rest):
            self._stream.feed(self._rest)
            self._rest = b""
        return data

    def settle(self, quiet: float = 0.3) -> None:
        """Read until nothing was written for *quiet* seconds, in which the process did nothing."""
        end = time.monotonic() + PATIENCE
        rounds = 0
        while rounds * _ROUND < quiet:
            rounds = 0 if self.read(_ROUND) or self.at_work() else rounds + 1
            assert time.monotonic() < end, "it never comes to rest"

    def until_at_rest(self, quiet: float = 0.3) -> None:
        """Wait until the process does nothing; nothing is read meanwhile."""
        end, rounds = time.monotonic() + PATIENCE, 0
        while rounds * _ROUND < quiet:
            rounds = 0 if self.at_work() else rounds + 1
            time.sleep(_ROUND)
            assert time.monotonic() < end, "it never comes to rest"

    def at_work(self) -> bool:
        """Whether a thread of the process runs or would, were a processor free (Linux)."""
        states = (_state(task) for task in Path(f"/proc/{self.pid}/task").glob("*/stat"))
        return any(state in ("R", "D") for state in states)

    def until(self, done: Callable[[], bool]) -> None:
        """Read until *done*."""
        end = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < end, f"{self.text()}\n{self.output[-2000:]!r}"
            self.read()

    def until_written(self, data: bytes) -> None:
        """Read until *data* was written at any time."""
        self.until(lambda: data in self.output)

    def until_shown(self, words: str) -> None:
        """Read until *words* stand on the screen, and nothing more comes."""
        self.until(lambda: words in self.text())
        self.settle()

    def press(self, *keys: str) -> None:
        """Send keys, by the names that the app gives them."""
        os.write(self.descriptor, "".join(KEYS.get(key, key) for key in keys).encode())

    def text(self) -> str:
        """The lines of the screen."""
        return "\n".join(self.screen.display)

    def shown(self) -> Shown:
        """Every cell of the screen: its character, colours, bold, reversed."""
        return cells_of(self.screen)

    def exit_code(self) -> int:
        """The code with which the process ends; waits for it."""
        end = time.monotonic() + PATIENCE
        while True:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self.ended = True
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < end, "the process does not end"
            self.read()

    def close(self) -> None:
        """End the process, if it still runs, and the terminal."""
        if not self.ended:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
        os.close(self.descriptor)


def _state(task: Path) -> str:
    try:
        return task.read_text().rpartition(")")[2].split()[0]
    except OSError:  # it has ended
        return ""


def cells_of(screen: pyte.Screen) -> Shown:
    """Every cell of *screen*: its character, colours, bold, reversed."""
    return [
        [
            (cell.data, cell.fg, cell.bg, cell.bold, cell.reverse)
            for cell in (screen.buffer[y][x] for x in range(screen.columns))
        ]
        for y in range(screen.lines)
    ]


def row_of(text: str) -> LayoutUpdate:
    """An update of a screen of one line."""
    return LayoutUpdate([[Strip([Segment(text)])]], Region(0, 0, len(text), 1))
