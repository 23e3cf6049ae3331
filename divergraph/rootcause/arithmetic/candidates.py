"""The few operand formats that are worth running: those whose roundings show in the errors of
products, whatever else these lose."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import product

from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.contract import (
    FULL,
    Accumulator,
    Combined,
    OperandFormat,
    Reading,
    Role,
    all_sums,
    readings,
    whole_formats,
)
from divergraph.rootcause.arithmetic.matched import ProductErrors, Side
from divergraph.rootcause.groups.group_runs import GroupSample
from divergraph.rootcause.tolerances.noise_floor import Emulation

ALIKE = 1.05
"""Formats that leave up to so many times the least are alike: they choose words, not guilt."""
_RUN_OF_SIDE = 2
"""Readings of each side, and ways of adding up, that are run. Bounds cost."""


def likeliest_formats(samples: Sequence[GroupSample], plain: Emulation) -> list[OperandFormat]:
    """The formats whose roundings show in the products of *samples*, the likeliest first; *plain*
    imitates the value type alone."""
    errors = (ProductErrors.of(sample, plain) for sample in samples)
    matched = [error for error in errors if error is not None]
    sides = [side for product_errors in matched for side in product_errors.sides()]
    by_role = {role: _readings([side for side in sides if side.role is role]) for role in Role}
    pairs = product(by_role[Role.ACTIVATION], by_role[Role.WEIGHT])
    combined = [Combined(*pair) for pair in pairs]
    # Errors of sums may look a little like those of a format.
    summed = [
        Combined(pair.activation, pair.weight, sums)
        for pair in dict.fromkeys((FULL, *combined))
        for sums in _likely_sums(matched, pair)
        if pair != FULL or not sums.once
    ]
    rounds = plain.precision.rounds  # then short types are no operands of their own
    whole_kinds = [kind for kind in whole_formats() if kind.scaled or not rounds]
    return [*whole_kinds, *(pair for pair in combined if pair != FULL), *summed]


def _readings(sides: Sequence[Side]) -> list[Reading | None]:
    """The few readings that agree best with all of *sides*; None where none does better than
    chance."""

    def heard(reading: Reading) -> float:
        return sum(side.agreement(reading(side.value, -1)) for side in sides)

    def likeliest() -> list[Reading]:
        """Of formats with many exponents a power of two is no scale: without is the simpler."""
        limit = max(agreements.values()) / ALIKE
        plain = [x for x in agreements if not x.layout.name and agreements[x] >= limit]
        return sorted(agreements, key=lambda x: (x not in plain, -agreements[x]))[:_RUN_OF_SIDE]

    def better(reading: Reading) -> Iterator[Reading]:
        """Its variants that agree better: they take the place of no other format."""
        name = reading.grid.name, reading.layout.name
        variants = [variant for variant in readings() if variant.variant_of == name]
        yield from (variant for variant in variants if heard(variant) > agreements[reading])

    agreements = {reading: heard(reading) for reading in readings() if reading.variant_of is None}
    # The sum of so many numbers, each of which is as large as 1 by chance.
    by_chance = calibration.TILES_BY_CHANCE * math.sqrt(len(sides))
    likely = [reading for reading in likeliest() if agreements[reading] > by_chance]
    return [each for reading in likely for each in (reading, *better(reading))] or [None]


def _likely_sums(matched: Sequence[ProductErrors], kind: OperandFormat) -> list[Accumulator]:
    """The few ways of adding up whose errors are most like those that operands in the format *kind*
    leave of these products."""
    if not matched:
        return []
    ordered = [accumulator for accumulator in all_sums() if accumulator.ordered]
    every = [product_errors.sums_agreements(kind, ordered) for product_errors in matched]
    alike = {sums: statistics.median(own) for sums, *own in zip(ordered, *every, strict=True)}
    likely = [sums for sums in alike if alike[sums] >= calibration.OPERANDS_ALIKE]
    return sorted(likely, key=lambda sums: -alike[sums])[:_RUN_OF_SIDE]
