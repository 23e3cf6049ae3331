"""``divergraph diff``."""

from __future__ import annotations

from pathlib import Path

import click

from divergraph.cli.gc_paused import rare_collections
from divergraph.cli.make.worker_options import worker_options
from divergraph.cli.numbers import FiniteRange
from divergraph.cli.say import say, say_json
from divergraph.outcomes import DIVERGED, FINE, NOTHING_COMPARED

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
    from divergraph.api.diff import diff

    with rare_collections():
        found = diff(
            device,
            golden,
            atol=atol,
            rtol=rtol,
            tensor=tensor,
            thresholds=thresholds,
            dtype=dtype,
            shape=shape,
            first=first,
            top=top,
            jobs=jobs,
            cluster=cluster,
            resume=not no_resume,
            progress=True,
        )
    for note in found.notes:
        say(f"note: {note}", err=True)
    if as_json:
        from divergraph.present.json.diff import diff_json_text

        with rare_collections():
            say_json("\n".join(diff_json_text(found.result, found.look)))
    else:
        from divergraph.cli.make.diff_text import show_diff

        show_diff(found, top)
    if not found.compared:
        return NOTHING_COMPARED.exit_code
    return (DIVERGED if found.over else FINE).exit_code
