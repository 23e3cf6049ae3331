"""The step of a TensorFlow model as a program: which ops run, and why others do not.

It is the same step that TensorFlow's own executor runs (``execute/tensorflow/step.py``): the train
op with all it needs, and what else can be computed without changing anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from divergraph.execute.contract import Array
from divergraph.execute.tensorflow.branches import VARIABLES, changes_variable, in_branches
from divergraph.execute.tensorflow.calls_in_place import calls_in_place, placed_bodies
from divergraph.execute.tensorflow.files import SEEDED
from divergraph.execute.tensorflow.step import PLACEHOLDERS, touches
from divergraph.execute.translate.program import Program
from divergraph.execute.translate.tensorflow.constants import VALUE, TensorFlowConstants
from divergraph.execute.translate.tensorflow.frames import flows_of_arrays, fold_loops, in_order
from divergraph.execute.translate.tensorflow.functions import function_blocks
from divergraph.execute.translate.tensorflow.late_values import LEFT, with_late_values
from divergraph.execute.translate.tensorflow.rows import ROWS
from divergraph.execute.translate.tensorflow.rows.control import ASKS
from graphstore.errors import InputError
from graphstore.model import InputRef, ModelGraph, Op, Tensor

_NO_TENSOR = {"string": "texts", "resource": "a resource", "variant": "a variant"}


def tensorflow_program(
    graph: ModelGraph,
    name: str,
    variables: Mapping[str, Array],
    train_ops: Collection[str],
    fed: Collection[str],
    *,
    from_dumps: bool = False,
    signature: str = "",
) -> Program:
    """The step of *graph* that ends with *train_ops*, tensors *fed* taken as given.

    Of a model with several signatures it is the run of *signature*.

    *variables* holds values of variables by op. With *from_dumps* the values of others, of random
    numbers and of batches will come with each question; else what needs them is left out.

    Raises:
        InputError: a train op, a fed tensor or a signature that is not in the model.
    """
    full_graph, late = with_late_values(_handing_on(graph))
    ops = in_order([op for op in full_graph.ops if not op.subgraph])
    tensors = {tensor.name: tensor for op in ops for tensor in op.outputs}
    for fed_name in fed:
        if fed_name not in tensors:
            raise InputError(f"the model has no tensor {fed_name!r} to feed")
    closed = of_other_signatures(graph, signature)
    step = _Step(full_graph, ops, train_ops, fed, late, closed)
    branches = in_branches(full_graph)
    constants = TensorFlowConstants(graph, branches, variables)
    ops_left = [_without_variable(op) for op in ops if not _is_constant(op, constants)]
    folded = fold_loops(
        [_in_branch(op, branches) for op in ops_left if op.type not in PLACEHOLDERS]
    )
    blocks = {**function_blocks(full_graph, constants), **folded.loops}
    open_ops = [op for op in ops if op.type in PLACEHOLDERS and op.id not in closed]
    placeholders = [tensor.name for op in open_ops for tensor in op.outputs]
    inputs = tuple(tensors[fed_name] for fed_name in dict.fromkeys((*placeholders, *fed)))
    outside = {
        tensor.name: f"{what}: give the values of {tensor.name!r}"
        for op in ops_left
        if (what := _comes_from_outside(op))
        for tensor in op.outputs
        if tensor.name not in fed
    }
    left_out = {name: reason for name, reason in step.left_out() if name not in fed}
    if from_dumps:
        available = frozenset(outside)
        left_out = {name: reason for name, reason in left_out.items() if name not in available}
    else:
        available, left_out = frozenset(), {**outside, **left_out}
    hidden = {
        tensor.name: reason for op in ops for tensor in op.outputs if (reason := _hides(op, tensor))
    }
    hidden.update(dict.fromkeys(flows_of_arrays(ops), "only orders ops"))
    return Program(
        name, ROWS, folded.ops, inputs, constants, left_out, available, blocks, hidden, folded.after
    )


def _handing_on(graph: ModelGraph) -> ModelGraph:
    """*graph* with called functions in the place of their calls, which hand on what those give."""
    outputs_of_calls = {op: len(body.outputs) for op, body in placed_bodies(graph).items()}
    inlined = calls_in_place(graph)
    ops = (
        replace(op, type="IdentityN") if outputs_of_calls.get(op.id) == len(op.outputs) else op
        for op in inlined.ops
    )
    return replace(inlined, ops=tuple(ops))


_DRAWS = (
    *("StatelessRandom", "StatelessTruncated", "StatelessMultinomial", "StatelessParameterized"),
    *("StatefulUniform", "StatefulStandardNormal", "StatefulTruncated", "StatefulRandomBinomial"),
)
_OF_TEXTS = ("StaticRegexFullMatch", "RegexFullMatch", "StringLength")
_FETCHES = ("Iterator", "OneShotIterator", "QueueDequeue", "ReaderRead")
_READS_TEXTS = (
    *("ParseExample", "ParseSingleExample", "ParseSequenceExample", "ParseTensor"),
    *("Decode", "StringTo", "LookupTable"),
)


def _comes_from_outside(op: Op) -> str:
    """Where what *op* gives comes from, if not from its inputs; or empty."""
    if op.type in VARIABLES:
        return "nothing says the value of a variable"
    if op.type in SEEDED or op.type.startswith(_DRAWS):
        return "draws numbers"
    if op.type.startswith(_READS_TEXTS):
        return "reads texts"
    return "fetches data" if op.type.startswith(_FETCHES) else ""


def _is_constant(op: Op, constants: TensorFlowConstants) -> bool:
    return bool(op.outputs) and op.outputs[0].name in constants


def _without_variable(op: Op) -> Op:
    """An op that asks whether a variable has a value needs none to say so: in a step all have."""
    return replace(op, inputs=()) if op.type in ASKS else op


def _in_branch(op: Op, branches: Mapping[str, InputRef]) -> Op:
    """A constant of a branch as an op that takes its value, and what tells whether it exists."""
    if op.type != "Const" or op.id not in branches:
        return op
    return replace(op, inputs=(InputRef(op.outputs[0].name + VALUE), branches[op.id]))


def computes(op: Op) -> bool:
    """Whether *op* computes numbers from its inputs, so that a run needs a row for it."""
    if _comes_from_outside(op) or touches(op.type) or changes_variable(op.type):
        return op.type in ROWS
    if op.type in PLACEHOLDERS or op.type in _OF_TEXTS or not op.outputs:
        return False
    return any(_not_kept(op, tensor) == "" for tensor in op.outputs)


def initialisers(ops: Iterable[Op]) -> dict[str, Op]:
    """The op that gives each variable its first value, by variable."""
    ops_by_id = {op.id: op for op in ops}
    assigns: dict[str, Op] = {}
    for op in ops_by_id.values():
        first = op.source() if op.type in ("Assign", "AssignVariableOp") else None
        variable = ops_by_id.get(first.op) if first is not None else None
        if variable is None or variable.type not in VARIABLES:
            continue
        if op.id == f"{variable.id}/Assign" or "/Initializer/" in str(op.source(1)):
            assigns.setdefault(variable.id, op)
    return assigns


class _Step:
    """Which tensors a run does not give, and why."""

    def __init__(
        self,
        graph: ModelGraph,
        ops: list[Op],
        train_ops: Collection[str],
        fed: Collection[str],
        late: frozenset[str],
        closed: Mapping[str, str],
    ) -> None:
        self._ops = {op.id: op for op in ops}
        self._fed = frozenset(fed)
        listed = graph.attrs.get("collection train_op", ())
        named = train_ops or (map(str, listed) if isinstance(listed, tuple) else ())
        ends = [tensor_name.partition(":")[0] for tensor_name in named]
        for train_op in train_ops:
            if train_op.partition(":")[0] not in self._ops:
                raise InputError(f"the model has no op {train_op!r} to end the step with")
        self._step = self._behind(end for end in ends if end in self._ops)
        self._late = late
        self._closed = closed
        self._prepares = frozenset(self._preparing(ops))

    def left_out(self) -> Iterator[tuple[str, str]]:
        """Each tensor that no run gives, with the reason."""
        reasons_of: dict[str, str] = {}
        for op in self._ops.values():
            reason = self._blocked(op)
            if not reason:
                ids = (ref.op for ref in op.takes if str(ref) not in self._fed)
                reason = next((reasons_of[op_id] for op_id in ids if op_id in reasons_of), "")
            if reason:
                reasons_of[op.id] = reason
            for tensor in op.outputs:
                texts = _not_kept(op, tensor) if str(tensor.dtype) == "string" else ""
                if text := reason or texts:
                    yield tensor.name, text

    def _blocked(self, op: Op) -> str:
        if op.id in self._closed and op.type in PLACEHOLDERS:
            return self._closed[op.id]
        if op.id in self._late:
            return "reads a variable after the step has changed it"
        if op.id in self._prepares:
            return "only prepares variables"
        if op.id not in self._step and changes_variable(op.type):
            return "changes variables outside of the step"
        return touches(op.type)

    def _behind(self, ids: Iterable[str]) -> frozenset[str]:
        """The ops *ids* and all that run before them."""
        ops_reached: set[str] = set()
        waiting = list(ids)
        while waiting:
            op = self._ops.get(waiting.pop())
            if op is None or op.id in ops_reached:
                continue
            ops_reached.add(op.id)
            waiting += [ref.op for ref in op.takes if str(ref) not in self._fed]
            waiting += op.control_inputs
        return frozenset(ops_reached)

    def _preparing(self, ops: list[Op]) -> Iterator[str]:
        """The ops that give variables their first values, and what serves nothing else."""
        users: dict[str, list[Op]] = {}
        for op in ops:
            for op_id in dict.fromkeys((*(ref.op for ref in op.takes), *op.control_inputs)):
                users.setdefault(op_id, []).append(op)
        starts = initialisers(ops).values()
        ids = {op.id for op in starts if op.id not in self._step}
        yield from ids
        for op in reversed(ops):
            reads = users.get(op.id, [])
            if op.id in self._step or op.type in VARIABLES or not reads:
                continue
            if all(read.id in ids for read in reads):
                ids.add(op.id)
                yield op.id


def _hides(op: Op, tensor: Tensor) -> str:
    """Why no run gives a *tensor* that others are made of; empty if it does."""
    if tensor.name.endswith(LEFT):
        return "no tensor of the model"
    frame = str(op.attrs.get("frame", ""))
    if frame and op.type not in ("Exit", "RefExit"):
        return "computed again in each turn of a loop"
    return _not_kept(op, tensor)


def _not_kept(op: Op, tensor: Tensor) -> str:
    if op.type in VARIABLES:
        return ""
    return _NO_TENSOR.get(str(tensor.dtype), "")


# Which inputs of a model with several signatures a run does not take.


_PREFIX = "signature "
_DEFAULT = "serving_default"


def of_other_signatures(graph: ModelGraph, signature: str) -> dict[str, str]:
    """The ops that only other signatures than *signature* are fed through, and why they
    are not run; with nothing asked for, that is TensorFlow's own default, if there is one.

    Raises:
        InputError: the model has no such signature.
    """
    fed = {
        name.removeprefix(_PREFIX): _fed_ops(str(attr))
        for name, attr in graph.attrs.items()
        if name.startswith(_PREFIX)
    }
    if signature and signature not in fed:
        listed = ", ".join(sorted(fed)) or "none"
        raise InputError(f"the model has no signature {signature!r}", hint=f"there are: {listed}")
    chosen = signature or _DEFAULT
    if chosen not in fed:
        return {}
    return {
        op: f"belongs to signature {name}" for name in sorted(fed) for op in fed[name] - fed[chosen]
    }


def _fed_ops(text: str) -> set[str]:
    """The ops that a signature is fed through, of what the importer says of it."""
    inputs_text = text.partition(" -> ")[0]
    tensors = (entry.rpartition("=")[2] for entry in inputs_text.split(", "))
    return {tensor.partition(":")[0] for tensor in tensors}
