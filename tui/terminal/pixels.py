"""Pictures in pixels, for the terminals that can show them.

Two protocols: Kitty's graphics protocol (Kitty, Ghostty, WezTerm, Konsole) and DEC's sixels
(foot, mlterm, xterm as a VT340, Windows Terminal, …). Terminals are known by their environment and
are not asked: what is typed meanwhile would be lost in the answer.
"""

from __future__ import annotations

import base64
import struct
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from textual.geometry import Region

if TYPE_CHECKING:
    import numpy.typing as npt

ENVIRONMENT_SWITCH = "DIVERGRAPH_PIXELS"
"""Environment variable that picks the protocol by its name, or ``off``."""

Rgb = tuple[int, int, int]

_CHUNK = 4096
"""Most characters of one Kitty sequence."""
_SIXEL_ROWS = 6


class PixelProtocol(StrEnum):
    """How pictures are sent to the terminal."""

    KITTY = "kitty"
    SIXEL = "sixel"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class PixelTerminal:
    """A terminal that shows pictures; its cells are ``cell`` pixels wide and high."""

    protocol: PixelProtocol
    cell: tuple[int, int]


@dataclass(frozen=True, eq=False, slots=True)
class Picture:
    """Pixels by their number in ``palette``: ``numbers[row, column]``; drawn over ``place``, in
    cells of the pane that shows it."""

    numbers: npt.NDArray[np.uint8]
    palette: tuple[Rgb, ...]
    place: Region


@dataclass(frozen=True, slots=True)
class PlacedPicture:
    """A picture over a region of the screen, in cells."""

    picture: Picture
    region: Region


def pixel_terminal(environment: Mapping[str, str], setting: str = "auto") -> PixelTerminal | None:
    """The terminal of standard output if it shows pictures, as far as its *environment* or the
    user's *setting* says, and if it says how large its cells are."""
    protocol = _protocol(environment) if setting == "auto" else PixelProtocol(setting)
    cell = None if protocol is PixelProtocol.OFF else _cell_size()
    return None if cell is None else PixelTerminal(protocol, cell)


def _protocol(environment: Mapping[str, str]) -> PixelProtocol:
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if term.startswith(("tmux", "screen")):  # they keep pictures from the terminal around them
        return PixelProtocol.OFF
    if term in ("xterm-kitty", "xterm-ghostty") or program in ("WezTerm", "ghostty"):
        return PixelProtocol.KITTY
    if "KONSOLE_VERSION" in environment:
        return PixelProtocol.KITTY
    if term.startswith(("foot", "mlterm", "yaft")) or "WT_SESSION" in environment:
        return PixelProtocol.SIXEL
    return PixelProtocol.OFF


def _cell_size() -> tuple[int, int] | None:
    if sys.platform == "win32" or sys.__stdout__ is None:
        return None
    import fcntl
    import termios

    try:
        answer = fcntl.ioctl(sys.__stdout__.fileno(), termios.TIOCGWINSZ, bytes(8))
    except OSError:  # no terminal
        return None
    lines, columns, width, height = struct.unpack("HHHH", answer)
    if not (lines and columns and width >= columns and height >= lines):
        return None
    return width // columns, height // lines


def drawn(placed: PlacedPicture, terminal: PixelTerminal) -> str:
    """The sequence that draws the picture; the cursor ends where the terminal leaves it."""
    x, y, columns, rows = placed.region
    width, height = columns * terminal.cell[0], rows * terminal.cell[1]
    numbers = _scaled(placed.picture.numbers, height, width)
    head = f"\x1b[{y + 1};{x + 1}H"
    if terminal.protocol is PixelProtocol.KITTY:
        return head + "".join(_kitty(numbers, placed.picture.palette, columns, rows))
    return head + _sixel(numbers, placed.picture.palette)


def removed(terminal: PixelTerminal) -> str:
    """The sequence that takes all pictures away; over sixels one only has to write."""
    return "\x1b_Ga=d,q=2\x1b\\" if terminal.protocol is PixelProtocol.KITTY else ""


def _scaled(numbers: npt.NDArray[np.uint8], height: int, width: int) -> npt.NDArray[np.uint8]:
    """The nearest element for each pixel: an element of a tensor has sharp edges."""
    rows = np.arange(height) * len(numbers) // height
    columns = np.arange(width) * numbers.shape[1] // width
    scaled: npt.NDArray[np.uint8] = numbers[rows[:, None], columns]
    return scaled


def _kitty(
    numbers: npt.NDArray[np.uint8], palette: tuple[Rgb, ...], columns: int, rows: int
) -> Iterator[str]:
    height, width = numbers.shape
    pixels = np.array(palette, np.uint8)[numbers]
    text = base64.standard_b64encode(zlib.compress(pixels.tobytes())).decode("ascii")
    chunks = [text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK)]
    for number, chunk in enumerate(chunks):
        more = int(number + 1 < len(chunks))
        what = f"a=T,q=2,f=24,o=z,s={width},v={height},c={columns},r={rows},C=1," * (not number)
        yield f"\x1b_G{what}m={more};{chunk}\x1b\\"


def _sixel(numbers: npt.NDArray[np.uint8], palette: tuple[Rgb, ...]) -> str:
    """DEC's sixels: for each band of six lines and each colour in it the lines that have it."""
    height, width = numbers.shape
    parts = [f'\x1bPq"1;1;{width};{height}']
    for number, color in enumerate(palette):
        percent = ";".join(str(round(part * 100 / 255)) for part in color)
        parts.append(f"#{number};2;{percent}")
    for top in range(0, height, _SIXEL_ROWS):
        band = numbers[top : top + _SIXEL_ROWS]
        weights = (1 << np.arange(len(band)))[:, None]
        for number in np.unique(band).tolist():
            bits = ((band == number) * weights).sum(axis=0).tolist()
            parts.append(f"#{number}{_run_lengths(bits)}$")
        parts.append("-")
    return "".join(parts) + "\x1b\\"


def _run_lengths(bits: list[int]) -> str:
    parts = []
    for value, run in groupby(bits):
        count, sign = sum(1 for _ in run), chr(63 + value)
        parts.append(f"!{count}{sign}" if count > 3 else sign * count)
    return "".join(parts)
