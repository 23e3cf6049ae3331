"""Where reports go: files written whole or not at all, or standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING

from divergraph.files.whole_files import check_place, whole_file
from graphstore.errors import InputError

if TYPE_CHECKING:
    from divergraph.present.run_report import RunReport
    from graphstore.contract import RunData

_STANDARD_OUTPUT = ("-", "/dev/stdout")


class ReportKind(StrEnum):
    """The forms of a report; the value is its option's name and the word in JSON."""

    CSV = "csv"
    HTML = "html"
    JUNIT = "junit"
    MARKDOWN = "markdown"
    PARQUET = "parquet"
    SARIF = "sarif"


REPORT_ENDINGS: Mapping[str, ReportKind] = {
    ".csv": ReportKind.CSV,
    ".html": ReportKind.HTML,
    ".xml": ReportKind.JUNIT,
    ".md": ReportKind.MARKDOWN,
    ".parquet": ReportKind.PARQUET,
    ".sarif": ReportKind.SARIF,
}
_NAMES = {
    ReportKind.CSV: "CSV report",
    ReportKind.HTML: "HTML report",
    ReportKind.JUNIT: "JUnit report",
    ReportKind.MARKDOWN: "Markdown report",
    ReportKind.PARQUET: "Parquet file",
    ReportKind.SARIF: "SARIF report",
}


@dataclass(frozen=True)
class ReportPlaces:
    """Which reports are wanted, and where; ``-`` is standard output.

    With ``mark`` the CSV begins with a byte order mark, by which Excel knows UTF-8.
    """

    paths: Mapping[ReportKind, Path] = field(default_factory=dict)
    mark: bool = False

    @property
    def to_standard_output(self) -> bool:
        """True if one of them goes there."""
        return any(is_standard_output(path) for path in self.paths.values())

    @property
    def files(self) -> tuple[Path, ...]:
        """The places other than standard output."""
        return tuple(path for path in self.paths.values() if not is_standard_output(path))

    def check(self) -> None:
        """Check that all can be written before the work is done for them.

        Raises:
            InputError: one cannot, or two of them would go to the same place.
        """
        kinds: dict[Path, ReportKind] = {}
        for kind, path in self.paths.items():
            if is_standard_output(path):
                place = Path("-")
            else:
                check_place(path, _NAMES[kind])
                place = path.resolve()
            if place in kinds and not _swallows(place):
                raise InputError(
                    f"--{kinds[place]} and --{kind} would be written to the same place",
                    where=str(path),
                )
            kinds[place] = kind
        if self.mark and ReportKind.CSV not in self.paths:
            raise InputError("--excel is about the CSV report: give --csv FILE too")

    def write(self, report: RunReport, data: Callable[[], RunData]) -> None:
        """Write all of them; *data* is only called for the CSV.

        Raises:
            InputError: a place cannot be written.
        """
        for kind, path in self.paths.items():
            with opened_place(path, _NAMES[kind]) as file:
                write_report(file, kind, report, data, mark=self.mark)


def write_report(
    file: IO[bytes],
    kind: ReportKind,
    report: RunReport,
    data: Callable[[], RunData],
    *,
    mark: bool = False,
) -> None:
    """Write a report to an open file; *data* is only called for the CSV, which begins with a byte
    order mark if *mark*."""
    if kind is ReportKind.CSV:
        from divergraph.present.csv_report import write_csv_to

        write_csv_to(file, data(), mark=mark)
    elif kind is ReportKind.PARQUET:
        from divergraph.present.parquet_report import write_parquet_to

        write_parquet_to(file, report)
    elif kind is ReportKind.JUNIT:
        from divergraph.present.junit_report import junit_report

        file.write(junit_report(report))
    elif kind is ReportKind.SARIF:
        from divergraph.present.sarif_report import sarif_report

        file.write(sarif_report(report))
    elif kind is ReportKind.HTML:
        from divergraph.present.html.report import html_report

        file.write(html_report(report).encode())
    else:
        from divergraph.present.markdown_report import markdown_report

        file.write(markdown_report(report).encode())


def is_standard_output(path: Path) -> bool:
    """True for ``-`` and its name in the file system."""
    return str(path) in _STANDARD_OUTPUT


@contextmanager
def opened_place(path: Path, what: str) -> Iterator[IO[bytes]]:
    """A file to write bytes to, which takes its place if the block succeeds."""
    if is_standard_output(path):
        buffer = BytesIO()
        yield buffer
        sys.stdout.flush()
        sys.stdout.buffer.write(buffer.getbuffer())
        sys.stdout.buffer.flush()
        return
    with whole_file(path, what) as place, place.open("wb") as file:
        yield file


def _swallows(path: Path) -> bool:
    """True for /dev/null and pipes, to which several reports may be written."""
    return path.exists() and not path.is_file()
