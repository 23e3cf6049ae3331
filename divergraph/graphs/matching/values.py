"""The dumped values of both sides, read when asked for and kept a while."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from divergraph.execute.contract import DEFAULT_MEMORY
from graphstore.errors import ImportFormatError
from graphstore.model import DumpTensorRef, TensorIO, TensorRef
from importers.dumps import DumpIndex, read_array
from importers.layouts import LayoutError

Array: TypeAlias = npt.NDArray[Any]

_SHARE_OF_MEMORY = 4


@dataclass
class DumpedValues:
    """Output tensors of one dump by op and port; None where there is nothing to read.

    A share of *memory* bytes is kept for the next one who asks.
    """

    dump: DumpIndex
    memory: int = DEFAULT_MEMORY
    _kept: OrderedDict[TensorRef | str, Array] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def of(self, ref: TensorRef) -> Array | None:
        """The values of an output."""
        found = self.dump.tensors.get((ref.op, TensorIO.OUTPUT, ref.port))
        return None if found is None else self._read(ref, found)

    def of_input(self, name: str) -> Array | None:
        """The values of a graph input."""
        found = self.dump.graph_inputs.get(name)
        return None if found is None else self._read(name, found)

    def has(self, ref: TensorRef) -> bool:
        """Whether there is a dump of an output."""
        return (ref.op, TensorIO.OUTPUT, ref.port) in self.dump.tensors

    def shape(self, ref: TensorRef) -> tuple[int, ...] | None:
        """The shape of an output, as its dump says without being read."""
        found = self.dump.tensors.get((ref.op, TensorIO.OUTPUT, ref.port))
        return None if found is None else found.shape

    def size(self, ref: TensorRef) -> int | None:
        """Elements of an output, as its dump says without being read."""
        shape = self.shape(ref)
        return None if shape is None else int(np.prod(shape, dtype=np.int64))

    def _read(self, key: TensorRef | str, found: DumpTensorRef) -> Array | None:
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        try:
            value = read_array(found)
        except (ImportFormatError, LayoutError):
            return None  # the comparison itself will say what is wrong with this file
        self._kept[key] = value
        self._bytes += value.nbytes
        while self._bytes > self.memory // _SHARE_OF_MEMORY and len(self._kept) > 1:
            _, old = self._kept.popitem(last=False)
            self._bytes -= old.nbytes
        return value
