"""Read a large JSON text piece by piece: objects and lists are entered, the rest comes whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from graphstore.errors import ImportFormatError

Json: TypeAlias = Any
"""What :mod:`json` gives: None, bool, int, float, str, list or dict."""

MAX_BYTES = 1 << 30
"""Larger files are refused: the text is held in memory."""

MAX_DEPTH = 100
"""Deeper nesting is an error: graphs need a fifth of it, and the parser recurses."""

_SPACE = re.compile(r"[ \t\r\n]*+")
_NOT_DEEP = re.compile(r'[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+"', re.DOTALL)


class JsonReader:
    """Reads *text*, the content of *path* (named in errors)."""

    def __init__(self, text: str, path: Path) -> None:
        self._text = text
        self._path = path
        # Not strict: names with control characters are written as they are.
        self._decoder = json.JSONDecoder(strict=False)
        self.at = self._after_space(1 if text.startswith("\ufeff") else 0)

    def error(self, at: int, what: str) -> ImportFormatError:
        """An error at character *at*, told as line and column."""
        line = self._text.count("\n", 0, at) + 1
        column = at - self._text.rfind("\n", 0, at)
        hint = "it is damaged or was cut; convert the model again"
        return ImportFormatError(self._path, what, line=line, column=column, hint=hint)

    @contextmanager
    def told(self, at: int) -> Iterator[None]:
        """Tells a ValueError as damage at character *at*."""
        try:
            yield
        except ValueError as error:
            raise self.error(at, str(error)) from error

    def next_is(self, opening: str) -> bool:
        """Whether the next value starts with *opening*."""
        return self._text.startswith(opening, self.at)

    def members(self) -> Iterator[str]:
        """The keys of the object that is next; each value is to be read before the next key."""
        for _ in self._items("{", "}"):
            start = self.at
            key = self.value() if self.next_is('"') else None
            if not isinstance(key, str):
                raise self.error(start, "a name in quotes belongs here")
            self._expect(":")
            yield key

    def elements(self) -> Iterator[int]:
        """The places of the list's elements; each is to be read before the next one."""
        for _ in self._items("[", "]"):
            yield self.at

    def value(self) -> Json:
        """The next value, whole."""
        self._check_depth()
        try:
            value, end = self._decoder.raw_decode(self._text, self.at)
        except json.JSONDecodeError as error:
            raise self.error(error.pos, f"broken JSON: {error.msg}") from error
        except ValueError as error:  # Python takes no number of more than some thousand digits
            raise self.error(self.at, "a number with too many digits") from error
        self.at = self._after_space(end)
        return value

    def end(self) -> None:
        """Nothing but space may follow."""
        if self.at < len(self._text):
            raise self.error(self.at, "more text after the end of the JSON value")

    def _items(self, opening: str, closing: str) -> Iterator[None]:
        self._expect(opening)
        if self.next_is(closing):
            self._expect(closing)
            return
        while True:
            yield
            if self.next_is(","):
                self._expect(",")
                continue
            self._expect(closing)
            return

    def _expect(self, sign: str) -> None:
        if not self.next_is(sign):
            seen = self._text[self.at : self.at + 1]
            what = f"{seen!r} where {sign!r} belongs" if seen else "the file ends too early"
            raise self.error(self.at, what)
        self.at = self._after_space(self.at + 1)

    def _after_space(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        return match.end() if match else at

    def _check_depth(self) -> None:
        depth = 0
        at = self.at
        while at < len(self._text):
            sign = self._text[at]
            if sign in "{[":
                depth += 1
                if depth > MAX_DEPTH:
                    raise self.error(at, f"values are nested deeper than {MAX_DEPTH}")
                at += 1
            elif sign in "}]":
                depth -= 1
                at += 1
            else:
                match = _NOT_DEEP.match(self._text, at)
                if match is None:  # a quote that is never closed: the parser says where
                    return
                at = match.end()
            if depth <= 0:
                return
