"""``divergraph detect``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from divergraph.cli.numbers import FiniteRange
from divergraph.cli.options import print_json
from divergraph.cli.say import say, say_note
from divergraph.outcomes import BAD_INPUT
from divergraph.present.declared_answer import answer_json
from divergraph.text.words import counted
from importers.contract import Confidence

if TYPE_CHECKING:
    from divergraph.api.answers import Findings
    from divergraph.api.files.data_folder import DataFolder

_SURE = {Confidence.SURE: "sure", Confidence.MAYBE: "maybe"}


@click.command("detect")
@click.argument(
    "paths",
    nargs=-1,
    metavar="PATH...",
    type=click.Path(path_type=Path, readable=False),
)
@click.option("--formats", is_flag=True, help="List what can be read, and do nothing else.")
@click.option(
    "--pairs",
    is_flag=True,
    help="List graphs and dumps anywhere below each PATH that fit together for compare.",
)
@click.option(
    "--seconds",
    type=FiniteRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    metavar="S",
    help="How long to look for pairs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def detect_command(
    paths: tuple[Path, ...], formats: bool, pairs: bool, seconds: float, as_json: bool
) -> int:
    """Say what each PATH is: which graphs and dumps, how sure that is, and why.

    Of a folder also the graphs in the files right in it are listed, and every dump below it.
    Names of files decide nothing. Exit code 2: a path holds neither graph nor dump; no pair.
    """
    from divergraph.api.detect import detect

    if formats:
        return _list_formats(as_json=as_json)
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.")
    if pairs:
        return _detect_pairs(paths, seconds, as_json=as_json)
    all_findings = [detect(path) for path in paths]
    if as_json:
        print_json({"paths": [answer_json(findings) for findings in all_findings]})
    else:
        for findings in all_findings:
            for line in _lines(findings):
                say(line)
    return BAD_INPUT.exit_code if any(findings.problem for findings in all_findings) else 0


def _list_formats(*, as_json: bool) -> int:
    from divergraph.api.detect import formats

    answer = formats()
    if as_json:
        print_json({"graphs": dict(answer.graphs), "dumps": dict(answer.dumps)})
        return 0
    for title, listed in (("graphs", answer.graphs), ("dumps", answer.dumps)):
        say(f"{title}:")
        for name, reads in listed.items():
            say(f"  {name:16}  {reads}")
    return 0


def _detect_pairs(paths: tuple[Path, ...], seconds: float, *, as_json: bool) -> int:
    from divergraph.api.detect import fitting_pairs

    all_pairs = [fitting_pairs(path, seconds) for path in paths]
    if as_json:
        print_json({"paths": [answer_json(fitting) for fitting in all_pairs]})
    for fitting in () if as_json else all_pairs:
        for pair in fitting.pairs:
            say(f"{pair.shared} of {counted(pair.ops, 'op')} fit")
            for name, side in (("golden", pair.golden), ("device", pair.device)):
                tensors = counted(side.tensors, "tensor")
                say(f"  --{name} {side.graph} --{name}-dump {side.dump}  ({tensors})")
        if not fitting.pairs:
            graphs, dumps = (
                counted(len(fitting.graphs), "graph"),
                counted(len(fitting.dumps), "dump"),
            )
            say(f"{fitting.folder}: {graphs} and {dumps}, of which no two sides fit together")
        if fitting.cut:
            say_note(f"{fitting.folder}: there may be more: {fitting.cut}")
    return 0 if any(fitting.pairs for fitting in all_pairs) else BAD_INPUT.exit_code


def _laid_out(data_folder: DataFolder) -> Iterator[str]:
    """The parts of a data folder, and the comparison they are for."""
    yield f"{data_folder.root}: a data folder of precision_tool"
    parts: list[tuple[str, Path | None]] = [
        ("golden graph", data_folder.golden_graph),
        ("golden dump", data_folder.golden_dump),
    ]
    for device in data_folder.devices:
        parts += [(f"{device.name} graph", device.graph), (f"{device.name} dump", device.dump)]
    parts += [("overflow dump", data_folder.overflow), ("fusion result", data_folder.fusion_result)]
    parts += [("earlier result", path) for path in data_folder.results]
    yield from (f"  {name:14} {path}" for name, path in parts if path is not None)
    if data_folder.missing:
        yield f"  to compare, there is still missing: {', '.join(data_folder.missing)}"
    else:
        yield f"  compare with: divergraph precision-tool --data {data_folder.root} ac -c"


def _lines(findings: Findings) -> Iterator[str]:
    from importers.dumps.detect import packed_notes  # loads readers

    if findings.problem:
        yield " ".join(findings.problem.split())
    if findings.data_folder is not None:
        yield from _laid_out(findings.data_folder)
    for graph in findings.graphs:
        sure = _SURE[graph.confidence]
        yield f"{graph.path}: graph, {graph.format} ({sure}: {graph.reason})"
    for dump in findings.dumps:
        levels = {"time": dump.time, "rank": dump.rank, "model": dump.model}
        levels |= {"model id": dump.model_id, "step": dump.step}
        where = "".join(f", {name} {value}" for name, value in levels.items() if value)
        sure = _SURE[dump.confidence]
        files = counted(dump.files, "file") if dump.files else "a folder"
        yield f"{dump.path}: dump, {dump.kind}, {files}{where} ({sure}: {dump.reason})"
    yield from (f"{place}: {note}" for place, note in packed_notes(findings.dumps))
    if findings.passed_over:
        yield f"{findings.path}: {counted(findings.passed_over, 'more file')} not looked into"
