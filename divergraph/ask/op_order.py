"""In which order the ops of a list stand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from divergraph.text.known_figures import known_figures, undefined_figures
from graphstore.columns.coded import Coded, Float, Int
from graphstore.columns.op_columns import OpColumns
from graphstore.columns.parts import OptionalNumbers
from graphstore.model import METRIC_NUMBERS, TELLING_METRICS, Metric, OpState, Role, Shape

SortKey: TypeAlias = Callable[[OpColumns], OptionalNumbers]
"""A number for each op, small for those that come first; ops without one come last."""


@dataclass(frozen=True, slots=True)
class Order:
    """By which column the rows are sorted."""

    column: str
    descending: bool = False


ORDERS = (
    *("topo", "op", "type", "state", "cos", "max", "rel", "gain", "role", "susp", "intro"),
    *(metric.value for metric in METRIC_NUMBERS if metric not in TELLING_METRICS),
)
"""The columns that lists of ops are offered by."""
IN_RUN = Order("cos")
IN_GRAPH = Order("topo")

_FOUND: WeakKeyDictionary[OpColumns, dict[Order, Int]] = WeakKeyDictionary()


def arrange(ops: OpColumns, order: Order) -> Int:
    """The numbers of all *ops* sorted by *order*, equal ones by topo.

    Ascending by a metric means worst first, NaN worst of all. Ops without a value come
    last in either direction. An order is found once as long as *ops* are kept.
    """
    arranged = _FOUND.setdefault(ops, {})
    if order not in arranged:
        arranged[order] = _arranged(ops, order)
    return arranged[order]


def _arranged(ops: OpColumns, order: Order) -> Int:
    if order == IN_GRAPH:
        return np.arange(len(ops), dtype=np.int32)
    keys = SORT_KEYS[order.column](ops)
    values = -keys.values if order.descending else keys.values
    numbers = np.flatnonzero(keys.known)
    numbers = numbers[np.argsort(values[numbers], kind="stable")]
    return np.concatenate((numbers, np.flatnonzero(~keys.known))).astype(np.int32)


def _all(values: NDArray[Any]) -> OptionalNumbers:
    return OptionalNumbers(values.astype(np.float64), np.ones(len(values), dtype=np.bool_))


def _largest_first(numbers: OptionalNumbers) -> OptionalNumbers:
    """The largest number first, NaN before it."""
    values = np.where(np.isnan(numbers.values), -np.inf, -numbers.values)
    return OptionalNumbers(values, numbers.known)


def _defined(ops: OpColumns, metric: Metric) -> OptionalNumbers:
    """The metric of each op; unknown where it has no value, so that those come last, though NaN in
    a tensor comes first."""
    figures = known_figures(ops, metric)
    return OptionalNumbers(figures.values, figures.known & ~undefined_figures(ops, metric))


def _cosine(ops: OpColumns) -> OptionalNumbers:
    cosine = _defined(ops, Metric.COSINE_SIMILARITY)
    worst = np.isnan(cosine.values) | ops.states.equal(OpState.BROKEN)
    return OptionalNumbers(np.where(worst, -np.inf, cosine.values), cosine.known)


def _ranked(column: Coded[str]) -> OptionalNumbers:
    """Texts by the alphabet; empty ones are unknown."""
    rank = {text: float(at) for at, text in enumerate(sorted(column.values))}
    return OptionalNumbers(column.keyed(rank.__getitem__), column.where(bool))


def _ids(ops: OpColumns) -> OptionalNumbers:
    ranks: Float = np.empty(len(ops))
    ranks[sorted(range(len(ops)), key=ops.ids.__getitem__)] = np.arange(len(ops))
    return _all(ranks)


def _shapes(ops: OpColumns) -> OptionalNumbers:
    def size(shape: Shape | None) -> float:
        return 0.0 if shape is None else -float(math.prod(dim or 1 for dim in shape))

    return OptionalNumbers(ops.shapes.keyed(size), ~ops.shapes.equal(None))


def _placed(column: Coded[Any], order: Sequence[Any]) -> OptionalNumbers:
    """Values by their place in *order*; others are unknown."""
    places = column.keyed(lambda value: order.index(value) if value in order else np.nan)
    return OptionalNumbers(places, ~np.isnan(places))


def _roles(ops: OpColumns) -> OptionalNumbers:
    places = np.append(_placed(ops.splits.roles, _ROLES).values, np.nan)[ops.judged]
    return OptionalNumbers(places, ~np.isnan(places))


_ROLES = (
    Role.INTRODUCES,
    Role.AMPLIFIES,
    Role.CARRIES,
    Role.ATTENUATES,
    Role.CLEAN,
    Role.UNKNOWN,
)
STATE_ORDER = (
    OpState.BROKEN,
    OpState.ORIGIN,
    OpState.INHERITED,
    OpState.DRIFTING,
    OpState.EXPLAINED,
    OpState.CLEAN,
    OpState.NOT_COMPARED,
)
"""The states, worst first."""
STARTS_FIRST = (OpState.ORIGIN, *(state for state in STATE_ORDER if state is not OpState.ORIGIN))
"""The states as many ops together are judged: that an error starts there says most."""

_OTHERS = tuple(metric for metric in METRIC_NUMBERS if metric not in TELLING_METRICS)
"""The metrics without a short column name; the larger, the worse."""


def _by_metric(metric: Metric) -> SortKey:
    return lambda ops: _largest_first(_defined(ops, metric))


SORT_KEYS: Mapping[str, SortKey] = {
    "state": lambda ops: _placed(ops.states, STATE_ORDER[:-1]),
    "topo": lambda ops: _all(np.arange(len(ops))),
    "op": _ids,
    "type": lambda ops: OptionalNumbers(_ranked(ops.types).values, np.full(len(ops), True)),
    "dtype": lambda ops: _ranked(ops.dtypes),
    "shape": _shapes,
    "layout": lambda ops: _ranked(ops.layouts),
    "subgraph": lambda ops: _ranked(ops.subgraphs),
    "cos": _cosine,
    "max": _by_metric(Metric.MAX_ABSOLUTE_ERROR),
    "rel": _by_metric(Metric.RELATIVE_EUCLIDEAN_DISTANCE),
    "gain": lambda ops: _largest_first(OptionalNumbers(ops.gain, ~np.isnan(ops.gain))),
    "from": lambda ops: _ranked(ops.origins.mapped(lambda names: names[0] if names else "")),
    "role": _roles,
    "susp": lambda ops: _largest_first(ops.split_number("suspicion")),
    "intro": lambda ops: _largest_first(ops.split_number("introduced")),
    **{metric.value: _by_metric(metric) for metric in _OTHERS},
}

LARGEST_FIRST = {"max", "rel", "gain", "shape", "susp", "intro", *map(str, _OTHERS)}
"""Columns whose worst or first value is the largest number."""
