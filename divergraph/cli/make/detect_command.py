"""``divergraph detect``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from divergraph.cli.options import print_json
from divergraph.cli.say import say
from divergraph.outcomes import BAD_INPUT
from divergraph.present.json.shapes import findings_json
from divergraph.text.words import counted
from importers.contract import Confidence

if TYPE_CHECKING:
    from divergraph.api.answers import Findings

_SURE = {Confidence.SURE: "sure", Confidence.MAYBE: "maybe"}


@click.command("detect")
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    metavar="PATH...",
    type=click.Path(path_type=Path, readable=False),
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def detect_command(paths: tuple[Path, ...], as_json: bool) -> int:
    """Say what each PATH is: which graphs and dumps, how sure that is, and why.

    Of a folder also the graphs in the files right in it are listed, and every dump below it.
    Names of files decide nothing. Exit code 2: a path holds neither graph nor dump.
    """
    from divergraph.api.detect import detect

    found = [detect(path) for path in paths]
    if as_json:
        print_json({"paths": [findings_json(each) for each in found]})
    else:
        for each in found:
            for line in _lines(each):
                say(line)
    return BAD_INPUT.exit_code if any(each.problem for each in found) else 0


def _lines(found: Findings) -> Iterator[str]:
    if found.problem:
        yield " ".join(found.problem.split())
    for graph in found.graphs:
        sure = _SURE[graph.confidence]
        yield f"{graph.path}: graph, {graph.format} ({sure}: {graph.reason})"
    for dump in found.dumps:
        levels = {"time": dump.time, "rank": dump.rank, "model": dump.model}
        levels |= {"model id": dump.model_id, "step": dump.step}
        where = "".join(f", {name} {value}" for name, value in levels.items() if value)
        sure = _SURE[dump.confidence]
        files = counted(dump.files, "file") if dump.files else "a folder"
        yield f"{dump.path}: dump, {dump.kind}, {files}{where} ({sure}: {dump.reason})"
    if found.passed_over:
        yield f"{found.path}: {counted(found.passed_over, 'more file')} not looked into"
