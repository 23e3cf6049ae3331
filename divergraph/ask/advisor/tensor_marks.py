"""The tensors of a run for questions about all of them: marks of each as columns, and the
comparisons of the few ops that are spoken of, read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphstore.model import Comparison, TensorIO
from graphstore.traverse.arrays import Bool, Int32


@dataclass(frozen=True, slots=True)
class TensorMarks:
    """The tensors of a run that were compared or are over a limit, in saved order, as columns;
    ``ops`` are the numbers of theirs."""

    ops: Int32
    is_output: Bool
    ports: Int32
    compared: Bool
    over: Bool
    overflow: Bool

    @classmethod
    def of(cls, rows: Iterable[tuple[object, ...]]) -> TensorMarks:
        """Those of rows (number of the op, input or output, port, compared, over, overflow)."""
        ops, ios, ports, *marks = list(zip(*rows, strict=True)) or [()] * 6
        return cls(
            np.array(ops, dtype=np.int32),
            np.array([io == TensorIO.OUTPUT for io in ios], dtype=np.bool_),
            np.array(ports, dtype=np.int32),
            *(np.array(mark, dtype=np.bool_) for mark in marks),
        )

    def mask(self, ops: int, of: Bool) -> Bool:
        """Which of so many *ops* have an output that was compared and is one *of* these."""
        mask = np.zeros(ops, dtype=np.bool_)
        mask[self.ops[self.is_output & self.compared & of]] = True
        return mask


class Outputs(Mapping[str, Sequence[Comparison]]):
    """The output comparisons of each op that has some, by *read* for some ops, or None for all:
    those that :meth:`load` did not read ahead take the others with them."""

    def __init__(self, read: Callable[[Sequence[str] | None], Iterable[Comparison]]) -> None:
        self._read = read
        self._tensors: dict[str, list[Comparison]] = {}
        self._has_all = False

    def load(self, ops: Iterable[str] | None) -> None:
        """Read what is not there of *ops* at once."""
        missing = None if ops is None else [op for op in {*ops} if op not in self._tensors]
        if self._has_all or missing == []:
            return
        tensors: dict[str, list[Comparison]] = {op: [] for op in missing or ()}
        for item in self._read(missing):
            tensors.setdefault(item.op, []).append(item)
        self._tensors.update(tensors)
        self._has_all = missing is None

    def tensors(self, op: str) -> Sequence[Comparison]:
        """All comparisons of an op, inputs too."""
        if op not in self._tensors:
            self.load(None)
        return self._tensors.get(op, ())

    def __getitem__(self, op: str) -> Sequence[Comparison]:
        if outputs := [item for item in self.tensors(op) if item.io is TensorIO.OUTPUT]:
            return outputs
        raise KeyError(op)

    def __iter__(self) -> Iterator[str]:
        self.load(None)
        return filter(self.get, self._tensors)

    def __len__(self) -> int:
        return len([*self])
