"""``divergraph tensor``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from divergraph.cli.element_text import show_elements, show_figures, show_histogram
from divergraph.cli.metric_text import metric_text
from divergraph.cli.options import (
    common,
    opened_to_read,
    output_option,
    print_answer,
    print_or_show,
)
from divergraph.cli.say import say
from divergraph.text.numbers import short
from divergraph.text.words import shape_text
from graphstore.errors import InputError

if TYPE_CHECKING:
    from divergraph.api.answers import ErrorMap
    from divergraph.ask.questions.tensor import TensorPicture
    from divergraph.ask.questions.tensor_histogram import TensorDistribution
    from divergraph.ask.questions.tensor_values import TensorSlice

_ROWS, _BAR = 16, 40


@click.command("tensor")
@click.argument("run", metavar="RUN|FILE")
@click.argument("op", metavar="[OP|TENSOR]", required=False)
@output_option("Its output N; default: 0.")
@click.option(
    "--input-number",
    "--input",
    "input_",
    type=click.IntRange(min=0),
    help="Its input N.",
    metavar="N",
)
@click.option(
    "--top",
    type=click.IntRange(0, 10_000),
    default=10,
    show_default=True,
    help="So many of the worst elements.",
    metavar="N",
)
@click.option(
    "--at",
    metavar="INDEX",
    help="Print the values at this place only: 0,3:9,: has an index or a range for each axis.",
)
@click.option(
    "--bins",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Print how the values are distributed over N bins.",
)
@click.option(
    "--txt",
    type=click.Path(path_type=Path, readable=False),
    metavar="DIR",
    help="FILE: write its values there as text, FILE.txt.",
)
@click.option("--dtype", metavar="TYPE", help="FILE is raw: its element type, e.g. bfloat16.")
@click.option("--shape", metavar="N,C,H,W", help="FILE is raw: its shape; default: one axis.")
@common
def tensor_command(
    run: str,
    op: str | None,
    output: int | None,
    input_: int | None,
    top: int,
    at: str | None,
    bins: int | None,
    txt: Path | None,
    dtype: str | None,
    shape: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Show the values of a device op beside the golden ones: how they differ, and where.

    With a dump or array FILE instead of RUN and OP: its types, shapes, maximum, minimum and mean,
    first and worst values, of all its tensors or of one TENSOR. Of a folder of dumps: of the
    tensors so called.

    Reads the dumps the run was made of. Indices are those of the golden tensor. The axis shown
    is the one along which the errors differ most.
    """
    from divergraph.ask.questions.tensor import TensorQuestion
    from divergraph.ask.questions.tensor_histogram import TensorHistogramQuestion
    from divergraph.ask.questions.tensor_values import TensorSliceQuestion

    of_file, of_run = (txt, dtype, shape), (output, input_, at, bins)
    plain = all(option is None for option in of_run)
    if op is None or (plain and (Path(run).is_file() or _is_dump(run, store))):
        if any(option is not None for option in of_run):
            raise click.UsageError("the numbers, --at and --bins need a RUN and an OP")
        _look_at_file(Path(run), op, top, txt, dtype, shape, as_json=as_json)
        return
    if any(option is not None for option in of_file):
        raise click.UsageError("--txt, --dtype and --shape need a FILE")
    if output is not None and input_ is not None:
        raise click.UsageError("give --output-number or --input-number, not both")
    if at is not None and bins is not None:
        raise click.UsageError("give --at or --bins, not both")
    if at is not None:
        part = TensorSliceQuestion(run, op, at, output, input_)
        print_answer(part, store, _show_slice, as_json=as_json)
    elif bins is not None:
        spread = TensorHistogramQuestion(run, op, bins, output, input_)
        print_answer(spread, store, _show_distribution, as_json=as_json)
    else:
        question = TensorQuestion(run, op, output, input_, top)
        print_answer(question, store, _show, as_json=as_json)


def _is_dump(name: str, store: str | None) -> bool:
    """Whether *name* is a folder's and no run's: runs are often called as their folders."""
    if not Path(name).is_dir():
        return False
    from divergraph.ask.facts import find_run

    try:
        with opened_to_read(store) as opened:
            return find_run(opened, name) is None
    except InputError:  # there is no store, and so no run
        return True


def _look_at_file(
    path: Path,
    name: str | None,
    top: int,
    txt: Path | None,
    dtype: str | None,
    shape: str | None,
    *,
    as_json: bool,
) -> None:
    from divergraph.api.files.tensor_file import tensor_file
    from divergraph.cli.ask.tensor_file_text import show_file

    tensor_text = tensor_file(path, dtype=dtype, shape=shape, top=top, text=txt, name=name)
    print_or_show(tensor_text, show_file, as_json=as_json)


def _show_slice(answer: TensorSlice) -> None:
    values = answer.found
    say(f"{answer.values.op} at {values.at}: {shape_text(values.golden.shape)}")
    say(f"  {'':12} {'device':>12} {'golden':>12}")
    for place in np.ndindex(values.golden.shape):
        index = ",".join(map(str, place))
        sides = (short(float(side[place]), ".6g") for side in (values.device, values.golden))
        say(f"  {f'[{index}]':12} {' '.join(f'{value:>12}' for value in sides)}")


def _show_distribution(answer: TensorDistribution) -> None:
    histogram = answer.found
    say(f"{answer.values.op}: how many values lie between an edge and the next")
    say(f"  {'':25} {'device':>12} {'golden':>12}")
    edges = [short(edge, ".4g") for edge in histogram.edges.tolist()]
    counts = zip(
        edges, edges[1:], histogram.device.tolist(), histogram.golden.tolist(), strict=False
    )
    for low, high, device, golden in counts:
        say(f"  {low:>12} {high:>12} {device:>12} {golden:>12}")
    if histogram.device_nonfinite or histogram.golden_nonfinite:
        nonfinite = f"{histogram.device_nonfinite:>12} {histogram.golden_nonfinite:>12}"
        say(f"  {'NaN or infinite':25} {nonfinite}")


def _show(answer: TensorPicture) -> None:
    values, picture = answer.values, answer.picture
    compared = values.comparison
    types = f"{compared.device_dtype or '?'} with {compared.golden_dtype or '?'}"
    layout = f" {values.layout}" if values.layout else ""
    say(
        f"{values.op} {values.io.value} {values.port}: {shape_text(picture.shape)}{layout}, {types}"
    )
    if compared.golden is not None:
        say(f"  golden {compared.golden}")
    say(f"  {metric_text(compared.metrics)}")
    if compared.figures is not None:
        show_figures(compared.figures)
    show_histogram(picture.inspection.histogram)
    if picture.is_apart:
        say("two kinds of errors, with a gap between: a fault in a part, no drift")
    if picture.by_axis:
        _show_axis(picture.by_axis[0], values.layout)
    show_elements("largest absolute errors", picture.table.worst_absolute)


def _show_axis(error_map: ErrorMap, layout: str | None) -> None:
    """The mean error along the axis that tells most, its worst places if they are many."""
    axis, step, means = error_map.axes[0], error_map.steps[0], error_map.means.tolist()
    letter = f" ({layout[axis]})" if layout and axis < len(layout) else ""
    places = sorted(range(len(means)), key=lambda n: (-means[n], n))[:_ROWS]
    note = f", the {_ROWS} worst of {len(means)}" if len(means) > _ROWS else ""
    say()
    say(f"mean |device - golden| along axis {axis}{letter}{note}")
    highest = error_map.most
    for place in sorted(places):
        mean = means[place]
        share = min(1.0, mean / highest) if highest else float(math.isinf(mean))
        first = place * step
        name = str(first) if step == 1 else f"{first}-{first + step - 1}"
        say(f"  {name:>10} {'#' * math.ceil(_BAR * share):{_BAR}} {short(mean, '.3g'):>10}")
