"""The values of a run's compared tensors and inputs, read when they are asked for, with a cache."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from copy import copy
from math import prod

from divergraph.values.array_types import Array
from divergraph.values.kept import KeptArrays
from divergraph.values.one_tensor import read_tensor
from divergraph.values.pairs import read_device, read_golden
from divergraph.values.tensor_pair import TensorPair
from divergraph.values.unread import Unread
from graphstore.model import DumpTensorRef, TensorIO, TensorRef
from importers.dumps.index import DumpIndex


class RunValues:
    """Values of both sides of a run; None where a tensor cannot be read or aligned; the comparison
    has reported why.

    *pairs* are the compared device outputs, *shapes* their golden shapes. The cache holds about
    *memory* bytes; a file that was written since is read again.
    """

    def __init__(
        self,
        pairs: Mapping[TensorRef, TensorPair],
        shapes: Mapping[TensorRef, tuple[int, ...]],
        golden_dump: DumpIndex,
        device_dump: DumpIndex,
        memory: int,
    ) -> None:
        self.pairs, self.shapes = pairs, shapes
        self.golden_dump, self.device_dump = golden_dump, device_dump
        self._kept = KeptArrays(memory)
        self._of_golden = {
            TensorRef(pair.golden.op, pair.golden.port): pair for pair in pairs.values()
        }

    def as_dumped(self, outputs: Collection[TensorRef]) -> RunValues:
        """The same values, those of the device's *outputs* in the shape they were dumped in."""
        values = copy(self)
        values.shapes = {ref: shape for ref, shape in self.shapes.items() if ref not in outputs}
        return values

    def device(self, output: TensorRef) -> Array | None:
        """The device's output in golden's shape, order and numbers, or as it is if it has another
        shape; None if it cannot be had."""
        pair = self.pairs[output]
        if output not in self.shapes:
            key = ("as it is", output, _written(pair.device))
            return self._known(key, lambda: read_tensor(pair.device, pair.layout))
        return self._known(
            ("device", output, _written(pair.device, pair.golden)),
            lambda: read_device(pair, self.shapes[output], lambda: read_golden(pair)),
        )

    def golden(self, ref: TensorRef) -> Array | None:
        """The golden tensor in its graph's order; None if it cannot be read."""
        return _or_none(self.golden_or_why(ref))

    def golden_or_why(self, ref: TensorRef | str) -> Array | Unread | None:
        """The golden tensor, or the model's input of this name; else why it cannot be read. None if
        it was not dumped."""
        if isinstance(ref, str):
            dumped_input = self.golden_dump.graph_inputs.get(ref)
            if dumped_input is None:
                return None
            return self._kept.get(
                ("in", ref, _written(dumped_input)), lambda: read_tensor(dumped_input)
            )
        dumped = self.golden_dump.tensors.get((ref.op, TensorIO.OUTPUT, ref.port))
        if dumped is None:
            return None
        key = ("golden", ref, _written(dumped))
        pair = self._of_golden.get(ref)
        if pair is not None and pair.golden == dumped:
            return self._kept.get(key, lambda: read_golden(pair))
        return self._kept.get(key, lambda: read_tensor(dumped))

    def graph_input(self, name: str) -> Array | None:
        """The model's input as the device was fed it, else as golden was."""
        device = self.device_input(name)
        return self.golden_input(name) if device is None else device

    def golden_input(self, name: str) -> Array | None:
        """The model's input as golden was fed it."""
        return _or_none(self.golden_or_why(name))

    def device_input(self, name: str) -> Array | None:
        """The model's input as the device was fed it; None if it was not dumped or has another
        shape than golden's."""
        ref = self.device_dump.graph_inputs.get(name)
        if ref is None:
            return None
        golden = self.golden_dump.graph_inputs.get(name)
        golden_value = self.golden_input(name)
        if golden is None or golden_value is None:
            key = ("device in", name, _written(ref))
            return self._known(key, lambda: read_tensor(ref))
        if golden_value.size != prod(ref.original_shape or ref.shape or ()):
            return None
        pair = TensorPair(ref, golden)
        return self._known(
            ("device in", name, _written(ref, golden)),
            lambda: read_device(pair, golden_value.shape, lambda: golden_value),
        )

    def _known(self, key: Hashable, read: Callable[[], Array | Unread]) -> Array | None:
        return _or_none(self._kept.get(key, read))


def _written(*tensors: DumpTensorRef) -> tuple[tuple[int, int] | None, ...]:
    """When the files of *tensors* were written and how long they are; None for one that is gone.

    A part is cut out, or a terminal is open, long after the comparison: dumps change meanwhile.
    """
    written: list[tuple[int, int] | None] = []
    for tensor in tensors:
        try:
            facts = tensor.path.stat()
        except OSError:
            written.append(None)  # reading it says what is wrong
        else:
            written.append((facts.st_mtime_ns, facts.st_size))
    return tuple(written)


def _or_none(value: Array | Unread | None) -> Array | None:
    return None if isinstance(value, Unread) else value
