"""The device's values in the golden tensors' order and shape, read when needed."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from divergraph.execute.contract import Array
from divergraph.graphs.pairing import Pair
from divergraph.values.closeness import reordered
from graphstore.errors import ImportFormatError
from graphstore.model import DType, DumpTensorRef, TensorIO, TensorRef
from importers.dumps import DumpIndex, read_array
from importers.layouts import LayoutError, align_to_golden

_BLOCK = 1 << 15


@dataclass
class RunValues:
    """Values of both sides of a run; None for what cannot be read or brought into order.

    *pairs* are the compared device outputs, *shapes* their golden shapes. About *memory*
    bytes are kept for the next one who asks.
    """

    pairs: Mapping[TensorRef, Pair]
    shapes: Mapping[TensorRef, tuple[int, ...]]
    golden_dump: DumpIndex
    device_dump: DumpIndex
    memory: int
    _kept: OrderedDict[object, Array] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def device(self, output: TensorRef) -> Array | None:
        """What the device made, in golden order."""
        return self._cached(("device", output), lambda: self._device(output))

    def golden(self, ref: TensorRef) -> Array | None:
        """What the golden side made."""
        found = self.golden_dump.tensors.get((ref.op, TensorIO.OUTPUT, ref.port))
        return None if found is None else self._cached(("golden", ref), lambda: _read(found))

    def graph_input(self, name: str) -> Array | None:
        """What the device was fed, else what the golden side was."""
        device = self.device_input(name)
        return self.golden_input(name) if device is None else device

    def golden_input(self, name: str) -> Array | None:
        """What the golden side was fed."""
        found = self.golden_dump.graph_inputs.get(name)
        return None if found is None else self._cached(("in", name), lambda: _read(found))

    def device_input(self, name: str) -> Array | None:
        """What the device was fed, if its dump tells and it is of the golden input's shape."""
        found = self.device_dump.graph_inputs.get(name)
        golden = self.golden_dump.graph_inputs.get(name)
        if found is None or (golden is not None and golden.shape != found.shape):
            return None
        return self._cached(("device in", name), lambda: _read(found))

    def _device(self, output: TensorRef) -> Array | None:
        pair = self.pairs[output]
        value = _read(pair.device)
        shape = self.shapes[output]
        if value is None:
            return None
        if value.dtype == np.uint8 and pair.golden.dtype is DType.INT8:
            golden = _read(pair.golden)
            value = value if golden is None else signed(value, golden)
        if pair.match.reorder is not None:
            return reordered(value, pair.match.reorder, shape)
        try:
            return align_to_golden(
                value,
                pair.device.layout,
                pair.origin_layout or pair.golden_layout,
                pair.device.original_shape,
                shape,
                groups=pair.device.groups,
            )
        except LayoutError:
            return None

    def _cached(self, key: object, read: Any) -> Array | None:
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        value: Array | None = read()
        if value is None:
            return None
        self._kept[key] = value
        self._bytes += value.nbytes
        while self._bytes > self.memory and len(self._kept) > 1:
            _, old = self._kept.popitem(last=False)
            self._bytes -= old.nbytes
        return value


def _read(ref: DumpTensorRef) -> Array | None:
    try:
        return read_array(ref)
    except (ImportFormatError, LayoutError):
        return None  # the comparison itself says what is wrong with this file


def signed(value: Array, golden: Array) -> Array:
    """*value* (uint8) as the int8 numbers *golden* has: optimisers move the zero of quantised
    tensors by 128; some dumps call bytes of int8 unsigned. What is nearer to *golden*."""
    moved = (value ^ np.uint8(128)).view(np.int8)
    if value.size != golden.size:
        return moved
    there = np.asarray(golden, np.int16).reshape(-1)
    apart = [
        int(np.sum(np.abs(np.asarray(each, np.int16).reshape(-1) - there), dtype=np.int64))
        for each in (moved, value.view(np.int8), value)
    ]
    return (moved, value.view(np.int8), value)[apart.index(min(apart))]


def is_numeric(value: Array) -> bool:
    """Whether errors of *value* can be measured."""
    return value.dtype.kind in "biufc"


def norms(device: Array, reference: Array) -> tuple[float, float]:
    """(|device - reference|, |reference|), over places where the reference is finite.

    The first is infinite if the device is not finite at one of those.
    """
    left, right = device.reshape(-1), reference.reshape(-1)
    kind = np.complex128 if "c" in (left.dtype.kind, right.dtype.kind) else np.float64
    apart = scale = 0.0
    # Block by block: temporaries stay in the cache, and BLAS starts no threads for this.
    for start in range(0, right.size, _BLOCK):
        there = np.asarray(right[start : start + _BLOCK], kind)
        here = np.asarray(left[start : start + _BLOCK], kind)
        with np.errstate(all="ignore"):
            size = _square(there)
            if not math.isfinite(size):
                finite = np.isfinite(there)
                here, there = here[finite], there[finite]
                size = _square(there)
            apart += _square(here - there)
        scale += size
    return (math.inf if math.isnan(apart) else math.sqrt(apart)), math.sqrt(scale)


def relative(device: Array, reference: Array) -> float:
    """|device - reference| / |reference|; infinite if only the reference is zero or finite."""
    apart, scale = norms(device, reference)
    if apart == 0.0:
        return 0.0
    return apart / scale if scale > 0.0 else math.inf


def _square(values: Array) -> float:
    if values.dtype.kind == "c":
        return float(np.sum(np.square(values.real) + np.square(values.imag)))
    return float(np.sum(np.square(values)))
