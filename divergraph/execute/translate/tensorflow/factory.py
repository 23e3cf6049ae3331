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
from divergraph.execute.translate.tensorflow.rows import ROWS
from divergraph.execute.translate.tensorflow.step import computes, tensorflow_program
from divergraph.execute.translate.tensorflow.variables import variables_of
from graphstore.errors import ExecutionError
from graphstore.model import Framework, ModelGraph, Op


class TranslatedTensorFlowFactory:
    """Opens TensorFlow models as ONNX."""

    name = "tensorflow_as_onnx"
    extra = ""
    rows = ROWS
    packages = ("onnx", "onnxruntime")
    options: Mapping[str, str] = TensorFlowFactory.options

    def accepts(self, graph: ModelGraph) -> bool:
        """Whether *graph* was read from a TensorFlow model."""
        return graph.framework is Framework.TENSORFLOW

    def covers(self, graph: ModelGraph, options: Mapping[str, str] | None) -> bool:
        """Whether every op that counts has a row, no loop among them, and whether the run has all
        values it starts from, if they do not come with each question."""
        said = options or {}
        program = _program(graph, said, from_dumps=True)
        if program.without_row() or any("frame" in op.attrs for op in program.ops):
            return False
        return options is None or not _read_from_outside(program)

    def computes(self, op: Op) -> bool:
        """Whether *op* computes numbers: not state, random numbers, files, queues or texts."""
        return computes(op)

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
        program = _program(graph, options, from_dumps=True)
        read = _read_from_outside(program)
        names = [op.id for op in program.ops if op.type in VARIABLES and _made(op) & read]
        if names:
            more = f" and {len(names) - 1} others" if len(names) > 1 else ""
            raise ExecutionError(
                f"nothing says the value of variable {names[0]!r}{more}",
                where=str(path),
                hint="--checkpoint PREFIX or --variables DIR says where the values are; "
                "pip install 'divergraph[tensorflow]' lets the model make its first ones",
            )
        return TranslatedExecutor(_program(graph, options, from_dumps=False))


def _read_from_outside(program: Program) -> set[str]:
    """The tensors that a run reads though neither it nor the model has their values."""
    given = {tensor.name for tensor in program.inputs} | program.outside
    needed = program.needed(program.tensors(), given)
    read = {ref.tensor for op in needed for ref in op.inputs if ref is not None}
    return read & program.outside


def _made(op: Op) -> set[str]:
    return {tensor.name for tensor in op.outputs}


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
