"""Batch normalisation and its gradient, as TensorFlow's CPU kernel has them
(core/kernels/fused_batch_norm_op.cc)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.tensorflow.rows.layouts import Images, images
from divergraph.execute.translate.tensorflow.rows.table import NN, ROWS


def _layout(p: Piece) -> Images:
    return images(p, p.rank(0) - 2)


def _along(layout: Images) -> tuple[int, ...]:
    """All axes but that of the channels."""
    return tuple(at for at in range(layout.spatial + 2) if at != layout.axis)


def _wide(p: Piece, layout: Images, tensor: str) -> str:
    """One number for each channel, in the shape of the images."""
    if not layout.first:
        return tensor
    return p.add("Unsqueeze", tensor, p.ints(*range(1, 1 + layout.spatial)))


def _mean(p: Piece, layout: Images, tensor: str) -> str:
    return p.summed("ReduceMean", tensor, _along(layout))


def _sum(p: Piece, layout: Images, tensor: str) -> str:
    return p.summed("ReduceSum", tensor, _along(layout))


@ROWS.row("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", source=NN)
def fused_batch_norm(p: Piece) -> Sequence[str]:
    """Images normalised, scaled and shifted by channel; mean and variance given or, in training,
    of the images themselves. The variance is given out for an unbiased estimate, kept as it is."""
    layout, image, scale, offset = _layout(p), p.name(0), p.name(1), p.name(2)
    eps = p.const(np.array(p.attr("epsilon", 1e-4), p.dtype(1)))
    if not p.attr("is_training", True):
        mean, variance = p.name(3), p.name(4)
        centred = p.add("Sub", image, _wide(p, layout, mean))
        out = _scaled(p, layout, centred, variance, eps, scale, offset)
        return [out, mean, variance]  # the rest is room for the gradient, which nobody fills
    count = int(np.prod([p.shape(0)[at] for at in _along(layout)], dtype=np.int64))
    mean = _mean(p, layout, image)
    centred = p.add("Sub", image, _wide(p, layout, mean))
    variance = _mean(p, layout, p.add("Mul", centred, centred))
    out = _scaled(p, layout, centred, variance, eps, scale, offset)
    unbiased = p.add("Mul", variance, p.number(count / max(count - 1, 1), 1))
    factor = float(p.attr("exponential_avg_factor", 1.0))
    # Of V3 a sixth output is room for other devices' kernels; the CPU's leaves it empty.
    rest = [mean, variance, p.const(np.zeros(0, np.float32))]
    if factor == 1.0:
        return [out, mean, unbiased, *rest]
    moved = [_moved(p, p.name(at), new, factor) for at, new in ((3, mean), (4, unbiased))]
    return [out, *moved, *rest]


def _scaled(
    p: Piece, layout: Images, centred: str, variance: str, eps: str, scale: str, offset: str
) -> str:
    inverse = p.add("Reciprocal", p.add("Sqrt", p.add("Add", variance, eps)))
    factor = _wide(p, layout, p.add("Mul", inverse, scale))
    return p.add("Add", p.add("Mul", centred, factor), _wide(p, layout, offset))


def _moved(p: Piece, old: str, new: str, factor: float) -> str:
    decayed = p.add("Mul", old, p.number(1 - factor, 1))
    return p.add("Add", decayed, p.add("Mul", new, p.number(factor, 1)))


@ROWS.row("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", source=NN)
def fused_batch_norm_grad(p: Piece) -> Sequence[str]:
    """The gradients of the images, the scale and the offset."""
    layout, gradient, image, scale, mean, variance = _layout(p), *(p.name(at) for at in range(5))
    eps = p.const(np.array(p.attr("epsilon", 1e-4), p.dtype(2)))
    inverse = p.add("Reciprocal", p.add("Sqrt", p.add("Add", variance, eps)))
    centred = p.add("Sub", image, _wide(p, layout, mean))
    product = p.add("Mul", gradient, centred)
    offset_gradient = _sum(p, layout, gradient)
    scale_gradient = p.add("Mul", _sum(p, layout, product), inverse)
    factor = _wide(p, layout, p.add("Mul", inverse, scale))
    if not p.attr("is_training", True):
        return [p.add("Mul", gradient, factor), scale_gradient, offset_gradient]
    pull = p.add("Mul", _mean(p, layout, product), p.add("Mul", inverse, inverse))
    bent = p.add("Mul", centred, _wide(p, layout, pull))
    level = p.add("Sub", gradient, _wide(p, layout, _mean(p, layout, gradient)))
    return [p.add("Mul", p.add("Sub", level, bent), factor), scale_gradient, offset_gradient]
