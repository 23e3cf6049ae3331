"""Options of commands that measure many tensors: who does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

_jobs = click.option(
    "--jobs",
    type=click.IntRange(1, 512),
    metavar="N",
    help="Worker processes; default: as many as the work is worth.",
)
_cluster = click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Work on a Dask cluster: tcp://host:8786, local, or local:N.",
)
_no_resume = click.option(
    "--no-resume",
    "resume",
    is_flag=True,
    callback=lambda _ctx, _param, is_set: not is_set,
    help="Do not take up what a killed comparison has done.",
)


def worker_options(command: _Command) -> _Command:
    """Give a command ``--jobs``, ``--cluster`` and ``--no-resume``."""
    return _jobs(_cluster(_no_resume(command)))
