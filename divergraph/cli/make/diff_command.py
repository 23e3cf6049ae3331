"""``divergraph diff``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from divergraph.cli.gc_paused import rare_collections
from divergraph.cli.make.worker_options import worker_options, workers_of
from divergraph.cli.numbers import FiniteRange
from divergraph.cli.progress_bar import progress_bar
from divergraph.cli.say import say, say_json
from divergraph.outcomes import DIVERGED, FINE, NOTHING_COMPARED
from graphstore.errors import InputError

if TYPE_CHECKING:
    from importers.dumps.bare.index import RawForm

_path = click.Path(path_type=Path, readable=False)  # the readers say it in one line
_limit = FiniteRange(min=0)


@click.command("diff")
@click.argument("device", type=_path)
@click.argument("golden", type=_path)
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
    jobs: int | None,
    cluster: str | None,
    no_resume: bool,
    as_json: bool,
) -> int:
    """Compare two tensors, or two folders of them paired by name, without any graph.

    DEVICE comes first, GOLDEN is right by definition: .npy, .npz, .pt, Ascend dumps,
    TensorFlow debugger and msprobe folders, Polygraphy JSON, raw .bin.

    Exit code 0: all pairs within their limits, 1: some pair over, 2: bad input or nothing
    comparable.
    """
    from divergraph.dump_diff.diff_dumps import DiffRequest, diff_dumps

    request = DiffRequest(
        device,
        golden,
        thresholds,
        atol,
        rtol,
        tensor,
        _form(dtype, shape),
        workers_of(jobs, cluster, no_resume),
    )
    with progress_bar() as progress:
        with rare_collections():
            result = diff_dumps(request, progress)
        look = None
        if len(result.pairs) == 1:
            from divergraph.dump_diff.single_pair import look_closely

            progress.stage("looking at every element")
            look = look_closely(
                result.pairs[0], result.wanted, first=first, top=top, workers=request.workers
            )
    for note in result.notes:
        say(f"note: {note}", err=True)
    if as_json:
        from divergraph.present.json.diff import diff_json_text

        with rare_collections():
            say_json("\n".join(diff_json_text(result, look)))
    else:
        from divergraph.cli.make.diff_text import show_diff

        show_diff(result, look, top)
    if not result.compared:
        return NOTHING_COMPARED.exit_code
    return (DIVERGED if result.over else FINE).exit_code


def _form(dtype: str | None, shape: str | None) -> RawForm:
    from graphstore.model import DType
    from importers.dumps.bare.index import RawForm
    from importers.dumps.decode import can_decode

    if dtype is None:
        if shape is not None:
            raise InputError("--shape needs --dtype", hint="say the element type of raw files")
        return RawForm()
    known = [each.value for each in DType if can_decode(each) and each.bits]
    if dtype not in known:
        raise InputError(f"--dtype {dtype}: no such type", hint=f"one of {', '.join(known)}")
    if shape is None:
        return RawForm(DType(dtype))
    parts = shape.replace("x", ",").split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise InputError(f"--shape {shape}: no shape", hint="sizes with commas: 1,3,224,224")
    return RawForm(DType(dtype), tuple(map(int, parts)))
