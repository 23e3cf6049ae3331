"""What a condition of a filter is: a question that one row answers, and columns for all ops.

A test says the same of both. Columns ask it once for each different value they have.
"""

from __future__ import annotations

import math
import operator as compare
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from graphstore.columns.coded import Bool, Float, Int
from graphstore.columns.op_attributes import attributes_of, rank_texts
from graphstore.columns.op_columns import OpColumns
from graphstore.columns.parts import SPREAD, OptionalNumbers
from graphstore.filter.dtype_words import canonical_dtype
from graphstore.filter.fields import Operator
from graphstore.model import SPLIT_NUMBERS, Metric, Shape
from graphstore.op_row import OpRow

TextTest: TypeAlias = Callable[[str], bool]
_T = TypeVar("_T")


class Condition(Protocol):
    """What holds for an op or does not."""

    def matches(self, row: OpRow) -> bool:
        """True if it holds for *row*."""

    def mask(self, ops: OpColumns) -> Bool:
        """The ops for which it holds."""


@dataclass(frozen=True, slots=True)
class Negated:
    """Holds where another does not."""

    other: Condition

    def matches(self, row: OpRow) -> bool:
        """True if the other does not hold for *row*."""
        return not self.other.matches(row)

    def mask(self, ops: OpColumns) -> Bool:
        """The ops for which the other does not hold."""
        return ~self.other.mask(ops)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Holds where one of several does."""

    others: Sequence[Condition]

    def matches(self, row: OpRow) -> bool:
        """True if one of them holds for *row*."""
        return any(other.matches(row) for other in self.others)

    def mask(self, ops: OpColumns) -> Bool:
        """The ops for which one of them holds."""
        mask: Bool = np.logical_or.reduce([other.mask(ops) for other in self.others])
        return mask


@dataclass(frozen=True, slots=True)
class AllOf:
    """Holds where all of several do."""

    others: Sequence[Condition]

    def matches(self, row: OpRow) -> bool:
        """True if all of them hold for *row*."""
        return all(other.matches(row) for other in self.others)

    def mask(self, ops: OpColumns) -> Bool:
        """The ops for which all of them hold."""
        mask = np.ones(len(ops), dtype=np.bool_)
        for other in self.others:
            mask &= other.mask(ops)
        return mask


@dataclass(frozen=True, slots=True)
class FilterField(Generic[_T]):
    """A field of an op: its value in a row, and the ops whose value passes a test."""

    value: Callable[[OpRow], _T]
    where: Callable[[OpColumns, Callable[[_T], bool]], Bool]


@dataclass(frozen=True, slots=True)
class Holds(Generic[_T]):
    """Holds where the value of a field passes a test."""

    field: FilterField[_T]
    test: Callable[[_T], bool]

    def matches(self, row: OpRow) -> bool:
        """True if the value of *row* passes."""
        return self.test(self.field.value(row))

    def mask(self, ops: OpColumns) -> Bool:
        """The ops whose values pass."""
        return self.field.where(ops, self.test)


@dataclass(frozen=True, slots=True)
class TextsField:
    """A field of several texts: in a row, and the ops of which one passes a test."""

    texts: Callable[[OpRow], Iterable[str]]
    where: Callable[[OpColumns, TextTest], Bool]


@dataclass(frozen=True, slots=True)
class SomeFits:
    """Holds where one of the texts of a field fits."""

    field: TextsField
    fits: TextTest

    def matches(self, row: OpRow) -> bool:
        """True if one of the texts of *row* fits."""
        return any(map(self.fits, self.field.texts(row)))

    def mask(self, ops: OpColumns) -> Bool:
        """The ops of which one of the texts fits."""
        return self.field.where(ops, self.fits)


def on_texts(name: str, fits: TextTest) -> Condition:
    """Holds where the text of the field *name*, or one of its texts, fits."""
    return Holds(ONE_TEXT[name], fits) if name in ONE_TEXT else SomeFits(_TEXTS[name], fits)


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
    """A test of a number that may be unknown: held against *limit*, or, where that is None,
    whether it is NaN (*nan*) or unknown."""

    operator: Operator
    limit: float | None
    nan: bool = False

    def passes(self, value: float | None) -> bool:
        """True if *value* passes."""
        if self.limit is None:
            return (value is not None and math.isnan(value)) if self.nan else value is None
        return value is not None and bool(_ORDER[self.operator](value, self.limit))

    def passed(self, numbers: OptionalNumbers) -> Bool:
        """Those of *numbers* that pass."""
        if self.limit is None:
            return numbers.known & np.isnan(numbers.values) if self.nan else ~numbers.known
        passed: Bool = numbers.known & _ORDER[self.operator](numbers.values, self.limit)
        return passed


@dataclass(frozen=True, slots=True)
class NumberField:
    """A field that is a number: in a row, and of all ops."""

    value: Callable[[OpRow], float | None]
    column: Callable[[OpColumns], OptionalNumbers]


@dataclass(frozen=True, slots=True)
class NumberHolds:
    """Holds where a number passes one of the tests."""

    field: NumberField
    tests: Sequence[NumberTest]

    def matches(self, row: OpRow) -> bool:
        """True if the number of *row* passes one."""
        number = self.field.value(row)
        return any(test.passes(number) for test in self.tests)

    def mask(self, ops: OpColumns) -> Bool:
        """The ops whose numbers pass one."""
        numbers = self.field.column(ops)
        mask: Bool = np.logical_or.reduce([test.passed(numbers) for test in self.tests])
        return mask


@dataclass(frozen=True, slots=True)
class NumberDiffers:
    """Holds where a number is known and passes none of the tests; NaN counts as known only where
    just that is asked (``!=none``)."""

    field: NumberField
    tests: Sequence[NumberTest]
    nan_counts: bool

    def matches(self, row: OpRow) -> bool:
        """True if the number of *row* passes none."""
        number = self.field.value(row)
        if number is None or math.isnan(number):
            return number is not None and self.nan_counts
        return not any(test.passes(number) for test in self.tests)

    def mask(self, ops: OpColumns) -> Bool:
        """The ops whose numbers pass none."""
        numbers = self.field.column(ops)
        is_nan = np.isnan(numbers.values)
        equal = np.logical_or.reduce([test.passed(numbers) for test in self.tests])
        return numbers.known & np.where(is_nan, self.nan_counts, ~equal)


def number_field(name: str) -> NumberField:
    """The number called *name*."""
    if name in _PLAIN_NUMBERS:
        return _PLAIN_NUMBERS[name]
    if name in SPLIT_NUMBERS:
        part: Callable[[object], float | None] = compare.attrgetter(name)
        return NumberField(
            lambda row: None if row.split is None else part(row.split),
            lambda ops: ops.split_number(name),
        )
    column = SPREAD[_SPREAD[name]] if name in _SPREAD else name
    position = _SPREAD.get(name)

    def of_row(row: OpRow) -> float | None:
        if row.metrics is None:
            return None
        if position is not None:
            return row.metrics.standard_deviation[position]
        number: float = getattr(row.metrics, name)
        return number

    return NumberField(of_row, lambda ops: OptionalNumbers(ops.figure(column), ops.has_metrics))


def _all_known(values: Any) -> OptionalNumbers:
    numbers: Float = np.asarray(values, dtype=np.float64)
    return OptionalNumbers(numbers, np.ones(len(numbers), dtype=np.bool_))


def _known_where(values: Float | Int, is_known: Bool) -> OptionalNumbers:
    return OptionalNumbers(values.astype(np.float64), is_known)


def _ranks(ops: OpColumns) -> OptionalNumbers:
    ranks = ops.shapes.keyed(lambda shape: -1 if shape is None else len(shape))
    return _known_where(ranks, ranks >= 0)


_PLAIN_NUMBERS: Mapping[str, NumberField] = {
    "topo": NumberField(lambda row: row.topo, lambda ops: _all_known(np.arange(len(ops)))),
    "fused": NumberField(lambda row: row.fused, lambda ops: _all_known(ops.fused)),
    "output": NumberField(
        lambda row: row.output, lambda ops: _known_where(ops.outputs, ops.outputs >= 0)
    ),
    "gain": NumberField(
        lambda row: row.gain, lambda ops: _known_where(ops.gain, ~np.isnan(ops.gain))
    ),
    "rank": NumberField(lambda row: None if row.shape is None else len(row.shape), _ranks),
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


ONE_TEXT: Mapping[str, FilterField[str]] = {
    "name": FilterField(lambda row: row.name, _in_names),
    "id": FilterField(lambda row: row.id, _in_ids),
    "type": FilterField(lambda row: row.type, lambda ops, test: ops.types.where(test)),
    "dtype": FilterField(
        lambda row: canonical_dtype(row.dtype),
        lambda ops, test: ops.dtypes.where(lambda dtype: test(canonical_dtype(dtype))),
    ),
    "layout": FilterField(lambda row: row.layout, lambda ops, test: ops.layouts.where(test)),
    "ns": FilterField(lambda row: scope_of(row.name), _in_scopes),
    "subgraph": FilterField(lambda row: row.subgraph, lambda ops, test: ops.subgraphs.where(test)),
    "side": FilterField(lambda row: row.side, lambda ops, test: np.full(len(ops), test(ops.side))),
    "state": FilterField(
        lambda row: row.state or "",
        lambda ops, test: ops.states.where(lambda state: test(state or "")),
    ),
    "level": FilterField(
        lambda row: row.level or "",
        lambda ops, test: ops.levels.where(lambda level: test(level or "")),
    ),
    "role": FilterField(
        lambda row: "" if row.split is None else row.split.role,
        lambda ops, test: _of_split(ops, "role", test),
    ),
    "guilt": FilterField(
        lambda row: "" if row.split is None else row.split.guilt,
        lambda ops, test: _of_split(ops, "guilt", test),
    ),
    "shape": FilterField(
        lambda row: shape_words(row.shape),
        lambda ops, test: ops.shapes.where(lambda shape: test(shape_words(shape))),
    ),
}
"""The fields that have one text."""

SHAPE: FilterField[Shape | None] = FilterField(
    lambda row: row.shape, lambda ops, test: ops.shapes.where(test)
)
FAILED: FilterField[tuple[Metric, ...]] = FilterField(
    lambda row: row.failed, lambda ops, test: ops.failed.where(test)
)


def _in_reasons(ops: OpColumns, test: TextTest) -> Bool:
    has_reason = ops.reasons.where(lambda reason: reason is not None)
    fits = ops.reasons.where(lambda reason: reason is not None and test(reason))
    return fits | has_reason & ops.details.where(test)


_TEXTS: Mapping[str, TextsField] = {
    "any": TextsField(
        lambda row: (row.name, *row.originals),
        lambda ops, test: _in_names(ops, test) | ops.originals.where(test),
    ),
    "attr": TextsField(
        lambda row: row.attributes,
        lambda ops, test: attributes_of(ops).where(lambda texts: any(map(test, texts))),
    ),
    "on_rank": TextsField(
        lambda row: rank_texts(row.attributes),
        lambda ops, test: attributes_of(ops).where(lambda texts: any(map(test, rank_texts(texts)))),
    ),
    "original": TextsField(
        lambda row: row.originals,
        lambda ops, test: ops.originals.where(test),
    ),
    "from": TextsField(
        lambda row: row.origins,
        lambda ops, test: ops.origins.where(lambda texts: any(map(test, texts))),
    ),
    "reason": TextsField(
        lambda row: () if row.reason is None else (row.reason, row.detail),
        _in_reasons,
    ),
    "over": TextsField(
        lambda row: row.failed,
        lambda ops, test: ops.failed.where(lambda texts: any(map(test, texts))),
    ),
}
"""The fields that have several texts, of which one must pass."""
