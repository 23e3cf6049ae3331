"""Names of golden ``.npy`` files, and the tensors of a graph they stand for.

The writers replace characters, so names are lossy: the graph's names are written the
same ways and looked up. Closer ways win over coarser ones, an op's name over a
tensor's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from graphstore.model import ModelGraph, Op, Tensor
from importers.dumps.names import is_number
from importers.names import MODULE_OUTPUTS
from importers.nesting import inlined_names

_AS_WRITTEN = str.maketrans({"/": "_", ":": "."})
_COARSE = str.maketrans(dict.fromkeys("/.:\\ ", "_"))
# The value fed to a placeholder, which is then not computed itself.
_FED = re.compile(r"_arg_(?P<name>.+)_\d+_\d+\.0(?P<rest>\.\d+)?")
_TAKEN = "input_"
_ODD = re.compile(r"[^A-Za-z0-9_-]")
# Microseconds since 1970 have 16 digits, seconds 10; no output index has.
_TIMESTAMP_DIGITS = 10
# How far past the outputs a graph lists an index is still taken for an output.
_MAX_PORT = 10_000


@dataclass(frozen=True, slots=True)
class Hit:
    """Output *port* of *op*, as one reading of a file's name."""

    op: Op
    port: int
    timestamp: int


class _Reading(NamedTuple):
    """One way to take a file's name apart; ``port`` is None if it has no index."""

    name: str
    port: int | None
    timestamp: int


def _as_written(name: str) -> str:
    return name.translate(_AS_WRITTEN)


def coarse(name: str) -> str:
    """An op's name with all that dump file names lose as ``_``: what lossy names share."""
    return name.translate(_COARSE)


def _coarsest(name: str) -> str:
    return _ODD.sub("_", name)


class _Table:
    """Ops and tensors of a graph under one way of writing names."""

    def __init__(self, graph: ModelGraph, write: Callable[[str], str]) -> None:
        self.write = write
        self.ops: dict[str, list[Op]] = {}
        self.tensors: dict[str, list[tuple[Op, int]]] = {}
        inlined = inlined_names(graph)
        for op in graph.ops:
            for name in (
                set() if _is_first_of(op) else {op.name, op.id, inlined.get(op.id, op.name)}
            ):
                self.ops.setdefault(write(name), []).append(op)
            for port, tensor in enumerate(op.outputs):
                if tensor.name:
                    self.tensors.setdefault(write(tensor.name), []).append((op, port))
            for module in modules_of(op):
                self.tensors.setdefault(write(module), []).append((op, 0))


def modules_of(op: Op) -> tuple[str, ...]:
    """The modules whose output the first one of *op* is."""
    modules = op.attrs.get(MODULE_OUTPUTS, ())
    return tuple(map(str, modules)) if isinstance(modules, tuple) else ()


def _is_first_of(op: Op) -> bool:
    """Whether the op has the name of the first of its originals (OpenVINO): then a file of that
    name holds a tensor inside of it, and its output is that of the last one."""
    names = op.original_names or ()
    return len(names) > 1 and op.name in names[:-1]


class GoldenNames:
    """Finds the tensors a golden file can hold by the file's name."""

    def __init__(self, graph: ModelGraph) -> None:
        self._graph = graph
        self._tables = [_Table(graph, _as_written), _Table(graph, coarse)]

    def find(self, stem: str) -> list[Hit]:
        """The tensors a file named *stem* (without ``.npy``) can hold, best guess only.

        One if the name is clear, none if nothing fits. Ops of the root graph go before
        ops of bodies, since the tools that write these files name the root's.
        """
        readings = _readings(stem)
        hits = next(self._tries(readings), [])
        if not hits and (fed := _FED.fullmatch(stem)) is not None:
            return self.find(f"{fed['name']}.0{fed['rest']}")
        rooted = [hit for hit in hits if not hit.op.subgraph]
        return rooted or hits

    def _tries(self, readings: list[_Reading]) -> Iterator[list[Hit]]:
        for table in self._tables:
            yield from _by_op(table, readings, strict=True)
            yield from _by_tensor(table, readings)
        if len(self._tables) == 2:  # the coarsest names are seldom needed
            self._tables.append(_Table(self._graph, _coarsest))
            yield from _by_op(self._tables[2], readings, strict=True)
            yield from _by_tensor(self._tables[2], readings)
        for table in self._tables:
            yield from _by_op(table, readings, strict=False)

    def parameter(self, name: str) -> Tensor | None:
        """The graph input or weight that MindSpore writes as *name*."""
        inputs = (*self._graph.inputs, *(constant.tensor for constant in self._graph.constants))
        fitting = [tensor for tensor in inputs if coarse(tensor.name) == name]
        return fitting[0] if len(fitting) == 1 else None

    def find_taken(self, stem: str) -> Hit | None:
        """The op's input which a file named ``input_`` and its op holds, as msprobe's
        ``offline_dump`` writes them; of others nothing."""
        if not stem.startswith(_TAKEN):
            return None
        hits = self.find(stem.removeprefix(_TAKEN))
        return hits[0] if len(hits) == 1 else None

    def given(self, name: str) -> Tensor | None:
        """The graph's input of this *name*."""
        return next((tensor for tensor in self._graph.inputs if tensor.name == name), None)

    @cached_property
    def _constants(self) -> frozenset[str]:
        names = [constant.tensor.name for constant in self._graph.constants]
        return frozenset(map(_coarsest, names))

    def is_constant(self, stem: str) -> bool:
        """Whether a file named *stem* holds a weight that the graph has itself, as interpreters
        that give all of their tensors write them."""
        return any(_coarsest(reading.name) in self._constants for reading in _readings(stem))

    def find_input(self, stem: str) -> tuple[Tensor, int] | None:
        """The graph input that is no op which a file named *stem* holds, and its timestamp."""
        for reading in _readings(stem):
            for write in (_as_written, coarse, _coarsest):
                name = write(reading.name)
                fitting = [tensor for tensor in self._graph.inputs if write(tensor.name) == name]
                if len(fitting) == 1 and not reading.port:
                    return fitting[0], reading.timestamp
        return None


def name_without_time(stem: str) -> str:
    """A file's name without the time at its end, if it has one."""
    name, _, last = stem.rpartition(".")
    return name if is_number(last) and len(last) >= _TIMESTAMP_DIGITS else stem


def _readings(stem: str) -> list[_Reading]:
    """All ways to read a name, likeliest first.

    ``a.1.0`` is output 1 of ``a`` at time 0 or output 0 of ``a.1``: only a number long
    enough to be a time is one in the first place.
    """
    bare = [_Reading(stem, None, 0)]
    name, _, last = stem.rpartition(".")
    if not name or not is_number(last):
        return bare
    indexed = [_Reading(name, int(last), 0)]
    before, _, port = name.rpartition(".")
    if before and is_number(port):
        full = _Reading(before, int(port), int(last))
        indexed.insert(0 if len(last) >= _TIMESTAMP_DIGITS else 1, full)
    return [*indexed, *bare, _Reading(name, None, int(last))]


def _by_op(table: _Table, readings: list[_Reading], *, strict: bool) -> Iterator[list[Hit]]:
    """Hits by op name; not *strict*: also past the outputs listed, or without an index."""
    for reading in readings:
        if reading.port is None and strict:
            continue
        port = reading.port or 0
        hits = [
            Hit(op, port, reading.timestamp)
            for op in table.ops.get(table.write(reading.name), ())
            if port < (max(len(op.outputs), 1) if strict else _MAX_PORT)
        ]
        if hits:
            yield hits


def _by_tensor(table: _Table, readings: list[_Reading]) -> Iterator[list[Hit]]:
    for reading in readings:
        outputs = table.tensors.get(table.write(reading.name), ())
        if outputs and not reading.port:
            yield [Hit(op, port, reading.timestamp) for op, port in outputs]
