"""The two answers beside a run's verdict: is the model's result damaged, and who is to blame?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ResultState(StrEnum):
    """What the outputs of the device's model are like, beside golden's."""

    RIGHT = "right"
    """Every output that was compared is within its limits, and so is every part of it."""
    DAMAGED = "damaged"
    """An output, or a part of one, is over a limit, lost, of another shape, or names another
    index."""
    NOT_KNOWN = "not_known"
    """No output of the model was compared, nor what it is computed from."""


class Blamed(StrEnum):
    """Who is to blame for a run's errors."""

    OPS = "ops"
    INPUTS = "inputs"
    INPUTS_OR_OPS = "inputs_or_ops"
    """The device did not dump an input, and another one explains as much as a faulty op."""
    LAYOUT = "layout"
    """How the job is split over its ranks."""
    ARITHMETIC = "arithmetic"
    """The device's arithmetic as a whole: nearly every op is off, so none is by itself."""
    NOBODY = "nobody"
    """No op makes more error than rounding explains."""
    NOT_KNOWN = "not_known"


@dataclass(frozen=True, slots=True)
class DamagedOutput:
    """An output of the model, or the ``part`` of one ("" for the whole), that is damaged.

    ``tensor`` is golden's name of it, ``op`` and ``port`` the device's output. ``damage`` says how
    it is wrong. ``error`` is the device's relative error there, ``rounding`` that of a device that
    rounds in every op and is right otherwise; both None where they are not known. ``inherent``
    says whether rounding explains the damage, None where that is not known.
    """

    tensor: str
    op: str
    port: int
    part: str
    damage: str
    error: float | None = None
    rounding: float | None = None
    inherent: bool | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """Whether the outputs of the model are damaged. ``because`` is the sentence that says why."""

    state: ResultState = ResultState.NOT_KNOWN
    because: str = ""
    damaged: tuple[DamagedOutput, ...] = ()


@dataclass(frozen=True, slots=True)
class RunBlame:
    """Who is to blame. ``because`` is the sentence that says why; ``ops`` are device ops, by id."""

    on: Blamed = Blamed.NOT_KNOWN
    because: str = ""
    ops: tuple[str, ...] = ()
