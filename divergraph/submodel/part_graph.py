"""A graph of which parts are chosen: whole in memory, or in a store that hands out single ops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from divergraph.submodel.arguments import argument_values
from divergraph.submodel.constants import (
    READS,
    constant_ops,
    is_another_each_run,
    may_be_fed,
    stands_for_an_input,
)
from graphstore.columns.coded import Bool, Coded
from graphstore.columns.listed_ops import GraphColumns
from graphstore.model import Framework, ModelGraph, Op, TensorRef
from graphstore.traverse.arrays import GraphArrays
from graphstore.traverse.topological_order import graph_arrays

OpsById = Callable[[Sequence[str]], Mapping[str, Op]]
OutputsByName = Callable[[str], Sequence[TensorRef]]
"""Called with ids; gives the ops."""
_FRAMES = frozenset({"Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "LoopCond"})
"""TensorFlow's ops of loops that are no bodies."""
_AT_ONCE = 4096


class PartGraph(ABC):
    """What choosing parts needs of a graph. ``header`` may lack its ops, ``ops`` has them all, but
    perhaps reads them when they are asked for; :meth:`fetch` reads many at once."""

    header: ModelGraph
    arrays: GraphArrays
    types: Sequence[str]
    ops: Mapping[str, Op]
    constants: frozenset[str]
    """The ops whose values follow from constants and variables alone."""
    arguments: Mapping[str, TensorRef]
    """What the arguments of bodies stand for."""
    bodies: Mapping[str, Sequence[Op]]
    """The ops of each body."""

    @abstractmethod
    def fetch(self, ops: Iterable[str]) -> None:
        """Read these *ops*, if they are still to be read."""

    @abstractmethod
    def subgraph(self, op: str) -> str:
        """The body an op is in; empty if it is in none."""

    @abstractmethod
    def given(self, op: str) -> Iterable[str]:
        """The names of the inputs of an op outside of bodies that no op makes."""

    @abstractmethod
    def named(self, name: str) -> list[str]:
        """The ids of the ops called *name*."""

    @abstractmethod
    def makers(self, tensor: str) -> list[str]:
        """The ids of the ops with an output of this name."""

    @abstractmethod
    def frames(self) -> Iterable[frozenset[str]]:
        """The ops of each outermost loop of TensorFlow's old kind, with what opens and leaves
        it: a value cannot be put into its frame from outside."""

    @cached_property
    def is_given(self) -> Bool:
        """The ops with an input that no op makes."""
        ids = self.arrays.ids
        return np.fromiter((any(True for _ in self.given(op)) for op in ids), bool, len(ids))

    @cached_property
    def kinds(self) -> Coded[str]:
        """The types of the ops as a column."""
        return Coded.of(self.types)

    def type(self, op: str) -> str:
        """The type of an op."""
        return self.types[self.arrays.number[op]]

    def mask(self, ops: Iterable[str]) -> Bool:
        """True for the numbers of *ops*."""
        mask = np.zeros(len(self.arrays.ids), dtype=np.bool_)
        mask[[self.arrays.number[op] for op in ops]] = True
        return mask

    def ids(self, mask: Bool) -> tuple[str, ...]:
        """The ids of the ops of a *mask*, in execution order."""
        return tuple(map(self.arrays.ids.__getitem__, np.flatnonzero(mask).tolist()))


class WholeGraph(PartGraph):
    """A graph that is whole in memory."""

    def __init__(self, graph: ModelGraph, arrays: GraphArrays | None = None) -> None:
        self.header = graph
        self.arrays = arrays or graph_arrays(graph)
        self.ops = graph.op_index()
        self.types = [self.ops[op].type for op in self.arrays.ids]
        self.constants = constant_ops(graph)
        self.arguments = argument_values(graph)
        bodies: dict[str, list[Op]] = {}
        for op in graph.ops:
            if op.subgraph:
                bodies.setdefault(op.subgraph, []).append(op)
        self.bodies = bodies

    def fetch(self, ops: Iterable[str]) -> None:
        """All ops are here."""

    def subgraph(self, op: str) -> str:
        """The body an op is in; empty if it is in none."""
        return self.ops[op].subgraph

    def given(self, op: str) -> Iterable[str]:
        """The names of the inputs of an op that no op makes."""
        return (one.tensor for one in self.ops[op].inputs if one and one.producer is None)

    def named(self, name: str) -> list[str]:
        """The ids of the ops called *name*."""
        return [op.id for op in self.header.ops if op.name == name]

    def makers(self, tensor: str) -> list[str]:
        """The ids of the ops with an output of this name."""
        outputs = ((op.id, output.name) for op in self.header.ops for output in op.outputs)
        return list(dict.fromkeys(op for op, name in outputs if name == tensor))

    def frames(self) -> Iterable[frozenset[str]]:
        """The ops of each outermost loop of TensorFlow's old kind."""
        frames: dict[tuple[str, str], set[str]] = {}
        for op in self.header.ops:
            frame = op.attrs.get("frame")
            if isinstance(frame, str) and self.header.framework is Framework.TENSORFLOW:
                frames.setdefault((op.subgraph, frame.partition("/")[0]), set()).add(op.id)
        return [frozenset(ops) for ops in frames.values()]


class StoredPartGraph(PartGraph):
    """A graph without bodies and loops, of which *read* gives single ops, and *outputs_called* the
    outputs of a name."""

    def __init__(self, columns: GraphColumns, read: OpsById, outputs_called: OutputsByName) -> None:
        assert is_plain(columns)
        self.header, self.arrays, self.types = columns.header, columns.arrays, columns.types
        self._columns, self._read, self._outputs_called = columns, read, outputs_called
        self._known: dict[str, Op] = {}
        self.ops = _ReadOps(self)
        self.arguments, self.bodies = {}, {}

    def op(self, op: str) -> Op:
        """One op."""
        self.fetch((op,))
        return self._known[op]

    def fetch(self, ops: Iterable[str]) -> None:
        """Read these *ops*, if they are still to be read."""
        missing = [op for op in dict.fromkeys(ops) if op not in self._known]
        for first in range(0, len(missing), _AT_ONCE):
            self._known.update(self._read(missing[first : first + _AT_ONCE]))

    def subgraph(self, op: str) -> str:
        """There are no bodies."""
        return ""

    def given(self, op: str) -> Iterable[str]:
        """The names of the inputs of an op that no op makes."""
        return self._columns.given[self.arrays.number[op]]

    @cached_property
    def is_given(self) -> Bool:
        """The ops with an input that no op makes."""
        has_given: Bool = np.diff(self._columns.given.start) > 0
        return has_given

    def named(self, name: str) -> list[str]:
        """The ids of the ops called *name*."""
        named = zip(self.arrays.ids, self._columns.names, strict=True)
        return [op for op, own in named if own == name]

    def makers(self, tensor: str) -> list[str]:
        """The ids of the ops with an output of this name."""
        return list(dict.fromkeys(output.op for output in self._outputs_called(tensor)))

    def frames(self) -> Iterable[frozenset[str]]:
        """There are none."""
        return ()

    @cached_property
    def constants(self) -> frozenset[str]:  # type: ignore[override]
        """As :func:`divergraph.submodel.constants.constant_ops` says; few ops are read for it."""
        arrays, reads = self.arrays, self.kinds.equal(READS)
        varies = self.kinds.where(is_another_each_run)
        fed = {tensor.name for tensor in self.header.inputs}
        varies |= ~reads & self._columns.given.where(fed.__contains__)
        inputs = np.flatnonzero(~varies & self.kinds.where(may_be_fed))
        ids = [arrays.ids[number] for number in inputs.tolist()]
        self.fetch(ids)
        varies[inputs] = [stands_for_an_input(self.ops[op]) for op in ids]
        waiting = np.where(reads, 0, np.diff(arrays.predecessor_start))
        ready = np.flatnonzero(~varies & (waiting == 0)).tolist()
        count_left, kept_out = waiting.tolist(), (varies | reads).tolist()
        constants = []
        while ready:
            number = ready.pop()
            constants.append(arrays.ids[number])
            for user in arrays.successors(number).tolist():
                count_left[user] -= 1
                if count_left[user] == 0 and not kept_out[user]:
                    ready.append(user)
        return frozenset(constants)


def is_plain(columns: GraphColumns) -> bool:
    """Whether a graph has neither bodies nor loops, so that names, types and edges say enough."""
    arrays = columns.arrays
    targets = np.repeat(np.arange(len(arrays.ids)), np.diff(arrays.predecessor_start))
    if columns.header.subgraphs or not columns.exact or np.any(arrays.predecessor_ops >= targets):
        return False
    of_tensorflow = columns.header.framework is Framework.TENSORFLOW
    return not (of_tensorflow and _FRAMES & set(columns.types))


class _ReadOps(Mapping[str, Op]):
    """The ops of a stored graph by id."""

    def __init__(self, graph: StoredPartGraph) -> None:
        self._graph = graph

    def __getitem__(self, op: str) -> Op:
        if op not in self._graph.arrays.number:
            raise KeyError(op)
        return self._graph.op(op)

    def __contains__(self, op: object) -> bool:
        return op in self._graph.arrays.number

    def __iter__(self) -> Iterator[str]:
        return iter(self._graph.arrays.ids)

    def __len__(self) -> int:
        return len(self._graph.arrays.ids)
