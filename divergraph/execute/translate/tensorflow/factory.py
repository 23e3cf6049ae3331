"""Opens TensorFlow models without TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from divergraph.execute.contract import Executor
from divergraph.execute.onnx.session import load_onnxruntime
from divergraph.execute.tensorflow.executor import TensorFlowFactory
from divergraph.execute.tensorflow.state import values_of_dump
from divergraph.execute.tensorflow.variable_ops import VARIABLES
from divergraph.execute.translate.executor import TranslatedExecutor
from divergraph.execute.translate.program import Program
from divergraph.execute.translate.tensorflow.step import tensorflow_program
from graphstore.model import Framework, ModelGraph


class TranslatedTensorFlowFactory:
    """Opens TensorFlow models as ONNX."""

    name = "tensorflow_as_onnx"
    extra = ""
    packages = ("onnx", "onnxruntime")
    options: Mapping[str, str] = TensorFlowFactory.options

    def accepts(self, graph: ModelGraph) -> bool:
        """Whether *graph* was read from a TensorFlow model."""
        return graph.framework is Framework.TENSORFLOW

    def covers(self, graph: ModelGraph, options: Mapping[str, str] | None) -> bool:
        """Whether every op that counts has a row, and every variable a value if it must."""
        program = _program(graph, options)
        if program.without_row():
            return False
        unknown = {op.outputs[0].name for op in program.ops if op.type in VARIABLES}
        read = {ref.tensor for op in program.ops for ref in op.inputs if ref}
        return options is None or not unknown & read

    def load(self) -> None:
        """Import ONNX Runtime."""
        load_onnxruntime()

    def open(self, path: Path, graph: ModelGraph) -> Executor:
        """The model in *path*; variables, random numbers and batches come with each question."""
        return TranslatedExecutor(_program(graph, None))

    def open_with(self, path: Path, graph: ModelGraph, options: Mapping[str, str]) -> Executor:
        """The model in *path* with some of :attr:`options`."""
        return TranslatedExecutor(_program(graph, options))


def _program(graph: ModelGraph, options: Mapping[str, str] | None) -> Program:
    import onnxruntime

    said = options or {}
    folder = said.get("variables", "")
    return tensorflow_program(
        graph,
        f"onnxruntime {onnxruntime.__version__}",
        values_of_dump(graph, Path(folder)) if folder else {},
        _listed(said.get("train_op", "")),
        _listed(said.get("feed", "")),
        from_dumps=options is None,
    )


def _listed(said: str) -> list[str]:
    return [each for each in said.split(",") if each]
