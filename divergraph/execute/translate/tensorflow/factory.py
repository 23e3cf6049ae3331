"""Opens TensorFlow models without TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from divergraph.execute.contract import DEFAULT_MEMORY, Array, Executor
from divergraph.execute.precision import PRECISION, in_double, told
from divergraph.execute.tensorflow.branches import READS, VARIABLES
from divergraph.execute.tensorflow.calls_in_place import calls_in_place
from divergraph.execute.tensorflow.executor import TensorFlowFactory
from divergraph.execute.translate.executor import TranslatedExecutor, TranslatedModelFactory
from divergraph.execute.translate.program import Program
from divergraph.execute.translate.run import ProgramRun
from divergraph.execute.translate.tensorflow.late_values import with_late_values
from divergraph.execute.translate.tensorflow.rows import ROWS
from divergraph.execute.translate.tensorflow.rows.control import CALLS
from divergraph.execute.translate.tensorflow.step import computes, initialisers, tensorflow_program
from divergraph.execute.translate.tensorflow.variables import variables_of
from graphstore.errors import ExecutionError
from graphstore.model import Framework, ModelGraph, Op


class TranslatedTensorFlowFactory(TranslatedModelFactory):
    """Opens TensorFlow models as ONNX."""

    name = "tensorflow_as_onnx"
    rows = ROWS
    options: Mapping[str, str] = {**TensorFlowFactory.options, **PRECISION}

    def accepts(self, graph: ModelGraph) -> bool:
        """Whether *graph* was read from a TensorFlow model."""
        return graph.framework is Framework.TENSORFLOW

    def covers(self, graph: ModelGraph, options: Mapping[str, str] | None) -> bool:
        """Whether every op that counts has a row and every loop is as TensorFlow makes them, no op
        takes a variable after the step has changed it in ways the graph does not tell, and whether
        the run has all values it starts from, if they do not come with each question."""
        chosen = options or {}
        program = _program(graph, chosen, variables_of(graph, chosen), from_dumps=True)
        if program.without_row() or _loose_ends(program):
            return False
        if with_late_values(calls_in_place(graph))[1]:
            return False
        return options is None or not _read_from_outside(_with_first_values(graph, chosen))

    def computes(self, op: Op) -> bool:
        """Whether *op* computes numbers: not state, random numbers, files, queues or texts."""
        return computes(op)

    def open(self, path: Path, graph: ModelGraph) -> Executor:
        """The model in *path*; variables, random numbers and batches come with each question."""
        variables = variables_of(graph, {})
        return TranslatedExecutor(_program(graph, {}, variables, from_dumps=True))

    def open_with(self, path: Path, graph: ModelGraph, options: Mapping[str, str]) -> Executor:
        """The model in *path* with some of :attr:`options`.

        Raises:
            ExecutionError: nothing says the value of a variable that the step reads.
        """
        double = in_double(options)
        program = _with_first_values(graph, options)
        names = [op.id for op in _unknown_variables(program)]
        if names:
            more = f" and {len(names) - 1} others" if len(names) > 1 else ""
            raise ExecutionError(
                f"nothing says the value of variable {names[0]!r}{more}",
                where=str(path),
                hint="--checkpoint PREFIX or --variables DIR says where the values are; "
                "pip install 'divergraph[tensorflow]' lets the model make its first ones",
            )
        # What comes from outside is left out here, with a reason: nobody will give it.
        left_out = {**program.left_out, **dict.fromkeys(program.outside, _NOT_GIVEN)}
        name = told(program.name, double=double)
        changed = replace(program, name=name, outside=frozenset(), left_out=left_out, double=double)
        return TranslatedExecutor(changed)


_NOT_GIVEN = "drawn or fetched from outside of the model: give it with --inputs"


def _with_first_values(graph: ModelGraph, options: Mapping[str, str]) -> Program:
    """The program with the known values of variables, and those that the model itself gives others
    first, if it draws no numbers for them."""
    variables = variables_of(graph, options)
    program = _program(graph, options, variables, from_dumps=True)
    starts = initialisers(program.ops)
    values: dict[str, Array] = {}
    for variable in _unknown_variables(program):
        start = starts.get(variable.id)
        value = start.inputs[1].tensor if start is not None and start.inputs[1] else ""
        try:
            first_values = (
                dict(ProgramRun(program, {}, [value], DEFAULT_MEMORY).values()) if value else {}
            )
        except ExecutionError:
            continue  # it needs drawn numbers or a file: the variable stays without a value
        if value in first_values or value in program.constants:
            values[variable.id] = (
                first_values[value] if value in first_values else program.constants[value]
            )
    if not values:
        return program
    return _program(graph, options, {**variables, **values}, from_dumps=True)


def _loose_ends(program: Program) -> bool:
    """Whether a loop is not as TensorFlow makes them, or an op calls a function that is missing."""
    inside = (op for block in program.blocks.values() for op in block.ops())
    calls = any(op.type in CALLS and op.id not in program.blocks for op in (*program.ops, *inside))
    return calls or any("frame" in op.attrs for op in program.ops)


def _unknown_variables(program: Program) -> list[Op]:
    """The variables a run reads though nothing says their values."""
    read = _read_from_outside(program)
    return [
        op
        for op in program.ops
        if op.type in VARIABLES and any(tensor.name in read for tensor in op.outputs)
    ]


def _read_from_outside(program: Program) -> set[str]:
    """The tensors that a run computes with though neither it nor the model has their values.

    A read of a variable that nobody takes computes nothing: of each variable there is one.
    """
    fed = {tensor.name for tensor in program.inputs} | program.outside
    needed = program.needed(program.tensors(), fed)
    tensors = {ref.tensor for op in needed for ref in op.inputs if ref is not None}
    idle = {op.id for op in needed if op.type == READS and op.outputs[0].name not in tensors}
    read = {ref.tensor for op in needed if op.id not in idle for ref in op.inputs if ref}
    return read & program.outside


def _program(
    graph: ModelGraph,
    options: Mapping[str, str],
    variables: Mapping[str, Array],
    *,
    from_dumps: bool,
) -> Program:
    import onnxruntime

    return tensorflow_program(
        graph,
        f"onnxruntime {onnxruntime.__version__}",
        variables,
        _listed(options.get("train_op", "")),
        _listed(options.get("feed", "")),
        from_dumps=from_dumps,
        signature=options.get("signature", ""),
    )


def _listed(text: str) -> list[str]:
    return [entry for entry in text.split(",") if entry]
