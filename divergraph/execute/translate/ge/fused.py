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

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.table import (
    ROWS,
    alike,
    four_axes,
    layout,
    output_layout,
    output_shape,
    to_layout,
)
from divergraph.execute.translate.piece import Expr, Outputs, Piece
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


# Kernels fused of elementwise ops alone: ``te_fused_op_abs_mul_mul_add_`` and two hashes.
#
# The name has the ops in the order in which they run, and the kernel's inputs are those that its
# ops take from outside, in the same order. So each op takes the next ones of these inputs, or
# results of ops before it that nobody has taken yet; the last result is the kernel's. What is left
# open by that are few ways, and each is a reading of the op.


STEPS = "_fused_steps"
"""The attribute that lists the ops of a kernel with their operands: ``Mul 1 r0`` multiplies input 1
by the first result."""
_MOST = 64
"""Ways to read a kernel beyond which its name tells too little."""
_UNARY = {
    **{kind: kind for kind in ("Abs", "Neg", "Sqrt", "Reciprocal", "Sign", "Floor", "Ceil")},
    **{kind: kind for kind in ("Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "Exp", "Log")},
    **{kind: kind for kind in ("Sin", "Cos", "Erf")},
    **dict.fromkeys(("Square", "Rsqrt", "Relu6", "Cast"), ""),
}
_BINARY = {
    **{kind: kind for kind in ("Add", "Sub", "Mul", "Div", "Pow")},
    "AddV2": "Add",
    "RealDiv": "Div",
    "Maximum": "Max",
    "Minimum": "Min",
    "SquaredDifference": "",
}
_EITHER_WAY = frozenset(("Add", "AddV2", "Mul", "Maximum", "Minimum", "SquaredDifference"))
ELEMENTWISE = frozenset((*_UNARY, *_BINARY))
"""The ops whose chains are read."""


def orders(kinds: Sequence[str], inputs: int) -> tuple[tuple[str, ...], ...]:
    """The ways in which ops of these *kinds* can take so many *inputs*, as lists of steps.

    Raises:
        NotTranslatedError: there are none, or too many.
    """
    all_orders: list[tuple[str, ...]] = []
    for order in _step_orders(tuple(kinds), 0, inputs, 0, ()):
        all_orders.append(order)
        if len(all_orders) > _MOST:
            break
    if not 0 < len(all_orders) <= _MOST:
        raise NotTranslatedError(f"fused of {', '.join(kinds)} in ways its graph does not tell")
    return tuple(all_orders)


def _step_orders(
    kinds: tuple[str, ...],
    used_inputs: int,
    inputs: int,
    results: int,
    free: tuple[str, ...],
) -> Iterator[tuple[str, ...]]:
    """Steps of the rest of *kinds*, after *used_inputs* of *inputs* and with *results* results
    of which *free* ones have not been read."""
    if not kinds:
        if used_inputs == inputs and len(free) == 1:
            yield ()
        return
    kind, *rest = kinds
    for operands in _operands(kind, used_inputs, inputs, free):
        used = sum(operand.isdecimal() for operand in operands)
        unused = tuple(result_name for result_name in free if result_name not in operands)
        result = f"r{results}"
        for following in _step_orders(
            tuple(rest), used_inputs + used, inputs, results + 1, (*unused, result)
        ):
            yield (" ".join((kind, *operands)), *following)


def _operands(
    kind: str, used_inputs: int, inputs: int, free: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    fresh = [str(at) for at in range(used_inputs, min(used_inputs + 2, inputs))]
    if kind in _UNARY:
        yield from ((result_name,) for result_name in (*fresh[:1], *free))
        return
    pairs = [(one, other) for one in (*fresh[:1], *free) for other in (*fresh[:1], *free)]
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    if kind in _EITHER_WAY:
        pairs = [pair for pair in pairs if pair[0] < pair[1]]
    yield from pairs
    if len(fresh) == 2:
        yield fresh[0], fresh[1]


@ROWS.row(FUSED, source="CANN TBE: kernels are named after the ops they are fused of")
def _fused(piece: Piece) -> Outputs:
    steps = piece.op.attrs.get(STEPS)
    if not isinstance(steps, tuple):
        raise NotTranslatedError("a fused kernel whose ops are not known")
    inputs = alike(piece, *range(len(piece)))
    results: list[Expr] = []
    for step in steps:
        kind, *operands = str(step).split()
        names = [results[int(o[1:])] if o.startswith("r") else inputs[int(o)] for o in operands]
        results.append(_step(piece, kind, names))
    return [results[-1]]


def _step(piece: Piece, kind: str, names: Sequence[Expr]) -> Expr:
    same = _UNARY.get(kind) or _BINARY.get(kind)
    if same:
        return piece.add(same, *names)
    if kind == "Square":
        return names[0] * names[0]
    if kind == "SquaredDifference":
        difference = piece.add("Sub", *names)
        return difference * difference
    if kind == "Rsqrt":
        return names[0].sqrt().reciprocal()
    if kind == "Relu6":
        return piece.add("Clip", names[0], 0.0, 6)
    return names[0]  # a cast within a kernel changes the rounding, which is the device's arithmetic


# Activations and residual sums that were fused into the op before them.


TAIL = "_fused_tail"
"""The attribute that names what a fused op ends with, in its order: activations, those with a slope
as ``LeakyRelu 0.1``, and steps with a second operand as ``Add 3``, which is input 3."""

_SAID = {1: "Relu", "relu": "Relu", "Relu": "Relu", "Relu6": "Relu6", "relu6": "Relu6"}
_ACTIVATION = re.compile(r"(relu6|relu|sigmoid|tanh)[_0-9]*$", re.IGNORECASE)
_SIX = (np.array(0.0, np.float32), np.array(6.0, np.float32))
_OTHER = re.compile(r"(leaky_?|[lpcs])relu|hard_?(sigmoid|tanh)|atanh", re.IGNORECASE)
"""What ends like an activation and is another."""
_ADDED = re.compile(
    r"(bias_?add|add|bias|read|readvariableop|input_sizes|bn|scale|batch_?norm\w*)[_0-9]*$",
    re.IGNORECASE,
)
_KINDS = {"relu": "Relu", "relu6": "Relu6", "sigmoid": "Sigmoid", "tanh": "Tanh"}


def said_tail(op: Op) -> tuple[str, ...] | None:
    """The activation an op says that it has; None if it says nothing of any."""
    for name in ("fused_activation", "activation", "relu_flag", "_fused_activation"):
        value = op.attrs.get(name)
        if value in _SAID and not isinstance(value, tuple):
            return (_SAID[value],)
    return None


def activations(names: tuple[str, ...]) -> tuple[str, ...]:
    """The activations among originals of these *names*."""
    last = [name.rpartition("/")[2] for name in names]
    matches = (_ACTIVATION.search(name) for name in last if not _OTHER.search(name))
    return tuple(_KINDS[match[1].lower()] for match in matches if match)


def tail_of_names(names: tuple[str, ...]) -> tuple[str, ...] | None:
    """The activations of the originals of these names, in order; None if a name tells nothing.

    The first original computes; the others add their bias, are folded into the weights, or are
    activations: frameworks name ops after their types.
    """
    kinds: list[str] = []
    unknown = 0
    for name in names:
        last = name.rpartition("/")[2]
        if _OTHER.search(last):
            return None
        if match := _ACTIVATION.search(last):
            kinds.append(_KINDS[match[1].lower()])
        elif not _ADDED.search(last) and not _ADDED.match(re.sub(r"_.*", "", last)):
            unknown += 1
    return tuple(kinds) if unknown <= 1 else None


def with_tail(piece: Piece, tensor: Expr, order: str = "") -> Expr:
    """*tensor* after what the op was fused with; its axes are in this *order*, "" if they have no
    names.

    Raises:
        NotTranslatedError: what else was fused is not known.
    """
    chain = piece.op.attrs.get(TAIL, ())
    if not isinstance(chain, tuple):
        raise NotTranslatedError(f"{piece.op.type} fused with what its graph does not say")
    for kind in chain:
        name, _, slope = str(kind).partition(" ")
        if name in OPERAND_OF:
            tensor = piece.add(name, tensor, _operand(piece, int(slope), order))
        elif name == "Relu6":
            tensor = piece.add("Clip", tensor, *_SIX)
        elif slope:
            tensor = piece.add(name, tensor, alpha=float(slope))
        else:
            tensor = piece.add(name, tensor)
    return tensor


def _operand(piece: Piece, at: int, wanted: str) -> Expr:
    """Input *at* in the *wanted* layout; of a larger one, every so many rows and columns."""
    value = piece.name(at)
    if len(wanted) != piece.rank(at):
        return value
    here = four_axes(layout(piece, at), four_axes(output_layout(piece), wanted))
    sizes = dict(zip(here, piece.shape(at), strict=True))
    out = dict(zip(four_axes(output_layout(piece), wanted), output_shape(piece), strict=True))
    steps = [-(-sizes[axis] // out[axis]) for axis in "HW"]
    value = to_layout(piece, value, here, wanted)
    if steps == [1, 1]:
        return value
    places = [wanted.index(axis) for axis in "HW"]
    ends = piece.ints(0, 0), piece.ints(sizes["H"], sizes["W"])
    return piece.add("Slice", value, *ends, piece.ints(*places), piece.ints(*steps))
