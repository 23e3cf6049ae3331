"""What of a TensorFlow graph one run computes, in which order, and what it cannot give.

A training graph holds more than the step: ops that prepare variables, read queues, write
files. A run is the step (the train op and all it needs) and what else can be computed
without changing anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from divergraph.execute.tensorflow.branches import VARIABLES, changes_resource
from graphstore.traverse.reach import reached
from importers.tensorflow.nodes import ENTER, frames

_FORWARDS_REFS = frozenset(
    ("RefEnter", "RefExit", "RefIdentity", "RefMerge", "RefNextIteration", "RefSelect", "RefSwitch")
)
_ONLY_ASKS = frozenset(("IsVariableInitialized",))
_STARTS_ITERATOR = "MakeIterator"
_FILES = frozenset(
    (
        *("Save", "SaveV2", "SaveSlices", "Restore", "RestoreV2", "RestoreSlice"),
        *("MergeV2Checkpoints", "WriteFile", "PrintV2", "WriteSummary", "FlushSummaryWriter"),
    )
)
_WAITING = (
    *("QueueDequeue", "QueueEnqueue", "QueueClose", "QueueSize", "Reader", "Barrier"),
    *("Stage", "Unstage", "MapStage", "MapUnstage", "Recv", "_Recv"),
)
_CALLERS = ("PartitionedCall", "If", "While", "Case", "For", "RemoteCall", "BatchFunction")
PLACEHOLDERS = frozenset(("Placeholder", "PlaceholderV2"))
_NOT_KEPT = {"string": "texts", "resource": "a resource", "variant": "a variant"}


def is_variable(op: Any) -> bool:
    """Whether *op* holds state that training changes."""
    return op.type in VARIABLES


def writes(op: Any) -> bool:
    """Whether running *op* changes a variable, table or iterator."""
    if op.type == _STARTS_ITERATOR or op.type.startswith(("LookupTableI", "InitializeTable")):
        return True
    if changes_resource(op.type) and any(
        op_input.dtype.name == "resource" for op_input in op.inputs
    ):
        return True
    if op.type in _FORWARDS_REFS or op.type in _ONLY_ASKS or op.op_def is None:
        return False
    return any(arg.is_ref for arg in op.op_def.input_arg)


def changes_outside(definition: Any) -> dict[str, str]:
    """The functions of a GraphDef that change or wait for what is outside of them, and how."""
    functions = {function.signature.name: function for function in definition.library.function}
    effects: dict[str, str] = {}
    for name, function in functions.items():
        for node in function.node_def:
            effect = reaches_outside(node.op)
            if effect:
                effects.setdefault(name, effect)
    again = True
    while again:
        again = False
        for name, function in functions.items():
            called = (callee for node in function.node_def for callee in called_functions(node))
            effect = next((effects[callee] for callee in called if callee in effects), "")
            if effect and name not in effects:
                effects[name] = effect
                again = True
    return effects


def called_functions(node: Any) -> Iterator[str]:
    """The names of the functions a NodeDef calls (or may name an op, if none is called so)."""
    yield node.op
    waiting = list(node.attr.values())
    while waiting:
        value = waiting.pop()
        kind = value.WhichOneof("value")
        for function in (
            [value.func] if kind == "func" else value.list.func if kind == "list" else ()
        ):
            yield function.name
            waiting += function.attr.values()


def reaches_outside(kind: str) -> str:
    """How ops of a type, in a function, change or wait for what is outside of it; or empty."""
    if kind == _STARTS_ITERATOR or changes_resource(kind):
        return "changes variables outside of the step"
    return touches(kind)


def touches(kind: str) -> str:
    """How ops of a type reach outside of the model, files or queues; or empty."""
    return "reads or writes files" if kind in _FILES else waits(kind)


def waits(kind: str) -> str:
    """What ops of a type wait for if nobody else runs beside them; or empty."""
    return "waits for a queue that nothing fills here" if kind.startswith(_WAITING) else ""


@dataclass(frozen=True, slots=True)
class Step:
    """What one run does.

    ``tensors`` are its tensors in execution order; ``late`` those of them that exist only
    after a variable was changed; ``left_out`` says why others are not given.
    ``placeholders`` are what it must be fed.
    """

    tensors: tuple[str, ...]
    late: frozenset[str]
    left_out: Mapping[str, str]
    placeholders: tuple[str, ...]


def needed(starts: Iterable[Any], fed: frozenset[str]) -> set[Any]:
    """The ops *starts* and all that run before them, tensors *fed* taken as given."""

    def unfed(op: Any) -> Iterator[Any]:
        yield from (op_input.op for op_input in op.inputs if op_input.name not in fed)
        yield from op.control_inputs

    return set(reached(starts, unfed))


def in_order(graph: Any) -> list[Any]:
    """The ops of *graph*, makers before users; loops end up in some order."""
    ops = graph.get_operations()
    done: set[Any] = set()
    ordered: list[Any] = []
    for start in ops:
        path = [(start, before(start))] if start not in done else []
        done.add(start)
        while path:
            op, unvisited = path[-1]
            following = next((op_before for op_before in unvisited if op_before not in done), None)
            if following is None:
                path.pop()
                ordered.append(op)
            else:
                done.add(following)
                path.append((following, before(following)))
    return ordered


def loops(graph: Any) -> dict[str, str]:
    """The loop of the old kind each op runs in, by op name."""
    ops = graph.get_operations()
    if not any(op.type in ENTER for op in ops):
        return {}
    numbers: dict[str, str] = {}
    names: dict[str, str] = {}
    for op in ops:
        if op.type in ENTER:
            frame = op.get_attr("frame_name").decode("utf-8", "backslashreplace")
            names[op.name] = numbers.setdefault(frame, str(len(numbers)))
    inputs = {op.name: [op_before.name for op_before in before(op)] for op in ops}
    return frames({op.name: op.type for op in ops}, inputs, names)


def before(op: Any) -> Iterator[Any]:
    """The ops that run right before *op*."""
    yield from (op_input.op for op_input in op.inputs)
    yield from op.control_inputs


class StepFinder:
    """Finds the step of *graph* that ends with the ops *train*, with the tensors *fed* given.

    *initializers* are the ops that give variables their first values, *closed* says why
    certain ops are no part of a run: placeholders of other signatures, by op name, and functions
    that change something (see :func:`changes_outside`), by function name. *outside* says of what
    else may not run why, by op name.
    """

    def __init__(
        self,
        graph: Any,
        train: Iterable[str],
        initializers: frozenset[str],
        fed: frozenset[str],
        closed: Mapping[str, str],
        outside: Mapping[str, str],
    ) -> None:
        self._fed = fed
        self._closed = closed
        self._outside = outside
        self._ordered = in_order(graph)
        self._loops = loops(graph)
        self._prepares = self._preparing(initializers)
        self._step = needed((graph.get_operation_by_name(name) for name in train), fed)
        self._blocked = self._forward(self._blocks)
        self._late = self._forward(
            lambda op: "late" if op in self._step and self._changes(op) else ""
        )
        self._useless = self._only_preparing()

    def step(self) -> Step:
        """The step."""
        left_out: dict[str, str] = {}
        tensors: list[Any] = []
        for op in self._ordered:
            for tensor in op.outputs:
                if tensor.name in self._fed:
                    continue
                reason = self._reason(op, tensor)
                if reason:
                    left_out[tensor.name] = reason
                elif op.type not in PLACEHOLDERS:
                    tensors.append(tensor)
        ran = needed((tensor.op for tensor in tensors), self._fed)
        placeholders = [
            op.outputs[0].name
            for op in self._ordered
            if op in ran and op.type in PLACEHOLDERS and op.outputs[0].name not in self._fed
        ]
        late = frozenset(tensor.name for tensor in tensors if tensor.op in self._late)
        names = tuple(tensor.name for tensor in tensors)
        return Step(names, late, left_out, tuple(placeholders))

    def _reason(self, op: Any, tensor: Any) -> str:
        kind = tensor.dtype.base_dtype.name
        if op in self._blocked:
            return self._blocked[op]
        if op in self._useless or op in self._prepares:
            return "only prepares variables"
        if kind in _NOT_KEPT:
            return _NOT_KEPT[kind]
        frame = self._loops.get(op.name, "")
        if frame and not (op.type in ("Exit", "RefExit") and "/" not in frame):
            return "computed again in each turn of a loop"
        return ""

    def _blocks(self, op: Any) -> str:
        """Why what *op* and all behind it make cannot be given; empty if it can."""
        reaches = self._outside.get(op.name) or touches(op.type)
        if reaches:
            return reaches
        if op.type in PLACEHOLDERS and op.name in self._closed:
            return self._closed[op.name]
        if op not in self._step and (op.type in self._closed or op.type.endswith(_CALLERS)):
            called = (self._closed.get(name) for name in called_functions(op.node_def))
            return next(filter(None, called), "")
        if op in self._step or op in self._prepares or not writes(op):
            return ""
        return "changes variables outside of the step"

    def _changes(self, op: Any) -> bool:
        if op.type.endswith(_CALLERS) or op.type in self._closed:
            return any(name in self._closed for name in called_functions(op.node_def))
        return writes(op)

    def _forward(self, starts: Callable[[Any], str]) -> dict[Any, str]:
        """The ops *starts* says something of, and all that run behind them, with what it says."""
        reasons: dict[Any, str] = {}
        for op in self._ordered:
            reason = starts(op)
            if not reason:
                inputs = (op_input.op for op_input in op.inputs if op_input.name not in self._fed)
                reason = next(
                    (reasons[op_before] for op_before in inputs if op_before in reasons), ""
                )
            if not reason:
                reason = next(
                    (reasons[op_before] for op_before in op.control_inputs if op_before in reasons),
                    "",
                )
            if reason:
                reasons[op] = reason
        return reasons

    def _preparing(self, initializers: frozenset[str]) -> set[Any]:
        preparing: set[Any] = set()
        for op in self._ordered:
            group = op.type == "NoOp" and op.control_inputs
            if op.name in initializers or (
                group and all(e in preparing for e in op.control_inputs)
            ):
                preparing.add(op)
        return preparing

    def _only_preparing(self) -> set[Any]:
        """Ops all of whose users only prepare something: the first values of variables."""
        users_of: dict[Any, list[Any]] = {}
        for op in self._ordered:
            for op_before in op.control_inputs:
                users_of.setdefault(op_before, []).append(op)
        only_preparing: set[Any] = set()
        for op in reversed(self._ordered):
            if op in self._step or op in self._prepares:
                continue
            users = {user for tensor in op.outputs for user in tensor.consumers()}
            users.update(users_of.get(op, ()))
            if users and all(user in only_preparing or user in self._prepares for user in users):
                only_preparing.add(op)
        return only_preparing
