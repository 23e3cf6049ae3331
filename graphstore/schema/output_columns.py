"""What a graph says of the outputs of its ops, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphstore.columns.coded import Coded, starts
from graphstore.model import DType, Op, Shape, TensorOrigin
from graphstore.traverse.arrays import Int32

Spec: TypeAlias = tuple[DType | None, Shape | None, str | None]
"""Element type, shape and layout: a graph has few different ones."""


@dataclass(frozen=True, slots=True, eq=False)
class OutputColumns:
    """The outputs of all ops, op after op in file order.

    Those of the op at place i are ``start[i]`` to ``start[i + 1]``; the name of one is None where
    it follows from op and port.
    """

    start: Int32
    specs: Coded[Spec]
    names: Sequence[str | None]
    origins: Sequence[TensorOrigin | None]

    @classmethod
    def of(cls, ops: Sequence[Op]) -> OutputColumns:
        """Those of *ops*."""
        outputs = [op.outputs for op in ops]
        tensors = list(chain.from_iterable(outputs))
        return cls(
            starts(list(map(len, outputs))),
            Coded.of([(tensor.dtype, tensor.shape, tensor.layout) for tensor in tensors]),
            [
                None if tensor.name == f"{op.id}:{port}" else tensor.name
                for op in ops
                for port, tensor in enumerate(op.outputs)
            ],
            [tensor.origin for tensor in tensors],
        )

    def __len__(self) -> int:
        return len(self.names)

    def in_order(self, order: Int32) -> NDArray[np.int64]:
        """The numbers of the outputs of the ops at the places *order*, op after op."""
        counts = np.diff(self.start)[order]
        ends = np.cumsum(counts, dtype=np.int64)
        return np.repeat(self.start[order] - ends + counts, counts) + np.arange(len(self))
