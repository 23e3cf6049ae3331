"""The first sheet of an ``.xlsx``: a zip of XML, read as a stream and within limits.

Expat reads; a document type is refused, so there are no entities to expand.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.parsers import expat

from graphstore.errors import ImportFormatError
from graphstore.zip_damage import ZIP_DAMAGE

_STRINGS = "xl/sharedStrings.xml"
_SHEET = re.compile(r"xl/worksheets/sheet1?\.xml")
_MAX_BYTES = 1 << 28
_MAX_COLUMNS = 1000
_AT_ONCE = 1 << 18


def read_sheet(path: Path) -> Iterator[list[str]]:
    """The rows of the first sheet, its cells as text.

    Raises:
        ImportFormatError: it is no such file, or too large.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            sheet = next((name for name in names if _SHEET.fullmatch(name)), None)
            if sheet is None:
                raise ImportFormatError(path, "this zip archive is no .xlsx with a first sheet")
            strings = _Strings()
            if _STRINGS in names:
                _parse(path, archive, _STRINGS, strings.start, strings.end)
            cells = _Cells(path, strings.found)
            _parse(path, archive, sheet, cells.start, cells.end)
    except (*ZIP_DAMAGE, OSError) as error:
        raise ImportFormatError(path, f"damaged .xlsx: {error}") from error
    yield from cells.rows


_Start = Callable[[str, dict[str, str]], None]
_End = Callable[[str, str], None]


def _parse(path: Path, archive: zipfile.ZipFile, name: str, start: _Start, end: _End) -> None:
    """Call *start* and *end* for each element of the member *name*, *end* with its text."""
    parser = expat.ParserCreate()
    text: list[str] = []

    def started(tag: str, attrs: dict[str, str]) -> None:
        text.clear()
        start(tag.rpartition(":")[2], attrs)

    def ended(tag: str) -> None:
        end(tag.rpartition(":")[2], "".join(text))
        text.clear()

    def refused(*_: object) -> None:
        raise ImportFormatError(path, f"{name} declares a document type")

    parser.StartElementHandler, parser.EndElementHandler = started, ended
    parser.CharacterDataHandler = text.append
    parser.StartDoctypeDeclHandler = refused
    taken = 0
    try:
        with archive.open(name) as source:
            while block := source.read(_AT_ONCE):
                taken += len(block)
                if taken > _MAX_BYTES:
                    raise ImportFormatError(path, f"{name} is larger than {_MAX_BYTES} bytes")
                parser.Parse(block, False)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise ImportFormatError(path, f"{name}: {error}") from error


class _Strings:
    def __init__(self) -> None:
        self.found: list[str] = []

    def start(self, tag: str, attrs: dict[str, str]) -> None:
        if tag == "si":
            self.found.append("")

    def end(self, tag: str, text: str) -> None:
        if tag == "t" and self.found:
            self.found[-1] += text


class _Cells:
    def __init__(self, path: Path, strings: list[str]) -> None:
        self._path = path
        self._strings = strings
        self._column = 0
        self._type = ""
        self.rows: list[list[str]] = []

    def start(self, tag: str, attrs: dict[str, str]) -> None:
        if tag == "row":
            self.rows.append([])
        elif tag == "c":
            self._type = attrs.get("t", "")
            self._column = _column(attrs.get("r", ""), len(self.rows[-1]) if self.rows else 0)

    def end(self, tag: str, text: str) -> None:
        if tag not in ("v", "t") or not self.rows:
            return
        if self._column >= _MAX_COLUMNS:
            raise ImportFormatError(self._path, f"more than {_MAX_COLUMNS} columns")
        row = self.rows[-1]
        row.extend("" for _ in range(self._column + 1 - len(row)))
        row[self._column] = self._shared(text) if self._type == "s" else text

    def _shared(self, number: str) -> str:
        if number.isdecimal() and len(number) < 10 and int(number) < len(self._strings):
            return self._strings[int(number)]
        return ""


def _column(place: str, default: int) -> int:
    """The number of the column in a place such as ``AB12``."""
    letters = re.match(r"[A-Z]{1,3}", place)
    if letters is None:
        return default
    number = 0
    for letter in letters[0]:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1
