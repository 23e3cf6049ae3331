"""Calls of PyTorch that a dump recorded, run by ONNX Runtime one by one; PyTorch is not needed."""

from __future__ import annotations

from collections.abc import Mapping
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
from divergraph.execute.translate.program import Program, TranslatedSlice
from divergraph.execute.translate.torch.alone import ALONE
from divergraph.execute.translate.torch.catalogue import ROWS
from divergraph.execute.translate.torch.second_engine import run_by_torch, with_torch
from divergraph.execute.translate.translation import NO_CONSTANTS
from graphstore.errors import ExecutionError
from graphstore.model import Framework, ModelGraph, Op

_FRAMEWORKS = (Framework.PYTORCH, Framework.MINDSPORE)


class TorchCallsFactory(TranslatedModelFactory):
    """Opens recorded runs of PyTorch and MindSpore: each call stands alone, fed what the dump says
    it read. ``mint`` is defined as PyTorch is; other calls of MindSpore that mean something else by
    the same name do not give golden's output, and so count as not run."""

    name = "pytorch_calls"
    rows = ROWS

    def accepts(self, graph: ModelGraph) -> bool:
        """Whether *graph* has recorded calls that stand alone."""
        return graph.format == ALONE and graph.framework in _FRAMEWORKS

    def computes(self, op: Op) -> bool:
        """Every call does, but those whose calls inside were recorded: these say what it does."""
        return not op.owns or op.type in ROWS

    def open_with(self, path: Path, graph: ModelGraph, options: Mapping[str, str]) -> Executor:
        """The calls of *graph*."""
        double = in_double(options)
        name = runner_name(double=double)
        rows = with_torch(with_plugged(ROWS), graph.ops)
        return _CallsExecutor(
            Program(name, rows, graph.ops, graph.inputs, NO_CONSTANTS, {}, double=double)
        )


class _CallsExecutor(TranslatedExecutor):
    def _alone(
        self, part: TranslatedSlice, values: Mapping[str, Array]
    ) -> list[Array] | list[ExecutionError]:
        made = super()._alone(part, values)
        if len(part.ops) != 1 or not any(isinstance(each, ExecutionError) for each in made):
            return made
        (op,) = part.ops
        try:
            outputs = run_by_torch(op, values)
        except ExecutionError as error:
            return [error for _ in part.made]
        if outputs is None:
            return made
        named = {tensor.name: each for tensor, each in zip(op.outputs, outputs, strict=True)}
        return [named[name] for name in part.made]

    def _as_declared(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """As the graph declares them; what it does not is computed in float32 at least, too."""
        found = super()._as_declared(values)
        return {
            name: value.astype(np.float32) if value.dtype == np.float16 else value
            for name, value in found.items()
        }
