"""Opens TensorFlow models without TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from divergraph.execute.contract import Executor
from divergraph.execute.onnx.session import load_onnxruntime
from divergraph.execute.tensorflow.executor import TensorFlowFactory
from divergraph.execute.tensorflow.variable_ops import VARIABLES
from divergraph.execute.translate.executor import TranslatedExecutor
from divergraph.execute.translate.program import Program
from divergraph.execute.translate.tensorflow.step import tensorflow_program
from divergraph.execute.translate.tensorflow.variables import variables_of
from graphstore.errors import ExecutionError
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
        said = options or {}
        if _program(graph, said, from_dumps=True).without_row():
            return False
        return options is None or not _without_value(graph, said)

    def load(self) -> None:
        """Import ONNX Runtime."""
        load_onnxruntime()

    def open(self, path: Path, graph: ModelGraph) -> Executor:
        """The model in *path*; variables, random numbers and batches come with each question."""
        return TranslatedExecutor(_program(graph, {}, from_dumps=True))

    def open_with(self, path: Path, graph: ModelGraph, options: Mapping[str, str]) -> Executor:
        """The model in *path* with some of :attr:`options`.

        Raises:
            ExecutionError: nothing says the value of a variable that the step reads.
        """
        names = _without_value(graph, options)
        if names:
            more = f" and {len(names) - 1} others" if len(names) > 1 else ""
            raise ExecutionError(
                f"nothing says the value of variable {names[0]!r}{more}",
                where=str(path),
                hint="--checkpoint PREFIX or --variables DIR says where the values are; "
                "pip install 'divergraph[tensorflow]' lets the model make its first ones",
            )
        return TranslatedExecutor(_program(graph, options, from_dumps=False))


def _without_value(graph: ModelGraph, options: Mapping[str, str]) -> list[str]:
    """The variables a run reads though nothing says their values."""
    program = _program(graph, options, from_dumps=True)
    given = {tensor.name for tensor in program.inputs} | program.outside
    read = {
        ref.tensor
        for op in program.needed(program.tensors(), given)
        for ref in op.inputs
        if ref is not None
    }
    return [op.id for op in program.ops if op.type in VARIABLES and op.outputs[0].name in read]


def _program(graph: ModelGraph, options: Mapping[str, str], *, from_dumps: bool) -> Program:
    import onnxruntime

    return tensorflow_program(
        graph,
        f"onnxruntime {onnxruntime.__version__}",
        variables_of(graph, options),
        _listed(options.get("train_op", "")),
        _listed(options.get("feed", "")),
        from_dumps=from_dumps,
    )


def _listed(said: str) -> list[str]:
    return [each for each in said.split(",") if each]
