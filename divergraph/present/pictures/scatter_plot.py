"""Where the ops of a metric curve stand on a picture of so many pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.ask.op_order import STATE_ORDER
from divergraph.present.pictures.metric_curve import MetricCurve
from divergraph.present.pictures.scales import PlotScale, Tick
from divergraph.text.numbers import short
from graphstore.columns.coded import Float
from graphstore.model import OpState

WIDTH, HEIGHT = 1180, 310
LEFT, RIGHT, TOP, BOTTOM = 62, WIDTH - 4, 10, HEIGHT - 26
_LANE = 26
"""A lane above for what is no finite number, one below for exact zeros."""
_NONFINITE_AT, _ZERO_AT = TOP + _LANE / 2 - 7, BOTTOM - _LANE / 2 + 5
_COLUMNS, _ROWS = 320, 64
"""Of the ops that fall into one cell of such a grid the worst is shown."""
_SAME = 1e-3
"""Of the third digit: what is nearer to a number of three digits is that number."""
_SEVERITY: Mapping[OpState | None, int] = {state: rank for rank, state in enumerate(STATE_ORDER)}


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """An op; ``rank`` is that of an origin, else 0."""

    x: float
    y: float
    op: str
    state: OpState
    text: str
    rank: int


@dataclass(frozen=True, slots=True)
class ScatterPlot:
    """Points, the worst last, over lines for the limits (``fail`` and ``warn``) and the axes'
    ticks; ``lanes`` are named. The curve's ops were measured, of which ``points`` show the
    worst."""

    curve: MetricCurve
    points: Sequence[PlotPoint]
    ticks: Sequence[Tick]
    along: Sequence[Tick]
    limits: Mapping[str, float]
    lanes: Sequence[Tick]
    scale: PlotScale
    across: PlotScale

    def measure(self) -> Mapping[str, object]:
        """What a script needs to put ops and limits on the axes."""
        return {
            "low": self.scale.low,
            "high": self.scale.high,
            "bottom": self.scale.start,
            "top": self.scale.stop,
            "log": self.scale.is_log,
            "left": self.across.start,
            "right": self.across.stop,
            "nonfinite": _NONFINITE_AT,
            "zero": _ZERO_AT,
            "cell": [WIDTH / _COLUMNS, HEIGHT / _ROWS],
        }


def scatter_plot(curve: MetricCurve, limit: float | None = None) -> ScatterPlot:
    """The plot of *curve*; with *limit* in place of the one of the run."""
    values = curve.values
    limits = dict(curve.limits) if limit is None else {**curve.limits, "fail": limit}
    is_log = not curve.is_cosine
    shown = [bound for bound in limits.values() if bound > 0 or not is_log]
    finite = values[np.isfinite(values)]
    ends = [] if not len(finite) else [_least_on(finite, is_log), float(finite.max())]
    scale = PlotScale.over([*ends, *shown], BOTTOM - _LANE, TOP + _LANE, is_log=is_log)
    across = PlotScale.counting(curve.ops - 1, LEFT + 6, RIGHT - 6)
    heights, lanes = _heights(values, scale)
    places = np.column_stack([across.places(curve.numbers), heights])
    return ScatterPlot(
        curve,
        _points(curve, places),
        scale.ticks(),
        [Tick(tick.at, f"{float(tick.text):g}") for tick in across.ticks()],
        {name: scale.place(bound) for name, bound in limits.items() if bound in shown},
        lanes,
        scale,
        across,
    )


def counted_values(values: Float) -> Iterator[str]:
    """The values as ``0.0525*3``: so many lie between 0.052 and 0.053, and ``0.05*2`` equal 0.05.

    A limit that is dragged has three digits, and needs no more to be held against a million values.
    """
    finite = values[np.isfinite(values)]
    if others := len(values) - len(finite):
        yield f"NaN*{others}"
    size = np.abs(finite)
    decades = np.floor(np.log10(size, where=size > 0, out=np.zeros(len(size)))) - 2
    digits = finite / 10.0**decades
    nearest = np.rint(digits)
    places = np.where(np.abs(digits - nearest) < _SAME, nearest, np.floor(digits) + 0.5)
    pairs, counts = np.unique(np.column_stack([decades, places]), axis=0, return_counts=True)
    for (decade, place), count in zip(pairs.tolist(), counts.tolist(), strict=True):
        yield f"{place * 10**decade:.4g}*{count}"


def _least_on(finite: Float, is_log: bool) -> float:
    """The least number that has a place on the axis."""
    above = finite[finite > 0] if is_log else finite
    return float(above.min()) if len(above) else 0.0


def _heights(values: Float, scale: PlotScale) -> tuple[Float, list[Tick]]:
    """Where the values stand, and the lanes in which some do that have no place on the scale."""
    nonfinite = ~np.isfinite(values)
    nothing = ~nonfinite & (values <= 0) if scale.is_log else np.zeros(len(values), dtype=np.bool_)
    heights = scale.places(np.where(nonfinite | nothing, 1.0, values))
    lanes = []
    for which, text, at in (
        (nonfinite, "NaN, Inf", _NONFINITE_AT),
        (nothing, "0", _ZERO_AT),
    ):
        heights[which] = at
        if which.any():
            lanes.append(Tick(at, text))
    return heights, lanes


def _points(curve: MetricCurve, places: Float) -> list[PlotPoint]:
    """The worst op of each cell of the grid, in the order in which they are drawn."""
    worst = curve.states.keyed(lambda state: _SEVERITY.get(state, 9))
    is_origin = np.isin(curve.numbers, list(curve.ranks))
    columns, rows = (places * (_COLUMNS / WIDTH, _ROWS / HEIGHT)).astype(np.int64).T
    cells = (columns * _ROWS + rows) * 2 + is_origin
    order = np.lexsort((worst, cells))
    first = order[np.unique(cells[order], return_index=True)[1]]
    drawn = first[np.lexsort((places[first, 0], -worst[first], is_origin[first]))]
    points = []
    for at in drawn.tolist():
        number = int(curve.numbers[at])
        op, state = curve.ids[number], curve.states[at] or OpState.NOT_COMPARED
        text = f"{op}: {short(float(curve.values[at]), '.4g')}, {state.value}"
        x, y = places[at].tolist()
        points.append(PlotPoint(x, y, op, state, text, curve.ranks.get(number, 0)))
    return points
