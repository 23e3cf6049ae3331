"""What a condition of a filter is: a function of all ops as columns that says which it holds for.

Texts are tested once for each different value that a column has.
"""

from __future__ import annotations

import operator as compare
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphstore.columns.coded import Bool, Float, Int
from graphstore.columns.op_attributes import attributes_of, rank_texts
from graphstore.columns.op_columns import OpColumns
from graphstore.columns.parts import SPREAD, OptionalNumbers
from graphstore.filter.dtype_words import canonical_dtype
from graphstore.filter.fields import Operator
from graphstore.model import SPLIT_NUMBERS, Metric, Shape

Condition: TypeAlias = Callable[[OpColumns], Bool]
TextTest: TypeAlias = Callable[[str], bool]


def inverse(other: Condition) -> Condition:
    """Holds where another does not."""
    return lambda ops: ~other(ops)


def any_of(others: Sequence[Condition]) -> Condition:
    """Holds where one of several does."""
    return lambda ops: np.logical_or.reduce([other(ops) for other in others])


def all_of(others: Sequence[Condition]) -> Condition:
    """Holds where all of several do; of none, everywhere."""

    def holds(ops: OpColumns) -> Bool:
        mask = np.ones(len(ops), dtype=np.bool_)
        for other in others:
            mask &= other(ops)
        return mask

    return holds


def on_texts(name: str, fits: TextTest) -> Condition:
    """Holds where the text of the field *name*, or one of its texts, fits."""
    return lambda ops: _TEXTS[name](ops, fits)


def on_shapes(fits: Callable[[Shape | None], bool]) -> Condition:
    """Holds where the shape fits, which may be unknown."""
    return lambda ops: ops.shapes.where(fits)


def on_failed(fits: Callable[[tuple[Metric, ...]], bool]) -> Condition:
    """Holds where the metrics over their limits fit."""
    return lambda ops: ops.failed.where(fits)


# --- numbers ---------------------------------------------------------------------------

_ORDER: Mapping[Operator, Callable[[Any, float], Any]] = {
    Operator.FITS: compare.eq,
    Operator.EQUAL: compare.eq,
    Operator.LESS: compare.lt,
    Operator.AT_MOST: compare.le,
    Operator.MORE: compare.gt,
    Operator.AT_LEAST: compare.ge,
}


@dataclass(frozen=True, slots=True)
class NumberTest:
    """A test of numbers that may be unknown: held against *limit*, or, where that is None,
    whether they are NaN (*nan*) or unknown."""

    operator: Operator
    limit: float | None
    nan: bool = False

    def passed(self, numbers: OptionalNumbers) -> Bool:
        """Those of *numbers* that pass."""
        if self.limit is None:
            return numbers.known & np.isnan(numbers.values) if self.nan else ~numbers.known
        passed: Bool = numbers.known & _ORDER[self.operator](numbers.values, self.limit)
        return passed


def number_holds(field: str, tests: Sequence[NumberTest]) -> Condition:
    """Holds where the number *field* passes one of the tests."""

    def holds(ops: OpColumns) -> Bool:
        numbers = _numbers(ops, field)
        mask: Bool = np.logical_or.reduce([test.passed(numbers) for test in tests])
        return mask

    return holds


def number_differs(field: str, tests: Sequence[NumberTest], *, nan_counts: bool) -> Condition:
    """Holds where the number *field* is known and passes none of the tests; NaN counts as known
    only where just that is asked (``!=none``)."""
    equal = number_holds(field, tests)

    def holds(ops: OpColumns) -> Bool:
        numbers = _numbers(ops, field)
        return numbers.known & np.where(np.isnan(numbers.values), nan_counts, ~equal(ops))

    return holds


def _numbers(ops: OpColumns, name: str) -> OptionalNumbers:
    """The number called *name* of all ops."""
    if name in _PLAIN_NUMBERS:
        return _PLAIN_NUMBERS[name](ops)
    if name in SPLIT_NUMBERS:
        return ops.split_number(name)
    column = SPREAD[_SPREAD[name]] if name in _SPREAD else name
    return OptionalNumbers(ops.figure(column), ops.has_metrics)


def _all_known(values: Any) -> OptionalNumbers:
    numbers: Float = np.asarray(values, dtype=np.float64)
    return OptionalNumbers(numbers, np.ones(len(numbers), dtype=np.bool_))


def _known_where(values: Float | Int, is_known: Bool) -> OptionalNumbers:
    return OptionalNumbers(values.astype(np.float64), is_known)


def _ranks(ops: OpColumns) -> OptionalNumbers:
    ranks = ops.shapes.keyed(lambda shape: -1 if shape is None else len(shape))
    return _known_where(ranks, ranks >= 0)


_PLAIN_NUMBERS: Mapping[str, Callable[[OpColumns], OptionalNumbers]] = {
    "topo": lambda ops: _all_known(np.arange(len(ops))),
    "fused": lambda ops: _all_known(ops.fused),
    "output": lambda ops: _known_where(ops.outputs, ops.outputs >= 0),
    "gain": lambda ops: _known_where(ops.gain, ~np.isnan(ops.gain)),
    "rank": _ranks,
}
_SPREAD = {"mean": 0, str(Metric.STANDARD_DEVIATION): 1, "golden_mean": 2, "golden_std": 3}

# --- texts -----------------------------------------------------------------------------


def scope_of(name: str) -> str:
    """The name space of an op's name, to the last ``/``, or ``.`` if it has none."""
    return name.rpartition("/" if "/" in name else ".")[0]


def shape_words(shape: Shape | None) -> str:
    """A shape as filters hold it against a pattern; empty if it is not known."""
    return "" if shape is None else ",".join("?" if size is None else str(size) for size in shape)


def _in_names(ops: OpColumns, test: TextTest) -> Bool:
    """The ops whose names pass."""
    mask = np.fromiter(map(test, ops.ids), dtype=np.bool_, count=len(ops))
    own = ops.own_names
    if own.values != (None,):
        other = own.where(lambda name: name is not None)
        fits = own.where(lambda name: name is not None and test(name))
        mask = np.where(other, fits, mask)
    return mask


def _in_scopes(ops: OpColumns, test: TextTest) -> Bool:
    passing: dict[str, bool] = {}

    def passes(name: str) -> bool:
        scope = scope_of(name)
        passes = passing.get(scope)
        if passes is None:
            passes = passing[scope] = test(scope)
        return passes

    return _in_names(ops, passes)


def _in_ids(ops: OpColumns, test: TextTest) -> Bool:
    return np.fromiter(map(test, ops.ids), dtype=np.bool_, count=len(ops))


def _of_split(ops: OpColumns, name: str, test: TextTest) -> Bool:
    """The ops whose role or guilt passes; without a split it is the empty text."""
    column: Any = ops.splits.roles if name == "role" else ops.splits.guilts
    fits = column.where(test) if len(column) else np.zeros(0, dtype=np.bool_)
    passed: Bool = np.append(fits, test(""))[ops.judged]
    return passed


def _in_reasons(ops: OpColumns, test: TextTest) -> Bool:
    has_reason = ops.reasons.where(lambda reason: reason is not None)
    fits = ops.reasons.where(lambda reason: reason is not None and test(reason))
    return fits | has_reason & ops.details.where(test)


_TEXTS: Mapping[str, Callable[[OpColumns, TextTest], Bool]] = {
    "name": _in_names,
    "id": _in_ids,
    "type": lambda ops, test: ops.types.where(test),
    "dtype": lambda ops, test: ops.dtypes.where(lambda dtype: test(canonical_dtype(dtype))),
    "layout": lambda ops, test: ops.layouts.where(test),
    "ns": _in_scopes,
    "subgraph": lambda ops, test: ops.subgraphs.where(test),
    "side": lambda ops, test: np.full(len(ops), test(ops.side)),
    "state": lambda ops, test: ops.states.where(lambda state: test(state or "")),
    "level": lambda ops, test: ops.levels.where(lambda level: test(level or "")),
    "role": lambda ops, test: _of_split(ops, "role", test),
    "guilt": lambda ops, test: _of_split(ops, "guilt", test),
    "shape": lambda ops, test: ops.shapes.where(lambda shape: test(shape_words(shape))),
    # of several texts one must pass
    "any": lambda ops, test: _in_names(ops, test) | ops.originals.where(test),
    "attr": lambda ops, test: attributes_of(ops).where(lambda texts: any(map(test, texts))),
    "on_rank": lambda ops, test: attributes_of(ops).where(
        lambda texts: any(map(test, rank_texts(texts)))
    ),
    "original": lambda ops, test: ops.originals.where(test),
    "from": lambda ops, test: ops.origins.where(lambda texts: any(map(test, texts))),
    "reason": _in_reasons,
    "over": lambda ops, test: ops.failed.where(lambda texts: any(map(test, texts))),
}
