"""TensorFlow's variables and the ops that change them, by op type.

There are two kinds: a resource is known by its handle and copied when it is read; one of the old
kind hands on a reference to its own memory.
"""

from __future__ import annotations

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
