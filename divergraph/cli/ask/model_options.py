"""Options of commands that take a model in place of a run, the same for all of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from divergraph.cli.capture_text import say_doubts, say_left_out
from divergraph.cli.input_files import input_files, inputs_option, seed_option
from divergraph.cli.options import opened_to_read, store_url
from divergraph.cli.say import say_note
from graphstore.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from divergraph.api.answers import CaptureResult
    from divergraph.api.runs.parts_of_model import ModelRun
    from divergraph.ask.model_parts import ModelParts
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

        model_run = ModelRun(device, device_dump, golden_dump, input_files(inputs), seed)
        return command(model_run=model_run, **others)

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


@dataclass(frozen=True, slots=True)
class OpenedParts:
    """The parts of a run, and the *store* that keeps it; None for those of a model."""

    parts: ModelParts
    progress: Progress
    store: GraphStore | None


@contextmanager
def opened_parts(
    store: str | None,
    name: str,
    model_run: ModelRun,
    model: Path | None,
    weights: Path | None,
    *,
    values: bool,
    judged: bool = False,
) -> Iterator[OpenedParts]:
    """The parts of the run, graph of the store or model's file *name*, open while the block runs;
    *model* is where that of a run lies now. A model is only run for *values*; one whose parts are
    *judged* by the device needs one.

    Raises:
        InputError: options for models with a run, or files that cannot be used.
        UnknownNameError: it is no run, no graph and no file.
    """
    from divergraph.api.progress import progress_bar
    from divergraph.api.runs.compared_run import ComparedRun
    from divergraph.api.runs.parts_of_model import parts_of_model
    from divergraph.ask.model_parts import ModelParts, asking, is_graph

    with _store_or_none(store, name) as opened_store, progress_bar() as progress:
        alone = not values and model_run.device is None and model_run.device_dump is None
        if alone and opened_store is not None and is_graph(opened_store, name):
            # chosen only: its file need not be there
            yield OpenedParts(ModelParts.of_graph(asking(opened_store), name), progress, None)
            return
        path = Path(name) if opened_store is None else _model_of(opened_store, name, model_run)
        if path is None and opened_store is not None:
            parts = ComparedRun(name, store=opened_store).parts()
            parts.open(progress, model=model)
            yield OpenedParts(parts, progress, opened_store)
            return
        assert path is not None
        with parts_of_model(
            path, model_run, progress, weights=weights, values=values, judged=judged,
            captured=_say_capture, not_run=_say_alone, compared=say_note,
        ) as parts:  # fmt: skip
            yield OpenedParts(parts, progress, None)


def _say_alone(why: str) -> None:
    say_note(f"{why}. The part has the device's values alone")


def _say_capture(result: CaptureResult) -> None:
    say_left_out(result)
    say_doubts(result)


@contextmanager
def _store_or_none(store: str | None, name: str) -> Iterator[GraphStore | None]:
    """The store; None where there is none yet, and *name* is a file's."""
    place = store_url(store)
    if "://" not in place and not Path(place).exists() and Path(name).exists():
        yield None
        return
    with opened_to_read(store) as opened_store:
        yield opened_store


def _model_of(store: GraphStore, name: str, model_run: ModelRun) -> Path | None:
    """The model's file; None if *name* is that of a run."""
    from divergraph.api.runs.parts_of_model import model_named

    try:
        store.run(name)
    except UnknownNameError as error:
        if (path := model_named(store, name)) is not None:
            return path
        if error.near or not Path(name).suffix:
            raise
        raise InputError("no such file, and no run or graph of this name", where=name) from error
    if model_run.given:
        raise InputError(f"--{model_run.given[0]} is for models, and {name!r} is a run")
    return None
