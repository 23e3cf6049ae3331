"""The shapes Caffe gives the tops of its common layers.

Formulas: the Reshape methods in src/caffe/layers of BVLC/caffe. What is not known here, or does
not fit together, has no shape; nothing is guessed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from graphstore.model import Shape
from importers.caffe.net import MAX_DIM, Layer, shape_of

_SAME = frozenset(
    (
        *("AbsVal", "BatchNorm", "Bias", "BNLL", "Clip", "Dropout", "ELU", "Eltwise", "Exp"),
        *("Log", "LRN", "MVN", "Normalize", "Power", "PReLU", "ReLU", "ReLU6", "Scale"),
        *("ShuffleChannel", "Sigmoid", "Softmax", "Split", "Swish", "TanH", "Threshold"),
    )
)


def top_shapes(layer: Layer, bottoms: Sequence[Shape | None]) -> list[Shape | None]:
    """The shape of each top of *layer*; None where it is not known."""
    unknown: list[Shape | None] = [None] * len(layer.tops)
    if layer.shapes and layer.type in ("Input", "DummyData"):
        shapes = [shape_of(dims) for dims in layer.shapes]
        return [shapes[min(at, len(shapes) - 1)] for at in range(len(layer.tops))]
    if layer.tops and (layer.type.endswith("Loss") or layer.type == "Accuracy"):
        return [(), *unknown[1:]]
    first = bottoms[0] if bottoms else None
    if first is None or not layer.tops:
        return unknown
    # Whatever writes over what it reads keeps its shape.
    if layer.type in _SAME or layer.tops == layer.bottoms[:1]:
        return [first for _ in layer.tops]
    if layer.type == "Concat":
        return [_concat(layer, bottoms)]
    if layer.type == "Slice":
        return _slices(layer, first)
    rule = _RULES.get(layer.type)
    dims = None if rule is None else rule(layer, first)
    if dims is not None and any(d is not None and not 0 <= d <= MAX_DIM for d in dims):
        dims = None
    return [dims, *unknown[1:]]


def spatial(layer: Layer, both: str, one: str, rank: int, default: int) -> list[int] | None:
    """A setting for each of *rank* spatial dimensions: from ``x_h``/``x_w`` (called *one*), or one
    or many of *both*; None if it says another number of them."""
    sides = [layer.numbers(f"{one}_{side}") for side in "hw"] if rank == 2 else []
    listed = layer.numbers(both)
    if sides and all(sides):
        listed = ()
    if len(listed) not in (0, 1, rank):
        return None
    sizes = list(listed) if len(listed) == rank else [listed[0] if listed else default] * rank
    for at, side in enumerate(sides):
        sizes[at] = side[0] if side else sizes[at]
    return sizes


def _axis(value: int, rank: int) -> int | None:
    """*value* counted from the front; None outside of the shape."""
    return value % rank if -rank <= value < rank else None


def _number(layer: Layer, *names: str, default: int) -> int:
    numbers = (layer.numbers(name) for name in names)
    return next((numbers[0] for numbers in numbers if numbers), default)


def _window(layer: Layer, rank: int) -> list[tuple[int, int, int]] | None:
    """Kernel (with its holes), stride and padding of each spatial dimension."""
    kernel = spatial(layer, "kernel_size", "kernel", rank, 0)
    stride = spatial(layer, "stride", "stride", rank, 1)
    pad = spatial(layer, "pad", "pad", rank, 0)
    dilation = spatial(layer, "dilation", "dilation", rank, 1)
    if kernel is None or stride is None or pad is None or dilation is None:
        return None
    window = list(zip(kernel, stride, pad, dilation, strict=True))
    sound = all(k > 0 and s > 0 and p >= 0 and d > 0 for k, s, p, d in window)
    return [(d * (k - 1) + 1, s, p) for k, s, p, d in window] if sound else None


def _convolution(layer: Layer, bottom: Shape) -> Shape | None:
    axis, outputs = _outputs(layer, bottom)
    if axis is None:
        return None
    spatial = bottom[axis + 1 :]
    window = _window(layer, len(spatial))
    if window is None:
        return None
    sizes: list[int | None] = []
    for size, (kernel, stride, pad) in zip(spatial, window, strict=True):
        if size is None:
            sizes.append(None)
        elif layer.type == "Deconvolution":
            sizes.append(stride * (size - 1) + kernel - 2 * pad)
        else:
            sizes.append((size + 2 * pad - kernel) // stride + 1)
    return (*bottom[:axis], outputs, *sizes)


def _outputs(layer: Layer, bottom: Shape) -> tuple[int | None, int]:
    """The axis of the outputs, and how many there are; no axis if that cannot be."""
    axis = _axis(_number(layer, "axis", default=1), len(bottom))
    outputs = _number(layer, "num_output", default=0)
    return axis if outputs > 0 else None, outputs


def _pooling(layer: Layer, bottom: Shape) -> Shape | None:
    if len(bottom) != 4:
        return None
    if layer.param("global_pooling") is True:
        return (*bottom[:2], 1, 1)
    window = _window(layer, 2)
    if window is None:
        return None
    down = str(layer.param("round_mode")) in ("FLOOR", "1") or layer.param("ceil_mode") is False
    sizes: list[int | None] = []
    for size, (kernel, stride, pad) in zip(bottom[2:], window, strict=True):
        if size is None:
            sizes.append(None)
            continue
        steps = size + 2 * pad - kernel
        windows = (steps // stride if down else -(-steps // stride)) + 1
        if pad and (windows - 1) * stride >= size + pad:
            windows -= 1  # the last window may not begin in the padding
        sizes.append(windows)
    return (*bottom[:2], *sizes)


def _inner_product(layer: Layer, bottom: Shape) -> Shape | None:
    axis, outputs = _outputs(layer, bottom)
    return None if axis is None else (*bottom[:axis], outputs)


def _concat(layer: Layer, bottoms: Sequence[Shape | None]) -> Shape | None:
    shapes = [shape for shape in bottoms if shape is not None]
    ranks = {len(shape) for shape in shapes}
    if len(shapes) != len(bottoms) or len(ranks) != 1:
        return None
    rank = ranks.pop()
    axis = _axis(_number(layer, "axis", "concat_dim", default=1), rank)
    if axis is None:
        return None
    sizes = [shape[axis] for shape in shapes]
    total = None if None in sizes else sum(size for size in sizes if size is not None)
    return (*shapes[0][:axis], total, *shapes[0][axis + 1 :])


def _slices(layer: Layer, bottom: Shape) -> list[Shape | None]:
    count = len(layer.tops)
    unknown: list[Shape | None] = [None] * count
    axis = _axis(_number(layer, "axis", "slice_dim", default=1), len(bottom))
    size = None if axis is None else bottom[axis]
    if axis is None or size is None:
        return unknown
    points = layer.numbers("slice_point")
    if not points:
        if size % count:
            return unknown
        points = tuple(size // count * at for at in range(1, count))
    ends = [0, *points, size]
    parts = [stop - start for start, stop in pairwise(ends)]
    if len(parts) != count or min(parts) <= 0:
        return unknown
    return [(*bottom[:axis], part, *bottom[axis + 1 :]) for part in parts]


def _flatten(layer: Layer, bottom: Shape) -> Shape | None:
    start = _axis(_number(layer, "axis", default=1), len(bottom))
    end = _axis(_number(layer, "end_axis", default=-1), len(bottom))
    if start is None or end is None or start > end:
        return None
    return (*bottom[:start], _product(bottom[start : end + 1]), *bottom[end + 1 :])


def _reshape(layer: Layer, bottom: Shape) -> Shape | None:
    if not layer.shapes or _number(layer, "axis", default=0) != 0:
        return None
    if _number(layer, "num_axes", default=-1) != -1:
        return None
    wanted = layer.shapes[0]
    if wanted.count(-1) > 1 or any(dim == 0 and at >= len(bottom) for at, dim in enumerate(wanted)):
        return None
    dims = [bottom[at] if dim == 0 else dim for at, dim in enumerate(wanted)]
    if -1 in dims:
        total, rest = _product(bottom), _product([dim for dim in dims if dim != -1])
        at = dims.index(-1)
        dims[at] = None if not rest or total is None or total % rest else total // rest
    return tuple(dims)


def _reduction(layer: Layer, bottom: Shape) -> Shape | None:
    axis = _axis(_number(layer, "axis", default=0), len(bottom)) if bottom else 0
    return None if axis is None else bottom[:axis]


def _tile(layer: Layer, bottom: Shape) -> Shape | None:
    axis = _axis(_number(layer, "axis", default=1), len(bottom))
    tiles = _number(layer, "tiles", default=0)
    if axis is None or tiles <= 0:
        return None
    size = bottom[axis]
    return (*bottom[:axis], None if size is None else size * tiles, *bottom[axis + 1 :])


def _permute(layer: Layer, bottom: Shape) -> Shape | None:
    order = list(layer.numbers("order"))
    if any(not 0 <= axis < len(bottom) for axis in order) or len(set(order)) != len(order):
        return None
    order += [axis for axis in range(len(bottom)) if axis not in order]
    return tuple(bottom[axis] for axis in order)


def _product(dims: Sequence[int | None]) -> int | None:
    sizes = [dim for dim in dims if dim is not None]
    return math.prod(sizes) if len(sizes) == len(dims) else None


_RULES: Mapping[str, Callable[[Layer, Shape], Shape | None]] = {
    **dict.fromkeys(("Convolution", "ConvolutionDepthwise"), _convolution),
    **dict.fromkeys(("DepthwiseConvolution", "Deconvolution"), _convolution),
    "Pooling": _pooling,
    "InnerProduct": _inner_product,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Reduction": _reduction,
    "Tile": _tile,
    "Permute": _permute,
}
