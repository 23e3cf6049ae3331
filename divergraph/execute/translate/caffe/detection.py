"""Layers that choose boxes: the end of SSD, and the regions of Faster R-CNN."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from divergraph.execute.translate.caffe.layer import CaffeLayer, row
from divergraph.execute.translate.piece import Expr
from divergraph.values.array_types import Array

_SSD = "weiliu89/caffe (branch ssd), src/caffe/layers/{}_layer.cpp"
_RPN = "rbgirshick/py-faster-rcnn, lib/rpn/proposal_layer.py and generate_anchors.py"
_CODES = ("", "CORNER", "CENTER_SIZE", "CORNER_SIZE")
_NEVER = float(np.finfo(np.float32).min)
"""A score below every limit."""


@row("DetectionOutput", source=_SSD.format("detection_output"))
def _detections(layer: CaffeLayer) -> list[Expr]:
    """Rows of image, label, score and corners: of each image, class by class, the boxes that are
    left, the best first. One row of -1 an image where none is."""
    images, places = layer.shape(0)[0], layer.shape(2)[2] // 4
    classes = layer.integer(_parameter("num_classes"), 0)
    if classes < 1 or layer.shape(1)[1:2] != (places * classes,):
        raise layer.refused(f"has {layer.shape(1)} scores for {classes} classes of {places} boxes")
    if layer.real(_parameter("nms_param.eta"), 1.0) != 1.0:
        raise layer.refused("changes its limit of overlap on the way (eta)")
    shared = layer.flag(_parameter("share_location"), True)
    groups = 1 if shared else classes
    boxes = _decoded(layer, images, places, groups)
    scores = layer.piece.transpose(
        layer.reshape(layer.bottom(1), (images, places, classes)), 0, 2, 1
    )
    scores = _candidates(layer, scores, classes, places)
    grouping = (images * groups, classes // groups, places)
    flat = layer.reshape(_without_area(layer, boxes), (images * groups, places, 4))
    chosen = layer.add(
        *("NonMaxSuppression", flat, layer.reshape(scores, grouping), layer.piece.ints(places)),
        layer.number(layer.real(_parameter("nms_param.nms_threshold"), 0.3)),
        layer.number(max(layer.real(_parameter("confidence_threshold"), _NEVER), _NEVER)),
    )
    detections = _Chosen.of(layer, chosen, classes, shared)
    detections = _best(layer, detections, scores, images, classes * places)
    return [_rows(layer, detections, scores, boxes, images)]


def _parameter(name: str) -> str:
    return f"detection_output_param.{name}"


def _decoded(layer: CaffeLayer, images: int, places: int, groups: int) -> Expr:
    """The corners of all boxes: images x groups x places x 4."""
    prior = layer.reshape(layer.bottom(2), (2, places, 4))
    corners, variances = layer.piece.add_many("Split", 2, prior, axis=0, num_outputs=2)
    offsets = layer.reshape(layer.bottom(), (images, places, groups, 4))
    moves = layer.piece.transpose(offsets, 0, 2, 1, 3)
    if not layer.flag(_parameter("variance_encoded_in_target"), False):
        moves = moves * variances
    code = layer.choice(_parameter("code_type"), _CODES, "CORNER")
    if code == "CORNER":
        return corners + moves
    low, high = layer.piece.add_many("Split", 2, corners, axis=2, num_outputs=2)
    size = high - low
    first, second = layer.piece.add_many("Split", 2, moves, axis=3, num_outputs=2)
    if code == "CORNER_SIZE":
        ends = [corner + move * size for corner, move in ((low, first), (high, second))]
        return layer.add("Concat", *ends, axis=3)
    half = layer.number(0.5)
    middle = (low + high) * half
    middle = first * size + middle
    reach = second.exp() * size * half
    ends = [layer.add(kind, middle, reach) for kind in ("Sub", "Add")]
    return layer.add("Concat", *ends, axis=3)


def _without_area(layer: CaffeLayer, boxes: Expr) -> Expr:
    """*boxes* of which those whose corners are exchanged have no area, and overlap with none."""
    low, high = layer.piece.add_many("Split", 2, boxes, axis=3, num_outputs=2)
    return layer.add("Concat", low, low.max(high), axis=3)


def _candidates(layer: CaffeLayer, scores: Expr, classes: int, places: int) -> Expr:
    """*scores* (images x classes x places) of which those that do not count are the least number:
    the background's, and of each class all but the best."""
    background = layer.integer(_parameter("background_label_id"), 0)
    if 0 <= background < classes:
        counts = np.arange(classes).reshape(1, classes, 1) != background
        scores = layer.add("Where", layer.piece.const(counts), scores, _NEVER)
    top = layer.integer(_parameter("nms_param.top_k"), -1)
    if not 0 <= top < places:
        return scores
    return _only_best(layer, scores, 2, top)


def _only_best(layer: CaffeLayer, scores: Expr, axis: int, top: int) -> Expr:
    values, at = layer.piece.add_many("TopK", 2, scores, layer.piece.ints(top), axis=axis)
    none = layer.add("Expand", layer.number(_NEVER), layer.add("Shape", scores))
    return layer.add("ScatterElements", none, at, values, axis=axis)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The boxes that are left, a list of each: their image, label and place, and their place among
    the groups of boxes (image, label or 0)."""

    image: Expr
    label: Expr
    place: Expr
    group: Expr

    @classmethod
    def of(cls, layer: CaffeLayer, chosen: Expr, classes: int, shared: bool) -> _Chosen:
        first, second, place = layer.piece.add_many("Split", 3, chosen, axis=1, num_outputs=3)
        if shared:
            return cls(first, second, place, second * 0)
        by = layer.piece.const(np.array(classes, np.int64))
        image, label = first / by, layer.add("Mod", first, by)
        return cls(image, label, place, label)

    def kept(self, layer: CaffeLayer, flags: Expr) -> _Chosen:
        """Those with a flag."""
        lists = (self.image, self.label, self.place, self.group)
        return _Chosen(*(layer.add("Compress", column, flags, axis=0) for column in lists))

    def looked_up(self, layer: CaffeLayer, scores: Expr) -> Expr:
        """Their entries of images x classes x places."""
        at = layer.add("Concat", self.image, self.label, self.place, axis=1)
        return layer.add("GatherND", scores, at)


def _best(
    layer: CaffeLayer, detections: _Chosen, scores: Expr, images: int, entries: int
) -> _Chosen:
    """The ``keep_top_k`` best boxes of each image, over all classes."""
    keep = layer.integer(_parameter("keep_top_k"), -1)
    if not 0 <= keep < entries:
        return detections
    at = layer.add("Concat", detections.image, detections.label, detections.place, axis=1)
    none = layer.add("Expand", layer.number(_NEVER), layer.add("Shape", scores))
    remaining = layer.add("ScatterND", none, at, detections.looked_up(layer, scores))
    best = _only_best(layer, layer.reshape(remaining, (images, entries)), 1, keep)
    best = layer.add("Reshape", best, layer.add("Shape", scores))
    flags = detections.looked_up(layer, best) > _NEVER
    return detections.kept(layer, flags)


def _rows(layer: CaffeLayer, detections: _Chosen, scores: Expr, boxes: Expr, images: int) -> Expr:
    at = layer.add("Concat", detections.image, detections.group, detections.place, axis=1)
    score = layer.add("Unsqueeze", detections.looked_up(layer, scores), layer.piece.ints(1))
    heads = [
        layer.piece.cast(column, layer.dtype) for column in (detections.image, detections.label)
    ]
    listed = layer.add("Concat", *heads, score, layer.add("GatherND", boxes, at), axis=1)
    nothing = np.full((images, 7), -1.0)
    nothing[:, 0] = np.arange(images)
    count = layer.add("Shape", detections.place, start=0, end=1)
    is_empty = layer.piece.cast(count.equals(layer.piece.ints(0)), np.int64)
    end = count + is_empty * layer.piece.ints(images)
    table = layer.add("Concat", listed, layer.array(nothing), axis=0)
    table = layer.add("Slice", table, layer.piece.ints(0), end, layer.piece.ints(0))
    return layer.add("Unsqueeze", table, layer.piece.ints(0, 1))


@dataclass(frozen=True, slots=True)
class _Proposing:
    """The settings of a proposal layer; the usual ones are those of its TEST phase."""

    stride: int = 16
    base: float = 16
    least: float = 16
    ratios: tuple[float, ...] = (0.5, 1.0, 2.0)
    scales: tuple[float, ...] = (8.0, 16.0, 32.0)
    before: int = 6000
    after: int = 300
    overlap: float = 0.7

    def anchors(self) -> Array:
        """The boxes around one cell: corners of each ratio and, of that, each scale."""
        middle = (self.base - 1) / 2
        corners = []
        for ratio in self.ratios:
            width = np.round(np.sqrt(self.base**2 / ratio))
            height = np.round(width * ratio)
            for scale in self.scales:
                reach = np.array([width * scale - 1, height * scale - 1]) / 2
                corners.append([*(middle - reach), *(middle + reach)])
        return np.array(corners)


@row("Proposal", source=_RPN)
def _proposal(layer: CaffeLayer) -> list[Expr]:
    usual, block = _Proposing(), "proposal_param"
    return _proposed(
        layer,
        _Proposing(
            int(layer.real(f"{block}.feat_stride", usual.stride)),
            layer.real(f"{block}.base_size", usual.base),
            layer.real(f"{block}.min_size", usual.least),
            layer.reals(f"{block}.ratio") or usual.ratios,
            layer.reals(f"{block}.scale") or usual.scales,
            layer.integer(f"{block}.pre_nms_topn", usual.before),
            layer.integer(f"{block}.post_nms_topn", usual.after),
            layer.real(f"{block}.nms_thresh", usual.overlap),
        ),
    )


@row("Python", source=_RPN)
def _python(layer: CaffeLayer) -> list[Expr]:
    name = layer.setting("python_param.layer")
    if name != "ProposalLayer" or layer.is_training:
        raise layer.refused(f"runs the Python class {name}")
    setting = str(layer.setting("python_param.param_str") or "")
    stride = re.search(r"feat_stride\W+(\d+)", setting)
    scales = re.search(r"scales\W+([\d., ]+)", setting)
    usual = _Proposing()
    listed = tuple(float(scale) for scale in re.findall(r"[\d.]+", scales[1])) if scales else None
    return _proposed(
        layer,
        _Proposing(int(stride[1]) if stride else usual.stride, scales=listed or usual.scales),
    )


def _proposed(layer: CaffeLayer, settings: _Proposing) -> list[Expr]:
    """Rows of 0 and four corners: the best boxes of the first image, by a net's scores (background
    and foreground of each anchor), its moves of the anchors, and the size of the image."""
    anchors = settings.anchors()
    images, channels, height, width = layer.shape()
    kinds = len(anchors)
    if images != 1 or channels != 2 * kinds:
        raise layer.refused(f"has {channels} scores of {images} images for {kinds} anchors")
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    moved = np.stack([columns, rows, columns, rows], -1)[:, :, None] * settings.stride
    boxes = (moved + anchors).reshape(-1, 4)
    ints = layer.piece.ints
    front = layer.add("Slice", layer.bottom(), ints(kinds), ints(2 * kinds), ints(1))
    scores = layer.reshape(layer.piece.transpose(front, 0, 2, 3, 1), (1, 1, len(boxes)))
    moves = layer.piece.transpose(layer.bottom(1), 0, 2, 3, 1)
    corners = _clipped(layer, _moved(layer, boxes, layer.reshape(moves, (len(boxes), 4))))
    scores = layer.add("Where", _large(layer, corners, settings.least), scores, _NEVER)
    if 0 < settings.before < len(boxes):
        scores = _only_best(layer, scores, 2, settings.before)
    # A box of corners 0 and 3 is four pixels long here.
    inclusive = corners + layer.array([0.0, 0.0, 1.0, 1.0])
    limit = settings.after if settings.after > 0 else len(boxes)
    chosen = layer.add(
        *("NonMaxSuppression", layer.add("Unsqueeze", inclusive, ints(0)), scores, ints(limit)),
        *(layer.number(settings.overlap), layer.number(_NEVER)),
    )
    places = layer.add("Gather", chosen, layer.piece.const(np.array(2, np.int64)), axis=1)
    picked = layer.add("Gather", corners, places, axis=0)
    listed = layer.add("Pad", picked, ints(0, 1, 0, 0))
    best = layer.add("Gather", layer.reshape(scores, (-1, 1)), places, axis=0)
    return [listed, best][: layer.tops]


def _moved(layer: CaffeLayer, boxes: Array, moves: Expr) -> Expr:
    """*boxes* with their middles moved by shares of their sizes, and their sizes multiplied."""
    sizes = boxes[:, 2:] - boxes[:, :2] + 1
    first, second = layer.piece.add_many("Split", 2, moves, axis=1, num_outputs=2)
    middle = first * layer.array(sizes)
    middle = middle + layer.array(boxes[:, :2] + sizes / 2)
    reach = second.exp() * layer.array(sizes / 2)
    ends = [layer.add(kind, middle, reach) for kind in ("Sub", "Add")]
    return layer.add("Concat", *ends, axis=1)


def _clipped(layer: CaffeLayer, corners: Expr) -> Expr:
    """*corners* within the image, whose height, width and scale are the third bottom."""
    image = layer.reshape(layer.bottom(2), (-1,))
    order = layer.piece.const(np.array([1, 0, 1, 0], np.int64))
    largest = layer.add("Gather", image, order) - 1
    return corners.min(largest).max(0)


def _large(layer: CaffeLayer, corners: Expr, smallest: float) -> Expr:
    """Whether both sides of each box are as long as *smallest* pixels of the original image."""
    low, high = layer.piece.add_many("Split", 2, corners, axis=1, num_outputs=2)
    sizes = high - low + 1
    image = layer.reshape(layer.bottom(2), (-1,))
    scale = layer.add("Gather", image, layer.piece.ints(2))
    limit = scale * smallest
    shortest = layer.add("ReduceMin", sizes, layer.piece.ints(1), keepdims=0)
    return shortest >= limit
