"""``divergraph diff``."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from divergraph.cli.element_text import exact_number, show_elements, show_figures, show_histogram
from divergraph.cli.make.worker_options import worker_options
from divergraph.cli.metric_text import metric_text
from divergraph.cli.numbers import FiniteRange
from divergraph.cli.options import opened_to_read, store_url
from divergraph.cli.say import say, say_json, say_note
from divergraph.outcomes import DIVERGED, FINE, NOTHING_COMPARED
from divergraph.text.words import REASON_WORDS, counted, shape_text

if TYPE_CHECKING:
    from divergraph.api.answers import CloseLook, PairDiff
    from divergraph.api.arguments import WorkerOptions
    from divergraph.api.diff import DumpDiff


_NEW_OBJECTS = 200_000
"""Objects made before the next collection: usually 700, of which none is ever garbage here."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Saves a fifth of the time of a block that makes many results."""
    was = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *was[1:])
    try:
        yield
    finally:
        gc.set_threshold(*was)


_path = click.Path(path_type=Path, readable=False)  # the readers say it in one line
_limit = FiniteRange(min=0)


@click.command("diff")
@click.argument("device", type=_path, metavar="DEVICE|RUN")
@click.argument("golden", type=_path, metavar="GOLDEN|OP")
@click.option(
    "-al", "atol", type=_limit, metavar="A", help="An element may differ by A + R * |golden|."
)
@click.option("-rl", "rtol", type=_limit, metavar="R", help="See -al; 0.001 if only one is given.")
@click.option(
    "-p",
    "first",
    type=click.IntRange(0, 1_000_000),
    default=20,
    show_default=True,
    metavar="N",
    help="Of a single pair, show the first N bad elements.",
)
@click.option(
    "--top",
    type=click.IntRange(0, 10_000),
    default=10,
    show_default=True,
    metavar="N",
    help="Of a single pair, show the N largest errors; of folders, the N worst pairs.",
)
@click.option("--tensor", metavar="PATTERN", help="Only tensors whose name fits, e.g. '*conv1*'.")
@click.option("--thresholds", type=_path, metavar="FILE", help="Limits as a TOML file.")
@click.option("--dtype", metavar="TYPE", help="Element type of raw files, e.g. bfloat16.")
@click.option("--shape", metavar="N,C,H,W", help="Shape of raw files; default: one axis.")
@worker_options
@click.option("--store", metavar="DIR|URL", help="Where RUN is kept.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def diff_command(
    device: Path,
    golden: Path,
    atol: float | None,
    rtol: float | None,
    first: int,
    top: int,
    tensor: str | None,
    thresholds: Path | None,
    dtype: str | None,
    shape: str | None,
    store: str | None,
    as_json: bool,
    **workers: Unpack[WorkerOptions],
) -> int:
    """Compare two tensors, or two folders of them paired by name, without any graph.

    DEVICE comes first, GOLDEN is right by definition: .npy, .npz, .pt, Ascend dumps,
    TensorFlow debugger and msprobe folders, Polygraphy JSON, raw .bin. With a RUN and an OP instead
    the op's outputs are compared in golden's shape and order.

    Exit code 0: all pairs within their limits, 1: some pair over, 2: bad input or nothing
    comparable.
    """
    from divergraph.api.diff import diff

    with rare_collections(), _sides(device, golden, store) as (device_side, right):
        dump_diff = diff(
            device_side,
            right,
            atol=atol,
            rtol=rtol,
            tensor=tensor,
            thresholds=thresholds,
            dtype=dtype,
            shape=shape,
            first=first,
            top=top,
            progress=True,
            **workers,
        )
    for note in dump_diff.notes:
        say_note(note)
    if as_json:
        from divergraph.present.diff_text import diff_json_text

        with rare_collections():
            say_json("\n".join(diff_json_text(dump_diff.result, dump_diff.look)))
    else:
        show_diff(dump_diff, top)
    if not dump_diff.compared:
        return NOTHING_COMPARED.exit_code
    return (DIVERGED if dump_diff.over else FINE).exit_code


@contextmanager
def _sides(device: Path, golden: Path, store: str | None) -> Iterator[tuple[Path, Path]]:
    """Both paths; where neither is there, those of the op *golden* of the run *device*."""
    there = any(os.path.exists(path) for path in (device, golden))  # noqa: PTH110 - of any name
    if there or not is_run(str(device), store):
        yield device, golden
        return
    from divergraph.api.files.run_tensors import run_tensors

    with opened_to_read(store) as opened, run_tensors(opened, str(device), str(golden)) as sides:
        yield sides


def is_run(name: str, store: str | None) -> bool:
    """Whether the store, if there is one yet, has a run of this *name*."""
    url = store_url(store)
    if "://" not in url and not os.path.exists(url):  # noqa: PTH110 - of any name
        return False
    with opened_to_read(store) as opened:
        return name in {run.name for run in opened.runs()}


def show_diff(result: DumpDiff, top: int) -> None:
    """One pair with its elements, or the counts, worst pairs and leftovers of many."""
    if len(result.pairs) == 1:
        _show_pair(result.pairs[0], result.look)
    else:
        _show_pairs(result, top)
    for side, names in (("device", result.device_only), ("golden", result.golden_only)):
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            say(f"only on the {side} side: {', '.join(names[:5])}{more}")


def _show_pairs(result: DumpDiff, top: int) -> None:
    not_compared = len(result.pairs) - result.compared
    say(
        f"{counted(len(result.pairs), 'pair')}: {result.compared} compared, "
        f"{result.over} over a limit, {result.result.warned} past a warning level, "
        f"{not_compared} not compared",
        bold=True,
    )
    worst = result.worst(top)
    if worst:
        say()
        say("worst pairs")
    for pair in worst:
        level = "" if pair.level is None else pair.level.value
        limit = f"  ({pair.limit})" if pair.limit else ""
        say(f"  {metric_text(pair.found.metrics)}  {level:4}  {pair.name}{limit}")
    groups = result.reasons()
    if groups:
        say()
        say("not compared")
    for reason, count in groups:
        first = next(pair for pair in result.pairs if pair.found.reason is reason)
        say(f"  {count:5}  {REASON_WORDS[reason]:36}  {first.name}: {first.found.detail}")


def _show_pair(pair: PairDiff, look: CloseLook | None) -> None:
    measurement = pair.found
    if measurement.metrics is None:
        reason = "" if measurement.reason is None else REASON_WORDS[measurement.reason]
        say(f"{pair.name}: not compared: {reason}: {measurement.detail}", bold=True)
        return
    level = "" if pair.level is None else pair.level.value
    say(f"{pair.name}: {level}{f' ({pair.limit})' if pair.limit else ''}", bold=True)
    say(f"  {metric_text(measurement.metrics)}")
    say(
        f"  device {measurement.device_dtype or '?'}, golden {measurement.golden_dtype or '?'}, "
        f"shape {shape_text(measurement.shape)}"
    )
    figures = measurement.figures
    if figures is None or look is None:
        say(f"  {measurement.detail}")
        return
    show_figures(figures)
    _show_elements(look)


def _show_elements(look: CloseLook) -> None:
    table, inspection = look.table, look.inspection
    say()
    say(
        f"{table.bad} of {counted(table.total, 'element')} bad: "
        f"|device - golden| > {look.atol:.3g} + {look.rtol:.3g} * |golden|"
        + (f"; {inspection.where_bad}" if inspection.where_bad else "")
    )
    say(
        f"absolute error {exact_number(table.min_absolute)} to {exact_number(table.max_absolute)}, "
        f"relative error {exact_number(table.min_relative)} to {exact_number(table.max_relative)}"
    )
    if inspection.ulps is not None:
        ulps = inspection.ulps
        say(f"up to {ulps.largest:g} ulp of {ulps.unit}, {ulps.mean:.3g} on average")
    show_histogram(look.inspection.histogram)
    show_elements("first bad elements", table.first_bad)
    show_elements("largest absolute errors", table.worst_absolute)
    show_elements("largest relative errors", table.worst_relative)
