"""Graphs and runs as lines of JSON, the same whatever store they come from.

A graph is itself without its ops, then one line an op. A run is its record, then a line each
for its links, comparisons (in their order), states, origins, suspects and findings, with what
they are as the first item; suspects that are not there have no line. Records are written by
:mod:`graphstore.schema.codec`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from graphstore.contract import RunData
from graphstore.errors import InputError
from graphstore.model import Comparison, Finding, LineageLink, ModelGraph, Op, OpState, Origin, Run
from graphstore.schema import codec

_KINDS: dict[str, Any] = {
    "link": LineageLink,
    "comparison": Comparison,
    "finding": Finding,
    "origins": tuple[Origin, ...],
    "suspects": tuple[Origin, ...],
}
"""What the lines of a run hold, by their first item."""


def graph_lines(graph: ModelGraph) -> Iterator[bytes]:
    """The lines of a graph, each with its line end."""
    yield _line(codec.text_of(replace(graph, ops=())))
    for op in graph.ops:
        yield _line(codec.text_of(op))


def run_lines(data: RunData) -> Iterator[bytes]:
    """The lines of a run without its graphs."""
    yield _line(codec.text_of(data.run))
    for link in data.links:
        yield _line(f'["link",{codec.text_of(link)}]')
    for comparison in data.comparisons:
        yield _line(f'["comparison",{codec.text_of(comparison, zeros_unsigned=True)}]')
    for op, state in data.states.items():
        yield _line(codec.dumps(["state", op, state]))
    yield _line(f'["origins",{codec.text_of(data.origins)}]')
    if data.suspects:
        yield _line(f'["suspects",{codec.text_of(data.suspects)}]')
    for finding in data.findings:
        yield _line(f'["finding",{codec.text_of(finding, zeros_unsigned=True)}]')


def content_hash(lines: Iterable[bytes]) -> str:
    """The SHA-256 of *lines*: equal for equal graphs and runs, from whatever store."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line)
    return digest.hexdigest()


def graph_from_lines(lines: Iterable[bytes]) -> ModelGraph:
    """The graph behind :func:`graph_lines`.

    Raises:
        InputError: a line is not what it should be.
    """
    reader = _Reader(lines)
    graph: ModelGraph = reader.value(lambda text: codec.record_of(ModelGraph, text))
    ops: list[Op] = []
    while reader.more():
        ops.append(reader.value(lambda text: codec.record_of(Op, text)))
    return replace(graph, ops=tuple(ops))


def run_from_lines(lines: Iterable[bytes], golden: ModelGraph, device: ModelGraph) -> RunData:
    """The run behind :func:`run_lines`, with its graphs.

    Raises:
        InputError: a line is not what it should be.
    """
    reader = _Reader(lines)
    run = reader.value(lambda text: codec.record_of(Run, text))
    links: list[LineageLink] = []
    comparisons: list[Comparison] = []
    states: dict[str, OpState] = {}
    findings: list[Finding] = []
    data = RunData(run, golden, device, (), (), states, ())
    while reader.more():
        kind, value = reader.value(_fact)
        if kind == "link":
            links.append(value)
        elif kind == "comparison":
            comparisons.append(value)
        elif kind == "state":
            states[value[0]] = value[1]
        elif kind == "finding":
            findings.append(value)
        else:
            data = replace(data, **{kind: value})
    return replace(
        data, links=tuple(links), comparisons=tuple(comparisons), findings=tuple(findings)
    )


def _line(text: str) -> bytes:
    return f"{text}\n".encode("ascii")


def _fact(text: str) -> tuple[str, Any]:
    kind, *rest = json.loads(text)
    if kind == "state":
        return kind, (rest[0], OpState(rest[1]))
    if kind not in _KINDS:
        raise ValueError(f"a run has no {kind!r}")
    return kind, codec.decoded(_KINDS[kind], rest[0])


class _Reader:
    """Lines one by one; what cannot be read is named by its number."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = iter(lines)
        self._number = 0
        self._next = next(self._lines, None)

    def more(self) -> bool:
        return self._next is not None

    def value(self, read: Callable[[str], Any]) -> Any:
        line = self._next
        self._number += 1
        if line is None:
            raise InputError("it is empty")
        value = self.checked(lambda: read(line.decode()))
        self._next = next(self._lines, None)
        return value

    def checked(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            message = f"{type(error).__name__}: {error}"[:200]
            raise InputError(f"line {self._number} cannot be read: {message}") from error
