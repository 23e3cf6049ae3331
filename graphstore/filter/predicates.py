"""Conditions of filters, made of a field, an operator and values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from graphstore.filter.conditions import (
    Condition,
    NumberTest,
    TextTest,
    any_of,
    inverse,
    number_differs,
    number_holds,
    on_failed,
    on_shapes,
    on_texts,
)
from graphstore.filter.dtype_words import canonical_dtype
from graphstore.filter.fields import (
    FIELDS,
    FieldKind,
    Operator,
    close_words,
    metric_named,
    normalised,
)
from graphstore.filter.shapes import shape_test
from graphstore.model import Guilt, Level, Metric, OpState, Role, Side

Pieces: TypeAlias = tuple[str, ...]

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


def condition_of(
    field: str, operator: Operator, values: Sequence[Pieces], *, negated: bool
) -> Condition:
    """That *field* of an op is *operator* one of *values* (see ``Pattern.pieces``).

    Raises:
        ValueRefusedError: the operator or a value does not suit the field.
    """
    kind = _KINDS[field]
    if kind is FieldKind.NUMBER:
        test = _number_condition(field, operator, values)
    elif operator not in _TEXT_OPERATORS:
        raise ValueRefusedError(f"{field} has no order, {operator} needs a number", "use : = != ~")
    elif operator is Operator.REGEX:
        test = _regex_condition(field, "".join(values[0]))
    else:
        tests = [_MAKERS[kind](field, operator, pieces) for pieces in values]
        test = tests[0] if len(tests) == 1 else any_of(tests)
    if (operator is Operator.UNEQUAL and kind is not FieldKind.NUMBER) is not negated:
        return inverse(test)
    return test


_TEXT_OPERATORS = (Operator.FITS, Operator.EQUAL, Operator.UNEQUAL, Operator.REGEX)


def _number_condition(field: str, operator: Operator, values: Sequence[Pieces]) -> Condition:
    if operator is Operator.REGEX:
        raise ValueRefusedError(f"{field} is a number, ~ needs a text", "use : = != < <= > >=")
    if operator is Operator.UNEQUAL:
        equal = [_number_test(field, Operator.EQUAL, pieces) for pieces in values]
        presence_asked = all("".join(pieces).lower() == "none" for pieces in values)
        return number_differs(field, equal, nan_counts=presence_asked)
    return number_holds(field, [_number_test(field, operator, pieces) for pieces in values])


def _number_test(field: str, operator: Operator, pieces: Pieces) -> NumberTest:
    text = "*".join(pieces)
    word = text.lower()
    if word in ("nan", "none"):
        if operator not in (Operator.FITS, Operator.EQUAL):
            raise ValueRefusedError(f"{word} has no order", f"write {field}:{word}")
        return NumberTest(operator, None, nan=word == "nan")
    try:
        limit = float(text)
    except ValueError:
        raise ValueRefusedError(f"{field} needs a number, not {text!r}") from None
    return NumberTest(operator, limit)


def _regex_condition(field: str, regex: str) -> Condition:
    try:
        search = re.compile(regex, re.IGNORECASE).search
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueRefusedError(f"no regular expression: {error}", "quote blanks") from None
    return on_texts(field, lambda text: search(text) is not None)


def _text_condition(field: str, operator: Operator, pieces: Pieces) -> Condition:
    if field not in _ALWAYS_THERE and _lowered(pieces) == _NONE:
        return inverse(on_texts(field, bool))
    fits = _whole_text_test(pieces)
    if field == "from" and operator is Operator.FITS:
        tail = _whole_text_test(("", "/" + pieces[0], *pieces[1:]))
        return on_texts(field, lambda text: fits(text) or tail(text))
    return on_texts(field, fits)


def _part_condition(field: str, operator: Operator, pieces: Pieces) -> Condition:
    absent = field not in _ALWAYS_THERE and _lowered(pieces) == _NONE
    if absent or operator is not Operator.FITS or len(pieces) > 1:
        return _text_condition(field, operator, pieces)
    if field == "reason":
        words = normalised(pieces[0])
        return on_texts(field, lambda text: words in normalised(text))
    part = pieces[0].lower()
    return on_texts(field, lambda text: part in text.lower())


def _scope_condition(field: str, operator: Operator, pieces: Pieces) -> Condition:
    if operator is not Operator.FITS:
        return _text_condition(field, operator, pieces)
    if _lowered(pieces) == _NONE:
        return on_texts("ns", lambda scope: not scope)
    stripped = (pieces[0].strip("/"),) if len(pieces) == 1 else pieces
    middle = ".*".join(map(re.escape, stripped))
    search = re.compile(rf"(?:^|[/.]){middle}(?:[/.]|$)", re.IGNORECASE | re.DOTALL).search
    return on_texts("ns", lambda scope: search(scope) is not None)


def _dtype_condition(field: str, operator: Operator, pieces: Pieces) -> Condition:
    if len(pieces) == 1:
        pieces = tuple(canonical_dtype(pieces[0]).split("*"))
    return _text_condition(field, operator, pieces)


def _choice_condition(field: str, _operator: Operator, pieces: Pieces) -> Condition:
    word = normalised("*".join(pieces))
    choices = {normalised(choice): choice for choice in _CHOICES[field]}
    if word == "none":
        absent = ("", *_ABSENT.get(field, ()))
        return on_texts(field, lambda text: text in absent)
    if len(pieces) > 1:
        return on_texts(field, _whole_text_test(pieces))
    if word not in choices:
        raise _unknown_choice(field, "*".join(pieces), tuple(choices))
    return on_texts(field, choices[word].__eq__)


_CHOICES: dict[str, tuple[str, ...]] = {
    "state": tuple(OpState),
    "level": tuple(Level),
    "side": tuple(Side),
    "role": tuple(Role),
    "guilt": tuple(Guilt),
}

_ABSENT = {"state": (OpState.NOT_COMPARED,), "guilt": (Guilt.NONE,)}


def _metric_condition(field: str, _operator: Operator, pieces: Pieces) -> Condition:
    word = normalised("*".join(pieces))
    if word == "none":
        return on_failed(lambda failed: not failed)
    if word in ("any", "*"):
        return on_failed(bool)
    if len(pieces) > 1:
        return on_texts(field, _whole_text_test(pieces))
    metric = metric_named(word)
    if metric is None:
        raise _unknown_choice(field, "*".join(pieces), (*map(str, Metric), "any", "none"))
    return on_failed(lambda failed: metric in failed)


def _shape_condition(_field: str, _operator: Operator, pieces: Pieces) -> Condition:
    text = "*".join(pieces)
    if text.strip().lower() == "none":
        return on_shapes(lambda shape: shape is None)
    fits = shape_test(text)
    if fits is None:
        raise ValueRefusedError(f"{text!r} is not a shape")
    return on_shapes(lambda shape: shape is not None and fits(shape))


_MAKERS: dict[FieldKind, Callable[[str, Operator, Pieces], Condition]] = {
    FieldKind.PART: _part_condition,
    FieldKind.TEXT: _text_condition,
    FieldKind.SCOPE: _scope_condition,
    FieldKind.DTYPE: _dtype_condition,
    FieldKind.CHOICE: _choice_condition,
    FieldKind.METRIC: _metric_condition,
    FieldKind.SHAPE: _shape_condition,
}


def _unknown_choice(field: str, word: str, choices: tuple[str, ...]) -> ValueRefusedError:
    words = close_words(word, choices, 1)
    hint = f"did you mean {words[0]}?" if words else f"one of {', '.join(choices)}"
    return ValueRefusedError(f"{field} is never {word!r}", hint)


def _lowered(pieces: Pieces) -> Pieces:
    return tuple(piece.lower() for piece in pieces)


def _whole_text_test(pieces: Pieces) -> TextTest:
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
            start = text.find(piece, at)
            if start < 0:
                return False
            at = start + len(piece)
        return len(text) - len(last) >= at and text.endswith(last)

    return fits
