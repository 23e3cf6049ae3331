"""A streaming reader of protobuf text format that needs no schema.

One regular expression cuts the (memory-mapped) file into whole fields; blocks are handed
out one by one, so memory holds one op at a time. Unknown fields and enum names cost
nothing; long string literals are jumped over and only decoded when asked for. Grammar:
https://protobuf.dev/reference/protobuf/textformat-spec/.
"""

from __future__ import annotations

import mmap
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from graphstore.errors import ImportFormatError
from importers.proto.literals import STRING, is_string

Buffer: TypeAlias = bytes | mmap.mmap

Value: TypeAlias = "bytes | list[tuple[bytes, Value]]"
"""A scalar as written (strings with their quotes), or the fields of a message."""

Fields: TypeAlias = list[tuple[bytes, Value]]
"""A message: its fields in file order; a repeated field comes once an element."""

Entry: TypeAlias = "tuple[bytes, bytes, bytes | None, bytes | None]"
"""A map entry ``{ key: K value { NAME: V } }`` as written: K, NAME, V, and instead of V the
text inside of ``NAME { ... }``, see :func:`entry_fields`."""

TakeApart: TypeAlias = "Callable[[re.Match[bytes]], Fields]"

MAX_DEPTH = 200
_SHOWN = 40
"""Deeper nesting is an error: no graph needs it, and later steps may recurse."""

# Possessive quantifiers: no backtracking state piles up over long literals. But Python before
# 3.11.5 goes on from where a failed possessive repetition of a group had got to, so there the
# groups that can fail half-way are repeated plainly.
_MANY = rb"*+" if sys.version_info >= (3, 11, 5) else rb"*"
_GAP = rb"\s*+(?:\#[^\n]*+\s*+)*+"
_SCALAR = rb"(?:%(s)s(?:%(g)s%(s)s)%(m)s|(?:[-+]%(g)s)?+[\w.][-+\w.]*+)" % {
    b"s": STRING,
    b"g": _GAP,
    b"m": _MANY,
}
_END = rb"%s[,;]?+" % _GAP
# The second alternative takes a whole map entry (`{ key: "k" value { i: 1 } }`, as printers
# write it) in one step: most of a graph file is such entries, and it halves the time. So does
# the third with a block of nothing but scalars.
_TOKEN = re.compile(
    rb"""
    %(g)s(?:
      (\w++|\[[\w./%%\ -]++\]) %(g)s (?:
          :%(g)s (%(v)s) %(end)s
        | (?: :%(g)s )?+ \{ \s*+ key:\s*+ (%(s)s) \s*+ value\s*+\{ \s*+
            (\w++) (?: : \s*+ (%(v)s) | \s*+\{ \s*+ ( (?: \w++:\s*+ %(v)s \s*+ )%(m)s ) \} )
          \s*+ \} \s*+ \} %(end)s
        | (?: :%(g)s )?+ \{ \s*+ ( (?: \w++:\s*+ %(v)s \s*+ )%(m)s ) \} %(end)s
        | (?: :%(g)s )?+ ([{<])
        | :%(g)s (\[ %(g)s (?: %(v)s (?: %(g)s , %(g)s %(v)s )%(m)s )? %(g)s \]) %(end)s
        | (?: :%(g)s )?+ (\[)
      )
      | ([}>]) %(end)s
      | ([{<])
      | (\]) %(end)s
      | (\Z)
      | (.)
    )"""
    % {b"g": _GAP, b"s": STRING, b"v": _SCALAR, b"m": _MANY, b"end": _END},
    re.VERBOSE | re.DOTALL,
)
_IN_FIELD, _IN_ENTRY, _IN_NESTED_ENTRY, _IN_FLAT = 2, 5, 6, 7
_IN_OPEN, _IN_SCALARS, _IN_MESSAGES, _CLOSE, _ELEMENT, _END_LIST, _EOF = range(8, 15)
_WHOLE = (_IN_ENTRY, _IN_NESTED_ENTRY, _IN_SCALARS)
_OPENS = (_IN_OPEN, _ELEMENT)
_EACH_NESTED = re.compile(rb"(\w++):\s*+(%s)" % _SCALAR)
_EACH_SCALAR = re.compile(rb"#[^\n]*+|(%s)" % _SCALAR)
_CLOSER = {b"{": b"}", b"<": b">", b"[": b"]"}


class EventKind(Enum):
    """What happened in the blocks a reader was told to enter."""

    ENTER = "enter"
    FIELD = "field"
    LEAVE = "leave"


class Event(NamedTuple):
    """*depth* counts the entered blocks around it; *offset* is the byte it starts at."""

    kind: EventKind
    depth: int
    name: bytes
    value: Value
    offset: int


class _Block(NamedTuple):
    """An open block: the fields around it (None outside of any field), and its closer."""

    around: Fields | None
    name: bytes
    closer: bytes
    offset: int


class TextReader:
    """Reads *buffer*, the content of *path* (named in errors).

    *take_apart* makes the fields of a token that holds more than one scalar; by default
    they are those of any other way to write them, with :func:`unread_entries` a map entry
    stays an :data:`Entry`.
    """

    def __init__(self, buffer: Buffer, path: Path, take_apart: TakeApart | None = None) -> None:
        self._buffer = buffer
        self._path = path
        self._take_apart = take_apart or _pairs
        self._stack: list[_Block] = []

    def events(self, *enter: bytes) -> Iterator[Event]:
        """The file's fields in order.

        Blocks named ``enter[0]`` at the top, ``enter[1]`` inside those and so on are
        entered: ENTER, their fields, LEAVE. Every other field comes whole, as FIELD.

        Raises:
            ImportFormatError: with line and column, where the text is broken or ends early.
        """
        depth = 0
        fields: Fields | None = None
        take_apart = self._take_apart
        self._stack = []
        for match in _TOKEN.finditer(self._buffer, _start(self._buffer)):
            kind = match.lastindex
            if kind == _IN_FIELD:
                name, value = match.group(1, 2)
                if fields is not None:
                    fields.append((name, value))
                else:
                    yield Event(EventKind.FIELD, depth, name, value, match.start(1))
            elif kind in _WHOLE:
                pairs = take_apart(match)
                if fields is not None:
                    fields.extend(pairs)
                    continue
                for name, content in pairs:
                    yield Event(EventKind.FIELD, depth, name, content, match.start(1))
            elif kind == _IN_FLAT:
                if len(self._stack) >= MAX_DEPTH:
                    self._open(match, fields)
                if fields is not None:
                    fields.append((match[1], _EACH_NESTED.findall(match[_IN_FLAT])))
                elif depth < len(enter) and match[1] == enter[depth]:
                    yield from self._entered(match, depth)
                else:
                    flat: Fields = list(_EACH_NESTED.findall(match[_IN_FLAT]))
                    yield Event(EventKind.FIELD, depth, match[1], flat, match.start(1))
            elif kind in _OPENS:
                block = self._open(match, fields)
                if fields is not None:
                    child: Fields = []
                    fields.append((block.name, child))
                    fields = child
                elif depth < len(enter) and block.name == enter[depth]:
                    yield Event(EventKind.ENTER, depth, block.name, b"", block.offset)
                    depth += 1
                else:
                    fields = []
            elif kind == _CLOSE:
                block = self._close(match)
                if block.around is not None:
                    fields = block.around
                elif fields is not None:
                    yield Event(EventKind.FIELD, depth, block.name, fields, block.offset)
                    fields = None
                else:
                    depth -= 1
                    yield Event(EventKind.LEAVE, depth, block.name, b"", block.offset)
            elif kind == _IN_MESSAGES:
                self._open(match, fields)
            elif kind == _END_LIST:
                self._close(match)
            else:
                self._end(match)

    def _entered(self, match: re.Match[bytes], depth: int) -> Iterator[Event]:
        """The events of a block of scalars that is to be entered."""
        name, at = match[1], match.start(1)
        yield Event(EventKind.ENTER, depth, name, b"", at)
        start, end = match.span(_IN_FLAT)
        for inner in _EACH_NESTED.finditer(self._buffer, start, end):
            yield Event(EventKind.FIELD, depth + 1, inner[1], inner[2], inner.start())
        yield Event(EventKind.LEAVE, depth, name, b"", at)

    def error(self, offset: int, what: str, hint: str = "") -> ImportFormatError:
        """An error at byte *offset*, told as line and column."""
        line, column = self.position(offset)
        return ImportFormatError(self._path, what, line=line, column=column, hint=hint)

    @contextmanager
    def told(self, offset: int) -> Iterator[None]:
        """Tells a ValueError as damage at byte *offset*."""
        try:
            yield
        except ValueError as error:
            raise self.error(offset, str(error)) from error

    def position(self, offset: int) -> tuple[int, int]:
        """1-based line and column (in bytes) of byte *offset*."""
        line, last = 1, -1
        step = 1 << 20
        for start in range(0, offset, step):
            subgraph = self._buffer[start : min(start + step, offset)]
            newlines = subgraph.count(b"\n")
            if newlines:
                line += newlines
                last = start + subgraph.rindex(b"\n")
        return line, offset - last

    def _open(self, match: re.Match[bytes], around: Fields | None) -> _Block:
        kind = match.lastindex or 0
        if kind == _ELEMENT:
            at = match.start(_ELEMENT)
            if not self._stack or self._stack[-1].closer != b"]":
                raise self.error(at, "a block without a field name")
            name = self._stack[-1].name
        else:
            at = match.start(1)
            name = match[1]
        if len(self._stack) >= MAX_DEPTH:
            raise self.error(at, f"blocks are nested deeper than {MAX_DEPTH}")
        block = _Block(around, name, _CLOSER[match[kind]], at)
        self._stack.append(block)
        return block

    def _close(self, match: re.Match[bytes]) -> _Block:
        kind = match.lastindex or 0
        closer = match[kind]
        if not self._stack:
            raise self.error(match.start(kind), f"{closer.decode()!r} closes nothing")
        block = self._stack.pop()
        if block.closer != closer:
            raise self.error(
                match.start(kind),
                f"{closer.decode()!r} where {self._told(block)} needs {block.closer.decode()!r}",
            )
        return block

    def _end(self, match: re.Match[bytes]) -> None:
        at = match.start(match.lastindex or 0)
        if match.lastindex != _EOF:
            raise self.error(at, self._fault(at))
        if self._stack:
            what = f"the file ends inside {self._told(self._stack[-1])}"
            raise self.error(at, what, hint="it was cut; copy or dump it again")

    def _told(self, block: _Block) -> str:
        line, _ = self.position(block.offset)
        return f"{block.name.decode('ascii', 'backslashreplace')!r} of line {line}"

    def _fault(self, at: int) -> str:
        rest = bytes(self._buffer[at : at + 200])
        name = re.match(rb"(\w+)\s*(:?)\s*([\"']?)", rest)
        if name is None:
            return f"{rest[:1].decode('latin-1')!r} starts no field of protobuf text"
        field = name[1].decode()
        if name[3]:
            return f"the text of field {field!r} has no end quote on its line"
        if name[2]:
            words = rest[name.end() :].partition(b"\n")[0].split()
            if not words or words[0][:1] in b"}>]":
                return f"field {field!r} has no value"
            stands = words[0][:_SHOWN].decode("ascii", "backslashreplace")
            template = ", as in a template that was not filled in" if stands[0] in "$@%{<" else ""
            return f"field {field!r} has {stands!r}, which is no value{template}"
        return f"{field!r} is followed by neither ':' nor a block"


def outline(head: bytes) -> set[tuple[bytes, ...]]:
    """The field names in sight: ``(outer,)`` and ``(outer, inner)``, of a text's first bytes.

    A string field at the top comes also as ``(name, literal)``. Empty where *head* is no
    protobuf text.
    """
    names: set[tuple[bytes, ...]] = set()
    stack: list[bytes] = []
    for match in _TOKEN.finditer(head, _start(head)):
        kind = match.lastindex
        if kind in (_IN_FIELD, _IN_OPEN, _IN_FLAT, *_WHOLE):
            if len(stack) < 2:
                names.add((*stack, match[1]))
            if kind == _IN_FLAT and not stack:
                names.update((match[1], name) for name, _ in _EACH_NESTED.findall(match[kind]))
            if kind == _IN_OPEN:
                stack.append(match[1])
            elif kind == _IN_FIELD and not stack and is_string(match[2]):
                names.add((match[1], match[2]))
        elif kind == _CLOSE and stack:
            stack.pop()
        else:
            break
    return names


def _start(buffer: Buffer) -> int:
    return 3 if buffer[:3] == b"\xef\xbb\xbf" else 0


def _pairs(match: re.Match[bytes]) -> Fields:
    """The fields of a token that holds more than one scalar."""
    if match.lastindex == _IN_SCALARS:
        values = _EACH_SCALAR.findall(match[_IN_SCALARS][1:-1])
        return [(match[1], value) for value in values if value]
    name, key, kind, value, nested = match.group(1, 3, 4, 5, 6)
    content: Value = value if nested is None else _EACH_NESTED.findall(nested)
    return [(name, [(b"key", key), (b"value", [(kind, content)])])]


def unread_entries(match: re.Match[bytes]) -> Fields:
    """Like the usual way, but map entries stay unread: a reader may know them already."""
    if match.lastindex == _IN_SCALARS:
        return _pairs(match)
    entry: Any = match.group(3, 4, 5, 6)  # no Value: who asks for it knows what to expect
    return [(match[1], entry)]


def entry_fields(entry: Entry) -> Fields:
    """The fields of the value of an unread map entry, its first item aside: the key."""
    _, kind, value, nested = entry
    if nested is not None:
        return [(kind, list(_EACH_NESTED.findall(nested)))]
    return [(kind, value or b"")]
