"""What an operand format is: how a matrix engine reads the two factors of its products.

A format is a value grid (the numbers eight or four bits can be) with a scale layout (the values
that share one scale) for activations, and one for weights. Grids and layouts are found in
``formats`` and at entry points of the group ``divergraph.arithmetics``, and combined; what is no
such combination gives itself as an ``OperandFormat``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np

from divergraph.execute.contract import Array
from divergraph.files.discovered import discovered
from graphstore.errors import InputError

ENTRY_POINT_GROUP = "divergraph.arithmetics"


class Role(StrEnum):
    """What an operand is: computed anew in each run, or a constant of the model."""

    ACTIVATION = "activation"
    WEIGHT = "weight"


class Grid(ABC):
    """The numbers one element can be. ``name`` is its word in analyses; ``bits`` are those of its
    mantissa, or of the whole integer. ``largest`` is the largest number, None for types that stand
    without a scale; ``integers`` says that the numbers are evenly spaced."""

    name: str
    bits: int
    largest: float | None = None
    integers = False
    variant_of: str = ""
    """The name of the grid that has the same numbers: this one is only tried where that one is the
    likeliest."""

    @abstractmethod
    def rounded(self, value: Array) -> Array:
        """*value* (float32, divided by its scale) as the nearest numbers of the grid, float32. What
        is beyond ``largest`` becomes ``largest``."""


class Layout(ABC):
    """The values that share a scale. ``name`` follows the grid's in analyses (``by row``), *words*
    says it in a sentence."""

    name: str
    words: str
    variant_of = ""
    """The name of the layout that this one is nearly alike: it is only tried where that one is the
    likeliest of its grid."""
    ties_often = False
    """The scales have so few bits that values of 16 bits over them are ties in every tensor."""

    def fits(self, grid: Grid) -> bool:
        """Whether values of *grid* can have scales of this layout."""
        return grid.largest is not None

    @abstractmethod
    def rounded(self, value: Array, axis: int, grid: Grid) -> Array:
        """*value* (float32 of any shape, summed over *axis*) divided by its scales, rounded to
        *grid* and multiplied again: float32 of the same shape."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A grid with a layout: how one operand is read."""

    grid: Grid
    layout: Layout

    @property
    def name(self) -> str:
        """The words of grid and layout: ``e4m3 by row``."""
        return f"{self.grid.name} {self.layout.name}".strip()

    @property
    def variant_of(self) -> tuple[str, str] | None:
        """The grid and layout that this reading is nearly alike; None if it is no variant."""
        if not (self.grid.variant_of or self.layout.variant_of):
            return None
        return (
            self.grid.variant_of or self.grid.name,
            self.layout.variant_of or self.layout.name,
        )

    def __str__(self) -> str:
        if self.grid.largest is None:
            return f"{self.grid.name} ({self.grid.bits} bits of mantissa)"
        return f"{self.grid.name} {self.layout.words}".strip()

    def __call__(self, value: Array, axis: int) -> Array:
        """*value*, which is summed over *axis*, as the multiplier reads it, in its dtype. Only
        floats are changed."""
        if value.dtype.kind != "f" or not value.size:
            return value
        with np.errstate(all="ignore"):
            rounded = self.layout.rounded(np.asarray(value, np.float32), axis, self.grid)
        return np.asarray(rounded, value.dtype).reshape(value.shape)


class Accumulator(ABC):
    """How the terms of a product are added up. ``name`` is its word in analyses, *words* those of a
    sentence. Where the order is not known (``ordered``), only the size of the errors tells. What
    rounds the whole sum ``once`` is no way of adding up, but what holds the product before the next
    op of a fused one."""

    name: str
    words: str
    ordered = True
    once = False

    @abstractmethod
    def added(self, first: Array, second: Array) -> Array:
        """The product of *first* [..., m, k] and *second* [..., k, n] (float32) as [..., m, n]."""


class OperandFormat(ABC):
    """How the operands of a product are read, and how its terms are added up. ``name`` is its word
    in analyses and runs; ``scaled`` says that the values are divided by scales first, so that its
    errors have no size of their own. Formats are compared by name."""

    name: str
    scaled = True
    price = 1
    """How many things a user has to be told of it: of formats that fit alike, the simplest is."""
    ties_often = False
    """As of :class:`Layout`, of all that has a scale."""
    leaves_activations = False
    """Only weights are held in this format: they are scaled back before they are multiplied."""
    sums: Accumulator | None = None
    """None: in float32, as golden does."""

    @abstractmethod
    def operand(self, value: Array, axis: int, role: Role) -> Array:
        """*value* (of any dtype and shape, summed over *axis*) as the multiplier reads it, in its
        dtype and shape."""

    @property
    @abstractmethod
    def sentence(self) -> str:
        """What users read behind "operands": ``e4m3 with a scale for the tensor``."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OperandFormat) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<operands {self.name}>"


_PLAIN = "plain"
_TIMES = " x "
_SUMS = ", sums "


@dataclass(frozen=True, eq=False, repr=False)
class Combined(OperandFormat):
    """One reading for activations and one for weights; None leaves them as they are."""

    activation: Reading | None
    weight: Reading | None
    sums: Accumulator | None = None

    @property
    def name(self) -> str:  # type: ignore[override]  # follows from its parts
        """``e4m3 by row``, or both sides where they differ: ``plain x int4 by row``; sums in fewer
        bits follow: ``plain, sums fp16 by 16``."""
        sides = [
            _PLAIN if reading is None else reading.name
            for reading in (self.activation, self.weight)
        ]
        operands = sides[0] if sides[0] == sides[1] else _TIMES.join(sides)
        return operands if self.sums is None else f"{operands}{_SUMS}{self.sums.name}"

    @property
    def scaled(self) -> bool:  # type: ignore[override]  # follows from its parts
        """Whether a side has scales."""
        return any(
            reading.grid.largest is not None
            for reading in (self.activation, self.weight)
            if reading
        )

    @property
    def ties_often(self) -> bool:  # type: ignore[override]  # follows from its parts
        """Whether values and scales make ties in every tensor."""
        scaled = (each for each in (self.activation, self.weight) if each and each.layout.name)
        return self.scaled and all(reading.layout.ties_often for reading in scaled)

    @property
    def price(self) -> int:  # type: ignore[override]  # follows from its parts
        """The different readings, their scales, those that are held in a way of their own, sums."""
        own = {reading for reading in (self.activation, self.weight) if reading is not None}
        variants = sum(reading.variant_of is not None for reading in own)
        scaled = sum(bool(reading.layout.name) for reading in own)
        return len(own) + scaled + variants + (self.sums is not None)

    @property
    def leaves_activations(self) -> bool:  # type: ignore[override]  # follows from its parts
        """Whether only weights are read so."""
        return self.activation is None and self.weight is not None

    def operand(self, value: Array, axis: int, role: Role) -> Array:
        """*value* as it is read in this *role*."""
        reading = self.weight if role is Role.WEIGHT else self.activation
        return value if reading is None else reading(value, axis)

    @property
    def sentence(self) -> str:
        """Both sides in words."""
        if self.activation is None or self.weight is None:
            reading = self.weight or self.activation
            role = "weights" if self.activation is None else "activations"
            return f"{role} {reading}" if reading is not None else "as they are"
        if self.activation == self.weight:
            return str(self.activation)
        return f"activations {self.activation}, weights {self.weight}"


FULL = Combined(None, None)
"""Operands as they are."""


def _flat() -> Iterator[object]:
    for entry in discovered(f"{__package__}.formats", "ARITHMETIC", ENTRY_POINT_GROUP):
        yield from entry if isinstance(entry, tuple) else (entry,)


@cache
def readings() -> tuple[Reading, ...]:
    """Every grid with every layout that fits it."""
    grids = [entry for entry in _flat() if isinstance(entry, Grid)]
    layouts = [entry for entry in _flat() if isinstance(entry, Layout)]
    return tuple(Reading(g, layout) for g in grids for layout in layouts if layout.fits(g))


@cache
def all_sums() -> tuple[Accumulator, ...]:
    """The ways of adding up, besides float32."""
    return tuple(entry for entry in _flat() if isinstance(entry, Accumulator))


@cache
def whole_formats() -> tuple[OperandFormat, ...]:
    """The formats that are no combinations, and those of types that need no scales, which read both
    operands alike."""
    declared = [entry for entry in _flat() if isinstance(entry, OperandFormat)]
    plain = [Combined(reading, reading) for reading in readings() if reading.grid.largest is None]
    return (*declared, *plain)


def format_named(name: str) -> OperandFormat:
    """The format of this name.

    Raises:
        InputError: there is none, or not any more: a plug-in may be gone.
    """
    for kind in (FULL, *whole_formats()):
        if kind.name == name:
            return kind
    by_name = {reading.name: reading for reading in readings()}
    operands, _, summed = name.partition(_SUMS)
    sides = operands.split(_TIMES) if _TIMES in operands else [operands, operands]
    sums = {"": None, **{accumulator.name: accumulator for accumulator in all_sums()}}
    if all(side == _PLAIN or side in by_name for side in sides) and summed in sums:
        activation, weight = (by_name.get(side) for side in sides)
        return Combined(activation, weight, sums[summed])
    raise InputError(
        f"no operand format {name!r}",
        hint=f"grids are {', '.join(sorted({reading.grid.name for reading in by_name.values()}))}",
    )
