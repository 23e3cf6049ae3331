"""Options of commands that take a model in place of a run, the same for all of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from divergraph.cli.input_files import input_files, inputs_option, seed_option
from graphstore.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from divergraph.api.runs.model_parts import ModelParts
    from divergraph.api.runs.parts_of_model import ModelRun
    from divergraph.jobs.progress import Progress
    from graphstore.contract import GraphStore

_Command = TypeVar("_Command", bound=Callable[..., Any])
_path = click.Path(path_type=Path, readable=False)  # the readers say it in one line


def model_options(command: _Command) -> _Command:
    """Give a command the options that say what there is of a model's runs, passed together as
    ``model_run``."""

    @functools.wraps(command)
    def together(
        *,
        device: Path | None,
        device_dump: Path | None,
        golden_dump: Path | None,
        inputs: tuple[str, ...],
        seed: int | None,
        **others: object,
    ) -> object:
        from divergraph.api.runs.parts_of_model import ModelRun

        given = ModelRun(device, device_dump, golden_dump, input_files(inputs), seed)
        return command(model_run=given, **others)

    wrapped: Any = together
    for option in reversed(
        (
            click.option(
                "--device", type=_path, metavar="GRAPH", help="MODEL: the device's graph of it."
            ),
            click.option(
                "--device-dump", type=_path, metavar="DIR", help="MODEL: the device's dump."
            ),
            click.option(
                "--golden-dump",
                type=_path,
                metavar="DIR",
                help="MODEL: its own dump. Default: it is run here, on what the device was fed.",
            ),
            inputs_option,
            seed_option,
        )
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


def is_kept(store: GraphStore, run: str, given: ModelRun) -> bool:
    """Whether *run* names a run of the store, not a model.

    Raises:
        InputError: it does, but with options that are for models.
        UnknownNameError: it is no run, no graph of the store and no file.
    """
    from divergraph.api.runs.parts_of_model import model_named

    try:
        store.run(run)
    except UnknownNameError:
        if model_named(store, run) is None:
            raise
        return False
    if given.given:
        raise InputError(f"--{given.given[0]} is for models, and {run!r} is a run")
    return True


@contextmanager
def opened_parts(
    store: GraphStore, model: str, given: ModelRun, weights: Path | None, progress: Progress,
    *, values: bool,
) -> Iterator[ModelParts]:  # fmt: skip
    """The parts of a *model*, a graph of the store or a file, while the block runs."""
    from divergraph.api.runs.parts_of_model import model_named, parts_of_model

    path = model_named(store, model)
    assert path is not None, "is_kept() found it"
    with parts_of_model(path, given, progress, weights=weights, values=values) as parts:
        yield parts
