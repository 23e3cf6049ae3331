"""Where a number stands on an axis, on one that is logarithmic or not, and beyond which limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from divergraph.text.numbers import short
from graphstore.columns.coded import Bool, Float
from graphstore.model import Metric

_DECADES = 14
"""What is smaller than the largest by more decades lies on the edge."""
_TICKS = 6


def less_is_worse(metric: str) -> bool:
    """Whether 1 is the best value of a metric and less is worse; else 0 is, and more is worse."""
    return metric == Metric.COSINE_SIMILARITY


def beyond(metric: str, values: Float, limit: float) -> Bool:
    """Which *values* of a metric are worse than *limit*; NaN is."""
    within = values >= limit if less_is_worse(metric) else values <= limit
    return np.logical_not(within)


def beyond_filter(metric: str, limit: float) -> str:
    """The filter that lists the ops whose *metric* is worse than *limit*."""
    return f"{metric}{'<' if less_is_worse(metric) else '>'}{limit:.6g}"


@dataclass(frozen=True, slots=True)
class Tick:
    """A labelled place of an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class PlotScale:
    """An axis from the pixel ``start`` (for ``low``) to ``stop``; of logarithms if ``is_log``,
    of whole numbers if ``is_counting``."""

    low: float
    high: float
    start: float
    stop: float
    is_log: bool
    is_counting: bool = False

    @classmethod
    def over(cls, values: Sequence[float], start: float, stop: float, *, is_log: bool) -> PlotScale:
        """One on which all finite *values* have a place."""
        drawable = [value for value in values if math.isfinite(value) and (value > 0 or not is_log)]
        if is_log:
            top_decade = math.ceil(math.log10(max(drawable, default=1.0)) + 1e-9)
            bottom_decade = math.floor(math.log10(min(drawable, default=1e-3)))
            return cls(
                min(max(bottom_decade, top_decade - _DECADES), top_decade - 1),
                top_decade,
                start,
                stop,
                is_log,
            )
        low, high = min(drawable, default=0.0), max(drawable, default=1.0)
        step = _nice((high - low or abs(high) or 1.0) / _TICKS)
        ends = (math.floor(low / step) * step, math.ceil(high / step) * step)
        return cls(ends[0], ends[1] if ends[1] > ends[0] else ends[0] + step, start, stop, is_log)

    @classmethod
    def counting(cls, last: int, start: float, stop: float) -> PlotScale:
        """One from 0 to *last*, with whole numbers along it."""
        return cls(0, max(1, last), start, stop, is_log=False, is_counting=True)

    def place(self, value: float) -> float:
        """The pixel of a finite *value*; above 0 where logarithms are shown."""
        return float(self.places(np.array([value]))[0])

    def places(self, values: NDArray[Any]) -> Float:
        """The pixels of such *values*."""
        at = np.maximum(np.log10(values), self.low) if self.is_log else values
        share = (at - self.low) / (self.high - self.low)
        places: Float = np.round(self.start + share * (self.stop - self.start), 1)
        return places

    def ticks(self) -> list[Tick]:
        """Round numbers along it."""
        if self.is_log:
            first, last = round(self.low), round(self.high)
            decades = range(last, first - 1, -math.ceil((last - first) / _TICKS))
            return [Tick(self.place(10.0**at), f"1e{at}") for at in decades]
        step = _nice((self.high - self.low) / _TICKS)
        if self.is_counting:
            step = max(1.0, step)
        count = math.floor((self.high - self.low) / step + 1e-9)
        values = [self.low + at * step for at in range(count + 1)]
        return [Tick(self.place(value), short(round(value, 12), ".4g")) for value in values]


def _nice(smallest: float) -> float:
    """1, 2 or 5 times a power of ten, not below *smallest*."""
    size = 10.0 ** math.floor(math.log10(smallest))
    return next(factor * size for factor in (1, 2, 5, 10) if factor * size >= smallest * (1 - 1e-9))
