"""The error of all ops over the execution order, as a picture that needs no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.ask.facts import Facts
from divergraph.ask.op_order import STATE_ORDER
from divergraph.ask.sentences import SPLIT_LABELS
from divergraph.present.html.data import TOLD_METRICS, plot_limits
from divergraph.server.pages.pictures.scales import PlotScale, Tick
from divergraph.text.known_figures import known_figures
from divergraph.text.numbers import short
from graphstore.columns.coded import Float, Numbers
from graphstore.columns.parts import OptionalNumbers
from graphstore.model import Metric, OpState

PLOTTED: Mapping[str, str] = {
    **{metric.value: metric.label for metric in TOLD_METRICS},
    **SPLIT_LABELS,
}
"""What can be on the vertical axis, with its name."""
FIRST = Metric.RELATIVE_EUCLIDEAN_DISTANCE.value
WIDTH, HEIGHT = 1180, 310
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 4, 10, 26
_LANE = 26
"""A lane above for what is no finite number, one below for exact zeros."""
_COLUMNS, _ROWS = 320, 64
"""Of the ops that fall into one cell of such a grid the worst is shown."""
STATE_RANK: Mapping[OpState | None, int] = {state: rank for rank, state in enumerate(STATE_ORDER)}


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
    ticks; ``lanes`` are named. ``ops`` were measured, of which ``points`` show the worst."""

    metric: str
    label: str
    points: Sequence[PlotPoint]
    ticks: Sequence[Tick]
    along: Sequence[Tick]
    limits: Mapping[str, float]
    lanes: Sequence[Tick]
    ops: int
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    bottom: int = HEIGHT - _BOTTOM


def scatter_plot(facts: Facts, metric: str) -> ScatterPlot:
    """The plot of *metric*, one of ``PLOTTED``; the usual one in place of any other."""
    metric = metric if metric in PLOTTED else FIRST
    numbers = _numbers(facts, metric)
    drawable = np.flatnonzero(numbers.known)
    values = numbers.values[drawable]
    limits = {} if facts.run is None else plot_limits(facts.run, metric)
    finite = values[np.isfinite(values)]
    ends = [] if not len(finite) else [_smallest_place(finite, metric), float(finite.max())]
    low, high = HEIGHT - _BOTTOM - _LANE, _TOP + _LANE
    is_log = metric != Metric.COSINE_SIMILARITY
    scale = PlotScale.over([*ends, *limits.values()], low, high, is_log=is_log)
    across = PlotScale.counting(len(facts.rows) - 1, _LEFT + 6, WIDTH - _RIGHT - 6)
    heights, lanes = _heights(values, scale)
    places = np.column_stack([across.places(drawable), heights])
    return ScatterPlot(
        metric,
        PLOTTED[metric],
        _points(facts, drawable, values, places),
        scale.ticks(),
        [Tick(tick.at, f"{float(tick.text):g}") for tick in across.ticks()],
        {name: scale.place(bound) for name, bound in limits.items()},
        lanes,
        len(drawable),
    )


def _numbers(facts: Facts, metric: str) -> OptionalNumbers:
    if metric in SPLIT_LABELS:
        return facts.rows.split_number(metric)
    return known_figures(facts.rows, Metric(metric))


def _smallest_place(finite: Float, metric: str) -> float:
    """The least number that has a place on the axis."""
    above = finite if metric == Metric.COSINE_SIMILARITY else finite[finite > 0]
    return float(above.min()) if len(above) else 0.0


def _heights(values: Float, scale: PlotScale) -> tuple[Float, list[Tick]]:
    """Where the values stand, and the lanes in which some do that have no place on the scale."""
    nonfinite = ~np.isfinite(values)
    nothing = ~nonfinite & (values <= 0) if scale.is_log else np.zeros(len(values), dtype=np.bool_)
    heights = scale.places(np.where(nonfinite | nothing, 1.0, values))
    lanes = []
    for which, text, at in (
        (nonfinite, "NaN, Inf", _TOP + _LANE / 2 - 7),
        (nothing, "0", HEIGHT - _BOTTOM - _LANE / 2 + 5),
    ):
        heights[which] = at
        if which.any():
            lanes.append(Tick(at, text))
    return heights, lanes


def _points(facts: Facts, numbers: Numbers, values: Float, places: Float) -> list[PlotPoint]:
    """The worst op of each cell of the grid, in the order in which they are drawn."""
    ranks = {facts.arrays.number[one.op]: one.rank for one in facts.origins}
    worst = facts.rows.states.take(numbers).keyed(lambda state: STATE_RANK.get(state, 9))
    is_origin = np.isin(numbers, list(ranks))
    columns, rows = (places * (_COLUMNS / WIDTH, _ROWS / HEIGHT)).astype(np.int64).T
    cells = (columns * _ROWS + rows) * 2 + is_origin
    order = np.lexsort((worst, cells))
    first = order[np.unique(cells[order], return_index=True)[1]]
    drawn = first[np.lexsort((places[first, 0], -worst[first], is_origin[first]))]
    points = []
    for at in drawn.tolist():
        number = int(numbers[at])
        op, state = facts.rows.ids[number], facts.rows.states[number] or OpState.NOT_COMPARED
        text = f"{op}: {short(float(values[at]), '.4g')}, {state.value}"
        x, y = places[at].tolist()
        points.append(PlotPoint(x, y, op, state, text, ranks.get(number, 0)))
    return points
