"""Where the values a device op read lie: its dumped inputs, its producers' outputs, weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from divergraph.values.array_types import Array
from divergraph.values.one_tensor import is_closed, read_tensor, stored_values
from divergraph.values.tensor_pair import is_blocked
from divergraph.values.unread import Unread
from graphstore.errors import ImportFormatError, InputError
from graphstore.model import DType, DumpTensorRef, ModelGraph, Op, Tensor, TensorIO
from importers.dumps.arrays.npy import load_any_npy
from importers.dumps.index import DumpIndex
from importers.om.constants import OfflineWeights

_PLAIN = ("NCHW", "NHWC", "HWCN", "CHWN", "NCDHW", "NDHWC", "DHWCN", "DHWNC")


@dataclass(frozen=True, slots=True)
class Operand:
    """One tensor, its values in the order of the original graph: ``shape`` and ``layout`` are of
    that order. It lies in a dump file, or is an array."""

    shape: tuple[int, ...]
    layout: str
    dtype: DType | None
    ref: DumpTensorRef | None = None
    array: Array | None = None

    def read(self) -> Array | Unread:
        """The values in :attr:`shape`."""
        if self.array is not None:
            return self.array
        assert self.ref is not None
        value = read_tensor(self.ref, self.layout)
        if isinstance(value, Unread) or value.size != np.prod(self.shape):
            return value
        return value.reshape(self.shape)


def dumped(ref: DumpTensorRef, tensor: Tensor | None) -> Operand | None:
    """A dumped tensor, of which the graph says *tensor*; None where only its statistics were."""
    if ref.statistics is not None:
        return None
    origin = None if tensor is None else tensor.origin
    if is_closed(ref):
        try:
            array, dtype = stored_values(ref)
        except ImportFormatError:
            return None  # counted as not covered, as all that cannot be read
        ref = replace(ref, shape=array.shape, dtype=dtype)
    layout = None if origin is None else origin.layout
    shape = ref.shape
    if is_blocked(ref):
        origin_shape = _static_shape(None if origin is None else origin.shape)
        if not ref.original_shape and origin_shape is not None:
            ref = replace(ref, original_shape=origin_shape)
        shape = ref.original_shape or shape
    elif ref.layout in _PLAIN and len(ref.layout) == len(ref.shape or ()):
        layout = ref.layout
    if shape is None:
        return None
    return Operand(tuple(shape), layout or "ND", ref.dtype, ref)


def _static_shape(shape: tuple[int | None, ...] | None) -> tuple[int, ...] | None:
    if shape is None or None in shape:
        return None
    return tuple(size for size in shape if size is not None)


@dataclass
class DumpedOperands:
    """The inputs of the ops of *graph*, from *dump*; weights that are not dumped are constants of
    an offline model, or ``.npy`` files in *folder* named after their op."""

    graph: ModelGraph
    dump: DumpIndex
    constants: OfflineWeights | None = None
    folder: Path | None = None
    given: Mapping[str, Array] = field(default_factory=dict)
    """Values of variables and constants, by op id."""
    _ops: Mapping[str, Op] = field(init=False)
    _files: Mapping[str, Path] = field(init=False)

    def __post_init__(self) -> None:
        self._ops = self.graph.op_index()
        self._files = {} if self.folder is None else _files(self.folder)

    def output(self, op: Op, port: int) -> Operand | None:
        """An output of *op*; None if it was not dumped."""
        ref = self.dump.tensors.get((op.id, TensorIO.OUTPUT, port))
        return None if ref is None else dumped(ref, op.outputs[port])

    def input(self, op: Op, at: int) -> Operand | None:
        """An input of *op* as it read it; None if its values are nowhere."""
        ref = op.inputs[at]
        maker = None if ref is None or ref.producer is None else self._ops.get(ref.producer.op)
        tensor = None
        if maker is not None and ref is not None and ref.producer is not None:
            ports = maker.outputs
            tensor = ports[ref.producer.port] if ref.producer.port < len(ports) else None
        own = self.dump.tensors.get((op.id, TensorIO.INPUT, at))
        if own is not None:
            return dumped(own, tensor)
        if maker is None or ref is None or ref.producer is None:
            return None
        made = self.dump.tensors.get((maker.id, TensorIO.OUTPUT, ref.producer.port))
        if made is not None:
            return dumped(made, tensor)
        array = self._constant(maker.id)
        if array is None:
            return None
        origin = None if tensor is None else tensor.origin
        layout = origin.layout if origin is not None else None
        kind = None if tensor is None else tensor.dtype
        return Operand(array.shape, layout or "ND", kind, array=array)

    def _constant(self, op: str) -> Array | None:
        if op in self.given:
            return self.given[op]
        if self.constants is not None and op in self.constants:
            try:
                return self.constants[op]
            except ImportFormatError:
                return None  # counted as not covered
        name = op.replace("/", "_")
        path = self._files.get(name) or self._files.get(f"{name}_read")
        if path is None:
            return None
        try:
            array: Array = load_any_npy(path)
        except (OSError, ValueError) as error:
            raise InputError("no array can be read", where=str(path)) from error
        return array


def _files(folder: Path) -> dict[str, Path]:
    """The ``.npy`` files of a folder by the name of their op, which ends at the first dot."""
    if not folder.is_dir():
        raise InputError("no such folder", where=str(folder), hint="check --weights")
    return {path.name.partition(".")[0]: path for path in sorted(folder.glob("*.npy"))}
