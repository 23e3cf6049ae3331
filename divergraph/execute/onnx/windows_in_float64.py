"""Convolutions and averages over windows in double precision: ONNX Runtime has them in single.

Each window's elements are gathered by a table of their places, a zero for what is padding; then a
convolution is one product of matrices, and an average a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from divergraph.execute.contract import Array

if TYPE_CHECKING:
    from onnx import NodeProto

_LARGEST = 1 << 30
"""Bytes that the elements of all windows may take; larger ones stay in single precision."""
_Shape = tuple[int, ...] | None


def spelled_out(
    node: NodeProto, image: _Shape, filters: _Shape, result: _Shape
) -> list[NodeProto] | None:
    """Nodes that compute what *node* does of doubles; None if it is of another kind, or its shapes
    do not follow."""
    if image is None or result is None or not result or 0 in image or 0 in result:
        return None
    if node.op_type == "AveragePool":
        return _averages(node, image, result)
    if filters is None or node.op_type not in ("Conv", "ConvTranspose"):
        return None
    return _products(node, image, filters, result)


class _Nodes:
    """Nodes being added one by one, with their constants."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.found: list[NodeProto] = []

    def add(self, kind: str, *inputs: str | Array, name: str = "", **attrs: Any) -> str:
        """Add a node; the name of its output."""
        from onnx import helper

        input_names = [
            op_input if isinstance(op_input, str) else self._constant(op_input)
            for op_input in inputs
        ]
        output = name or f"{self._prefix}\n{kind}{len(self.found)}"
        self.found.append(helper.make_node(kind, input_names, [output], **attrs))
        return output

    def _constant(self, value: Array) -> str:
        from onnx import helper, numpy_helper

        name = f"{self._prefix}\nconstant{len(self.found)}"
        node = helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))
        self.found.append(node)
        return name

    def reshape(self, tensor: str, shape: Sequence[int], name: str = "") -> str:
        """*tensor* in another shape."""
        return self.add("Reshape", tensor, np.array(shape, np.int64), name=name)


def _products(
    node: NodeProto, image: tuple[int, ...], filters: tuple[int, ...], result: tuple[int, ...]
) -> list[NodeProto] | None:
    attrs = _attributes(node)
    groups, sizes, outs, kernel = attrs.get("group", 1), image[2:], result[2:], filters[2:]
    turned = node.op_type == "ConvTranspose"
    pads = _pads(attrs, sizes, kernel, outs, turned=turned)
    table = _table(attrs, sizes, kernel, outs, pads, turned=turned)
    if image[0] * image[1] * table.size * 8 > _LARGEST:
        return None
    make = _Nodes(node.output[0])
    inner = image[1] // groups * table.shape[0]
    seen = make.reshape(_gathered(make, node.input[0], image, table), (image[0], groups, inner, -1))
    # A transposed convolution holds its filters with the input channels first: after the transpose
    # both kinds are [groups, outputs of a group, inputs of a window].
    if turned:
        grouped_shape = (groups, image[1] // groups, filters[1], table.shape[0])
        weights = make.add(
            "Transpose", make.reshape(node.input[1], grouped_shape), perm=(0, 2, 1, 3)
        )
    else:
        weights = node.input[1]
    weights = make.reshape(weights, (groups, result[1] // groups, inner))
    biased = len(node.input) > 2 and bool(node.input[2])
    product = make.add("MatMul", weights, seen)
    reshaped = make.reshape(product, result, "" if biased else node.output[0])
    if biased:
        bias = make.reshape(node.input[2], (1, -1, *(1 for _ in outs)))
        make.add("Add", reshaped, bias, name=node.output[0])
    return make.found


def _averages(
    node: NodeProto, image: tuple[int, ...], result: tuple[int, ...]
) -> list[NodeProto] | None:
    attrs = _attributes(node)
    if attrs.get("ceil_mode", 0):
        return None  # of how many windows there are, ONNX Runtime and onnx disagree
    sizes, outs, kernel = image[2:], result[2:], tuple(attrs["kernel_shape"])
    pads = _pads(attrs, sizes, kernel, outs, turned=False)
    table = _table(attrs, sizes, kernel, outs, pads, turned=False)
    if image[0] * image[1] * table.size * 8 > _LARGEST:
        return None
    counted = table < prod(sizes)
    if attrs.get("count_include_pad", 0):
        counted = np.ones_like(counted)
    make = _Nodes(node.output[0])
    seen = _gathered(make, node.input[0], image, table)
    total = make.add("ReduceSum", seen, np.array([2]), keepdims=0)
    mean = make.add("Div", total, counted.sum(0).astype(np.float64))
    make.reshape(mean, result, node.output[0])
    return make.found


def _attributes(node: NodeProto) -> dict[str, Any]:
    from onnx import helper

    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def _pads(
    attrs: Mapping[str, Any],
    sizes: Sequence[int],
    kernel: Sequence[int],
    outs: Sequence[int],
    *,
    turned: bool,
) -> list[int]:
    """The padding before and behind along each axis, as the node says it or as its sizes do."""
    count = len(sizes)
    strides, dilations = (attrs.get(name, [1] * count) for name in ("strides", "dilations"))
    how = attrs.get("auto_pad", b"NOTSET")
    if how in (b"NOTSET", b"VALID") and (how == b"VALID" or "output_shape" not in attrs):
        return list(attrs.get("pads", [0] * (2 * count))) if how == b"NOTSET" else [0] * (2 * count)
    begin, end = [], []
    for at in range(count):
        reach = (kernel[at] - 1) * dilations[at] + 1
        if turned:
            spare = attrs.get("output_padding", [0] * count)[at]
            total = (sizes[at] - 1) * strides[at] + spare + reach - outs[at]
        else:
            total = max((outs[at] - 1) * strides[at] + reach - sizes[at], 0)
        # An odd padding is one longer behind (SAME_UPPER) or before (SAME_LOWER).
        smaller = total // 2
        begin.append(smaller if how == b"SAME_UPPER" else total - smaller)
        end.append(total - begin[-1])
    return [*begin, *end]


def _table(
    attrs: Mapping[str, Any],
    sizes: Sequence[int],
    kernel: Sequence[int],
    outs: Sequence[int],
    pads: Sequence[int],
    *,
    turned: bool,
) -> Array:
    """By element of a window and by window, the place it has in the flat image; the place behind
    the last one for padding."""
    count = len(sizes)
    strides, dilations = (attrs.get(name, [1] * count) for name in ("strides", "dilations"))
    places = np.zeros((1, 1), np.int64)
    inside = np.ones((1, 1), bool)
    for at in range(count):
        steps = np.arange(kernel[at])[:, None] * dilations[at]
        windows = np.arange(outs[at])[None, :]
        if turned:
            # Of a stride above one most places stand between two elements: they count as padding.
            reached = windows + pads[at] - steps
            own, fits = np.divmod(reached, strides[at])
            there = (fits == 0) & (own >= 0) & (own < sizes[at])
        else:
            own = windows * strides[at] - pads[at] + steps
            there = (own >= 0) & (own < sizes[at])
        shape = (places.shape[0] * kernel[at], places.shape[1] * outs[at])
        places = places[:, None, :, None] * sizes[at] + own[None, :, None, :]
        inside = inside[:, None, :, None] & there[None, :, None, :]
        places, inside = places.reshape(shape), inside.reshape(shape)
    return np.where(inside, places, prod(sizes))


def _gathered(make: _Nodes, image: str, shape: tuple[int, ...], table: Array) -> str:
    """The elements of all windows: batch, channel, element, window."""
    flat = make.reshape(image, (*shape[:2], prod(shape[2:])))
    padded = make.add("Pad", flat, np.array([0, 0, 0, 0, 0, 1]))
    return make.add("Gather", padded, table, axis=2)
