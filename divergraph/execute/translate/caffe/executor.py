"""Caffe nets run by ONNX Runtime, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from divergraph.execute.contract import Executor
from divergraph.execute.onnx.session import load_onnxruntime
from divergraph.execute.precision import PRECISION, in_double, told
from divergraph.execute.translate.caffe.catalogue import ROWS
from divergraph.execute.translate.caffe.program import caffe_program
from divergraph.execute.translate.executor import TranslatedExecutor
from graphstore.errors import ExecutionError
from graphstore.model import Framework, ModelGraph, Op
from importers.caffe.graph import WEIGHTED


class CaffeFactory:
    """Opens Caffe nets."""

    name = "caffe"
    extra = ""
    packages = ("onnx", "onnxruntime")
    rows = ROWS
    options: Mapping[str, str] = PRECISION

    def accepts(self, graph: ModelGraph) -> bool:
        """Whether *graph* was read from a Caffe net."""
        return graph.framework is Framework.CAFFE

    def computes(self, op: Op) -> bool:
        """Every layer does."""
        return True

    def load(self) -> None:
        """Import ONNX Runtime."""
        load_onnxruntime()

    def open(self, path: Path, graph: ModelGraph) -> Executor:
        """The net in *path*, with the weights *graph* was read with."""
        return self.open_with(path, graph, {})

    def open_with(self, path: Path, graph: ModelGraph, options: Mapping[str, str]) -> Executor:
        """As :meth:`open`, with some of :attr:`options`."""
        import onnxruntime

        double = in_double(options)

        if not graph.constants and any(op.type in WEIGHTED for op in graph.ops):
            raise ExecutionError(
                "the net has no weights",
                where=str(path),
                hint="give --weights FILE.caffemodel, or put it beside the net under its name",
            )
        name = told(f"onnxruntime {onnxruntime.__version__}", double=double)
        return TranslatedExecutor(replace(caffe_program(name, path, graph), double=double))
