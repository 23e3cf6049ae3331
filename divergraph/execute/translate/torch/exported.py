"""Exported programs of PyTorch (``.pt2``), run by ONNX Runtime; PyTorch is not needed.

Operators of ATen are run by the rows of the calls they are. Tensors of 16 bits are computed in
float32, so that golden values are those of the model and not of one more rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from divergraph.execute.contract import Array, Executor
from divergraph.execute.precision import in_double
from divergraph.execute.translate.executor import (
    TranslatedExecutor,
    TranslatedModelFactory,
    runner_name,
)
from divergraph.execute.translate.plugged import with_plugged
from divergraph.execute.translate.program import Program
from divergraph.execute.translate.torch.alone import as_read
from divergraph.execute.translate.torch.catalogue import ROWS
from divergraph.values.one_tensor import read_stored
from divergraph.values.unread import or_raise
from graphstore.errors import ExecutionError
from graphstore.model import DumpFormat, DumpTensorRef, ModelGraph, TensorIO
from importers.torch_export.archive import StoredWeight, read_program
from importers.torch_export.graph import FORMAT


class TorchExportFactory(TranslatedModelFactory):
    """Opens exported programs."""

    name = "torch_export"
    rows = ROWS

    def accepts(self, graph: ModelGraph) -> bool:
        """Whether *graph* was read from such a program."""
        return graph.format == FORMAT

    def open_with(self, path: Path, graph: ModelGraph, options: Mapping[str, str]) -> Executor:
        """The program in *path*, with its weights."""
        double = in_double(options)
        name = runner_name(double=double)
        ops = tuple(replace(op, outputs=tuple(map(as_read, op.outputs))) for op in graph.ops)
        inputs = tuple(map(as_read, graph.inputs))
        weights = ExportedWeights(path)
        rows = with_plugged(ROWS)
        return TranslatedExecutor(Program(name, rows, ops, inputs, weights, {}, double=double))


class ExportedWeights:
    """The weights and constants of the program in *path*, read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stored: Mapping[str, StoredWeight] = read_program(path).weights

    def __contains__(self, tensor: object) -> bool:
        return tensor in self._stored

    def __getitem__(self, tensor: str) -> Array:
        """The values of one, as they are read: types of 16 bits as float32.

        Raises:
            ExecutionError: the file does not hold as many as the shape says.
        """
        weight = self._stored[tensor]
        dtype, bits = weight.tensor.dtype, weight.tensor.dtype.bits if weight.tensor.dtype else None
        if dtype is None or bits is None:
            raise ExecutionError(f"weight {tensor!r} has elements of a type that is not read")
        place = (weight.nbytes * 8 // bits,), weight.offset, weight.nbytes
        ref = DumpTensorRef(self._path, DumpFormat.RAW, tensor, TensorIO.OUTPUT, 0, dtype, *place)
        flat = or_raise(read_stored(ref))
        shape = tuple(size or 0 for size in weight.tensor.shape or ())
        last = weight.start + sum(
            (size - 1) * stride for size, stride in zip(shape, weight.strides, strict=True)
        )
        if 0 in shape:
            return np.zeros(shape, flat.dtype)
        if last >= flat.size:
            raise ExecutionError(
                f"weight {tensor!r} takes {last + 1} values, {flat.size} are stored"
            )
        steps = tuple(stride * flat.itemsize for stride in weight.strides)
        values = np.lib.stride_tricks.as_strided(flat[weight.start :], shape, steps)
        wide = values.astype(np.float32) if values.dtype == np.float16 else values
        return np.ascontiguousarray(wide).reshape(shape)

    def nbytes(self, tensor: str) -> int:
        """The bytes of one as it is stored."""
        return self._stored[tensor].nbytes
