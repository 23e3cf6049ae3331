"""``divergraph tf-dump``, ``npu-dump`` and ``npu-overflow``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from divergraph.api.files.data_folder import NOTHING_YET, found_at
from divergraph.api.files.job_setup import JobAction, ScriptJob, end_text, start
from divergraph.cli.options import print_json
from divergraph.cli.precision_tool.commands import overflows
from divergraph.cli.precision_tool.place import ToolPlace
from divergraph.cli.precision_tool.sides import comparison
from divergraph.cli.say import say_note
from graphstore.errors import InputError

_Command = TypeVar("_Command", bound=Callable[..., Any])
_path = click.Path(path_type=Path, readable=False)
_STANDARD_ERROR = 2
_settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def _job(command: _Command) -> _Command:
    """Give a command the data folder and the script with its arguments."""
    data = click.option(
        "--data", type=_path, default="precision_data", show_default=True, metavar="DIR",
        help="Where to dump; made if it is not there.",
    )  # fmt: skip
    json = click.option(
        "--json", "as_json", is_flag=True, help="Print JSON on standard output; the script"
        " prints on standard error.",
    )  # fmt: skip
    script = click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
    return data(json(script(command)))


def _keeps(command: _Command) -> _Command:
    """Give a command what it needs for the comparison at its end."""
    run = click.option("--run", metavar="NAME", help="Name of the run; default: the folder's.")
    store = click.option("--store", metavar="DIR|URL", help="Where the run is kept.")
    return run(store(command))


@click.command("tf-dump", context_settings=_settings)
@_job
@_keeps
def tf_dump_command(
    command: tuple[str, ...], data: Path, as_json: bool, run: str | None, store: str | None
) -> int:
    """Run a training script on the CPU or GPU and dump every tensor: the golden side.

    The script wraps its session: `sess = divergraph.tf_config.sess_dump(sess)`. What the device
    dumped before is compared at the end.
    """
    _start(ScriptJob(command, JobAction.TF_DUMP, data), as_json)
    return _compared(ToolPlace(data, store, run, as_json))


@click.command("npu-dump", context_settings=_settings)
@_job
@click.option("--steps", default="0", show_default=True, metavar="0|5|10", help="Steps to dump.")
@click.option("--fusion-switch", type=_path, metavar="FILE", help="Fusion switch file to use.")
@_keeps
def npu_dump_command(
    command: tuple[str, ...],
    data: Path,
    as_json: bool,
    steps: str,
    fusion_switch: Path | None,
    run: str | None,
    store: str | None,
) -> int:
    """Run a training script on the device; dump graphs and tensors, and compare.

    The script takes its configuration from divergraph.tf_config or precision_tool.tf_config.
    """
    _start(ScriptJob(command, JobAction.NPU_DUMP, data, steps, fusion_switch), as_json)
    return _compared(ToolPlace(data, store, run, as_json))


@click.command("npu-overflow", context_settings=_settings)
@_job
def npu_overflow_command(command: tuple[str, ...], data: Path, as_json: bool) -> int:
    """Run a training script on the device and name the ops whose computation overflowed."""
    _start(ScriptJob(command, JobAction.NPU_OVERFLOW, data), as_json)
    place, folder = ToolPlace(data, as_json=as_json), found_at(data)
    if folder is None or folder.overflow is None:
        return _waits(place, ("an overflow dump: none was written",))
    return overflows(place)


def _start(job: ScriptJob, as_json: bool) -> None:
    code = start(job, says_on=_STANDARD_ERROR if as_json else None)
    if message := end_text(code):
        raise InputError(message, where=" ".join(job.command))


def _compared(place: ToolPlace) -> int:
    folder = found_at(place.data)
    missing = NOTHING_YET.missing if folder is None else folder.missing
    return _waits(place, missing) if missing else comparison(place)


def _waits(place: ToolPlace, missing: tuple[str, ...]) -> int:
    """Nothing can be compared yet."""
    if place.as_json:
        print_json({"data": str(place.data), "missing": list(missing)})
    else:
        say_note(f"there is still missing: {', '.join(missing)}")
    return 0
