"""The derivatives of convolutions and of transposed ones, as ONNX defines them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from divergraph.execute.translate.torch.slopes import attribute
from divergraph.execute.translate.windows import SlidingWindows, put_back, seen_by_filters

if TYPE_CHECKING:
    from onnx import NodeProto

    from divergraph.execute.translate.torch.reverse import Reverse

_BEGIN = 2
"""The first axis behind batch and channels."""


def of_convolution(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    """The gradients by image, filters and bias."""
    image, filters = node.input[:2]
    over, groups = _windows(back, node, node.output[0]), int(attribute(node, "group", 1))
    sizes = back.shape(image)[_BEGIN:]
    by_image = put_back(back.piece, gradient, filters, over, sizes, groups)
    by_filters = _by_filters(back, (image, gradient), over, groups)
    return {0: by_image, 1: by_filters, 2: _by_bias(back, node, gradient)}


def of_transposed(back: Reverse, node: NodeProto, gradient: str) -> dict[int, str]:
    """As above of a transposed convolution, which goes back as a plain one."""
    image, filters = node.input[:2]
    over, groups = _windows(back, node, image), int(attribute(node, "group", 1))
    windows = {"pads": over.pads, "strides": over.strides, "dilations": over.dilations}
    by_image = back.add("Conv", gradient, filters, group=groups, **windows)
    by_filters = _by_filters(back, (gradient, image), over, groups)
    return {0: by_image, 1: by_filters, 2: _by_bias(back, node, gradient)}


def _windows(back: Reverse, node: NodeProto, narrow: str) -> SlidingWindows:
    """The windows of *node*; *narrow* has one number for each of them."""
    size, out = (back.shape(name)[_BEGIN:] for name in (node.input[1], narrow))
    ones = (1,) * len(size)
    pads = tuple(attribute(node, "pads", (0,) * 2 * len(size)))
    strides, dilations = (tuple(attribute(node, name, ones)) for name in ("strides", "dilations"))
    return SlidingWindows(size, strides, dilations, pads[: len(size)], pads[len(size) :], out)


def _by_filters(
    back: Reverse, wide_and_narrow: Sequence[str], over: SlidingWindows, groups: int
) -> str:
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


def _by_bias(back: Reverse, node: NodeProto, gradient: str) -> str:
    axes = (0, *range(_BEGIN, len(back.shape(node.output[0]))))
    wide = back.piece.cast(gradient, np.float64)
    total = back.add("ReduceSum", wide, back.piece.ints(*axes), keepdims=0)
    return back.typed(total, node.input[1])
