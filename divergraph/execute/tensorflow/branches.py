"""Branches of the old TensorFlow kind: what decides whether an op without inputs runs.

``Switch`` gives a value on one of two sides, and ops run that take it. Constants of a branch take
nothing: control inputs put them there, and a ``Merge`` goes wrong if both sides have a value.
"""

from __future__ import annotations

from graphstore.model import Framework, InputRef, ModelGraph, Op, TensorRef

SWITCHES = frozenset(("Switch", "RefSwitch"))
MERGES = frozenset(("Merge", "RefMerge"))
_Side = tuple[str, int]
"""The op that decides, and whether it has to be true."""


def in_branches(graph: ModelGraph) -> dict[str, InputRef]:
    """By op without inputs that belongs to a branch, a tensor that only exists if it is taken."""
    if graph.framework is not Framework.TENSORFLOW:
        return {}
    return _Branches(graph).found()


class _Branches:
    def __init__(self, graph: ModelGraph) -> None:
        self._ops = graph.op_index()
        self._tensors: dict[_Side, InputRef] = {}
        for op in graph.ops:
            side = self._side(op.source()) if op.type == "Identity" else None
            if side is not None:
                self._tensors.setdefault(side, InputRef(op.outputs[0].name, op.makes[0]))

    def found(self) -> dict[str, InputRef]:
        side_inputs: dict[str, InputRef] = {}
        for op in self._ops.values() if self._tensors else ():
            side = self._around(op) if op.control_inputs and not op.inputs else None
            if side in self._tensors:
                side_inputs[op.id] = self._tensors[side]
        return side_inputs

    def _around(self, op: Op) -> _Side | None:
        """The innermost branch *op* is in."""
        seen: set[str] = set()
        waiting = list(op.control_inputs)
        while waiting:
            before = self._ops.get(waiting.pop())
            if before is None or before.id in seen or before.type in MERGES:
                continue
            seen.add(before.id)
            for ref in before.takes:
                if side := self._side(ref):
                    return side
                waiting.append(ref.op)
            waiting += before.control_inputs
        return None

    def _side(self, ref: TensorRef | None) -> _Side | None:
        """The side of a Switch (of no loop) that *ref* is."""
        if ref is None or self._ops[ref.op].type not in SWITCHES:
            return None
        by = self._ops[ref.op].source(1)
        while by is not None:
            decides = self._ops[by.op]
            if decides.type != "Identity":
                return None if decides.type == "LoopCond" else (decides.id, ref.port)
            by = decides.source()
        return None


# TensorFlow's variables and the ops that change them, by op type.
#
# There are two kinds: a resource is known by its handle and copied when it is read; one of the old
# kind hands on a reference to its own memory.


HANDLES = frozenset({"VarHandleOp"})
VARIABLES = HANDLES | {"Variable", "VariableV2"}
READS = "ReadVariableOp"
"""What copies the value of a resource."""

_RESOURCE_WRITERS = (
    *("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter"),
    *("ResourceStridedSliceAssign", "ResourceCountUpTo"),
)
_OLD_WRITERS = (
    *("Assign", "Apply", "SparseApply", "StridedSliceAssign", "CountUpTo"),
    *("ScatterAdd", "ScatterSub", "ScatterUpdate", "ScatterMul", "ScatterDiv", "ScatterMin"),
    *("ScatterMax", "ScatterNdUpdate", "ScatterNdAdd", "ScatterNdSub"),
)


def changes_resource(kind: str) -> bool:
    """Whether ops of a type change what a handle among their inputs stands for."""
    return kind.startswith(_RESOURCE_WRITERS)


def changes_variable(kind: str) -> bool:
    """Whether ops of a type change variables of either kind among their inputs."""
    return kind.startswith((*_RESOURCE_WRITERS, *_OLD_WRITERS))
