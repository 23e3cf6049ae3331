"""Caffe nets run by ONNX Runtime, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from divergraph.execute.contract import Executor
from divergraph.execute.precision import in_double
from divergraph.execute.translate.caffe.catalogue import ROWS
from divergraph.execute.translate.caffe.program import caffe_program
from divergraph.execute.translate.executor import (
    TranslatedExecutor,
    TranslatedModelFactory,
    runner_name,
)
from graphstore.errors import ExecutionError
from graphstore.model import Framework, ModelGraph
from importers.caffe.graph import WEIGHTED


class CaffeFactory(TranslatedModelFactory):
    """Opens Caffe nets."""

    name = "caffe"
    rows = ROWS

    def accepts(self, graph: ModelGraph) -> bool:
        """Whether *graph* was read from a Caffe net."""
        return graph.framework is Framework.CAFFE

    def open_with(self, path: Path, graph: ModelGraph, options: Mapping[str, str]) -> Executor:
        """The net in *path*, with the weights *graph* was read with."""
        double = in_double(options)
        if not graph.constants and any(op.type in WEIGHTED for op in graph.ops):
            raise ExecutionError(
                "the net has no weights",
                where=str(path),
                hint="give --weights FILE.caffemodel, or put it next to the net under its name",
            )
        name = runner_name(double=double)
        return TranslatedExecutor(replace(caffe_program(name, path, graph), double=double))
