"""What a tolerance is: something devices do that changes how an error is to be measured.

Each is one file of this folder, which calls it ``TOLERANCE``, or an entry point of the group
``divergraph.tolerances``. It is shown one output at a time and widens the noise floor, narrows
it, excludes places, or does nothing. What acted is kept with its numbers (``origins --explain``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from typing import TypeAlias

from divergraph.execute.contract import Array, Executor
from divergraph.rootcause.devices.precision import SMALLEST_NORMAL_FP32
from divergraph.rootcause.devices.quantised_ops import QuantisedOps
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.registry import discovered
from divergraph.rootcause.tolerances.masks import Mask
from divergraph.rootcause.tolerances.noise_floor import Emulation

ENTRY_POINT_GROUP = "divergraph.tolerances"


class Stage(IntEnum):
    """When tolerances are asked, in this order."""

    PLACES = 1
    """Before there is a floor: which places of the tensor count."""
    KNOWN = 2
    """What is known of the group makes the emulation too narrow."""
    SUSPICIOUS = 3
    """The error would be suspect: what else explains it, and whether a norm hides more."""
    HIDDEN = 4
    """Of any error: is it of a kind that rounding does not make?"""
    LAST = 5
    """The error would be guilty: does it matter at all?"""


@dataclass(frozen=True, slots=True)
class OpContext:
    """What is known of one output besides its values.

    ``given`` is what its group was fed, by golden tensor name; ``arithmetic`` emulates groups;
    ``inputs_error`` is the largest relative error of what was fed, None without any;
    ``hidden_bodies`` says that the device may quantise inside of bodies.
    """

    executor: Executor
    golden: OpGraph
    options: RootCauseOptions
    quantised: QuantisedOps
    hidden_bodies: bool
    group: Group
    given: Mapping[str, Array]
    arithmetic: Emulation
    inputs_error: float | None = None

    @property
    def ops(self) -> int:
        """How many golden ops were run as one."""
        return len(self.group.ops)

    @property
    def quantises(self) -> bool:
        """Whether the device computes the group in integers, or quantises at all."""
        return bool(self.group.integers or self.arithmetic.quantisers.by_tensor)

    def smallest_normal(self, told: ToleranceEstimate) -> float:
        """The smallest normal number of what the device holds: it may hold an output in more bits
        than it computes in, and then small numbers are kept."""
        precision = self.arithmetic.precision
        narrow = precision.fits(told.device)
        return precision.smallest_normal if narrow else SMALLEST_NORMAL_FP32


@dataclass(frozen=True, slots=True)
class ToleranceEstimate:
    """What an output is held against, and how far off it may be.

    ``reference`` is r, NaN where nothing is to be measured, ``device`` d in its shape; ``floor`` is
    relative to the norm of r, ``absolute`` a norm below which no error says anything. ``masked``
    are the places of values that stand for infinity;
    both sides are 0 there, or as much as the device was to hold. ``imitations`` are of r's shape,
    as healthy arithmetic may have made it, the emulation first. ``expected`` is what a device that
    quantises was to make, where that is known exactly and the error is against that. ``unseen``
    is the floor of what is not emulated, 0 where all is. No suspicion passes ``bound``.
    """

    reference: Array
    device: Array
    floor: float = 0.0
    absolute: float = 0.0
    masked: Mask | None = None
    imitations: tuple[Array, ...] = ()
    expected: Array | None = None
    unseen: float = 0.0
    bound: float = math.inf

    @property
    def emulation(self) -> Array | None:
        """e, what the group makes in the device's arithmetic; None where it could not run."""
        return self.imitations[0] if self.imitations else None

    @property
    def are_floats(self) -> bool:
        """Whether both sides hold real numbers at all: only those are rounded."""
        sides = (self.device, self.reference)
        return self.reference.size > 0 and all(each.dtype.kind == "f" for each in sides)


Numbers: TypeAlias = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Widen:
    """The floor is at least ``floor``, errors below ``absolute`` say nothing, and suspicion does
    not pass ``bound``; ``imitations`` are as healthy arithmetic may have made the output, too."""

    floor: float = 0.0
    absolute: float = 0.0
    bound: float = math.inf
    imitations: tuple[Array, ...] = ()
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Narrow:
    """The floor is at most ``floor``, and the absolute one too; ``expected`` takes the place of the
    reference for whoever explains the error."""

    floor: float
    absolute: float = math.inf
    expected: Array | None = None
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exclude:
    """Places are left out: NaN in ``reference``, or those of ``mask``."""

    reference: Array | None = None
    mask: Mask | None = None
    numbers: Numbers = field(default_factory=dict)


Action: TypeAlias = Widen | Narrow | Exclude | None
Apply: TypeAlias = Callable[[OpContext, ToleranceEstimate], Action]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """One of them. ``order`` is its place among those of its stage; ``reason`` a sentence for
    people: what devices do. ``handed_on``: it is asked of ops that only hand a value on, too.
    """

    name: str
    stage: Stage
    order: int
    reason: str
    apply: Apply
    handed_on: bool = False


@cache
def tolerances() -> tuple[Tolerance, ...]:
    """All that are installed, in the order they are asked."""
    found = discovered(str(__package__), "TOLERANCE", ENTRY_POINT_GROUP)
    known = [each for each in found if isinstance(each, Tolerance)]
    return tuple(sorted(known, key=lambda each: (each.stage, each.order, each.name)))
