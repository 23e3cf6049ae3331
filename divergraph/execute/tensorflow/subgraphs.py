"""Pieces of a TensorFlow graph side by side in one graph, each with inputs of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from divergraph.execute.contract import Array, RunnableSubgraph
from divergraph.execute.side_by_side import Slice
from divergraph.execute.tensorflow.branches import HANDLES, READS, in_branches
from divergraph.execute.tensorflow.files import (
    as_typed,
    new_session,
    plain,
    tensorflow,
    tensorflow_told,
)
from divergraph.execute.tensorflow.late_reads import late_reads
from divergraph.execute.tensorflow.step import PLACEHOLDERS, is_variable, writes
from graphstore.errors import ExecutionError
from graphstore.model import ModelGraph

_NOT_ALONE = ("Iterator", "Queue", "Reader", "Save", "Restore")
_FROM_OUTSIDE = frozenset(
    ("Enter", "RefEnter", "Switch", "RefSwitch", "Merge", "RefMerge", "Identity")
)
_PUSHES, _POPS = ("StackPush", "StackPushV2"), ("StackPop", "StackPopV2")


@dataclass(frozen=True, slots=True)
class TensorFlowSubgraph(Slice):
    """The ops a piece consists of, and the variables it reads without being given them."""

    ops: tuple[Any, ...]
    variables: tuple[str, ...]


class RunnableSubgraphs:
    """Cuts pieces out of *graph*; *functions* is the library its ops call.

    *variable* gives the value a variable has before the step, by the name of its op; *source* is
    the model as it was read; *outside* says of ops that may not run why, by name.
    """

    def __init__(
        self,
        graph: Any,
        meta: Any,
        in_loops: Mapping[str, str],
        variable: Callable[[str], Array],
        source: ModelGraph,
        outside: Mapping[str, str],
    ) -> None:
        self._graph = graph
        self._outside = outside
        self._branches = in_branches(source)
        self._late = {
            name: read.writers
            for name, read in late_reads(source).items()
            if read.taken is not None
        }
        self._meta = meta
        self.in_loops = in_loops
        self._variable = variable
        self._nodes = {node.name: node for node in meta.graph_def.node}

    def slice_of(self, piece: RunnableSubgraph) -> TensorFlowSubgraph:
        """What *piece* consists of.

        Raises:
            ExecutionError: its outputs need more than its inputs, or are no tensors of it.
        """
        names_given = set(piece.inputs)
        ops: dict[Any, None] = {}
        variables: dict[str, None] = {}
        waiting = [self._tensor(name) for name in piece.outputs if name not in names_given]
        counted: set[str] = set()
        while waiting:
            tensor = waiting.pop()
            op = tensor.op
            if op.type in HANDLES:
                variables[op.name] = None
                continue
            if (tensor.name in names_given and tensor.name not in counted) or op in ops:
                continue
            if is_variable(op):
                variables[op.name] = None
                continue
            self._check(op, tensor)
            ops[op] = None
            waiting += op.inputs
            waiting += [push.outputs[0] for push in self._placed_by(op)]
            for writer in map(self._graph.get_operation_by_name, self._late.get(op.name, ())):
                ops[writer] = None
                waiting += writer.inputs
            if op.type in _POPS:
                pushes = self._pushes(op)
                waiting += [push.outputs[0] for push in pushes]
                # The way back takes as many turns as were made, after they were made.
                frames = {self.in_loops[push.name] for push in pushes if push.name in self.in_loops}
                counted.update(self._counts(frames))
                waiting += [
                    self._tensor(name) for name in self._counts(frames) if name in names_given
                ]
        return TensorFlowSubgraph(piece, tuple(ops), tuple(variables))

    def _placed_by(self, op: Any) -> list[Any]:
        """What puts an op without inputs into a loop, or into a branch."""
        if op.inputs:
            return []
        if op.name in self.in_loops:
            return [control_input for control_input in op.control_inputs if control_input.outputs]
        by = self._branches.get(op.name)
        return [] if by is None else [self._tensor(by.tensor).op]

    def _pushes(self, pop: Any) -> list[Any]:
        """What fills the stack that *pop* takes from."""
        handle = _origin(pop.inputs[0])
        return [push for push in self._of_types(_PUSHES) if _origin(push.inputs[0]) is handle]

    def _counts(self, frames: set[str]) -> list[str]:
        """The whole numbers that leave the loops *frames*: their turns."""
        return [
            exit_.outputs[0].name
            for exit_ in self._of_types(("Exit",))
            if self.in_loops.get(exit_.name) in frames and exit_.outputs[0].dtype.is_integer
        ]

    def _of_types(self, types: tuple[str, ...]) -> list[Any]:
        return [op for op in self._graph.get_operations() if op.type in types]

    def run(
        self, slices: Sequence[TensorFlowSubgraph], given: Sequence[Mapping[str, Array]]
    ) -> list[Array]:
        """The outputs of the slices on the inputs given for each, slice by slice.

        Raises:
            ExecutionError: TensorFlow does not run one of them.
        """
        definition, feeds, wanted = self.definition(slices, given)
        with tensorflow_told(""), new_session(self.imported(definition)) as session:
            results = session.run(wanted, feeds)
        return [plain(value) for value in results]

    def definition(
        self, slices: Sequence[TensorFlowSubgraph], values_of_slices: Sequence[Mapping[str, Array]]
    ) -> tuple[Any, dict[str, Any], list[str]]:
        """A GraphDef of slices side by side, what it is fed and the tensors to fetch of it.

        What the model calls ``name`` is called ``0/name`` in the first, ``1/name`` in the next.
        """
        definition = tensorflow().compat.v1.GraphDef()
        definition.versions.CopyFrom(self._meta.graph_def.versions)
        definition.library.CopyFrom(self._meta.graph_def.library)
        feeds: dict[str, Any] = {}
        wanted: list[str] = []
        for number, (part, values) in enumerate(zip(slices, values_of_slices, strict=True)):
            feeds.update(self._add(definition, part, values, number))
            wanted += [f"{number}/{name}" for name in part.made]
        return definition, feeds, wanted

    def imported(self, definition: Any) -> Any:
        """The graph of such a GraphDef; errors are TensorFlow's."""
        tf = tensorflow()
        graph = tf.Graph()
        with graph.as_default():
            tf.compat.v1.import_graph_def(
                definition, name="", producer_op_list=producer_ops(self._meta)
            )
        return graph

    def _tensor(self, name: str) -> Any:
        try:
            return self._graph.get_tensor_by_name(name)
        except (KeyError, ValueError) as error:
            raise ExecutionError(f"the model has no tensor {name!r}") from error

    def _check(self, op: Any, tensor: Any) -> None:
        if op.name in self._outside:
            raise ExecutionError(self._outside[op.name])
        if op.type in PLACEHOLDERS:
            raise ExecutionError(f"the piece needs {tensor.name!r}, which is not among its inputs")
        changed = [_origin(op_input) for arg, op_input in _arguments(op) if arg.is_ref]
        if writes(op) and not (changed and all(is_variable(tensor_) for tensor_ in changed)):
            raise ExecutionError(f"{op.name} ({op.type}) changes a variable")
        if op.type.startswith(_NOT_ALONE):
            raise ExecutionError(f"{op.name} ({op.type}) does not run outside of the whole model")

    def _add(
        self, definition: Any, part: TensorFlowSubgraph, values: Mapping[str, Array], number: int
    ) -> dict[str, Any]:
        """Copy a slice into *definition*, and say what it is fed."""
        feeds: dict[str, Any] = {}
        renamed: dict[str, str] = {}
        for at, name in enumerate(part.piece.inputs):
            tensor = self._tensor(name)
            if tensor.dtype.name == "resource":
                continue  # the value of a variable, which the slice holds itself
            renamed[name] = self._placeholder(definition, f"{number}/given_{at}_", tensor.dtype)
            feeds[f"{renamed[name]}:0"] = as_typed(values[name], tensor.dtype)
        names = {_origin(handle).name for op in part.ops for handle in self._handles(op)}
        for name in part.variables:
            variable = self._graph.get_operation_by_name(name)
            resource = variable.type in HANDLES
            kind = variable.get_attr("dtype") if resource else variable.outputs[0].dtype.base_dtype
            called = f"{number}/{name}" + ("/value_" if name in names else "")
            self._placeholder(definition, called, kind)
            renamed[variable.outputs[0].name] = called
            value = values.get(variable.outputs[0].name)
            feeds[f"{called}:0"] = as_typed(self._variable(name) if value is None else value, kind)
            if name in names:
                self._variable_itself(definition, variable, called, number)
        own = {op.name for op in part.ops}
        writers_before = self._behind(part)
        for op in part.ops:
            node = definition.node.add()
            node.CopyFrom(self._nodes[op.name])
            node.name = f"{number}/{op.name}"
            late = op.name in self._late
            if op.type == READS and is_variable(op.inputs[0].op) and not late:
                self._as_identity(node)
            inputs = [
                renamed.get(op_input.name, f"{number}/{op_input.name}") for op_input in op.inputs
            ]
            for at, op_input in enumerate(op.inputs):
                if op_input in self._handles(op) and op_input.op.name in names:
                    inputs[at] = f"{number}/{op_input.op.name}/held_"
            inputs = self._with_variables(definition, op, inputs, node.name, own)
            loop = op.name in self.in_loops
            before = op.control_inputs if loop else self._placed_by(op)
            inputs += [
                f"^{number}/{op_before.name}" for op_before in before if op_before.name in own
            ]
            inputs += [
                f"^{number}/{name}" for name in writers_before.get(op.name, ()) if name in own
            ]
            del node.input[:]
            node.input.extend(inputs)
        return feeds

    def _handles(self, op: Any) -> list[Any]:
        """What *op* takes of variables as such, not only their values."""
        if op.type == READS and op.name not in self._late:
            return []
        return [op_input for op_input in op.inputs if op_input.op.type in HANDLES]

    def _behind(self, part: TensorFlowSubgraph) -> dict[str, tuple[str, ...]]:
        """What has to run before reads of variables it changes, one after the other."""
        writers_of: dict[str, tuple[str, ...]] = {}
        for op in part.ops:
            writers = self._late.get(op.name, ())
            if writers:
                writers_of[op.name] = writers
            for at, writer in enumerate(writers):
                writers_of[writer] = tuple(
                    dict.fromkeys((*writers_of.get(writer, ()), *writers[:at]))
                )
        return writers_of

    def _variable_itself(self, definition: Any, variable: Any, value: str, number: int) -> None:
        """A variable of the slice's own that holds what placeholder *value* is fed."""
        node, assign, identity = (definition.node.add() for _ in range(3))
        node.CopyFrom(self._nodes[variable.name])
        node.name = f"{number}/{variable.name}"
        node.attr["shared_name"].s = node.name.encode()
        assign.name, assign.op = f"{node.name}/assign_", "AssignVariableOp"
        assign.input.extend([node.name, value])
        assign.attr["dtype"].CopyFrom(node.attr["dtype"])
        identity.name, identity.op = f"{node.name}/held_", "Identity"
        identity.input.extend([node.name, f"^{assign.name}"])
        identity.attr["T"].type = variable.outputs[0].dtype.as_datatype_enum

    def _with_variables(
        self, definition: Any, op: Any, inputs: Sequence[str], name: str, own: set[str]
    ) -> list[str]:
        """*inputs* of *op*, each variable among them a new one with its value."""
        variables = list(inputs)
        for at, (arg, tensor) in enumerate(_arguments(op)):
            if not arg.is_ref or (tensor.op.name in own and not writes(op)):
                continue
            kind = tensor.dtype.base_dtype.as_datatype_enum
            variable, assign = definition.node.add(), definition.node.add()
            variable.name, variable.op = f"{name}/changed_{at}_", "VariableV2"
            variable.attr["dtype"].type = kind
            variable.attr["shape"].shape.unknown_rank = True
            assign.name, assign.op = f"{name}/assign_{at}_", "Assign"
            assign.input.extend([variable.name, variables[at]])
            assign.attr["T"].type = kind
            assign.attr["validate_shape"].b = False
            variables[at] = variable.name
            variables.append(f"^{assign.name}")
        return variables

    def _placeholder(self, definition: Any, name: str, kind: Any) -> str:
        node = definition.node.add()
        node.name, node.op = name, "Placeholder"
        node.attr["dtype"].type = kind.base_dtype.as_datatype_enum
        node.attr["shape"].shape.unknown_rank = True
        return name

    def _as_identity(self, node: Any) -> None:
        """Reading a variable whose value is given is handing the value on."""
        kind = node.attr["dtype"].type
        node.op = "Identity"
        node.attr.clear()
        node.attr["T"].type = kind


def _origin(tensor: Any) -> Any:
    """The op a handle comes from, outside of the loops and branches it was put into."""
    op = tensor.op
    while op.type in _FROM_OUTSIDE:
        op = op.inputs[0].op
    return op


def _arguments(op: Any) -> list[tuple[Any, Any]]:
    """Declared arguments with what is given for them, of ops that take no lists."""
    declared = op.op_def.input_arg if op.op_def is not None else ()
    return list(zip(declared, op.inputs, strict=False))


def producer_ops(meta: Any) -> Any:
    """The definitions of the ops as they were where the file was written; None if not said."""
    ops = meta.meta_info_def.stripped_op_list
    return ops if ops.op else None
