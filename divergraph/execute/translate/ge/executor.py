"""Runs device ops, each alone, by GE's definitions of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from divergraph.execute.contract import Executor
from divergraph.execute.translate.executor import TranslatedExecutor, TranslatedModelFactory
from divergraph.execute.translate.ge import (
    aipp,
    convolution,
    elementwise,
    fused,
    matrices,
    movement,
    normalisation,
    pooling,
    training,
)
from divergraph.execute.translate.ge.table import ROWS
from divergraph.execute.translate.program import Program
from divergraph.execute.translate.translation import NO_CONSTANTS
from graphstore.model import DType, Framework, ModelGraph, Op, Tensor

MODULES = (
    *(aipp, convolution, elementwise, fused, matrices, movement, normalisation, pooling, training),
)
"""Importing them fills the table."""

_CALLS = frozenset({"PartitionedCall", "NetOutput", "If", "While", "Case", "End"})
"""Ops that hand on what other graphs make."""
_HALVES = frozenset({DType.FLOAT16, DType.BFLOAT16})


class DeviceOpsFactory(TranslatedModelFactory):
    """Opens graphs of device ops that stand alone, their inputs being inputs of the graph."""

    name = "device ops"
    options: Mapping[str, str] = {}
    rows = ROWS

    def accepts(self, graph: ModelGraph) -> bool:
        """Whether *graph* is of Ascend."""
        return graph.framework is Framework.ASCEND

    def computes(self, op: Op) -> bool:
        """Whether *op* makes numbers of what it reads; sending and calling other graphs do not."""
        return (
            bool(op.outputs) and any(ref is not None for ref in op.inputs) and op.type not in _CALLS
        )

    def open_with(self, path: Path, graph: ModelGraph, options: Mapping[str, str]) -> Executor:
        """The ops of *graph*; nothing is read of *path*."""
        import onnxruntime

        name = f"GE's definitions on onnxruntime {onnxruntime.__version__}"
        inputs = tuple(map(_widened, graph.inputs))
        return TranslatedExecutor(Program(name, ROWS, graph.ops, inputs, NO_CONSTANTS, {}))


def _widened(tensor: Tensor) -> Tensor:
    """Halves are computed with in float32: how results are rounded is the device's arithmetic."""
    return replace(tensor, dtype=DType.FLOAT32) if tensor.dtype in _HALVES else tensor
