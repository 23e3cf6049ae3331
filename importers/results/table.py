"""Tables of results as other tools write them, told by their titles: CSV or ``.xlsx``."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from graphstore.errors import ImportFormatError
from importers.archives import refuse_archive
from importers.results.xlsx import read_sheet
from importers.source import read_head, read_whole

MAX_BYTES = 256 << 20
_ZIP = b"PK\x03\x04"


class ResultKind(StrEnum):
    """Who wrote a table of results."""

    MSACCUCMP = "msaccucmp"
    MSPROBE = "msprobe"


_TITLES = {
    ResultKind.MSACCUCMP: ({"NPUDump", "LeftOp"}, {"GroundTruth", "RightOp"}),
    ResultKind.MSPROBE: ({"NPU Name"}, {"Bench Name"}),
}
"""One title of each set is in the tables of a kind."""


@dataclass(frozen=True, slots=True)
class ResultTable:
    """The lines of a table: what stands under each title. Of two columns of one title the second
    is called ``TITLE 2``. ``line`` numbers begin at 2."""

    kind: ResultKind
    lines: tuple[Mapping[str, str], ...]


def kind_of(head: bytes) -> ResultKind | None:
    """Whose table a CSV is that starts with *head*."""
    first = head.partition(b"\n")[0].strip()
    if not any(title.encode() in first for sets in _TITLES.values() for title in sets[0]):
        return None
    try:
        return _kind(next(csv.reader([first.decode("utf-8-sig", "replace")]), []))
    except csv.Error:  # whatever it is, no line of titles
        return None


def read_table(path: Path) -> ResultTable:
    """The table in *path*.

    Raises:
        ImportFormatError: it is no such table, or larger than 256 MiB.
    """
    refuse_archive(path, "a table of results")
    rows = _rows(path)
    titles = _titled(next(rows, []))
    kind = _kind(titles)
    if kind is None:
        raise ImportFormatError(
            path, "this is no table of results", hint="result_*.csv of msaccucmp or "
            "compare_result*.csv or .xlsx of msprobe", line=1
        )  # fmt: skip
    lines = tuple(dict(zip(titles, map(str.strip, row), strict=False)) for row in rows if any(row))
    return ResultTable(kind, lines)


def _rows(path: Path) -> Iterator[list[str]]:
    if read_head(path)[:4] == _ZIP:
        yield from read_sheet(path)
        return
    data = read_whole(path)
    if len(data) > MAX_BYTES:
        raise ImportFormatError(path, f"a table of more than {MAX_BYTES >> 20} MiB")
    text = data.decode("utf-8-sig", "replace").replace("\0", "")
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        yield from reader
    except csv.Error as error:
        raise ImportFormatError(path, f"no CSV: {error}", line=reader.line_num) from error


def _titled(titles: Iterable[str]) -> list[str]:
    found: list[str] = []
    for title in titles:
        plain = title.strip()
        found.append(f"{plain} 2" if plain in found else plain)
    return found


def _kind(titles: Iterable[str]) -> ResultKind | None:
    told = set(titles)
    return next(
        (kind for kind, sets in _TITLES.items() if all(told & names for names in sets)), None
    )
