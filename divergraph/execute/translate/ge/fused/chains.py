"""What the kernel of a fused op computes, by the name its compiler gave it.

A kernel made of several ops is called ``te_fused_op_conv2d_eltwise_leaky_relu_`` and two hashes:
the types of its ops, in the order in which they run. The first that multiplies is the op itself;
what comes behind goes on with its output, and where it takes a second operand (``eltwise``), that
is one of the last inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product

from divergraph.execute.translate.ge.table import ROWS
from graphstore.model import Op

_KERNEL = re.compile(r"te_fused_op_([a-z0-9_]+?)_[0-9a-f]{16}_")
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])")
_VERSION = re.compile(r"V\d+$")

LEAKING = tuple(f"LeakyRelu {slope}" for slope in ("0.01", "0.1", "0.2"))
"""Caffe's ReLU may leak, whatever it is named; fusion keeps no slope."""
_ALONE: Mapping[str, Sequence[str]] = {
    **{kind: (kind,) for kind in ("Relu", "Relu6", "Sigmoid", "Tanh")},
    "LeakyRelu": ("Relu", *LEAKING),
}
_WITH_OPERAND: Mapping[str, Sequence[str]] = {
    "Eltwise": ("Add", "Mul", "Max"),
    **{kind: (kind,) for kind in ("Add", "Mul", "Sub")},
    "AddV2": ("Add",),
    "Maximum": ("Max",),
    "Minimum": ("Min",),
}
OPERAND_OF = frozenset(kind for kinds in _WITH_OPERAND.values() for kind in kinds)
"""The steps of a tail that take a second operand, as ``Add 3``: input 3."""
SELECTING = "ReadSelect"
FUSED = "te_fused_op"
"""The type of a kernel fused of elementwise ops, which has no one op that computes."""


def kernel_types(op: Op) -> tuple[str, ...] | None:
    """The types of the ops in the op's kernel; None if its name does not tell."""
    for name, value in op.attrs.items():
        match = _KERNEL.match(str(value)) if name.endswith("kernelname") else None
        if match:
            return _split(tuple(match[1].split("_")))
    return None


@cache
def _types_by_words() -> Mapping[tuple[str, ...], str]:
    types_by_words: dict[tuple[str, ...], str] = {}
    for kind in ROWS:
        for name in (kind, _VERSION.sub("", kind)):
            types_by_words.setdefault(tuple(_HUMPS.sub("_", name).lower().split("_")), kind)
    return types_by_words


def _split(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """*words* as names of op types, the longest that fit first."""
    if not words:
        return ()
    for end in range(len(words), 0, -1):
        kind = _types_by_words().get(words[:end])
        rest = None if kind is None else _split(words[end:])
        if kind is not None and rest is not None:
            return (kind, *rest)
    return None


def inputs_order(op: Op) -> tuple[int, ...]:
    """The op's inputs, those of the op that multiplies first: a kernel may begin with the reading
    of what it adds at its end."""
    places = range(len(op.inputs))
    if op.type != SELECTING or len(op.inputs) == 1:
        return tuple(places)
    return (*places[1:], 0)


def computing_type(op: Op, elementwise: frozenset[str]) -> str:
    """The type of the op in a fused kernel that multiplies; :data:`FUSED` if all go element by
    element."""
    types = kernel_types(op) or ()
    if len(types) > 1 and op.is_fused and elementwise.issuperset(types):
        return FUSED
    if op.type != SELECTING or len(op.inputs) == 1:
        return op.type
    return next((kind for kind in types if kind != SELECTING), op.type)


def tails_of(types: Sequence[str], inputs: Sequence[object]) -> Iterator[tuple[str, ...]] | None:
    """What may come behind the op itself in a kernel of these *types*, which reads *inputs*; None
    if that cannot be told. Slopes and the kind of an ``eltwise`` are not in the name."""
    tail = [kind for kind in types if kind != SELECTING][1:]
    connected = [at for at, operand in enumerate(inputs) if operand is not None]
    operands = sum(kind in _WITH_OPERAND for kind in tail)
    places = iter(connected[len(connected) - operands :])
    if not 2 <= len(connected) - operands <= 3:
        return None
    steps: list[Sequence[str]] = []
    for kind in tail:
        if kind in _WITH_OPERAND:
            at = next(places)
            steps.append([f"{name} {at}" for name in _WITH_OPERAND[kind]])
        elif kind in _ALONE:
            steps.append(_ALONE[kind])
        else:
            return None
    return product(*steps)


def residual_tails(activations: Sequence[str], at: int) -> Iterator[tuple[str, ...]]:
    """Tails with these *activations* in order and input *at* added somewhere."""
    for place in range(len(activations) + 1):
        yield (*activations[:place], f"Add {at}", *activations[place:])
