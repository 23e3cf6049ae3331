"""A call of a rank beside golden's: which input is which, and golden's arguments for it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from graphstore.model import AttrValue, InputRef, Op
from importers.msprobe.graph import ARGUMENTS, UNRECORDED


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
