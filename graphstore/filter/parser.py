"""Reads filter texts; every refusal names the span it is about."""

from __future__ import annotations

import re
from dataclasses import dataclass

from graphstore.errors import FilterError
from graphstore.filter.fields import FIELDS, FieldKind, Operator, field_named, near_misses
from graphstore.filter.predicates import ValueRefusedError, condition_of
from graphstore.filter.terms import OpFilter, Pattern, Term

_FIELD = re.compile(r"([A-Za-z_][\w-]*)(!=|<=|>=|[:=<>~])")
_STRAY_OPERATOR = re.compile(r"!=|<=|>=|[:=<>~]")
_KINDS = {field.name: field.kind for field in FIELDS}


def parse_filter(text: str) -> OpFilter:
    """The filter *text* says; an empty text lets every op through.

    Raises:
        FilterError: with the span that is wrong and, where possible, what was meant.
    """
    return OpFilter(tuple(_Reader(text).terms()))


@dataclass(frozen=True, slots=True)
class _Value:
    pattern: Pattern
    start: int
    end: int


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def terms(self) -> list[Term]:
        result = []
        while self._skip_blanks():
            result.append(self._term())
        return result

    def _skip_blanks(self) -> bool:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._at < len(self._text)

    def _term(self) -> Term:
        start = self._at
        negated = self._text[start] == "!"
        if negated:
            self._at += 1
            if self._ends() or self._text[self._at] == "!":
                raise self._error("! needs one condition after it", start, self._at, "!type:Cast")
        named = _FIELD.match(self._text, self._at)
        if named:
            return self._field_term(named, negated)
        stray = _STRAY_OPERATOR.match(self._text, self._at)
        if stray:
            raise self._error(
                f"{stray.group()!r} has no field before it", *stray.span(), "such as cos<0.99"
            )
        return self._checked("any", Operator.FITS, self._values(regex=False), negated)

    def _field_term(self, named: re.Match[str], negated: bool) -> Term:
        field = field_named(named.group(1))
        if field is None:
            raise self._error(
                f"there is no field {named.group(1)!r}", *named.span(1), _hint(named.group(1))
            )
        operator = Operator(named.group(2))
        self._at = named.end()
        if self._ends():
            raise self._error(f"{named.group()} needs a value", *named.span(), _example(field.kind))
        values = self._values(regex=operator is Operator.REGEX)
        return self._checked(field.name, operator, values, negated)

    def _checked(self, field: str, operator: Operator, values: list[_Value], negated: bool) -> Term:
        for value in values:
            try:
                condition_of(field, operator, (value.pattern.pieces,), negated=negated)
            except ValueRefusedError as refused:
                raise self._error(
                    refused.what, value.start, value.end, refused.hint or _example(_KINDS[field])
                ) from None
        return Term(field, operator, tuple(value.pattern for value in values), negated)

    def _values(self, *, regex: bool) -> list[_Value]:
        """Values up to the next blank; ``|`` separates them but in a regular expression."""
        result = []
        while True:
            result.append(self._value(regex=regex))
            if self._ends():
                return result
            self._at += 1
            if self._ends():
                raise self._error("a value is missing after |", self._at - 1, self._at)

    def _value(self, *, regex: bool) -> _Value:
        start = self._at
        if self._text[start] in "\"'":
            return self._quoted(start, regex=regex)
        stop = re.compile(r"\s" if regex else r"[\s|]").search(self._text, start)
        self._at = stop.start() if stop else len(self._text)
        raw = self._text[start : self._at]
        if not raw:
            raise self._error("a value is missing before |", start, start + 1)
        if raw.startswith("!") and not regex:
            raise self._error(
                "! stands before the whole condition", start, start + 1, "such as !type:Cast"
            )
        return _Value(Pattern((raw,) if regex else _pieces(raw)), start, self._at)

    def _quoted(self, start: int, *, regex: bool) -> _Value:
        quote = self._text[start]
        pieces = [""]
        at = start + 1
        while at < len(self._text) and self._text[at] != quote:
            char = self._text[at]
            following = self._text[at + 1 : at + 2]
            if char == "\\" and following in _escapable(quote, regex=regex):
                pieces[-1] += following
                at += 2
                continue
            if char == "*" and not regex:
                pieces.append("")
            else:
                pieces[-1] += char
            at += 1
        if at >= len(self._text):
            raise self._error(f"the closing {quote} is missing", start, at)
        self._at = at + 1
        if not self._ends() and (regex or self._text[self._at] != "|"):
            raise self._error(
                f"a blank is missing after the closing {quote}", self._at, self._at + 1
            )
        return _Value(Pattern(_without_double_gaps(pieces)), start, self._at)

    def _ends(self) -> bool:
        return self._at >= len(self._text) or self._text[self._at].isspace()

    def _error(self, what: str, start: int, end: int, hint: str = "") -> FilterError:
        return FilterError(self._text, what, start=start, end=max(end, start + 1), hint=hint)


def quoted(value: str) -> str:
    """*value* as it stands in a filter that means just it.

    >>> quoted("Conv 2")
    '"Conv 2"'
    """
    escaped = re.sub(r'(["\\*])', r"\\\1", value)
    return f'"{escaped}"'


def _escapable(quote: str, *, regex: bool) -> tuple[str, ...]:
    return (quote, "\\") if regex else (quote, "\\", "*")


def _pieces(raw: str) -> tuple[str, ...]:
    return _without_double_gaps(raw.split("*"))


def _without_double_gaps(pieces: list[str]) -> tuple[str, ...]:
    inner = [piece for piece in pieces[1:-1] if piece]
    return (pieces[0], *inner, pieces[-1]) if len(pieces) > 1 else (pieces[0],)


def _hint(word: str) -> str:
    misses = near_misses(word)
    if misses:
        return f"did you mean {' or '.join(misses)}?"
    return f'to look for this text in names, quote it: "{word}…"'


def _example(kind: FieldKind) -> str:
    return _EXAMPLES.get(kind, "")


_EXAMPLES = {
    FieldKind.PART: "a part of the text, such as conv2",
    FieldKind.TEXT: "a text, such as MatMul*",
    FieldKind.SCOPE: "a part of the path, such as layer_3",
    FieldKind.DTYPE: "an element type, such as fp16",
    FieldKind.METRIC: "a metric, such as cos",
    FieldKind.SHAPE: "dimensions, such as *,128,128",
    FieldKind.NUMBER: "a number, nan or none",
}
