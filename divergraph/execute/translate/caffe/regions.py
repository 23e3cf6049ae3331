"""Layers of forks: detection, regions, resizing."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from divergraph.execute.translate.caffe.layer import CaffeLayer, row
from divergraph.execute.translate.piece import Expr

_SSD = "weiliu89/caffe (branch ssd), src/caffe/layers/{}_layer.cpp"


@row("PriorBox", source=_SSD.format("prior_box"))
def _prior_box(layer: CaffeLayer) -> list[Expr]:
    """Boxes around each cell of the first bottom, as shares of the image (the second bottom):
    only their shapes count."""
    rows, columns = layer.shape()[2:]
    height, width = _size(layer, "img", layer.shape(1)[2:])
    step_y, step_x = _steps(layer, (height / rows, width / columns))
    offset = layer.real("prior_box_param.offset", 0.5)
    sizes = list(_box_sizes(layer))
    clip = layer.flag("prior_box_param.clip", False)
    boxes = []
    for y, x in product(range(rows), range(columns)):
        middle_x, middle_y = (x + offset) * step_x, (y + offset) * step_y
        for box_width, box_height in sizes:
            boxes += [(middle_x - box_width / 2) / width, (middle_y - box_height / 2) / height]
            boxes += [(middle_x + box_width / 2) / width, (middle_y + box_height / 2) / height]
    boxes_array = np.clip(boxes, 0, 1) if clip else np.array(boxes)
    variances = layer.reals("prior_box_param.variance") or (0.1,)
    spread = np.resize(variances, boxes_array.size)
    return [layer.array(np.stack([boxes_array, spread])[None])]


def _size(layer: CaffeLayer, what: str, usual: tuple[int, ...]) -> tuple[int, int]:
    both = layer.integer(f"prior_box_param.{what}_size", 0)
    height = layer.integer(f"prior_box_param.{what}_h", both)
    return height or usual[0], layer.integer(f"prior_box_param.{what}_w", both) or usual[1]


def _steps(layer: CaffeLayer, usual: tuple[float, float]) -> tuple[float, float]:
    both = layer.real("prior_box_param.step", 0.0)
    high = layer.real("prior_box_param.step_h", both)
    return high or usual[0], layer.real("prior_box_param.step_w", both) or usual[1]


def _box_sizes(layer: CaffeLayer) -> list[tuple[float, float]]:
    """Width and height of each box at one cell."""
    smallest, largest = (
        layer.reals("prior_box_param.min_size"),
        layer.reals("prior_box_param.max_size"),
    )
    if not smallest or (largest and len(largest) != len(smallest)):
        raise layer.refused(f"has {len(smallest)} min_size and {len(largest)} max_size")
    ratios = [1.0]
    for ratio in layer.reals("prior_box_param.aspect_ratio"):
        if all(abs(ratio - other) >= 1e-6 for other in ratios):
            flipped = layer.flag("prior_box_param.flip", True)
            ratios += [ratio, 1 / ratio] if flipped else [ratio]
    sizes = []
    for at, size in enumerate(smallest):
        sizes.append((size, size))
        if largest:
            sizes.append((math.sqrt(size * largest[at]),) * 2)
        sizes += [(size * math.sqrt(ratio), size / math.sqrt(ratio)) for ratio in ratios[1:]]
    return sizes


@row("ROIPooling", source="rbgirshick/caffe-fast-rcnn, src/caffe/layers/roi_pooling_layer.cpp")
def _roi_pooling(layer: CaffeLayer) -> list[Expr]:
    size = [layer.integer(f"roi_pooling_param.pooled_{side}", 1) for side in "hw"]
    scale = layer.real("roi_pooling_param.spatial_scale", 1.0)
    regions = layer.reshape(layer.bottom(1), (layer.shape(1)[0], 5))
    kind = "MaxRoiPool"
    return [layer.add(kind, layer.bottom(), regions, pooled_shape=size, spatial_scale=scale)]


@row("Reorg", source="hustzxd/caffe-yolov2 as in darknet, src/reorg_layer.c")
def _reorg(layer: CaffeLayer) -> list[Expr]:
    """Darknet's order: channels of the result walk over the cells of each block of the input that
    it takes for one of stride * stride times fewer channels."""
    n, channels, height, width = layer.shape()
    stride = layer.integer("reorg_param.stride", 2)
    fewer = channels // stride**2
    back = layer.flag("reorg_param.reverse", False)
    if fewer * stride**2 != channels or (not back and (height % stride or width % stride)):
        raise layer.refused(f"cannot divide {channels}x{height}x{width} by {stride}")
    if back:
        cut = layer.reshape(layer.bottom(), (n, stride, stride, fewer, height, width))
        turned = layer.piece.transpose(cut, 0, 3, 4, 1, 5, 2)
        return [layer.reshape(turned, (n, fewer, height * stride, width * stride))]
    blocks = layer.reshape(layer.bottom(), (n, fewer, height, stride, width, stride))
    turned = layer.piece.transpose(blocks, 0, 3, 5, 1, 2, 4)
    shape = (n, channels * stride**2, height // stride, width // stride)
    return [layer.reshape(turned, shape)]


@row(
    *("Region", "RegionYolo"),
    source="darknet, src/region_layer.c and src/yolo_layer.c, as OpenVINO's RegionYolo has them",
)
def _region(layer: CaffeLayer) -> list[Expr]:
    """For each box x and y, height and width as they are, objectness, classes: x, y and
    objectness by the logistic function, classes by it (YOLOv3) or by a softmax (YOLOv2)."""
    own = "region_yolo_param" if layer.piece.op.type == "RegionYolo" else "region_param"
    coords, classes = layer.integer(f"{own}.coords", 4), layer.integer(f"{own}.classes", 20)
    among_all = layer.flag(f"{own}.do_softmax", layer.flag(f"{own}.softmax", True))
    n, channels, height, width = layer.shape()
    boxes = channels // (coords + 1 + classes)
    if boxes * (coords + 1 + classes) != channels or coords < 2:
        raise layer.refused(f"has {channels} channels: no boxes of {coords} + 1 + {classes}")
    parts_of_boxes = layer.reshape(layer.bottom(), (n, boxes, coords + 1 + classes, height * width))
    sizes = layer.piece.ints(2, coords - 2, 1, classes)
    middle, size, objectness, scores = layer.piece.add_many(
        "Split", 4, parts_of_boxes, sizes, axis=2
    )
    middle, objectness = middle.sigmoid(), objectness.sigmoid()
    scores = layer.add("Softmax", scores, axis=2) if among_all else scores.sigmoid()
    joined = layer.add("Concat", middle, size, objectness, scores, axis=2)
    is_flat = own == "region_yolo_param" and among_all
    shape = (n, channels * height * width) if is_flat else layer.shape()
    return [layer.reshape(joined, shape)]


@row("Upsample", source="Ascend's caffe.proto (UpsampleParameter) and forks for YOLOv3")
def _upsample(layer: CaffeLayer) -> list[Expr]:
    if len(layer.bottoms) > 1:
        return [_put_back(layer)]
    scale = layer.integer("upsample_param.scale", layer.integer("upsample_param.stride", 1))
    high = layer.integer("upsample_param.scale_h", layer.integer("upsample_param.stride_h", scale))
    wide = layer.integer("upsample_param.scale_w", layer.integer("upsample_param.stride_w", scale))
    n, channels, height, width = layer.shape()
    cells = layer.reshape(layer.bottom(), (n, channels, height, 1, width, 1))
    spread = layer.add("Expand", cells, layer.piece.ints(n, channels, height, high, width, wide))
    return [layer.reshape(spread, (n, channels, height * high, width * wide))]


def _put_back(layer: CaffeLayer) -> Expr:
    """Each element at the place in its plane that the mask of a pooling says; zeros elsewhere.
    Source: alexgkendall/caffe-segnet, src/caffe/layers/upsample_layer.cpp."""
    n, channels, height, width = layer.shape()
    scale = layer.integer("upsample_param.scale", 2)
    sizes = [
        layer.integer(f"upsample_param.upsample_{side}", 0)
        or size * layer.integer(f"upsample_param.scale_{side}", scale)
        - layer.integer(f"upsample_param.pad_out_{side}", 0)
        for side, size in (("h", height), ("w", width))
    ]
    plane = (n, channels, height * width)
    places = layer.piece.cast(layer.reshape(layer.bottom(1), plane), np.int64)
    zeros = layer.array(np.zeros((n, channels, sizes[0] * sizes[1])))
    scattered = layer.add(
        "ScatterElements", zeros, places, layer.reshape(layer.bottom(), plane), axis=2
    )
    return layer.reshape(scattered, (n, channels, *sizes))


@row("ROIAlign", source="Ascend's caffe.proto (ROIAlignParameter), as in Detectron")
def _roi_align(layer: CaffeLayer) -> list[Expr]:
    if layer.integer("roi_align_param.roi_end_mode", 0):
        raise layer.refused("counts the last pixel of a region in (roi_end_mode)")
    count_of = layer.shape(1)[0]
    regions = layer.reshape(layer.bottom(1), (count_of, 5))
    sizes = layer.piece.ints(1, 4)
    image, corners = layer.piece.add_many("Split", 2, regions, sizes, axis=1)
    image = layer.reshape(layer.piece.cast(image, np.int64), (count_of,))
    aligned = layer.add(
        *("RoiAlign", layer.bottom(), corners, image),
        output_height=layer.integer("roi_align_param.pooled_h", 1),
        output_width=layer.integer("roi_align_param.pooled_w", 1),
        sampling_ratio=max(layer.integer("roi_align_param.sampling_ratio", -1), 0),
        spatial_scale=layer.real("roi_align_param.spatial_scale", 1.0),
        coordinate_transformation_mode="output_half_pixel",
    )
    return [aligned]


@row("Interp", source="hszhao/PSPNet, src/caffe/layers/interp_layer.cpp and util/interp.cpp")
def _interp(layer: CaffeLayer) -> list[Expr]:
    """Between the centres of the first and the last cell, along both axes."""
    begin, end = (layer.integer(f"interp_param.pad_{at}", 0) for at in ("beg", "end"))
    if begin or end or len(layer.bottoms) > 1:
        raise layer.refused("crops what it resizes, or takes its size from a second bottom")
    sizes = [_resized(layer, at) for at in range(2)]
    value = layer.bottom()
    for axis, (old, new) in enumerate(zip(layer.shape()[2:], sizes, strict=True), start=2):
        value = _along(layer, value, axis, old, new)
    return [value]


def _resized(layer: CaffeLayer, at: int) -> int:
    size = layer.shape()[2 + at]
    shrink = layer.integer("interp_param.shrink_factor", 1)
    zoom = layer.integer("interp_param.zoom_factor", 1)
    wanted = [layer.integer(f"interp_param.{side}", 0) for side in ("height", "width")]
    if all(wanted):
        return wanted[at]
    size = (size - 1) // shrink + 1
    return size + (size - 1) * (zoom - 1)


def _along(layer: CaffeLayer, tensor: Expr, axis: int, old: int, new: int) -> Expr:
    """*tensor* resized along one axis."""
    if old == new:
        return tensor
    places = np.arange(new) * ((old - 1) / (new - 1) if new > 1 else 0.0)
    below = np.minimum(places.astype(np.int64), old - 1)
    above = np.minimum(below + 1, old - 1)
    share = (places - below).reshape(-1, *(1 for _ in layer.shape()[axis + 1 :]))
    low, high = (
        layer.add("Gather", tensor, layer.piece.const(indices), axis=axis)
        for indices in (below, above)
    )
    low = low * layer.array(1 - share)
    return low + high * layer.array(share)


@row("PSROIPooling", source="daijifeng001/caffe-rfcn, src/caffe/layers/psroi_pooling_layer.cu")
def _position_sensitive(layer: CaffeLayer) -> list[Expr]:
    """The mean of each bin of each region, in the channels that belong to the bin."""
    n, channels, height, width = layer.shape()
    bins = layer.integer("psroi_pooling_param.group_size", 1)
    outputs = layer.integer("psroi_pooling_param.output_dim", 0)
    if outputs * bins * bins != channels:
        raise layer.refused(f"has {channels} channels for {outputs} outputs of {bins}x{bins} bins")
    scale = layer.real("psroi_pooling_param.spatial_scale", 1.0)
    count_of = layer.shape(1)[0]
    regions = layer.reshape(layer.bottom(1), (count_of, 5))
    parts = layer.piece.add_many("Split", 5, regions, axis=1, num_outputs=5)
    rows = _bin_members(layer, parts[2], parts[4], scale, bins, height)
    columns = _bin_members(layer, parts[1], parts[3], scale, bins, width)
    image = layer.reshape(layer.piece.cast(parts[0], np.int64), (count_of,))
    shape = (n, outputs, bins, bins, height, width)
    chosen = layer.add("Gather", layer.reshape(layer.bottom(), shape), image, axis=0)
    total = layer.add("Einsum", chosen, rows, columns, equation="rcijhw,rih,rjw->rcij")
    last = layer.piece.ints(2)
    tall, wide = (layer.add("ReduceSum", sums, last, keepdims=0) for sums in (rows, columns))
    area = layer.add("Einsum", tall, wide, equation="ri,rj->rij")
    area = layer.reshape(area.max(1), (count_of, 1, bins, bins))
    return [total / area]


def _bin_members(
    layer: CaffeLayer, start: Expr, end: Expr, scale: float, bins: int, size: int
) -> Expr:
    """1 where a row or column belongs to a bin of a region: regions x bins x size."""
    half, by, one = layer.number(0.5), layer.number(scale), layer.number(1)

    def rounded(tensor: Expr) -> Expr:  # of positive numbers, as C rounds
        return (tensor + half).floor()

    first = rounded(start) * by
    length = ((rounded(end) + one) * by - first).max(0.1)
    bin_size = length / bins
    numbers = np.arange(bins).reshape(1, bins)
    edges = [bin_size * layer.array(numbers + more) + first for more in (0, 1)]
    low, high = edges[0].floor(), edges[1].ceil()
    last_axis = layer.piece.ints(2)
    low, high = (layer.add("Unsqueeze", bound, last_axis) for bound in (low, high))
    every = layer.array(np.arange(size).reshape(1, 1, size))
    inside = (every >= low) & (every < high)
    return layer.piece.cast(inside, layer.dtype)
