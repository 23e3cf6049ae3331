"""What a checkpoint calls the variables of a model, as the model's own restoring ops say it.

A SavedModel of TensorFlow 2 names them by their place in its objects; only its restoring function
tells which variable gets which: ``RestoreV2`` lists the names, ``AssignVariableOp`` takes one of
its outputs each.
"""

from __future__ import annotations

from collections.abc import Iterator

from divergraph.execute.tensorflow.variable_ops import VARIABLES
from divergraph.execute.translate.tensorflow.constants import TensorFlowConstants
from graphstore.model import InputRef, ModelGraph, Op

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
