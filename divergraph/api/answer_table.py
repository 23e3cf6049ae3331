"""The table of an answer: in memory, or as a file of the kind its name ends in."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from html import escape
from io import BytesIO, StringIO
from pathlib import Path
from typing import IO, Any, NamedTuple

from divergraph.api.rows import Rows
from divergraph.ask.question import Question, help_of, row_kind, table_of
from divergraph.present.csv_report import no_formula
from divergraph.text.printable import printable
from graphstore.errors import InputError


class TableFormat(NamedTuple):
    """A format: its media type, and what writes a table in it."""

    media_type: str
    write: Callable[[Rows[Any], str, IO[bytes]], None]


def answer_rows(kind: type[Question[Any]], answer: object) -> Rows[Any]:
    """The rows of an answer to *kind*.

    Raises:
        InputError: it has no table.
    """
    table = table_of(kind)
    if table is None:
        raise InputError(f"the answer to {kind.name} has no table")
    record = row_kind(table.kind)
    assert record is not None
    return Rows(record, getattr(answer, table.name))


def table_bytes(kind: type[Question[Any]], answer: object, form: str) -> bytes:
    """The table of an answer in a format of :data:`FORMATS`."""
    buffer = BytesIO()
    FORMATS[form].write(answer_rows(kind, answer), help_of(kind), buffer)
    return buffer.getvalue()


def write_table(kind: type[Question[Any]], answer: object, path: Path) -> None:
    """Write the table of an answer to *path*, whole or not at all.

    Raises:
        InputError: its name has none of the endings, or it cannot be written.
    """
    from divergraph.files.whole_files import whole_file

    form = path.suffix.removeprefix(".")
    if form not in FORMATS:
        endings = ", ".join(f".{name}" for name in FORMATS)
        raise InputError("a table is not written so", where=str(path), hint=f"use {endings}")
    content = table_bytes(kind, answer, form)
    with whole_file(path, "table") as place:
        place.write_bytes(content)


def _csv(rows: Rows[Any], _title: str, file: IO[bytes]) -> None:
    """Lists as their entries with blanks between; nothing that a spreadsheet runs as a formula."""
    table = rows.to_arrow()
    text = StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(table.column_names)
    for row in table.to_pylist():
        writer.writerow([_cell(value) for value in row.values()])
    file.write(text.getvalue().encode("utf-8", "backslashreplace"))


def _cell(value: Any) -> str:
    if isinstance(value, list):
        value = " ".join(map(str, value))
    return "" if value is None else printable(no_formula(str(value)))


def _arrow(rows: Rows[Any], _title: str, file: IO[bytes]) -> None:
    import pyarrow as pa

    table = rows.to_arrow()
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _parquet(rows: Rows[Any], _title: str, file: IO[bytes]) -> None:
    from pyarrow.parquet import write_table as write

    write(rows.to_arrow(), file)


def _html(rows: Rows[Any], title: str, file: IO[bytes]) -> None:
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title></head>\n<body><h1>{escape(title)}</h1>\n"
        f"{rows.html(len(rows))}\n</body></html>\n"
    )
    file.write(page.encode("utf-8", "backslashreplace"))


FORMATS: Mapping[str, TableFormat] = {
    "csv": TableFormat("text/csv", _csv),
    "arrow": TableFormat("application/vnd.apache.arrow.file", _arrow),
    "parquet": TableFormat("application/vnd.apache.parquet", _parquet),
    "html": TableFormat("text/html", _html),
}
