"""The sheets of an ``.xlsx``: a zip of XML, read as a stream and within limits.

Expat reads; a document type is refused, so there are no entities to expand. openpyxl would read
more than cells as text, but knows no limits: a file of 1.5 MB takes it 3 GiB, in its read-only mode
too.
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
_SHEET = re.compile(r"xl/worksheets/sheet(\d{0,3})\.xml")
_MAX_SHEETS = 20
_MAX_BYTES = 1 << 28
_MAX_COLUMNS = 1000
_AT_ONCE = 1 << 18


def read_sheets(path: Path) -> Iterator[list[list[str]]]:
    """The rows of the first sheets, one sheet after the other, their cells as text.

    Raises:
        ImportFormatError: it is no such file, or too large.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            sheets = [
                (match[1].zfill(3), match[0]) for match in map(_SHEET.fullmatch, names) if match
            ]
            if not sheets:
                raise ImportFormatError(path, "this zip archive is no .xlsx with a first sheet")
            strings = _Strings()
            if _STRINGS in names:
                _parse(path, archive, _STRINGS, strings.start, strings.end)
            for _, sheet in sorted(sheets)[:_MAX_SHEETS]:
                cells = _Cells(path, strings.found)
                _parse(path, archive, sheet, cells.start, cells.end)
                yield cells.rows
    except (*ZIP_DAMAGE, OSError) as error:
        raise ImportFormatError(path, f"damaged .xlsx: {error}") from error


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
    size_read = 0
    try:
        with archive.open(name) as source:
            while block := source.read(_AT_ONCE):
                size_read += len(block)
                if size_read > _MAX_BYTES:
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
        self._parts = 0
        self.rows: list[list[str]] = []

    def start(self, tag: str, attrs: dict[str, str]) -> None:
        if tag == "row":
            self.rows.append([])
        elif tag == "c":
            self._type, self._parts = attrs.get("t", ""), 0
            self._column = _column(attrs.get("r", ""), len(self.rows[-1]) if self.rows else 0)

    def end(self, tag: str, text: str) -> None:
        if tag not in ("v", "t") or not self.rows:
            return
        if self._column >= _MAX_COLUMNS:
            raise ImportFormatError(self._path, f"more than {_MAX_COLUMNS} columns")
        row = self.rows[-1]
        row.extend("" for _ in range(self._column + 1 - len(row)))
        shared_text = self._shared(text) if self._type == "s" else text
        # text in several fonts is in several parts
        row[self._column] = (
            row[self._column] + shared_text if self._parts and tag == "t" else shared_text
        )
        self._parts += 1

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
