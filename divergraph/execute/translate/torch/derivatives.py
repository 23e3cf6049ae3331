"""The derivatives of ONNX nodes: the gradients by their inputs, of that by their output.

What moves elements and changes none needs no derivative of its own: the same node, applied to the
numbers of the elements, says where each came from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from divergraph.execute.translate.torch.derivatives_of_convolutions import (
    of_convolution,
    of_transposed,
)
from divergraph.execute.translate.torch.slopes import SLOPES, attribute

if TYPE_CHECKING:
    from onnx import NodeProto

    from divergraph.execute.translate.torch.reverse import Reverse

_Rule: TypeAlias = "Callable[[Reverse, NodeProto, str], dict[int, str]]"
"""The gradients by a node's inputs, of that by its output; of those that spread, in its shape."""


def gradients_of(
    back: Reverse, node: NodeProto, incoming: Mapping[str, str], places: Sequence[int]
) -> dict[int, str]:
    """The gradients by the inputs of *node* at these *places*."""
    kind, output = node.op_type, node.output[0]
    if kind in _FLAT:
        return {}
    if kind == "Split":  # of several outputs, of which some may lead nowhere
        parts = [incoming.get(name) or back.zeros(name) for name in node.output]
        return {0: back.add("Concat", *parts, axis=_axis(node))}
    if kind in _MOVING:
        return {at: _moved(back, node, incoming, at) for at in places}
    gradient = incoming.get(output)
    if gradient is None or (kind not in _RULES and kind not in SLOPES):
        raise back.call.refused(f"has no way back: {kind}")
    if kind in SLOPES:
        slope = SLOPES[kind](back, node, node.input[0], output)
        return {0: back.add("Mul", gradient, slope)}
    result = _RULES[kind](back, node, gradient)
    shape = back.shape(output)
    return {
        at: back.summed(result[at], shape, node.input[at]) if kind in _SPREADING else result[at]
        for at in places
        if at in result
    }


def _sub(back: Reverse, _node: NodeProto, gradient: str) -> dict[int, str]:
    return {0: gradient, 1: back.add("Neg", gradient)}


def _mul(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    one, other = node.input
    return {0: back.add("Mul", gradient, other), 1: back.add("Mul", gradient, one)}


def _div(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    by_one = back.add("Div", gradient, node.input[1])
    return {0: by_one, 1: back.add("Neg", back.add("Mul", by_one, node.output[0]))}


def _pow(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    base, exponent = node.input
    lowered = back.add("Sub", exponent, back.number(1.0, exponent))
    slope = back.add("Mul", exponent, back.add("Pow", base, lowered))
    by_exponent = back.add("Mul", node.output[0], back.add("Log", base))
    return {0: back.add("Mul", gradient, slope), 1: back.add("Mul", gradient, by_exponent)}


def _extreme(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    """What is equal shares alike; to a limit, which is a constant, all passes."""
    if len(node.input) != 2:
        raise back.call.refused(f"has no way back: {node.op_type} of {len(node.input)}")
    one, other = node.input
    beyond, result = "Greater" if node.op_type == "Max" else "Less", {}
    is_limit = any(name in back.piece.constants for name in node.input)
    equal = back.typed(back.add("Equal", one, other), one)
    shared = back.add("Mul", equal, back.number(1.0 if is_limit else 0.5, one))
    for at, pair in enumerate(((one, other), (other, one))):
        share = back.add("Add", back.typed(back.add(beyond, *pair), one), shared)
        result[at] = back.add("Mul", gradient, share)
    return result


def _clip(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    """What lies on a limit does not pass."""
    value, *limits = node.input
    for kind, limit in zip(("Greater", "Less"), limits, strict=False):
        if limit:
            inside = back.typed(back.add(kind, value, limit), value)
            gradient = back.add("Mul", gradient, inside)
    return {0: gradient}


def _prelu(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    x, slope = node.input
    above, zero = back.add("Greater", x, back.number(0.0, x)), back.number(0.0, x)
    by_value = back.add("Where", above, gradient, back.add("Mul", gradient, slope))
    return {0: by_value, 1: back.add("Where", above, zero, back.add("Mul", gradient, x))}


def _matmul(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    (one, other), shapes = node.input, [back.shape(name) for name in node.input]
    if min(map(len, shapes)) < 2:
        letters = "ij"[: len(shapes[0])], "jk"[: len(shapes[1])]
        letters = ("j" if len(shapes[0]) == 1 else letters[0], letters[1])
        if max(map(len, shapes)) > 2:
            raise back.call.refused("has no way back: a vector times matrices")
        made = "".join(each for each in "ik" if each in "".join(letters))
        return _contracted(back, letters, made, (one, other), gradient)
    turned = [
        back.piece.transpose(name, *range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        for name, shape in zip((one, other), shapes, strict=True)
    ]
    by_one = back.add("MatMul", gradient, turned[1])
    wide = back.shape(node.output[0])[:-2]
    by_one = back.summed(by_one, (*wide, *shapes[0][-2:]), one)
    if len(shapes[1]) == 2:  # all rows of the batch at once: no matrix for each of its elements
        rows = back.piece.reshape(one, (-1, shapes[0][-1]))
        came = back.piece.reshape(gradient, (-1, shapes[1][-1]))
        return {0: by_one, 1: back.add("MatMul", back.piece.transpose(rows, 1, 0), came)}
    by_other = back.add("MatMul", turned[0], gradient)
    return {0: by_one, 1: back.summed(by_other, (*wide, *shapes[1][-2:]), other)}


def _einsum(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    equation = attribute(node, "equation", b"").decode().replace(" ", "")
    read, _, made = equation.partition("->")
    letters = read.split(",")
    if "." in equation or "->" not in equation or any(len(set(x)) < len(x) for x in letters):
        raise back.call.refused(f"has no way back: {equation}")
    return _contracted(back, letters, made, node.input, gradient)


def _contracted(
    back: Reverse, letters: Sequence[str], made: str, names: Sequence[str], gradient: str
) -> dict[int, str]:
    """The gradients of a sum of products: sums of products of the others. What was added up by
    itself has the same gradient everywhere."""
    result = {}
    for at, own in enumerate(letters):
        others = [n for n in range(len(letters)) if n != at]
        reached = "".join((made, *(letters[n] for n in others)))
        there = "".join(each for each in own if each in reached)
        equation = f"{','.join((made, *(letters[n] for n in others)))}->{there}"
        operands = (gradient, *(names[n] for n in others))
        by_own = back.add("Einsum", *operands, equation=equation)
        shape = back.shape(names[at])
        kept = [size if each in there else 1 for each, size in zip(own, shape, strict=True)]
        spread = back.piece.reshape(by_own, kept)
        result[at] = back.add("Expand", spread, back.piece.ints(*shape))
    return result


def _softmax(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    made, axes = node.output[0], back.piece.ints(int(attribute(node, "axis", -1)))
    if node.op_type == "LogSoftmax":
        total = back.add("ReduceSum", gradient, axes, keepdims=1)
        return {0: back.add("Sub", gradient, back.add("Mul", back.add("Exp", made), total))}
    total = back.add("ReduceSum", back.add("Mul", gradient, made), axes, keepdims=1)
    return {0: back.add("Mul", made, back.add("Sub", gradient, total))}


def _reduced(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    value, kind = node.input[0], node.op_type.removeprefix("Reduce")
    came, made = back.kept(node, gradient), back.kept(node, node.output[0])
    if kind == "Mean":
        count = math.prod(back.shape(value)[axis] for axis in back.all_axes_of(node))
        came = back.add("Div", came, back.number(max(count, 1), value))
    if kind in ("Sum", "Mean"):
        return {0: back.add("Expand", came, back.piece.ints(*back.shape(value)))}
    if kind in ("Max", "Min"):  # equal ones share it
        equal = back.typed(back.add("Equal", value, made), value)
        axes = back.piece.ints(*back.all_axes_of(node))
        slope = back.add("Div", equal, back.add("ReduceSum", equal, axes, keepdims=1))
    elif kind == "L1":
        slope = back.add("Sign", value)
    elif kind == "L2":  # that of 0 is 0
        nothing, zero = back.add("Equal", made, back.number(0.0, value)), back.number(0.0, value)
        slope = back.add("Where", nothing, zero, back.add("Div", value, made))
    elif kind == "LogSumExp":
        slope = back.add("Exp", back.add("Sub", value, made))
    else:
        slope = back.add("Div", made, value)  # a product
    return {0: back.add("Mul", came, slope)}


def _cumsum(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    exclusive, turned = attribute(node, "exclusive", 0), 1 - attribute(node, "reverse", 0)
    result = back.add("CumSum", gradient, node.input[1], exclusive=exclusive, reverse=turned)
    return {0: result}


def _reshaped(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    return {0: back.piece.reshape(gradient, back.shape(node.input[0]))}


def _concat(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    axis, begin, result = _axis(node), 0, {}
    for at, name in enumerate(node.input):
        end = begin + back.shape(name)[axis]
        ends = (back.piece.ints(place) for place in (begin, end, axis))
        result[at], begin = back.add("Slice", gradient, *ends), end
    return result


def _gathered(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    """What was taken several times adds up."""
    value, index = node.input
    if node.op_type == "GatherElements":
        axis = _axis(node)
        return {
            0: back.add("ScatterElements", back.zeros(value), index, gradient, axis=axis, **_ADDED)
        }
    if node.op_type == "Gather":
        if _axis(node) not in (0, -len(back.shape(value))):
            return {0: _moved(back, node, {node.output[0]: gradient}, 0)}
        index = back.add("Unsqueeze", index, back.piece.ints(-1))
    wide = back.piece.cast(back.zeros(value), np.float64)
    gradient = back.piece.cast(gradient, np.float64)
    return {0: back.typed(back.add("ScatterND", wide, index, gradient, **_ADDED), value)}


def _largest(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    """Each number of the gradient goes to the place of the largest, which windows may share."""
    value, flat = node.input[0], back.piece.ints(-1)
    places = back.add("Reshape", node.output[1], flat)
    gradient = back.piece.cast(back.add("Reshape", gradient, flat), np.float64)
    size = back.piece.ints(math.prod(back.shape(value)))
    nothing = back.add("Expand", np.array(0.0), size)
    total = back.add("ScatterElements", nothing, places, gradient, axis=0, **_ADDED)
    return {0: back.typed(back.piece.reshape(total, back.shape(value)), value)}


def _axis(node: NodeProto) -> int:
    return int(attribute(node, "axis", 0))


_ADDED = {"reduction": "add"}
_RULES: Mapping[str, _Rule] = {
    "Identity": lambda _back, _node, gradient: {0: gradient},
    "Cast": lambda back, node, gradient: {0: back.typed(gradient, node.input[0])},
    "Add": lambda _back, _node, gradient: {0: gradient, 1: gradient},
    "Sum": lambda _back, node, gradient: dict.fromkeys(range(len(node.input)), gradient),
    "Sub": _sub,
    "Mul": _mul,
    "Div": _div,
    "Pow": _pow,
    "Clip": _clip,
    "Max": _extreme,
    "Min": _extreme,
    "PRelu": _prelu,
    "MatMul": _matmul,
    "Einsum": _einsum,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    **dict.fromkeys(
        (
            f"Reduce{each}"
            for each in ("Sum", "Mean", "Max", "Min", "L1", "L2", "LogSumExp", "Prod")
        ),
        _reduced,
    ),
    "CumSum": _cumsum,
    **dict.fromkeys(("Gather", "GatherElements", "GatherND"), _gathered),
    "MaxPool": _largest,
    "Conv": of_convolution,
    "ConvTranspose": of_transposed,
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze", "Flatten"), _reshaped),
    "Expand": lambda _back, _node, gradient: {0: gradient},
    "Concat": _concat,
    "Transpose": lambda back, node, gradient: {
        0: back.piece.transpose(gradient, *map(int, np.argsort(attribute(node, "perm", 0))))
    },
}
_SPREADING = frozenset(("Add", "Sum", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu", "Expand"))
_FLAT = frozenset(
    ("Floor", "Ceil", "Round", "Sign", "Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual")
)
"""What has no slope anywhere, or none at all."""
_MOVING: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("Slice", "Tile", "Pad", "Trilu", "DepthToSpace"), (0,)),
    **dict.fromkeys(("ScatterElements", "ScatterND"), (0, 2)),
    "Where": (1, 2),
}  # fmt: skip
"""What only moves elements, and which of its inputs have them."""


def _moved(back: Reverse, node: NodeProto, incoming: Mapping[str, str], at: int) -> str:
    """The gradient by input *at* of what moves elements: the same node moves their numbers, from 1
    on, and 0 for what comes from elsewhere."""
    wide, piece, shape = np.dtype(np.float64), back.piece, back.shape(node.input[at])
    if attribute(node, "reduction", b"none") != b"none":
        return _added(back, node, incoming[node.output[0]], at)
    size = math.prod(shape)
    ends = (piece.const(np.array(end, wide)) for end in (1.0, size + 1.0, 1.0))
    inputs: list[str | None] = list(node.input)
    for place in _MOVING.get(node.op_type, (at,)):
        if place != at:
            nothing = piece.ints(*back.shape(node.input[place]))
            inputs[place] = piece.add("Expand", np.array(0.0, wide), nothing)
    inputs[at] = piece.reshape(piece.add("Range", *ends), shape)
    if node.op_type == "Pad" and len(inputs) > 2:
        inputs[2] = None
    numbered = piece.add_many(node.op_type, len(node.output), *inputs)
    piece.nodes[-1].attribute.extend(node.attribute)
    flat = piece.ints(-1)
    total: str = piece.const(np.zeros(size + 1, wide))
    for name, numbers in zip(node.output, numbered, strict=True):
        if name in incoming:
            gradient = piece.cast(piece.add("Reshape", incoming[name], flat), wide)
            index = piece.cast(piece.add("Reshape", numbers, flat), np.int64)
            total = piece.add("ScatterElements", total, index, gradient, axis=0, reduction="add")
    kept = piece.add("Slice", total, piece.ints(1), piece.ints(size + 1))
    return back.typed(piece.reshape(kept, shape), node.input[at])


def _added(back: Reverse, node: NodeProto, gradient: str, at: int) -> str:
    """The gradient of what is added to elements: that of the data passes."""
    if attribute(node, "reduction", b"") != b"add":
        raise back.call.refused(f"has no way back: {node.op_type} that does not add")
    if at == 0:
        return gradient
    if node.op_type == "ScatterND":
        return back.add("GatherND", gradient, node.input[1])
    return back.add("GatherElements", gradient, node.input[1], axis=_axis(node))
