"""The values of one dump, read when they are asked for, with a cache."""

from __future__ import annotations

from math import prod

from divergraph.values.array_types import Array
from divergraph.values.kept import KeptArrays
from divergraph.values.one_tensor import read_tensor
from divergraph.values.tensor_pair import is_blocked
from divergraph.values.unread import Unread
from graphstore.model import DumpTensorRef, TensorIO, TensorRef
from importers.dumps.index import DumpIndex


class DumpedValues:
    """Output tensors of one dump in their graph's order of axes, by op and port; None where there
    is no readable dump. The cache holds about *memory* bytes."""

    def __init__(self, dump: DumpIndex, memory: int) -> None:
        self._dump = dump
        self._kept = KeptArrays(memory)

    def of(self, ref: TensorRef) -> Array | None:
        """The values of an output."""
        return self._read(ref, self._found(ref))

    def of_input(self, name: str) -> Array | None:
        """The values of a graph input."""
        return self._read(name, self._dump.graph_inputs.get(name))

    def has(self, ref: TensorRef) -> bool:
        """Whether there is a dump of an output."""
        return self._found(ref) is not None

    def shape(self, ref: TensorRef) -> tuple[int, ...] | None:
        """The shape of an output as its dump's header says; the values are not read."""
        dumped = self._found(ref)
        if dumped is None:
            return None
        return (is_blocked(dumped) and dumped.original_shape) or dumped.shape

    def size(self, ref: TensorRef) -> int | None:
        """How many elements an output has, as its dump's header says; the values are not read."""
        shape = self.shape(ref)
        return None if shape is None else prod(shape)

    def _found(self, ref: TensorRef) -> DumpTensorRef | None:
        return self._dump.tensors.get((ref.op, TensorIO.OUTPUT, ref.port))

    def _read(self, key: TensorRef | str, ref: DumpTensorRef | None) -> Array | None:
        if ref is None:
            return None
        # The comparison itself says what is wrong with a file.
        value = self._kept.get(key, lambda: read_tensor(ref))
        return None if isinstance(value, Unread) else value
