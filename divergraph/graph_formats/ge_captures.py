"""What bodies take from around them by name, made to go through inputs, as GE has it.

ONNX bodies and PyTorch modules read tensors of the graph around them. In GE a body only has
``Data`` ops, each the mirror of an input of the body's owner: for every such tensor the
owner, and the owners around it, get one more input, and their bodies one more Data op.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphstore.model import ModelGraph, TensorRef


@dataclass(frozen=True, slots=True)
class AddedData:
    """A Data op to add to a body: its name there, the owner's input, and what it holds."""

    name: str
    position: int
    tensor: TensorRef


class Captures:
    """Finds the way of every tensor that is used in a body and made around it.

    ``names`` are what ops are called inside of their body, ``taken`` the names in use.
    """

    def __init__(
        self, graph: ModelGraph, names: Mapping[str, str], taken: Mapping[str, set[str]]
    ) -> None:
        self._ops = graph.op_index()
        self._owners = {body.name: body.owner for body in graph.subgraphs}
        self._names = names
        self._taken = taken
        self._ways: dict[tuple[str, TensorRef], str | None] = {}
        self.inputs: dict[str, list[tuple[str, TensorRef]]] = {}
        """By owner: the inputs to add, as written, and the tensors they are."""
        self.data: dict[str, list[AddedData]] = {}
        """By body: the Data ops to add."""
        for op in graph.ops:
            for ref in op.inputs if op.subgraph else ():
                if ref is not None and ref.producer is not None:
                    self.way(op.subgraph, ref.producer)

    def way(self, body: str, tensor: TensorRef) -> str | None:
        """How *tensor* is called as an input in *body*; None if no way leads there."""
        key = (body, tensor)
        if key not in self._ways:
            self._ways[key] = None  # for bodies that own each other
            self._ways[key] = self._found(body, tensor)
        return self._ways[key]

    def _found(self, body: str, tensor: TensorRef) -> str | None:
        source = self._ops.get(tensor.op)
        if source is None:
            return None
        if source.subgraph == body:
            return f"{self._names[tensor.op]}:{tensor.port}"
        owner = self._ops.get(self._owners.get(body, ""))
        above = None if owner is None else self.way(owner.subgraph, tensor)
        if owner is None or above is None:
            return None
        added = self.inputs.setdefault(owner.id, [])
        position = len(owner.inputs) + len(added)
        added.append((above, tensor))
        inner = self.data.setdefault(body, [])
        name = f"captured_{len(inner)}"
        while name in self._taken[body]:
            name += "_"
        inner.append(AddedData(name, position, tensor))
        return f"{name}:0"
