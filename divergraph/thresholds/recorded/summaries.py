"""The statistics of a tensor of a recorded call, and how exactly they are written."""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphstore.model import UNIT_ROUNDOFF, DType, DumpTensorRef

ADDED = 16 * UNIT_ROUNDOFF[DType.FLOAT32]
"""By how much sums in float32 are off, relative to the size of what is added up."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The statistics of a tensor that a call of ``rank`` reads or makes; ``unit`` is the rounding
    of its type, in which the statistics are written, too."""

    rank: int
    count: int
    maximum: float
    minimum: float
    mean: float
    norm: float
    unit: float
    checksum: str
    shape: tuple[int, ...] = ()

    @property
    def size(self) -> float:
        """The root mean square."""
        return self.norm / math.sqrt(self.count)

    @property
    def largest(self) -> float:
        """The largest value by size."""
        return max(abs(self.maximum), abs(self.minimum))

    @property
    def mark(self) -> tuple[float | str, ...]:
        """What is equal if the values are."""
        return self.checksum or "", self.maximum, self.minimum, self.mean, self.norm

    @property
    def written(self) -> float:
        """By how much a mean is off as it is written: added up in float32, rounded to its type, in
        float16 to no less than its least number."""
        return self.unit * abs(self.mean) + ADDED * self.size + self.least

    @property
    def least(self) -> float:
        """The least number of float16, halved; nothing of other types."""
        return 2.0**-25 if self.unit == UNIT_ROUNDOFF[DType.FLOAT16] else 0.0


def summary_of(ref: DumpTensorRef | None, rank: int = 0) -> Summary | None:
    """The statistics of a dumped tensor; None where it has none, or one of them is not finite."""
    statistics = None if ref is None else ref.statistics
    if ref is None or statistics is None or not statistics.count:
        return None
    numbers = statistics.maximum, statistics.minimum, statistics.mean, statistics.norm
    finite = [number for number in numbers if number is not None and math.isfinite(number)]
    if len(finite) < len(numbers):
        return None
    maximum, minimum, mean, norm = finite
    unit = UNIT_ROUNDOFF.get(ref.dtype or DType.FLOAT32, 0.0)
    return Summary(
        rank, statistics.count, maximum, minimum, mean, norm, unit, statistics.checksum,
        tuple(ref.shape or ()),
    )  # fmt: skip
