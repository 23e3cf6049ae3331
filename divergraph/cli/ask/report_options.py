"""The options that say which reports to write, the same for ``compare`` and ``report``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from graphstore.errors import InputError

if TYPE_CHECKING:
    from divergraph.present.destination import ReportPlaces

_Command = TypeVar("_Command", bound=Callable[..., Any])
REPORT_PATH = click.Path(path_type=Path, readable=False, allow_dash=True)

_KINDS = (
    ("csv", "Write all tensors as CSV, in msaccucmp's columns."),
    ("html", "Write one page to look at offline: table, plot, origins."),
    ("junit", "Write JUnit XML for CI servers: each op a case, red where an error starts."),
    ("markdown", "Write a summary for pull requests; - is standard output."),
    ("parquet", "Write all tensors with all numbers as Parquet."),
    ("sarif", "Write SARIF for code scanning: a result for each origin."),
)


def report_options(command: _Command) -> _Command:
    """Give a command the options, and where reports are wanted as ``places``; those of an option
    ``outputs`` by their endings."""

    @functools.wraps(command)
    def with_places(*, excel: bool, outputs: tuple[Path, ...] = (), **values: Any) -> Any:
        paths = {f"{name}_path": values.pop(f"{name}_path") for name, _ in _KINDS}
        places = _places(_by_ending(paths, outputs), excel=excel)
        return command(places=places, **values)

    wrapped: Any = click.option(
        "--excel", is_flag=True, help="Begin the CSV with the mark by which Excel knows UTF-8."
    )(with_places)
    for name, help_text in reversed(_KINDS):
        option = click.option(
            f"--{name}", f"{name}_path", type=REPORT_PATH, metavar="FILE", help=help_text
        )
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


def _by_ending(paths: Mapping[str, Path | None], files: Sequence[Path]) -> dict[str, Path | None]:
    """*paths*, and *files* as reports of the kind that their ending says; ``-`` is Markdown.

    Raises:
        InputError: no report ends so, or two would be of one kind.
    """
    from divergraph.present.destination import REPORT_ENDINGS, ReportKind

    paths_by_kind = dict(paths)
    for file in files:
        ending = file.suffix.lower()
        kind = ReportKind.MARKDOWN if str(file) == "-" else REPORT_ENDINGS.get(ending)
        if kind is None:
            hint = f"one of {', '.join(REPORT_ENDINGS)}, or --html FILE and the like"
            raise InputError(f"no report ends in {ending!r}", where=str(file), hint=hint)
        if paths_by_kind.get(f"{kind}_path") is not None:
            raise InputError(f"two places for one {kind} report", where=str(file))
        paths_by_kind[f"{kind}_path"] = file
    return paths_by_kind


def _places(paths: Mapping[str, Path | None], *, excel: bool) -> ReportPlaces:
    """Where reports are wanted, of options by name (``csv_path``); each can be written.

    Raises:
        InputError: some place cannot be written, or is named twice.
    """
    from divergraph.present.destination import ReportKind, ReportPlaces

    wanted = {kind: path for kind in ReportKind if (path := paths[f"{kind}_path"]) is not None}
    places = ReportPlaces(wanted, mark=excel)
    places.check()
    return places
