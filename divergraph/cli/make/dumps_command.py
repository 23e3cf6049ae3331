"""``divergraph dumps``."""

from __future__ import annotations

from pathlib import Path

import click

from divergraph.cli.options import limit_option, print_json, say_more
from divergraph.cli.say import say, say_note
from divergraph.present.declared_answer import answer_json
from divergraph.present.json_text import Json

_COLUMNS = ("time", "rank", "model", "model_id", "step", "kind", "files")


@click.command("dumps")
@click.argument("path", type=click.Path(path_type=Path, readable=False))
@limit_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def dumps_command(path: Path, limit: int | None, as_json: bool) -> None:
    """List the dumps at or below PATH: of which times, ranks, models and steps.

    What is listed here `compare` takes as --golden-dump or --device-dump; --time, --rank,
    --model-id and --step choose among several.
    """
    from divergraph.api.detect import list_dumps, no_dumps
    from importers.dumps.detect import packed_notes

    dumps = list_dumps(path)
    if not dumps:
        raise no_dumps(path)
    rows = [answer_json(dump) for dump in dumps[:limit]]
    if as_json:
        listed: list[Json] = [dict(row) for row in rows]
        print_json({"dumps": listed})
    else:
        _show(rows, path)
    say_more(len(dumps) - len(rows))
    for place, note in packed_notes(dumps):
        say_note(f"{place}: {note}")


def _show(rows: list[dict[str, Json]], root: Path) -> None:
    columns = [name for name in _COLUMNS if any(row[name] for row in rows)]
    lines = [[name.replace("_", " ") for name in columns]]
    lines += [[str(row[name] or "-") for name in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    places = ["path", *(_below(root, Path(str(row["path"]))) for row in rows)]
    for line, place in zip(lines, places, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        say("  ".join([*cells, place]))


def _below(root: Path, path: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
