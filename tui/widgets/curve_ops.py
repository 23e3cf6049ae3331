"""What the chart of a metric shows: the ops in columns of a width, and how high each stands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from divergraph.present.pictures.scales import PlotScale, beyond, beyond_filter, less_is_worse
from divergraph.text.numbers import small_number
from graphstore.columns.coded import Bool, Coded, Float
from graphstore.filter import quoted
from graphstore.model import Metric, OpState

if TYPE_CHECKING:
    from divergraph.present.pictures.metric_curve import MetricCurve

FAR_BELOW = 0.9
"""With a cosine below this a straight scale would hide the small drops before it."""
DECADES = 6
_STEPS = 8
"""So many steps of a limit are a decade."""
_UNITS = 1000
"""The length of an axis whose places have one digit behind the point."""


@dataclass(frozen=True, slots=True)
class CurveOp:
    """One measured op; ``part`` is the name written under the axis where it starts."""

    op: str
    topo: int
    value: float | None
    state: OpState
    part: str


@dataclass(frozen=True, slots=True, eq=False)
class CurveOps:
    """The measured ops along execution order: their numbers in *ids*, values of *metric* (NaN where
    something is), states and parts. *limit* is where the metric fails, if it does anywhere."""

    ids: Sequence[str]
    topo: NDArray[Any]
    values: Float
    states: Coded[OpState | None]
    parts: Coded[str]
    metric: str = Metric.COSINE_SIMILARITY.value
    label: str = Metric.COSINE_SIMILARITY.label
    limit: float | None = None
    where: str = ""
    """The filter that these ops pass."""

    def __len__(self) -> int:
        return len(self.topo)

    def __getitem__(self, index: int) -> CurveOp:
        topo, value = int(self.topo[index]), float(self.values[index])
        state = self.states[index] or OpState.NOT_COMPARED
        known = None if math.isnan(value) else value
        return CurveOp(self.ids[topo], topo, known, state, self.parts[index])

    @property
    def is_cosine(self) -> bool:
        """Whether less is worse."""
        return less_is_worse(self.metric)

    @property
    def badness(self) -> Float:
        """A number that is less for worse values, largest where there is none."""
        worse_first = self.values if self.is_cosine else -self.values
        return np.where(np.isnan(self.values), np.inf, worse_first)

    def beyond(self) -> Bool:
        """The ops worse than the limit; none without a limit."""
        if self.limit is None:
            return np.zeros(len(self), dtype=np.bool_)
        return beyond(self.metric, self.values, self.limit)

    def filter_beyond(self) -> str:
        """The filter that lists them, empty without a limit."""
        if self.limit is None:
            return ""
        return f"{self.where} {beyond_filter(self.metric, self.limit)}".strip()

    def with_limit_moved(self, steps: int) -> CurveOps:
        """The same with the limit so many steps higher on the chart, or the first one."""
        limit = self.limit
        if limit is None:
            limit, steps = (0.99 if self.is_cosine else 0.01), 0
        times = 10 ** (steps / _STEPS)
        if self.is_cosine:
            below = min(2.0, max(10.0**-DECADES, (1 - limit) / times))
            return replace(self, limit=1 - float(f"{below:.3g}"))
        return replace(self, limit=float(f"{limit * times:.3g}"))


NO_OPS = CurveOps((), np.zeros(0, dtype=np.int32), np.zeros(0), Coded.of(()), Coded.of(()))


ChartField: TypeAlias = Literal["type", "state"]
"""What ops of a chart can be chosen by."""


def chart_filter(chosen: Mapping[ChartField, str]) -> str:
    """The filter that takes the *chosen* ops: ``type:"Conv2D" state:"inherited"``."""
    return " ".join(f"{field}:{quoted(value)}" for field, value in chosen.items() if value)


def metric_ops(curve: MetricCurve, where: str = "") -> CurveOps:
    """The ops of a curve of any metric, which pass the filter *where*."""
    return CurveOps(
        curve.ids,
        curve.numbers,
        curve.values,
        curve.states,
        parts_of([curve.ids[number] for number in curve.numbers.tolist()]),
        curve.metric,
        curve.label,
        curve.limits.get("fail"),
        where,
    )


class CurveScale(Protocol):
    """From values to heights in 0..1, and back to a text of seven cells at most."""

    def height(self, value: float) -> float:
        """How high the bar of *value* is."""

    def label(self, height: float) -> str:
        """The number to write at the axis."""


@dataclass(frozen=True, slots=True)
class CosineScale:
    """Straight from ``floor`` to 1, or by nines if it is None."""

    floor: float | None

    def height(self, value: float) -> float:
        """How high the bar of a cosine is."""
        if self.floor is not None:
            return float((value - self.floor) / (1.0 - self.floor))
        return min(1.0, -math.log10(max(1.0 - value, 10.0**-DECADES)) / DECADES)

    def cosine(self, height: float) -> float:
        """The cosine whose bar is so high."""
        if self.floor is not None:
            return float(self.floor + height * (1.0 - self.floor))
        return float(1.0 - 10.0 ** (-DECADES * height))

    def label(self, height: float) -> str:
        """The cosine there, to as many digits as tell it from those beside it."""
        cosine = self.cosine(height)
        if self.floor is None:
            if height >= 1:
                return "1"
            return f"{cosine:.{min(6, max(1, math.ceil(DECADES * height)))}f}"
        digits = max(2, math.ceil(1 - math.log10(max((1.0 - self.floor) / 4, 1e-5))))
        return f"{cosine:.{min(digits, 5)}f}"


@dataclass(frozen=True, slots=True)
class ErrorScale:
    """Logarithms of errors, on an axis from 0 to ``_UNITS``."""

    axis: PlotScale

    def height(self, value: float) -> float:
        """How high the bar of an error is; 0 for none."""
        if value <= 0:
            return 0.0
        return min(1.0, self.axis.place(value) / _UNITS) if math.isfinite(value) else 1.0

    def label(self, height: float) -> str:
        """The error there."""
        return small_number(10 ** (self.axis.low + height * (self.axis.high - self.axis.low)))


def scale_of(ops: CurveOps) -> CurveScale:
    """The scale that shows the differences of *ops*, and the limit among them."""
    known = ops.values[np.isfinite(ops.values)]
    if not ops.is_cosine:
        above = known[known > 0]
        shown = [float(above.min()), float(above.max())] if len(above) else []
        shown += [] if ops.limit is None else [ops.limit]
        return ErrorScale(PlotScale.over(shown, 0, _UNITS, is_log=True))
    low = float(known.min()) if len(known) else 1.0
    if low < FAR_BELOW:
        return CosineScale(None)
    return CosineScale(min(0.999, low - 0.1 * (1.0 - low)))


def blocks_of(ops: int, width: int) -> tuple[list[range], int]:
    """So many *ops* in at most *width* blocks of equal size but for one op, and the cells of
    each."""
    if not ops or width < 1:
        return [], 1
    count = min(ops, width)
    edges = [number * ops // count for number in range(count + 1)]
    return [range(start, end) for start, end in pairwise(edges)], width // count


def worst_of(ops: CurveOps, places: NDArray[Any]) -> int:
    """Which of the *places* has the worst op: an origin before all, then a broken one, then the
    worst value; ops without one come last."""
    rank = ops.states.take(places).keyed(_rank)
    return int(places[np.lexsort((ops.badness[places], rank))[0]])


_WORST: tuple[OpState | None, ...] = (OpState.ORIGIN, OpState.BROKEN)


def _rank(state: OpState | None) -> int:
    return _WORST.index(state) if state in _WORST else len(_WORST)


@dataclass(frozen=True)
class CurveColumns:
    """The ops as they share a width: blocks, the op each stands for, the part its first op is in,
    cells of each, scale, and the number of the block with the worst of all."""

    width: int
    blocks: Sequence[range]
    worst: Sequence[CurveOp]
    parts: Sequence[str]
    cells: int
    scale: CurveScale
    worst_column: int


def columns_of(ops: CurveOps, width: int) -> CurveColumns:
    """The columns of *ops* in *width* cells."""
    blocks, cells = blocks_of(len(ops), width)
    places = np.array([worst_of(ops, np.asarray(block)) for block in blocks], dtype=np.int64)
    worst = [ops[place] for place in places.tolist()]
    parts = [ops.parts[block.start] for block in blocks]
    worst_column = places.tolist().index(worst_of(ops, places)) if blocks else 0
    return CurveColumns(width, blocks, worst, parts, cells, scale_of(ops), worst_column)


def parts_of(names: Sequence[str], depth_limit: int = 4) -> Coded[str]:
    """A short name of the part of the model each op belongs to, from its name spaces.

    The depth is the first that tells at least three parts apart, the common beginning is
    left out: ``net/conv1/Relu`` and ``net/fc/MatMul`` are in ``conv1`` and ``fc``.
    """
    scopes = Coded.of(name.rpartition("/")[0] for name in names)
    parts = scopes.values
    for depth in range(1, depth_limit + 1):
        parts = tuple("/".join(scope.split("/")[:depth]) for scope in scopes.values)
        if len(set(parts) - {""}) >= 3:
            break
    return Coded(scopes.codes, tuple(part.rpartition("/")[2] for part in parts))
