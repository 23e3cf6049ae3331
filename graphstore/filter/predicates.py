"""Conditions as functions of an op row, made once and called for every row."""

from __future__ import annotations

import math
import operator as compare
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from graphstore.filter.fields import (
    FIELDS,
    FieldKind,
    Operator,
    close_words,
    metric_named,
    normalised,
)
from graphstore.filter.shapes import shape_test
from graphstore.model import SPLIT_NUMBERS, Guilt, Level, Metric, OpState, Role, Side
from graphstore.op_row import OpRow

Predicate: TypeAlias = Callable[[OpRow], bool]
Pieces: TypeAlias = tuple[str, ...]
_TextTest: TypeAlias = Callable[[str], bool]

_KINDS = {field.name: field.kind for field in FIELDS}
_NONE = ("none",)
_ALWAYS_THERE = ("any", "name", "id", "type")
"""Here ``none`` is a text like any other."""


class ValueRefusedError(ValueError):
    """A value or operator does not suit its field; *hint* says what would."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


def predicate_of(
    field: str, operator: Operator, values: Sequence[Pieces], *, negated: bool
) -> Predicate:
    """Whether *field* of a row is *operator* one of *values* (see ``Pattern.pieces``).

    Raises:
        ValueRefusedError: the operator or a value does not suit the field.
    """
    kind = _KINDS[field]
    if kind is FieldKind.NUMBER:
        test = _number_predicate(field, operator, values)
    elif operator not in _TEXT_OPERATORS:
        raise ValueRefusedError(f"{field} has no order, {operator} needs a number", "use : = != ~")
    elif operator is Operator.REGEX:
        test = _regex_predicate(field, "".join(values[0]))
    else:
        test = _any_of([_MAKERS[kind](field, operator, pieces) for pieces in values])
    if (operator is Operator.UNEQUAL and kind is not FieldKind.NUMBER) is not negated:
        return _not(test)
    return test


def all_of(tests: Sequence[Predicate]) -> Predicate:
    """One function that is true where all *tests* are."""
    if len(tests) == 1:
        return tests[0]

    def holds(row: OpRow) -> bool:
        # A plain loop: all() with a generator costs half again as much.
        for test in tests:  # noqa: SIM110
            if not test(row):
                return False
        return True

    return holds


def _any_of(tests: Sequence[Predicate]) -> Predicate:
    if len(tests) == 1:
        return tests[0]
    return lambda row: any(test(row) for test in tests)


def _not(test: Predicate) -> Predicate:
    return lambda row: not test(row)


_TEXT_OPERATORS = (Operator.FITS, Operator.EQUAL, Operator.UNEQUAL, Operator.REGEX)

# --- numbers ---------------------------------------------------------------------------

_ORDER: dict[Operator, Callable[[float, float], bool]] = {
    Operator.FITS: compare.eq,
    Operator.EQUAL: compare.eq,
    Operator.LESS: compare.lt,
    Operator.AT_MOST: compare.le,
    Operator.MORE: compare.gt,
    Operator.AT_LEAST: compare.ge,
}


def _number_predicate(field: str, operator: Operator, values: Sequence[Pieces]) -> Predicate:
    if operator is Operator.REGEX:
        raise ValueRefusedError(f"{field} is a number, ~ needs a text", "use : = != < <= > >=")
    number = _numbers(field)
    if operator is Operator.UNEQUAL:
        equal = [_number_test(field, Operator.EQUAL, pieces) for pieces in values]
        presence_asked = all("".join(pieces).lower() == "none" for pieces in values)

        def unequal(row: OpRow) -> bool:
            value = number(row)
            if value is None or math.isnan(value):
                return value is not None and presence_asked
            return not any(test(value) for test in equal)

        return unequal
    tests = [_number_test(field, operator, pieces) for pieces in values]
    if len(tests) == 1:
        only = tests[0]
        return lambda row: only(number(row))
    return lambda row: any(test(number(row)) for test in tests)


def _number_test(field: str, operator: Operator, pieces: Pieces) -> Callable[[float | None], bool]:
    text = "*".join(pieces)
    word = text.lower()
    if word in ("nan", "none"):
        if operator not in (Operator.FITS, Operator.EQUAL):
            raise ValueRefusedError(f"{word} has no order", f"write {field}:{word}")
        if word == "none":
            return lambda value: value is None
        return lambda value: value is not None and math.isnan(value)
    try:
        limit = float(text)
    except ValueError:
        raise ValueRefusedError(f"{field} needs a number, not {text!r}") from None
    order = _ORDER[operator]
    return lambda value: value is not None and order(value, limit)


def _numbers(field: str) -> Callable[[OpRow], float | None]:
    if field in _PLAIN_NUMBERS:
        return _PLAIN_NUMBERS[field]
    if field in _SPLIT:
        part: Callable[[object], float | None] = compare.attrgetter(field)
        return lambda row: None if row.split is None else part(row.split)
    if field in _SPREAD:
        position = _SPREAD[field]
        return lambda row: None if row.metrics is None else row.metrics.standard_deviation[position]
    value: Callable[[object], float] = compare.attrgetter(field)
    return lambda row: None if row.metrics is None else value(row.metrics)


_PLAIN_NUMBERS: dict[str, Callable[[OpRow], float | None]] = {
    "topo": lambda row: row.topo,
    "fused": lambda row: row.fused,
    "output": lambda row: row.output,
    "gain": lambda row: row.gain,
    "rank": lambda row: None if row.shape is None else len(row.shape),
}

_SPLIT = frozenset(SPLIT_NUMBERS)

_SPREAD = {"mean": 0, str(Metric.STANDARD_DEVIATION): 1, "golden_mean": 2, "golden_std": 3}

# --- texts -----------------------------------------------------------------------------


def _scope(row: OpRow) -> str:
    separator = "/" if "/" in row.name else "."
    return row.name.rpartition(separator)[0]


_ONE_TEXT: dict[str, Callable[[OpRow], str]] = {
    "name": lambda row: row.name,
    "id": lambda row: row.id,
    "type": lambda row: row.type,
    "dtype": lambda row: _canonical_dtype(row.dtype),
    "layout": lambda row: row.layout,
    "ns": _scope,
    "subgraph": lambda row: row.subgraph,
    "side": lambda row: row.side,
    "state": lambda row: row.state or "",
    "level": lambda row: row.level or "",
    "role": lambda row: "" if row.split is None else row.split.role,
    "guilt": lambda row: "" if row.split is None else row.split.guilt,
    "shape": lambda row: "" if row.shape is None else _shape_text(row.shape),
}

_TEXTS: dict[str, Callable[[OpRow], Iterable[str]]] = {
    "any": lambda row: (row.name, *row.originals),
    "original": lambda row: row.originals,
    "from": lambda row: row.origins,
    "reason": lambda row: () if row.reason is None else (row.reason, row.detail),
    "over": lambda row: row.failed,
}


def _on_texts(field: str, fits: _TextTest) -> Predicate:
    """Whether the field's text, or one of its texts, fits."""
    if field in _ONE_TEXT:
        text = _ONE_TEXT[field]
        return lambda row: fits(text(row))
    texts = _TEXTS[field]
    return lambda row: any(map(fits, texts(row)))


def _shape_text(shape: Iterable[int | None]) -> str:
    return ",".join("?" if size is None else str(size) for size in shape)


def _regex_predicate(field: str, regex: str) -> Predicate:
    try:
        search = re.compile(regex, re.IGNORECASE).search
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueRefusedError(f"no regular expression: {error}", "quote blanks") from None
    return _on_texts(field, lambda text: search(text) is not None)


def _text_predicate(field: str, operator: Operator, pieces: Pieces) -> Predicate:
    if field not in _ALWAYS_THERE and _lowered(pieces) == _NONE:
        return _not(_on_texts(field, bool))
    fits = _whole(pieces)
    if field == "from" and operator is Operator.FITS:
        tail = _whole(("", "/" + pieces[0], *pieces[1:]))
        return _on_texts(field, lambda text: fits(text) or tail(text))
    return _on_texts(field, fits)


def _part_predicate(field: str, operator: Operator, pieces: Pieces) -> Predicate:
    absent = field not in _ALWAYS_THERE and _lowered(pieces) == _NONE
    if absent or operator is not Operator.FITS or len(pieces) > 1:
        return _text_predicate(field, operator, pieces)
    if field == "reason":
        words = normalised(pieces[0])
        return _on_texts(field, lambda text: words in normalised(text))
    part = pieces[0].lower()
    return _on_texts(field, lambda text: part in text.lower())


def _scope_predicate(field: str, operator: Operator, pieces: Pieces) -> Predicate:
    if operator is not Operator.FITS:
        return _text_predicate(field, operator, pieces)
    if _lowered(pieces) == _NONE:
        return lambda row: not _scope(row)
    stripped = (pieces[0].strip("/"),) if len(pieces) == 1 else pieces
    middle = ".*".join(map(re.escape, stripped))
    search = re.compile(rf"(?:^|[/.]){middle}(?:[/.]|$)", re.IGNORECASE | re.DOTALL).search
    return lambda row: search(_scope(row)) is not None


def _dtype_predicate(field: str, operator: Operator, pieces: Pieces) -> Predicate:
    if len(pieces) == 1:
        pieces = tuple(_canonical_dtype(pieces[0]).split("*"))
    return _text_predicate(field, operator, pieces)


def _choice_predicate(field: str, _operator: Operator, pieces: Pieces) -> Predicate:
    word = normalised("*".join(pieces))
    known = {normalised(choice): choice for choice in _CHOICES[field]}
    if word == "none":
        absent = ("", *_ABSENT.get(field, ()))
        return _on_texts(field, lambda text: text in absent)
    if len(pieces) > 1:
        return _on_texts(field, _whole(pieces))
    if word not in known:
        raise _unknown_choice(field, "*".join(pieces), tuple(known))
    return _on_texts(field, known[word].__eq__)


_CHOICES: dict[str, tuple[str, ...]] = {
    "state": tuple(OpState),
    "level": tuple(Level),
    "side": tuple(Side),
    "role": tuple(Role),
    "guilt": tuple(Guilt),
}

_ABSENT = {"state": (OpState.NOT_COMPARED,), "guilt": (Guilt.NONE,)}


def _metric_predicate(field: str, _operator: Operator, pieces: Pieces) -> Predicate:
    word = normalised("*".join(pieces))
    if word == "none":
        return lambda row: not row.failed
    if word in ("any", "*"):
        return lambda row: bool(row.failed)
    if len(pieces) > 1:
        return _on_texts(field, _whole(pieces))
    metric = metric_named(word)
    if metric is None:
        raise _unknown_choice(field, "*".join(pieces), (*map(str, Metric), "any", "none"))
    return lambda row: metric in row.failed


def _shape_predicate(_field: str, _operator: Operator, pieces: Pieces) -> Predicate:
    text = "*".join(pieces)
    if text.strip().lower() == "none":
        return lambda row: row.shape is None
    fits = shape_test(text)
    if fits is None:
        raise ValueRefusedError(f"{text!r} is not a shape")
    return lambda row: row.shape is not None and fits(row.shape)


_MAKERS: dict[FieldKind, Callable[[str, Operator, Pieces], Predicate]] = {
    FieldKind.PART: _part_predicate,
    FieldKind.TEXT: _text_predicate,
    FieldKind.SCOPE: _scope_predicate,
    FieldKind.DTYPE: _dtype_predicate,
    FieldKind.CHOICE: _choice_predicate,
    FieldKind.METRIC: _metric_predicate,
    FieldKind.SHAPE: _shape_predicate,
}


def _unknown_choice(field: str, word: str, known: tuple[str, ...]) -> ValueRefusedError:
    near = close_words(word, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(known)}"
    return ValueRefusedError(f"{field} is never {word!r}", hint)


def _lowered(pieces: Pieces) -> Pieces:
    return tuple(piece.lower() for piece in pieces)


def _whole(pieces: Pieces) -> _TextTest:
    """A test that a text is the pieces with anything between them, in any case."""
    lowered = _lowered(pieces)
    if len(lowered) == 1:
        only = lowered[0]
        return lambda text: text.lower() == only
    first, *middle, last = lowered

    def fits(text: str) -> bool:
        text = text.lower()
        if not text.startswith(first):
            return False
        at = len(first)
        for piece in middle:
            found = text.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        return len(text) - len(last) >= at and text.endswith(last)

    return fits


_DTYPE_WORDS = {
    "fp16": "float16",
    "f16": "float16",
    "half": "float16",
    "fp32": "float32",
    "f32": "float32",
    "float": "float32",
    "fp64": "float64",
    "f64": "float64",
    "double": "float64",
    "bf16": "bfloat16",
    "boolean": "bool",
    "fp8": "float8*",
} | {
    f"{short}{bits}": f"{long}{bits}"
    for short, long in (("i", "int"), ("u", "uint"))
    for bits in (4, 8, 16, 32, 64)
}


def _canonical_dtype(word: str) -> str:
    return _DTYPE_WORDS.get(word.lower(), word.lower())
