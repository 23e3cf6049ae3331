"""Read the JSON form of ``ge.proto.ModelDef`` as the offline converter writes it.

Field names are those of ge_ir.proto; maps are lists of ``{"key": ..., "value": ...}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from graphstore.errors import ImportFormatError
from graphstore.model import ModelGraph
from importers.contract import Confidence, Detection
from importers.ge_proto.assembly import RawGraph, assemble
from importers.nesting import json_fault
from importers.om.container import Tables, read_tables
from importers.proto.values import Fields, Value, message
from importers.source import mapped, sha256

Json: TypeAlias = Any
"""What :mod:`json` gives: None, bool, int, float, str, list or dict."""

MAX_BYTES = 1 << 30
"""Larger files are refused: the text is held in memory."""

_TOO_DEEP = "values are nested too deep"
_SPACE = re.compile(r"[ \t\r\n]*+")


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
        except RecursionError as error:
            raise self.error(at, _TOO_DEEP) from error

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
        try:
            value, end = self._decoder.raw_decode(self._text, self.at)
        except json.JSONDecodeError as error:
            raise self.error(error.pos, f"broken JSON: {json_fault(error)}") from error
        except ValueError as error:  # Python takes no number of more than some thousand digits
            raise self.error(self.at, "a number with too many digits") from error
        except RecursionError as error:
            raise self.error(self.at, _TOO_DEEP) from error
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


_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*+\{\s*+\"")
_KEY = re.compile(rb'"(graph|op|attr|input|output|output_desc|type|key|custom_version)"\s*+:')
_LISTED_ATTR = re.compile(rb'"attr"\s*+:\s*+\[\s*+\{\s*+"(?:key|value)"')
_SURE = {b"graph", b"op"}
_NO_GRAPH = 'the model has `"graph": [{"op": [...]}]`'


class GeJsonImporter:
    """Importer of offline models and ge_proto texts converted to JSON."""

    name = "ge_json"
    reads = "the JSON of atc --mode=1 or --mode=5"

    def detect(self, path: Path, head: bytes) -> Detection:
        """By the names of its first fields."""
        if not _START.match(head):
            return Detection(Confidence.NO, "")
        keys = set(_KEY.findall(head))
        if keys >= _SURE:
            return Detection(Confidence.SURE, 'JSON with "graph" and "op"')
        # The model's attributes come first and may fill the beginning; only GE writes such.
        if b"key" in keys and _LISTED_ATTR.search(head):
            return Detection(Confidence.SURE, 'JSON with "attr" as a list of {"key", "value"}')
        if b"graph" in keys and keys & {b"attr", b"input", b"output"}:
            return Detection(Confidence.MAYBE, 'JSON with a "graph"')
        return Detection(Confidence.NO, "")

    def read(self, path: Path) -> ModelGraph:
        """The device graph in *path*."""
        return read_ge_json(path)


def read_ge_json(path: Path) -> ModelGraph:
    """The device graph in the JSON file *path*, its first graph as the root.

    Raises:
        ImportFormatError: with line and column, where the text is broken, cut, nested too
            deep or larger than 1 GiB.
    """
    with mapped(path) as buffer:
        if len(buffer) > MAX_BYTES:
            what = f"{len(buffer)} bytes of JSON; up to {MAX_BYTES} are read"
            raise ImportFormatError(path, what, hint="give the ge_proto text or the .om itself")
        digest = sha256(buffer)
        content = buffer[:].decode("utf-8", "replace")
    reading = _Reading(JsonReader(content, path))
    reading.model()
    graphs = reading.graphs
    if not graphs or not graphs[0].nodes:
        raise ImportFormatError(path, "no op in its first graph", line=1, hint=_NO_GRAPH)
    return assemble(graphs, reading.around, path, digest, form="ge_json")


class _Reading:
    def __init__(self, reader: JsonReader) -> None:
        self._reader = reader
        self.graphs: list[RawGraph] = []
        self.around = RawGraph()
        self._tables: Tables | None = None
        self._entries: list[Fields] = []

    def model(self) -> None:
        for key in self._reader.members():
            if key == "graph" and self._reader.next_is("["):
                for _ in self._reader.elements():
                    self._graph()
            elif key == "graph":
                self._graph()
            else:
                self._field(key, self.around)
        self._reader.end()

    def _graph(self) -> None:
        graph = RawGraph()
        self.graphs.append(graph)
        if self._tables is None:  # the converter sorts by name: "attr" comes before "graph"
            self._tables = self._read_tables()
        for key in self._reader.members():
            if key == "op" and self._reader.next_is("["):
                for at in self._reader.elements():
                    self._op(self._reader.value(), at, graph)
            elif key == "op":
                self._op(self._reader.value(), self._reader.at, graph)
            else:
                self._field(key, graph)

    def _op(self, value: Json, at: int, graph: RawGraph) -> None:
        with self._reader.told(at):
            read: Fields = fields(value)
            graph.take(b"op", list(self._tables.op(read) if self._tables else read))

    def _read_tables(self) -> Tables:
        with self._reader.told(self._reader.at):
            return read_tables(self._entries, None)

    def _field(self, key: str, graph: RawGraph) -> None:
        at = self._reader.at
        with self._reader.told(at):
            for value in _values(key, self._reader.value()):
                graph.take(key.encode("utf-8", "replace"), value)
                if key == "attr" and graph is self.around:
                    self._entries.append(message(value))


def fields(value: Json) -> list[tuple[bytes, Value]]:
    """The fields of a JSON object, in the form all of GE's files share."""
    if not isinstance(value, dict):
        raise ValueError(f"{str(value)[:40]!r} where an object belongs")  # noqa: TRY004 - the file is wrong
    pairs: list[tuple[bytes, Value]] = []
    for key, content in value.items():
        name = key.encode("utf-8", "replace")
        pairs.extend((name, single) for single in _values(key, content))
    return pairs


def _values(key: str, content: Json) -> list[Value]:
    """The elements of a field: none of null, all of a list."""
    if content is None:
        return []
    if key == "attr" and isinstance(content, dict) and "key" not in content:
        # Protobuf's own printer writes maps as objects.
        content = [{"key": name, "value": value} for name, value in content.items()]
    listed = content if isinstance(content, list) else [content]
    return [_value(element) for element in listed if element is not None]


def _value(content: Json) -> Value:
    if isinstance(content, dict):
        return fields(content)
    if isinstance(content, list):
        raise ValueError("a list in a list")  # noqa: TRY004 - the file is wrong
    scalar: Value = content
    return scalar
