"""Loops, branches and calls whose bodies are functions of the model's library.

Source: tensorflow/core/ops/functional_ops.cc says what each op runs;
tensorflow/core/framework/function.proto says how bodies name arguments and results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from divergraph.execute.translate.blocks import Block, Body, BranchBodies, CalledBody, While
from divergraph.execute.translate.tensorflow.constants import TensorFlowConstants
from divergraph.execute.translate.tensorflow.frames import fold_loops
from graphstore.model import InputRef, ModelGraph, Op, Subgraph
from importers.tensorflow.functions import known, output_port

_ROLES: Mapping[str, tuple[str, ...]] = {
    "While": ("cond", "body"),
    "If": ("then_branch", "else_branch"),
    "PartitionedCall": ("f",),
    "StatefulPartitionedCall": ("f",),
}
"""The functions an op runs, in order; ops named as a function run that."""


def function_blocks(graph: ModelGraph, constants: TensorFlowConstants) -> dict[str, Block]:
    """What the ops of *graph* with bodies do, by op, those inside of bodies included."""
    return _Bodies(graph, constants).blocks() if graph.subgraphs else {}


class _Bodies:
    def __init__(self, graph: ModelGraph, constants: TensorFlowConstants) -> None:
        self._constants = constants
        self._ops = graph.op_index()
        self._inside: dict[str, list[Op]] = {}
        self._owned: dict[str, dict[str, Subgraph]] = {}
        self._found: dict[str, Block] = {}
        for op in graph.ops:
            self._inside.setdefault(op.subgraph, []).append(op)
        for body in graph.subgraphs:
            self._owned.setdefault(body.owner, {})[body.role] = body

    def blocks(self) -> dict[str, Block]:
        for owner, bodies in self._owned.items():
            block = self._block(self._ops[owner], bodies) if owner in self._ops else None
            if block is not None:
                self._found[owner] = block
        return self._found

    def _block(self, op: Op, bodies: Mapping[str, Subgraph]) -> Block | None:
        kind = op.type.removeprefix("Stateless")
        wanted = _ROLES.get(kind, () if kind == "Case" or "f" in op.attrs else ("f",))
        blocks = {
            role: self._body(op, body)
            for role, body in bodies.items()
            if role in wanted or (kind == "Case" and role.startswith("branches_"))
        }
        if not blocks or not blocks.keys() >= set(wanted):
            return None
        if kind == "Case":
            numbered = sorted(blocks, key=lambda role: int(role.rpartition("_")[2]))
            return BranchBodies(tuple(blocks[role] for role in numbered), by_number=True)
        parts = [blocks[role] for role in wanted]
        if kind == "While":
            return While(*parts)
        return BranchBodies(tuple(parts), by_number=False) if kind == "If" else CalledBody(*parts)

    def _body(self, owner: Op, body: Subgraph) -> Body:
        function = self._constants.called(owner.id, body.role)
        names = [arg.name for arg in function.signature.input_arg]
        ids = {op.name: op for op in self._inside.get(body.name, ())}
        ops = [
            replace(op, inputs=tuple(self._told(ref) for ref in op.inputs))
            for op in ids.values()
            if not (op.outputs and op.outputs[0].name in self._constants)
        ]
        folded = fold_loops(ops)
        self._found.update(folded.loops)
        results = tuple(
            self._result(function.ret[arg.name], body.name, ids)
            for arg in function.signature.output_arg
        )
        return Body(tuple(f"{body.name}/{name}" for name in names), folded.ops, results)

    def _told(self, ref: InputRef | None) -> InputRef | None:
        """*ref* by the name of the tensor it is, or by that of the argument."""
        if ref is None or ref.producer is None:
            return ref if ref is None else InputRef(ref.tensor.removesuffix(":0"))
        producer = ref.producer
        return InputRef(self._ops[producer.op].outputs[producer.port].name, producer)

    def _result(self, entry: str, body: str, ops: Mapping[str, Op]) -> str:
        """The tensor, or the argument, that a function gives as *entry*."""
        name, _, rest = entry.partition(":")
        if name not in ops:
            return f"{body}/{name}"
        output, _, index = rest.rpartition(":")
        op = ops[name]
        number = int(index) if index.isdecimal() else 0
        args = known().get(op.type)
        port = output_port(self._constants.node(op.id), args, output or index, number)
        return op.outputs[port or 0].name
