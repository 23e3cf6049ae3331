"""The derivatives of ONNX nodes: the gradients by their inputs, of that by their output.

What moves elements and changes none needs no derivative of its own: the same node, applied to the
numbers of the elements, says where each came from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from divergraph.execute.translate.formulas import where
from divergraph.execute.translate.piece import Expr, Operand
from divergraph.execute.translate.torch.slopes import SLOPES, attribute, typed
from divergraph.execute.translate.windows import SlidingWindows, put_back, seen_by_filters

if TYPE_CHECKING:
    from onnx import NodeProto

    from divergraph.execute.translate.torch.reverse import Reverse

_Rule: TypeAlias = "Callable[[Reverse, NodeProto, Expr], dict[int, Expr]]"
"""The gradients by a node's inputs, of that by its output; of those that spread, in its shape."""


def gradients_of(
    back: Reverse, node: NodeProto, incoming: Mapping[str, Expr], places: Sequence[int]
) -> dict[int, Expr]:
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
        slope = SLOPES[kind](
            back.value(node.input[0]), back.value(output), partial(attribute, node)
        )
        return {0: gradient * slope}
    result = _RULES[kind](back, node, gradient)
    shape = back.shape(output)
    return {
        at: back.summed(result[at], shape, node.input[at]) if kind in _SPREADING else result[at]
        for at in places
        if at in result
    }


def _pow(back: Reverse, node: NodeProto, gradient: Expr) -> dict[int, Expr]:
    base, exponent = back.read(node)
    by_exponent = back.value(node.output[0]) * base.log()
    return {0: gradient * (exponent * base ** (exponent - 1.0)), 1: gradient * by_exponent}


def _div(back: Reverse, node: NodeProto, gradient: Expr) -> dict[int, Expr]:
    by_one = gradient / back.read(node)[1]
    return {0: by_one, 1: -(by_one * back.value(node.output[0]))}


def _extreme(back: Reverse, node: NodeProto, gradient: Expr) -> dict[int, Expr]:
    """What is equal shares alike; to a limit, which is a constant, all passes."""
    if len(node.input) != 2:
        raise back.call.refused(f"has no way back: {node.op_type} of {len(node.input)}")
    one, other = back.read(node)
    beyond = "Greater" if node.op_type == "Max" else "Less"
    is_limit = any(name in back.piece.constants for name in node.input)
    shared = typed(one.equals(other), one) * (1.0 if is_limit else 0.5)
    return {
        at: gradient * (typed(back.add(beyond, *pair), one) + shared)
        for at, pair in enumerate(((one, other), (other, one)))
    }


def _clip(back: Reverse, node: NodeProto, gradient: Expr) -> dict[int, Expr]:
    """What lies on a limit does not pass."""
    value, *limits = back.read(node)
    for kind, limit in zip(("Greater", "Less"), limits, strict=False):
        if limit.name:
            gradient = gradient * typed(back.add(kind, value, limit), value)
    return {0: gradient}


def _prelu(back: Reverse, node: NodeProto, gradient: Expr) -> dict[int, Expr]:
    x, slope = back.read(node)
    above = x > 0.0
    return {0: where(above, gradient, gradient * slope), 1: where(above, 0.0, gradient * x)}


def _matmul(back: Reverse, node: NodeProto, gradient: Expr) -> dict[int, Expr]:
    (one, other), shapes = back.read(node), [back.shape(name) for name in node.input]
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
    by_one = gradient @ turned[1]
    wide = back.shape(node.output[0])[:-2]
    by_one = back.summed(by_one, (*wide, *shapes[0][-2:]), one)
    if len(shapes[1]) == 2:  # all rows of the batch at once: no matrix for each of its elements
        rows = back.piece.reshape(one, (-1, shapes[0][-1]))
        came = back.piece.reshape(gradient, (-1, shapes[1][-1]))
        return {0: by_one, 1: back.piece.transpose(rows, 1, 0) @ came}
    by_other = turned[0] @ gradient
    return {0: by_one, 1: back.summed(by_other, (*wide, *shapes[1][-2:]), other)}


def _einsum(back: Reverse, node: NodeProto, gradient: Expr) -> dict[int, Expr]:
    equation = attribute(node, "equation", b"").decode().replace(" ", "")
    read, _, made = equation.partition("->")
    letters = read.split(",")
    if "." in equation or "->" not in equation or any(len(set(x)) < len(x) for x in letters):
        raise back.call.refused(f"has no way back: {equation}")
    return _contracted(back, letters, made, back.read(node), gradient)


def _contracted(
    back: Reverse, letters: Sequence[str], made: str, values: Sequence[Expr], gradient: Expr
) -> dict[int, Expr]:
    """The gradients of a sum of products: sums of products of the others. What was added up by
    itself has the same gradient everywhere."""
    result = {}
    for at, own in enumerate(letters):
        others = [n for n in range(len(letters)) if n != at]
        reached = "".join((made, *(letters[n] for n in others)))
        there = "".join(each for each in own if each in reached)
        equation = f"{','.join((made, *(letters[n] for n in others)))}->{there}"
        by_own = back.add("Einsum", gradient, *(values[n] for n in others), equation=equation)
        shape = back.shape(values[at])
        kept = [size if each in there else 1 for each, size in zip(own, shape, strict=True)]
        spread = back.piece.reshape(by_own, kept)
        result[at] = back.add("Expand", spread, back.piece.ints(*shape))
    return result


def _softmax(back: Reverse, node: NodeProto, gradient: Expr) -> dict[int, Expr]:
    made, axes = back.value(node.output[0]), back.piece.ints(int(attribute(node, "axis", -1)))
    if node.op_type == "LogSoftmax":
        total = back.add("ReduceSum", gradient, axes, keepdims=1)
        return {0: gradient - made.exp() * total}
    total = back.add("ReduceSum", gradient * made, axes, keepdims=1)
    return {0: made * (gradient - total)}


def _reduced(back: Reverse, node: NodeProto, gradient: Expr) -> dict[int, Expr]:
    value, kind = back.read(node)[0], node.op_type.removeprefix("Reduce")
    came, made = back.kept(node, gradient), back.kept(node, back.value(node.output[0]))
    if kind == "Mean":
        count = math.prod(back.shape(value)[axis] for axis in back.all_axes_of(node))
        came = came / max(count, 1)
    if kind in ("Sum", "Mean"):
        return {0: back.add("Expand", came, back.piece.ints(*back.shape(value)))}
    if kind in ("Max", "Min"):  # equal ones share it
        equal = typed(value.equals(made), value)
        axes = back.piece.ints(*back.all_axes_of(node))
        slope = equal / back.add("ReduceSum", equal, axes, keepdims=1)
    elif kind == "L1":
        slope = value.sign()
    elif kind == "L2":  # that of 0 is 0
        slope = where(made.equals(0.0), 0.0, value / made)
    elif kind == "LogSumExp":
        slope = (value - made).exp()
    else:
        slope = made / value  # a product
    return {0: came * slope}


def _cumsum(back: Reverse, node: NodeProto, gradient: Expr) -> dict[int, Expr]:
    exclusive, turned = attribute(node, "exclusive", 0), 1 - attribute(node, "reverse", 0)
    result = back.add("CumSum", gradient, back.read(node)[1], exclusive=exclusive, reverse=turned)
    return {0: result}


def _reshaped(back: Reverse, node: NodeProto, gradient: Expr) -> dict[int, Expr]:
    return {0: back.piece.reshape(gradient, back.shape(node.input[0]))}


def _concat(back: Reverse, node: NodeProto, gradient: Expr) -> dict[int, Expr]:
    axis, begin, result = _axis(node), 0, {}
    for at, name in enumerate(node.input):
        end = begin + back.shape(name)[axis]
        ends = (back.piece.ints(place) for place in (begin, end, axis))
        result[at], begin = back.add("Slice", gradient, *ends), end
    return result


def _gathered(back: Reverse, node: NodeProto, gradient: Expr) -> dict[int, Expr]:
    """What was taken several times adds up."""
    value, index = back.read(node)
    if node.op_type == "GatherElements":
        operands = back.zeros(value), index, gradient
        return {0: back.add("ScatterElements", *operands, axis=_axis(node), **_ADDED)}
    if node.op_type == "Gather":
        if _axis(node) not in (0, -len(back.shape(value))):
            return {0: _moved(back, node, {node.output[0]: gradient}, 0)}
        index = back.add("Unsqueeze", index, back.piece.ints(-1))
    wide = back.piece.cast(back.zeros(value), np.float64)
    gradient = back.piece.cast(gradient, np.float64)
    return {0: typed(back.add("ScatterND", wide, index, gradient, **_ADDED), value)}


def _largest(back: Reverse, node: NodeProto, gradient: Expr) -> dict[int, Expr]:
    """Each number of the gradient goes to the place of the largest, which windows may share."""
    value, flat = back.read(node)[0], back.piece.ints(-1)
    places = back.add("Reshape", back.value(node.output[1]), flat)
    gradient = back.piece.cast(back.add("Reshape", gradient, flat), np.float64)
    size = back.piece.ints(math.prod(back.shape(value)))
    nothing = back.add("Expand", np.array(0.0), size)
    total = back.add("ScatterElements", nothing, places, gradient, axis=0, **_ADDED)
    return {0: typed(back.piece.reshape(total, back.shape(value)), value)}


def _axis(node: NodeProto) -> int:
    return int(attribute(node, "axis", 0))


# The derivatives of convolutions and of transposed ones, as ONNX defines them.


_BEGIN = 2
"""The first axis behind batch and channels."""


def of_convolution(back: Reverse, node: NodeProto, gradient: Expr) -> dict[int, Expr]:
    """The gradients by image, filters and bias."""
    image, filters = back.read(node)[:2]
    over, groups = (
        _windows(back, node, back.value(node.output[0])),
        int(attribute(node, "group", 1)),
    )
    sizes = back.shape(image)[_BEGIN:]
    by_image = put_back(back.piece, gradient, filters, over, sizes, groups)
    by_filters = _by_filters(back, (image, gradient), over, groups)
    return {0: by_image, 1: by_filters, 2: _by_bias(back, node, gradient)}


def of_transposed(back: Reverse, node: NodeProto, gradient: Expr) -> dict[int, Expr]:
    """As above of a transposed convolution, which goes back as a plain one."""
    image, filters = back.read(node)[:2]
    over, groups = _windows(back, node, image), int(attribute(node, "group", 1))
    windows = {"pads": over.pads, "strides": over.strides, "dilations": over.dilations}
    by_image = back.add("Conv", gradient, filters, group=groups, **windows)
    by_filters = _by_filters(back, (gradient, image), over, groups)
    return {0: by_image, 1: by_filters, 2: _by_bias(back, node, gradient)}


def _windows(back: Reverse, node: NodeProto, narrow: Expr) -> SlidingWindows:
    """The windows of *node*; *narrow* has one number for each of them."""
    size, out = (back.shape(name)[_BEGIN:] for name in (back.read(node)[1], narrow))
    ones = (1,) * len(size)
    pads = tuple(attribute(node, "pads", (0,) * 2 * len(size)))
    strides, dilations = (tuple(attribute(node, name, ones)) for name in ("strides", "dilations"))
    return SlidingWindows(size, strides, dilations, pads[: len(size)], pads[len(size) :], out)


def _by_filters(
    back: Reverse, wide_and_narrow: Sequence[Expr], over: SlidingWindows, groups: int
) -> Expr:
    """Group by group: batch and channels are exchanged, so that the batch is what is added up."""
    turned, parts = (1, 0, *range(_BEGIN, _BEGIN + len(over.size))), []
    split = (
        back.piece.add_many("Split", groups, name, axis=1, num_outputs=groups)
        for name in wide_and_narrow
    )
    for pair in zip(*split, strict=True):
        wide, narrow = (back.piece.transpose(name, *turned) for name in pair)
        seen = seen_by_filters(back.piece, wide, narrow, over, 1)
        parts.append(back.piece.transpose(seen, *turned))
    return parts[0] if groups == 1 else back.add("Concat", *parts, axis=0)


def _by_bias(back: Reverse, node: NodeProto, gradient: Expr) -> Expr:
    axes = (0, *range(_BEGIN, len(back.shape(node.output[0]))))
    wide = back.piece.cast(gradient, np.float64)
    total = back.add("ReduceSum", wide, back.piece.ints(*axes), keepdims=0)
    return typed(total, back.read(node)[1])


_ADDED = {"reduction": "add"}
_RULES: Mapping[str, _Rule] = {
    "Identity": lambda _back, _node, gradient: {0: gradient},
    "Cast": lambda back, node, gradient: {0: typed(gradient, back.read(node)[0])},
    "Add": lambda _back, _node, gradient: {0: gradient, 1: gradient},
    "Sum": lambda _back, node, gradient: dict.fromkeys(range(len(node.input)), gradient),
    "Sub": lambda _back, _node, gradient: {0: gradient, 1: -gradient},
    "Mul": lambda back, node, gradient: {
        at: gradient * other for at, other in enumerate(back.read(node)[::-1])
    },
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


def _moved(back: Reverse, node: NodeProto, incoming: Mapping[str, Expr], at: int) -> Expr:
    """The gradient by input *at* of what moves elements: the same node moves their numbers, from 1
    on, and 0 for what comes from elsewhere."""
    wide, piece, shape = np.dtype(np.float64), back.piece, back.shape(node.input[at])
    if attribute(node, "reduction", b"none") != b"none":
        return _added(back, node, incoming[node.output[0]], at)
    size = math.prod(shape)
    ends = (piece.const(np.array(end, wide)) for end in (1.0, size + 1.0, 1.0))
    inputs: list[Operand] = list(back.read(node))
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
    total: Expr = piece.const(np.zeros(size + 1, wide))
    for name, numbers in zip(node.output, numbered, strict=True):
        if name in incoming:
            gradient = piece.cast(piece.add("Reshape", incoming[name], flat), wide)
            index = piece.cast(piece.add("Reshape", numbers, flat), np.int64)
            total = piece.add("ScatterElements", total, index, gradient, axis=0, reduction="add")
    kept = piece.add("Slice", total, piece.ints(1), piece.ints(size + 1))
    return typed(piece.reshape(kept, shape), back.read(node)[at])


def _added(back: Reverse, node: NodeProto, gradient: Expr, at: int) -> Expr:
    """The gradient of what is added to elements: that of the data passes."""
    if attribute(node, "reduction", b"") != b"add":
        raise back.call.refused(f"has no way back: {node.op_type} that does not add")
    if at == 0:
        return gradient
    if node.op_type == "ScatterND":
        return back.add("GatherND", gradient, back.read(node)[1])
    return back.add("GatherElements", gradient, back.read(node)[1], axis=_axis(node))
