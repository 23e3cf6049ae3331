"""Look up golden ops and tensors by the names a device graph uses for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from graphstore.model import GraphKind, ModelGraph, Op, Reason, TensorMatch, TensorRef
from importers.dumps.arrays.golden_names import coarse
from importers.nesting import inlined_names


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Why a device tensor has no golden counterpart; ``detail`` gives the names involved."""

    reason: Reason
    detail: str = ""


Counterpart: TypeAlias = TensorMatch | Unmatched
"""The golden tensor a device tensor should equal, or why there is none."""
Outputs: TypeAlias = Mapping[TensorRef, Counterpart]


def _unique(pairs: Iterable[tuple[str, Op]]) -> dict[str, Op]:
    """The first op of each key; keys that fit several ops are left out."""
    ops: dict[str, Op] = {}
    doubles: set[str] = set()
    for key, op in pairs:
        if ops.setdefault(key, op) is not op:
            doubles.add(key)
    return {key: op for key, op in ops.items() if key not in doubles}


@dataclass(frozen=True)
class GoldenTensors:
    """Golden ops by name and tensors by origin; built once per golden graph."""

    graph: ModelGraph
    by_name: dict[str, Op]
    by_mapped_name: dict[str, Op]
    by_tensor_name: dict[str, TensorRef]
    by_origin: dict[tuple[str, int], TensorRef]

    @classmethod
    def of(cls, graph: ModelGraph) -> GoldenTensors:
        """The index of *graph*; ops of the root graph take precedence over ops of the same name in
        a body."""
        root_first = sorted(graph.ops, key=lambda op: op.subgraph != "")
        by_name: dict[str, Op] = {}
        inlined = inlined_names(graph)
        for op in root_first:
            by_name.setdefault(inlined.get(op.id, op.name), op)
        for op in root_first:
            by_name.setdefault(op.name, op)
        tensors: dict[str, TensorRef] = {}
        origins: dict[tuple[str, int], TensorRef] = {}
        for op in root_first:
            for ref, tensor in zip(op.makes, op.outputs, strict=True):
                if tensor.name:
                    tensors.setdefault(tensor.name, ref)
                if graph.kind is GraphKind.DEVICE:
                    name, origin_port = op.name, ref.port
                    if tensor.origin is not None and tensor.origin.op:
                        name, origin_port = tensor.origin.op, tensor.origin.port
                    origins.setdefault((name, origin_port), ref)
        mapped = _unique((coarse(inlined.get(op.id, op.name)), op) for op in graph.ops)
        return cls(graph, by_name, mapped, tensors, origins)

    def op(self, name: str) -> Op | None:
        """The golden op a device graph calls *name*; also by its mapped (lossy) form."""
        return self.by_name.get(name) or self.by_mapped_name.get(coarse(name))

    def tensor(self, name: str, port: int) -> TensorRef | None:
        """The golden tensor a device graph calls output *port* of *name*."""
        if self.graph.kind is GraphKind.DEVICE:
            return self.by_origin.get((name, port))
        op = self.op(name)
        return None if op is None else TensorRef(op.id, port)
