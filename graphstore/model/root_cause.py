"""Which op introduces an error and which only carries it: the values of the root-cause analysis.

d is a device tensor, g its golden tensor, f(d_in) the output of the reference ops on the device's
own inputs. d - g splits exactly into introduced d - f(d_in) and propagated f(d_in) - g.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TypeAlias

from graphstore.model.dumps import TensorIO


class Role(StrEnum):
    """What an op does to the error."""

    INTRODUCES = "introduces"
    CARRIES = "carries"
    AMPLIFIES = "amplifies"
    ATTENUATES = "attenuates"
    CLEAN = "clean"
    UNKNOWN = "unknown"
    """No reference could be run, so nothing is known."""


class Guilt(StrEnum):
    """How far the introduced error is above what the device's arithmetic explains."""

    NONE = "none"
    SUSPECT = "suspect"
    GUILTY = "guilty"


@dataclass(frozen=True, slots=True)
class ErrorSplit:
    """The error of one device output tensor, split. Errors are Euclidean norms.

    ``introduced`` = |d - f(d_in)| / |f(d_in)|, ``propagated`` = |f(d_in) - g| / |g|,
    ``floor`` the introduced error the device's own precision explains,
    ``suspicion`` = introduced / floor. ``amplification`` = propagated over the largest
    relative error of the measured inputs, None without one. Infinite where only one side
    is finite. ``group`` holds the ids of the golden ops that were run as one reference,
    ``reference`` what ran them (``onnxruntime 1.31.1``). With a ``failure`` no reference
    could be run, numbers are None and the role is unknown.
    """

    role: Role
    guilt: Guilt = Guilt.NONE
    introduced: float | None = None
    propagated: float | None = None
    floor: float | None = None
    suspicion: float | None = None
    amplification: float | None = None
    group: tuple[str, ...] = ()
    reference: str = ""
    failure: str = ""

    @property
    def numbers(self) -> dict[str, float | None]:
        """The numbers by name."""
        return {name: getattr(self, name) for name in SPLIT_NUMBERS}


SPLIT_NUMBERS = tuple(field.name for field in fields(ErrorSplit) if field.type == "float | None")
"""The names of the numbers of a split, in the order of their declaration."""
SPLIT_ORDERS = (
    "suspicion",
    *(name for name in SPLIT_NUMBERS if name not in ("suspicion", "floor")),
)
"""What ops can be sorted by, the largest first."""


class Effect(StrEnum):
    """What a tolerance did to a judgement."""

    WIDEN = "widens"
    """It raises the floor: more error is explained."""
    NARROW = "narrows"
    """It lowers the floor: the error is of a kind that rounding does not make."""
    EXCLUDE = "excludes"
    """It leaves elements of the tensor out."""


@dataclass(frozen=True, slots=True)
class Adjustment:
    """One tolerance that acted: the noise floor before and after it, and its own numbers.

    ``reason`` is a sentence on what devices do. Floors are relative errors.
    """

    tolerance: str
    effect: Effect
    reason: str
    before: float
    after: float
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reckoning:
    """How the suspicion of one device output was reckoned, from the reference to the guilt.

    ``reference`` is what ran the original ops, ``arithmetic`` what was emulated (``fp16``).
    ``error`` is the norm |d - r| and ``size`` the norm |r|, over the places that count.
    ``emulated`` is |e - r| / |r|, the error of the emulation e, None where it could not run;
    ``least`` the least floor of any tensor of that size. ``adjustments`` follow in the order they
    were made; ``floor`` is what came of them.
    """

    op: str
    port: int
    reference: str
    arithmetic: str
    error: float
    size: float
    emulated: float | None
    least: float
    adjustments: tuple[Adjustment, ...]
    introduced: float
    floor: float
    suspicion: float
    guilt: Guilt


EvidenceValue: TypeAlias = (
    "bool | int | float | str | Sequence[EvidenceValue] | Mapping[str, EvidenceValue] | None"
)
"""What JSON holds."""
Evidence: TypeAlias = Mapping[str, EvidenceValue]
"""The numbers behind a finding, by name."""


class FindingKind(StrEnum):
    """Which check made a finding."""

    CAUSE = "cause"
    """Why a guilty op is wrong (root-cause analysis)."""
    ADVICE = "advice"
    """A detection of the advisor over the whole run."""
    CONSISTENCY = "consistency"
    """A check that needs the device side only."""


FAULT_OF = "fault_of"
"""The key in a cause's evidence of :class:`FaultOf`; missing where the op has no second witness."""


UNCLASSIFIED = "unclassified"
"""The label of a cause where no rule explains the error."""


class FaultOf(StrEnum):
    """Who made a guilty device op wrong, by the op's own definition."""

    KERNEL = "kernel"
    """It is wrong by its own definition, too."""
    COMPILER = "compiler"
    """It is right by its own definition: it is another op than the original."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something found, in words, with the numbers behind it.

    ``label`` is the machine's word for it (``lost_bias``), unique in its kind.
    ``op`` is a device op's id, "" for the whole run; ``port`` -1 for the op as a whole.
    ``confidence`` is 0 to 1.
    """

    kind: FindingKind
    label: str
    sentence: str
    op: str = ""
    io: TensorIO = TensorIO.OUTPUT
    port: int = -1
    confidence: float = 1.0
    evidence: Evidence = field(default_factory=dict)
