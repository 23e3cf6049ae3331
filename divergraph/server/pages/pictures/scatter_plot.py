"""The error of all ops over the execution order, as a picture that needs no script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.ask.facts import Facts
from divergraph.ask.op_order import STATE_ORDER
from divergraph.ask.sentences import SPLIT_LABELS
from divergraph.present.html.data import METRIC_LABELS, plot_limits
from divergraph.server.pages.pictures.scales import Scale, Tick
from divergraph.text.known_figures import known_figures
from divergraph.text.numbers import short
from graphstore.columns.parts import OptionalNumbers
from graphstore.model import Metric, OpState

PLOTTED: Mapping[str, str] = {
    **{metric.value: label for metric, label in METRIC_LABELS.items()},
    **SPLIT_LABELS,
}
"""What can be on the vertical axis, with its name."""
FIRST = Metric.RELATIVE_EUCLIDEAN_DISTANCE.value
WIDTH, HEIGHT = 1180, 310
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 4, 10, 26
_LANE = 26
"""A lane above for what is no finite number, one below for exact zeros."""
_COLUMNS, _ROWS = 560, 120
"""Of the ops that fall into one cell of such a grid the worst is shown."""
_RANK = {state: rank for rank, state in enumerate(STATE_ORDER)}


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
    shown = np.flatnonzero(numbers.known)
    values = numbers.values[shown]
    limits = {} if facts.run is None else plot_limits(facts.run, metric)
    is_log = metric != Metric.COSINE_SIMILARITY
    finite = values[np.isfinite(values)].tolist()
    low, high = HEIGHT - _BOTTOM - _LANE, _TOP + _LANE
    scale = Scale.over([*finite, *limits.values()], low, high, is_log=is_log)
    across = Scale.counting(len(facts.rows) - 1, _LEFT + 6, WIDTH - _RIGHT - 6)
    lanes = _Lanes(scale)
    places = [lanes.place(value) for value in values.tolist()]
    return ScatterPlot(
        metric,
        PLOTTED[metric],
        _points(facts, shown.tolist(), values.tolist(), places, across),
        scale.ticks(),
        [Tick(each.at, f"{float(each.text):g}") for each in across.ticks()],
        {name: lanes.place(bound) for name, bound in limits.items()},
        [Tick(y, text) for text, y in lanes.used.items()],
        len(shown),
    )


def _numbers(facts: Facts, metric: str) -> OptionalNumbers:
    if metric in SPLIT_LABELS:
        return facts.rows.split_number(metric)
    return known_figures(facts.rows, Metric(metric))


class _Lanes:
    """Places on a scale, and beside it for what has none there; ``used`` are those beside."""

    def __init__(self, scale: Scale) -> None:
        self._scale = scale
        self.used: dict[str, float] = {}

    def place(self, value: float) -> float:
        if not math.isfinite(value):
            return self.used.setdefault("NaN, Inf", _TOP + _LANE / 2 - 7)
        if self._scale.is_log and value <= 0:
            return self.used.setdefault("0", HEIGHT - _BOTTOM - _LANE / 2 + 5)
        return self._scale.place(value)


def _points(
    facts: Facts,
    numbers: Sequence[int],
    values: Sequence[float],
    places: Sequence[float],
    across: Scale,
) -> list[PlotPoint]:
    """The worst op of each cell of the grid, in the order in which they are drawn."""
    ranks = {one.op: one.rank for one in facts.origins}
    states = facts.rows.states
    cells: dict[tuple[int, int, bool], tuple[int, PlotPoint]] = {}
    for number, value, y in zip(numbers, values, places, strict=True):
        op, x = facts.rows.ids[number], across.place(number)
        state = states[number] or OpState.NOT_COMPARED
        rank = ranks.get(op, 0)
        cell = (int(x * _COLUMNS / WIDTH), int(y * _ROWS / HEIGHT), bool(rank))
        kept = cells.get(cell)
        if kept is None or _RANK[state] < kept[0]:
            text = f"{op}: {short(value, '.4g')}, {state.value}"
            cells[cell] = (_RANK[state], PlotPoint(x, y, op, state, text, rank))
    drawn = sorted(cells.values(), key=lambda each: (each[1].rank > 0, -each[0], each[1].x))
    return [point for _, point in drawn]
