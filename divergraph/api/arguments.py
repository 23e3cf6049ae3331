"""Arguments of users, converted for the rooms below: paths, words, limits, workers."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, TypeAlias, TypedDict, TypeVar

from graphstore.errors import InputError
from graphstore.filter import OpFilter, parse_filter
from graphstore.model import Side

if TYPE_CHECKING:
    from divergraph.metrics.pairs.many_pairs import Workers
    from divergraph.rootcause.options import RootCauseOptions

AnyPath: TypeAlias = str | os.PathLike[str]
"""Wherever a file or folder is meant."""

MIB = 1 << 20

_SHORT_OPERANDS = ("hf32", "tf32")
"""float32 whose matrix operands have fewer bits: the formats users may choose."""

_Word = TypeVar("_Word", bound=StrEnum)


class PlaceOptions(TypedDict, total=False):
    """Which of several dumps of a folder is taken."""

    time: str | None
    rank: int | None
    model_id: int | None
    step: int | None


class JudgingOptions(TypedDict, total=False):
    """The options of the root-cause analysis, as of ``compare``."""

    suspect: float
    guilty: float
    precision: str
    memory: int


class WorkerOptions(TypedDict, total=False):
    """Who measures many tensors, as of ``compare``."""

    jobs: int | None
    cluster: str | None
    resume: bool


def optional_path(given: AnyPath | None) -> Path | None:
    """The path, if there is one."""
    return None if given is None else Path(given)


def word(kind: type[_Word], given: str, argument: str) -> _Word:
    """The member of *kind* that *given* names.

    Raises:
        InputError: there is none of this name.
    """
    try:
        return kind(given)
    except ValueError as error:
        raise InputError(
            f"{argument}={given!r}: not known", hint=f"one of {', '.join(kind)}"
        ) from error


def side_of(given: Side | str) -> Side:
    """The side ``"device"`` or ``"golden"``.

    Raises:
        InputError: it is neither.
    """
    return word(Side, given, "side")


def filter_of(where: OpFilter | str | None) -> OpFilter | None:
    """The filter of a text such as ``state:origin cos<0.99``; None and ``""`` let all pass.

    Raises:
        FilterError: the text is none.
    """
    return (parse_filter(where) if where else None) if isinstance(where, str) else where


def root_cause_of(suspect: float, guilty: float, precision: str, memory: int) -> RootCauseOptions:
    """The options of the root-cause analysis; *memory* in MiB.

    Raises:
        InputError: the limits contradict each other, or no such precision.
    """
    from divergraph.rootcause.arithmetic.contract import format_named
    from divergraph.rootcause.devices.precision import precision_named
    from divergraph.rootcause.devices.precisions.fp32 import FP32
    from divergraph.rootcause.options import RootCauseOptions

    size = at_least_one(memory, "memory") * MIB
    if precision in _SHORT_OPERANDS:
        operands = format_named(precision)
        return RootCauseOptions(suspect, guilty, FP32, size, operands)
    chosen = None if precision == "auto" else precision_named(precision)
    return RootCauseOptions(suspect, guilty, chosen, size)


def precision_names(*, installed: bool) -> tuple[str, ...]:
    """The words ``precision=`` takes, ``auto`` first.

    Without *installed* those of the built-in arithmetics: nothing is loaded to list these, as each
    is called like its module. With it those of plug-ins, too.
    """
    if installed:
        from divergraph.rootcause.devices.precision import precisions

        names = [precision.name for precision in precisions()]
    else:
        from divergraph.rootcause.devices import precisions as folder

        names = [module.name for module in iter_modules(folder.__path__)]
    return ("auto", *sorted((*names, *_SHORT_OPERANDS)))


def workers_of(jobs: int | None, cluster: str | None, *, resume: bool) -> Workers:
    """The workers: *jobs* processes, or the Dask cluster at *cluster*.

    Raises:
        InputError: fewer than one process.
    """
    from divergraph.metrics.pairs.many_pairs import Workers

    return Workers(None if jobs is None else at_least_one(jobs, "jobs"), cluster, resume)


def at_least_one(given: int, argument: str) -> int:
    """*given*, a number above 0.

    Raises:
        InputError: it is not.
    """
    if given < 1:
        raise InputError(f"{argument}={given}: must be at least 1")
    return given
