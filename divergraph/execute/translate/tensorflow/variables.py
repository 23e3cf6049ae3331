"""The values variables have before the step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from divergraph.execute.contract import Array
from divergraph.execute.tensorflow.branches import HANDLES, VARIABLES
from divergraph.execute.tensorflow.files import saved_values
from divergraph.execute.tensorflow.state import values_of_dump
from divergraph.execute.translate.tensorflow.constants import TensorFlowConstants
from graphstore.errors import InputError
from graphstore.model import InputRef, ModelGraph, Op
from importers.tensorflow.checkpoint import Checkpoint


def variables_of(graph: ModelGraph, options: Mapping[str, str]) -> Mapping[str, Array]:
    """The known values by op: of the dump that ``variables`` names, else of the checkpoint that
    ``checkpoint`` names or that lies beside the model. They are read when asked for.

    Raises:
        InputError: no such dump or checkpoint.
        ImportFormatError: a damaged checkpoint.
    """
    folder = options.get("variables", "")
    dumped = values_of_dump(graph, Path(folder)) if folder else {}
    prefix = options.get("checkpoint", "") or saved_values(graph)
    readable = bool(prefix) and Path(f"{prefix}.index").is_file()
    if not readable and not options.get("checkpoint"):
        return dumped
    if not readable:
        raise InputError(
            "no checkpoint has this prefix",
            where=prefix,
            hint="the prefix is the path of the .index file without .index",
        )
    saved = Checkpoint(prefix)
    names = {op.id: _saved_name(op) for op in graph.ops if op.type in VARIABLES}
    if any(name not in saved for name in names.values()):
        names = {**restored_names(graph), **{op: n for op, n in names.items() if n in saved}}
    return _Values(dumped, saved, {op: name for op, name in names.items() if name in saved})


def _saved_name(op: Op) -> str:
    shared = str(op.attrs.get("shared_name", "")) if op.type in HANDLES else ""
    return shared or op.id


class _Values(Mapping[str, Array]):
    def __init__(
        self, dumped: Mapping[str, Array], saved: Checkpoint, names: Mapping[str, str]
    ) -> None:
        self._dumped = dumped
        self._saved = saved
        self._names = names

    def __getitem__(self, op: str) -> Array:
        return self._dumped[op] if op in self._dumped else self._saved[self._names[op]]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._dumped, **self._names})

    def __len__(self) -> int:
        return len({**self._dumped, **self._names})


# What a checkpoint calls the variables of a model, as the model's own restoring ops say it.
#
# A SavedModel of TensorFlow 2 names them by their place in its objects; only its restoring function
# tells which variable gets which: ``RestoreV2`` lists the names, ``AssignVariableOp`` takes one of
# its outputs each.


_HANDS_ON = frozenset(("Identity", "Cast"))


def restored_names(graph: ModelGraph) -> dict[str, str]:
    """The name in a checkpoint by the op of the variable that gets it."""
    if not any(op.type == "RestoreV2" for op in graph.ops):
        return {}
    return dict(_Restoring(graph).found())


class _Restoring:
    def __init__(self, graph: ModelGraph) -> None:
        self._ops = graph.op_index()
        self._bodies = {body.name: body for body in graph.subgraphs}
        self._constants = TensorFlowConstants(graph, (), {})

    def found(self) -> Iterator[tuple[str, str]]:
        for op in self._ops.values():
            if op.type in ("AssignVariableOp", "Assign"):
                name = self._name(op)
                variable = self._variable(op, op.inputs[0]) if name else ""
                if variable:
                    yield variable, name

    def _name(self, assign: Op) -> str:
        """The name under which what *assign* puts is restored; empty if it is not."""
        source = assign.source(1)
        while source is not None and self._ops[source.op].type in _HANDS_ON:
            source = self._ops[source.op].source()
        if source is None or self._ops[source.op].type != "RestoreV2":
            return ""
        listed = self._ops[source.op].source(1)
        if listed is None or self._ops[listed.op].type != "Const":
            return ""
        names = self._constants.node(listed.op).attr["value"].tensor.string_val
        return names[source.port].decode("utf-8") if source.port < len(names) else ""

    def _variable(self, op: Op, ref: InputRef | None) -> str:
        """The op of the variable that *ref* of *op* is the handle of; empty if none."""
        while ref is not None:
            if ref.producer is not None:
                op = self._ops[ref.producer.op]
                if op.type in VARIABLES:
                    return op.id
                ref = op.inputs[0] if op.type in _HANDS_ON else None
                continue
            body = self._bodies.get(op.subgraph)  # an argument: what the call gives for it
            if body is None:
                return ""
            call = self._ops[body.owner]
            names = [
                arg.name for arg in self._constants.called(call.id, body.role).signature.input_arg
            ]
            name = ref.tensor.removeprefix(f"{body.name}/").removesuffix(":0")
            at = names.index(name) if name in names else len(call.inputs)
            op, ref = call, call.inputs[at] if at < len(call.inputs) else None
        return ""
