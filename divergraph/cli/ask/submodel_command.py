"""``divergraph submodel``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from divergraph.ask.questions.submodel import SubmodelQuestion
from divergraph.cli.ask.model_options import model_options, opened_parts
from divergraph.cli.options import common, print_or_show
from divergraph.cli.question_command import parameters_of
from divergraph.cli.say import say, say_error, say_note
from divergraph.jobs.progress import FindingListener, Progress
from divergraph.outcomes import BAD_INPUT, DIVERGED
from divergraph.text.printable import printable
from divergraph.text.words import counted, shape_text
from graphstore.errors import InputError

if TYPE_CHECKING:
    from divergraph.api.answers import Selection
    from divergraph.api.runs.parts_of_model import ModelRun
    from divergraph.ask.model_parts import ModelParts, Submodel

_path = click.Path(path_type=Path)
_SHOWN = 12
_SHARED = ("form", "whole", "all_outputs", "smallest")
"""The options that the question has, too."""


@click.command("submodel", params=[parameters_of(SubmodelQuestion)[name] for name in _SHARED])
@click.argument("run", metavar="RUN|GRAPH|MODEL")
@click.option("--start", "starts", multiple=True, metavar="OP", help="A first op; repeatable.")
@click.option("--end", "ends", multiple=True, metavar="OP", help="A last op; repeatable.")
@click.option("--model", type=_path, help="The golden model's file, if it was moved.")
@click.option("--weights", type=_path, help="Its weights, if they are in a separate file.")
@click.option("-o", "--output", type=_path, help="Write the bundle's folder into this one.")
@click.option("--check", is_flag=True, help="Run the exported part and compare its outputs.")
@click.option("-y", "--yes", is_flag=True, help="Go on where the two models' names differ.")
@model_options
@common
def submodel_command(
    run: str,
    starts: tuple[str, ...],
    ends: tuple[str, ...],
    model: Path | None,
    weights: Path | None,
    form: str | None,
    output: Path | None,
    check: bool,
    whole: bool,
    all_outputs: bool,
    smallest: bool,
    yes: bool,
    model_run: ModelRun,
    store: str | None,
    as_json: bool,
) -> int:
    """Cut the part of a RUN's model between ops out, with its data; without -o only show it.

    Of a MODEL's file, or a GRAPH that was imported, the golden side is run here:

    \b
    divergraph submodel model.onnx --device model.om --device-dump npu
        --start conv1 --end relu3 -o parts

    Ops are those of the golden model, or of the device: then their originals are meant.
    With --format ge the part is one of the device's graph.
    Exit code 2: the part may not be cut so; 1: --check found other outputs.
    """
    if check and output is None:
        raise InputError("--check needs something to run", hint="say where to write with -o")
    with opened_parts(store, run, model_run, model, weights, values=output is not None) as opened:
        parts, progress = opened.parts, opened.progress
        _agree_on_names(parts, yes=yes or output is None)
        submodel = parts.cut(
            starts,
            ends,
            output,
            form=form,
            check=check,
            whole=whole,
            all_outputs=all_outputs,
            smallest=smallest,
            weights=weights,
            progress=progress,
        )
        _tell(progress, submodel)
    print_or_show(submodel, partial(_show, dumped=parts.has_dump), as_json=as_json)
    if not as_json and output is None and opened.store is None and submodel.refused:
        _hint_at_running(submodel.selection)
    return _exit_code(submodel)


def _exit_code(submodel: Submodel) -> int:
    if submodel.refused:
        return BAD_INPUT.exit_code
    return (
        DIVERGED.exit_code if submodel.check is not None and submodel.check.passed is False else 0
    )


def _agree_on_names(parts: ModelParts, *, yes: bool) -> None:
    """The device graph may be of another model: then lineage by names says little."""
    doubt = parts.other_model
    if yes or not doubt:
        return
    if not sys.stdin.isatty():
        say_note(doubt)
        return
    click.confirm(printable(f"{doubt}: go on?"), abort=True, err=True)


def _hint_at_running(part: Selection) -> None:
    """A model without a run has no dump yet that would tell a shape."""
    if part.chosen and part.lacks_only_forms:
        say_note("-o with --random SEED, --inputs or a device dump runs the model, which tells it")


def _show(submodel: Submodel, *, dumped: bool) -> None:
    """Print the part; where nothing was *dumped* at all, no tensor says so of itself."""
    part, verdict = submodel.selection, submodel.check
    for refusal in part.refused:
        say_error(f"refused: {refusal.sentence}")
        if refusal.starts or refusal.ends:
            offer = [f"--start {op}" for op in refusal.starts[:_SHOWN]]
            offer += [f"--end {op}" for op in refusal.ends[:_SHOWN]]
            say_error(f"  nearest that may be cut: {' '.join(offer)}")
    if part.chosen:
        say(f"{counted(len(part.chosen), 'op')}, {counted(len(part.weights), 'weight')}")
        for what, tensors in (("in ", part.inputs), ("out", part.outputs)):
            for tensor in tensors[:_SHOWN]:
                shape = shape_text(tensor.shape).replace(",", "x")
                marks = "".join(
                    f", {word}"
                    for word, there in (
                        ("from the side", tensor.side),
                        ("a constant", tensor.frozen),
                        ("not dumped", dumped and not tensor.dumped),
                    )
                    if there
                )
                say(f"  {what} {tensor.name}: {tensor.dtype}, {shape}{marks}")
            if len(tensors) > _SHOWN:
                say(f"  {what} {len(tensors) - _SHOWN} more")
    for line in _outcome(submodel):
        say(line)
    for line in () if verdict is None else verdict.lines:
        say(f"  {line}")


def _tell(progress: Progress, found: Submodel) -> None:
    if found.path is not None and isinstance(progress, FindingListener):
        progress.found("; ".join(_outcome(found)))


def _outcome(submodel: Submodel) -> list[str]:
    """Where the part is, and what it gave when it was run again."""
    written = [] if submodel.path is None else [f"written to {submodel.path}"]
    if submodel.check is None:
        return written
    outcomes = {True: "gives the golden outputs", False: "gives other outputs"}
    passed = submodel.check.passed
    how = "could not be run" if passed is None else outcomes[passed]
    return [*written, f"run again, the part {how}"]
