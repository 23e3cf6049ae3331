"""Tables of results as other tools write them, told by their titles: CSV or ``.xlsx``."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from graphstore.errors import ImportFormatError, InputError
from importers.archives import refuse_archive
from importers.results.compared_graphs import (
    ComparedGraphs,
    as_lines,
    is_database,
    read_database,
    read_json,
)
from importers.results.xlsx import read_sheets
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
    is called ``TITLE 2``. ``line`` numbers begin at 2. ``graphs`` are what the lines were taken
    from, if it was no table but compared graphs."""

    kind: ResultKind
    lines: tuple[Mapping[str, str], ...]
    graphs: ComparedGraphs | None = None


def kind_of(head: bytes) -> ResultKind | None:
    """Whose table a CSV is that starts with *head*."""
    first = head.partition(b"\n")[0].strip()
    if not any(title.encode() in first for sets in _TITLES.values() for title in sets[0]):
        return None
    try:
        return _kind(next(csv.reader([first.decode("utf-8-sig", "replace")]), []))
    except csv.Error:  # whatever it is, no line of titles
        return None


def is_json_of_graphs(head: bytes) -> bool:
    """Whether a JSON text that starts with *head* is of graphs compared by msprobe (``.vis``)."""
    return head.lstrip()[:1] == b"{" and b'"matched_node_link"' in head and b'"NPU"' in head


def read_table(path: Path, step: int | None = None, rank: int | None = None) -> ResultTable:
    """The table in *path*; of a database with several graphs that of *step* and *rank*.

    Raises:
        ImportFormatError: it is no such table, or larger than 256 MiB.
        InputError: *step* or *rank* of what has none, or a database has several.
    """
    refuse_archive(path, "a table of results")
    head = read_head(path)
    if is_database(head):
        return _of_graphs(read_database(path, step, rank))
    if step is not None or rank is not None:
        what = "only msprobe's .vis.db has steps and ranks to choose from"
        raise InputError(what, where=str(path), hint="leave out --step and --rank")
    if is_json_of_graphs(head):
        return _of_graphs(read_json(path))
    rows = _rows(path)
    titles = _titled(next(rows, []))
    kind = _kind(titles)
    if kind is None:
        raise ImportFormatError(
            path, "this is no table of results", hint="result_*.csv of msaccucmp or "
            "compare_result*.csv, .xlsx or .vis.db of msprobe", line=1
        )  # fmt: skip
    lines = tuple(dict(zip(titles, map(str.strip, row), strict=False)) for row in rows if any(row))
    return ResultTable(kind, lines)


def _of_graphs(graphs: ComparedGraphs) -> ResultTable:
    return ResultTable(ResultKind.MSPROBE, tuple(as_lines(graphs)), graphs)


def _rows(path: Path) -> Iterator[list[str]]:
    if read_head(path)[:4] == _ZIP:
        # notes may stand on a sheet before the results
        of_results = (rows for rows in read_sheets(path) if rows and _kind(_titled(rows[0])))
        yield from next(of_results, [])
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
    unique: list[str] = []
    for title in titles:
        plain = title.strip()
        unique.append(f"{plain} 2" if plain in unique else plain)
    return unique


def _kind(titles: Iterable[str]) -> ResultKind | None:
    present = set(titles)
    return next(
        (kind for kind, sets in _TITLES.items() if all(present & names for names in sets)), None
    )
