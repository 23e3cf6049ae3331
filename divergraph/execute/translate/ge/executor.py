"""Runs device ops, each alone, by GE's definitions of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from divergraph.execute.contract import Array, Executor
from divergraph.execute.onnx.session import load_onnxruntime
from divergraph.execute.translate.executor import TranslatedExecutor
from divergraph.execute.translate.ge import (
    aipp,
    convolution,
    depthwise,
    dropout,
    elementwise,
    layers,
    layerwise,
    matrices,
    movement,
    normalisation,
    placing,
    pooling,
    quantisation,
    reductions,
    training,
)
from divergraph.execute.translate.ge.fused import fused_elementwise
from divergraph.execute.translate.ge.table import ROWS
from divergraph.execute.translate.program import Program
from graphstore.model import DType, Framework, ModelGraph, Op, Tensor

MODULES = (
    *(aipp, convolution, depthwise, dropout, elementwise, fused_elementwise, layers, layerwise),
    *(matrices, movement),
    *(normalisation, placing, pooling, quantisation, reductions, training),
)
"""Importing them fills the table."""

_CALLS = frozenset({"PartitionedCall", "NetOutput", "If", "While", "Case", "End"})
"""Ops that hand on what other graphs make."""
_HALVES = frozenset({DType.FLOAT16, DType.BFLOAT16})


class NoConstants(Mapping[str, Array]):
    """No constants: all that a lone op reads is fed to it."""

    def __getitem__(self, tensor: str) -> Array:
        raise KeyError(tensor)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def nbytes(self, tensor: str) -> int:
        """There are none."""
        raise KeyError(tensor)


class DeviceOpsFactory:
    """Opens graphs of device ops that stand alone, their inputs being inputs of the graph."""

    name = "device ops"
    extra = ""
    packages = ("onnx", "onnxruntime")
    load = staticmethod(load_onnxruntime)
    rows = ROWS

    def accepts(self, graph: ModelGraph) -> bool:
        """Whether *graph* is of Ascend."""
        return graph.framework is Framework.ASCEND

    def computes(self, op: Op) -> bool:
        """Whether *op* makes numbers of what it reads; sending and calling other graphs do not."""
        return (
            bool(op.outputs) and any(ref is not None for ref in op.inputs) and op.type not in _CALLS
        )

    def open(self, path: Path, graph: ModelGraph) -> Executor:
        """The ops of *graph*; nothing is read of *path*."""
        import onnxruntime

        name = f"GE's definitions on onnxruntime {onnxruntime.__version__}"
        inputs = tuple(map(_widened, graph.inputs))
        return TranslatedExecutor(Program(name, ROWS, graph.ops, inputs, NoConstants(), {}))


def _widened(tensor: Tensor) -> Tensor:
    """Halves are computed with in float32: how results are rounded is the device's arithmetic."""
    return replace(tensor, dtype=DType.FLOAT32) if tensor.dtype in _HALVES else tensor
