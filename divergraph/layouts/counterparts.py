"""A call of a rank beside golden's: which input is which, and golden's arguments for it."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from graphstore.model import AttrValue, DType, DumpTensorRef, InputRef, Op, TensorIO, TensorProduct
from importers.dumps.index import DumpIndex, TensorKey
from importers.msprobe.graph import ARGUMENTS, UNRECORDED

_LINEAR = "linear"


def same_place(op: Op, port: int, twin: Op) -> int | None:
    """The input of *twin* that has the same argument as input *port* of *op*."""
    own = op.inputs[port]
    if own is not None and own.tensor.startswith(f"{op.name}."):
        suffix = own.tensor.removeprefix(op.name)
        for place, ref in enumerate(twin.inputs):
            if ref is not None and ref.tensor == twin.name + suffix:
                return place
    return port if port < len(twin.inputs) else None


def golden_arguments(op: Op, twin: Op) -> dict[str, AttrValue]:
    """The attributes of *op* with golden's arguments, but for numbers that are lengths: those are
    of the rank's part."""
    if op.attrs.get(ARGUMENTS) != twin.attrs.get(ARGUMENTS):
        return dict(op.attrs)  # called otherwise, as with a mask where golden says is_causal
    kept = {ARGUMENTS, UNRECORDED, "stack", "inside", "micro_step"}
    attrs = {key: value for key, value in op.attrs.items() if key in kept or not _is_argument(key)}
    for key, value in twin.attrs.items():
        if _is_argument(key):
            lengths = isinstance(value, int | tuple) and not isinstance(value, bool)
            attrs[key] = op.attrs.get(key, value) if lengths else value
    return attrs


def _is_argument(key: str) -> bool:
    return key.startswith("input.")


def addend_of(
    op: Op, tensors: Mapping[TensorKey, DumpTensorRef], own: DumpIndex
) -> DumpTensorRef | None:
    """Golden's addend, where the call *op* of a rank is a product of parts whose inner axis is cut:
    the product of golden's *tensors* for what it reads. None of other calls."""
    output = own.tensors.get((op.id, TensorIO.OUTPUT, 0))
    left, right = (tensors.get((op.id, TensorIO.INPUT, port)) for port in (0, 1))
    if op.type != _LINEAR or output is None or (op.id, TensorIO.INPUT, 2) in own.tensors:
        return None
    if left is None or right is None or left.statistics or right.statistics:
        return None
    derived = TensorProduct(left, right)
    return replace(left, shape=output.shape, dtype=DType.FLOAT32, derived=derived)


def without(ops: Sequence[Op], extra: Container[str]) -> list[Op]:
    """*ops* without the *extra* ones, and edges from these."""
    return [_without(op, extra) for op in ops if op.id not in extra]


def _without(op: Op, extra: Container[str]) -> Op:
    """*op* without edges from *extra* calls."""
    if not any(ref.op in extra for ref in op.takes) and not any(
        before in extra for before in op.control_inputs
    ):
        return op
    inputs = (
        InputRef(ref.tensor) if ref and ref.producer and ref.producer.op in extra else ref
        for ref in op.inputs
    )
    controls = (before for before in op.control_inputs if before not in extra)
    return replace(op, inputs=tuple(inputs), control_inputs=tuple(controls))
