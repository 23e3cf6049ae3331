"""Losses and accuracy: what they are on the labels a net is fed."""

from __future__ import annotations

import numpy as np

from divergraph.execute.translate.caffe.layer import CaffeLayer, row
from divergraph.execute.translate.caffe.shaping import count

_NORMALISED = ("FULL", "VALID", "BATCH_SIZE", "NONE")
_TINY = float(np.finfo(np.float32).tiny)
_LEAST_PROBABILITY = 1e-20  # kLOG_THRESHOLD of Caffe


@row("EuclideanLoss", source="euclidean_loss")
def _euclidean(layer: CaffeLayer) -> list[str]:
    difference = layer.add("Sub", layer.bottom(), layer.bottom(1))
    return [
        _divided(layer, _sum(layer, layer.add("Mul", difference, difference)), 2 * layer.shape()[0])
    ]


@row("SoftmaxWithLoss", source="softmax_loss")
def _softmax_loss(layer: CaffeLayer) -> list[str]:
    axis = layer.axis("softmax_param.axis", 1)
    chances = layer.add("Softmax", layer.bottom(), axis=axis)
    outer, classes, inner = _around(layer, axis)
    at_label, counted = _at_labels(layer, chances, (outer, classes, inner))
    at_label = layer.add("Max", at_label, layer.number(_TINY))
    loss = layer.add("Mul", layer.add("Log", at_label), counted)
    total = layer.add("Neg", _sum(layer, loss))
    how = _normalisation(layer, "VALID")
    return [_normalised(layer, total, counted, how, outer, outer * inner), chances][: layer.tops]


@row("MultinomialLogisticLoss", source="multinomial_logistic_loss")
def _multinomial(layer: CaffeLayer) -> list[str]:
    shape = layer.shape()
    chances, _ = _at_labels(layer, layer.bottom(), (shape[0], count(shape[1:]), 1))
    logs = layer.add("Log", layer.add("Max", chances, layer.number(_LEAST_PROBABILITY)))
    return [_divided(layer, layer.add("Neg", _sum(layer, logs)), shape[0])]


@row("InfogainLoss", source="infogain_loss")
def _infogain(layer: CaffeLayer) -> list[str]:
    """The logarithms of all chances, weighted by the row of the third bottom at the label."""
    if len(layer.bottoms) < 3:
        raise layer.refused("reads its weights from a file (infogain_loss_param.source)")
    axis = layer.axis("infogain_loss_param.axis", 1)
    chances = layer.add("Softmax", layer.bottom(), axis=axis)
    outer, classes, inner = shape = _around(layer, axis)
    logs = layer.add("Log", layer.add("Max", chances, layer.number(_LEAST_PROBABILITY)))
    labels = layer.reshape(layer.bottom(1), (outer, inner))
    counted = _counted(layer, labels)
    places = layer.piece.cast(layer.add("Mul", labels, counted), np.int64)
    table = layer.reshape(layer.bottom(2), (classes, classes))
    weights = layer.piece.transpose(layer.add("Gather", table, places, axis=0), 0, 2, 1)
    weighted = layer.add("Mul", layer.reshape(logs, shape), weights)
    row_sums = layer.add("ReduceSum", weighted, layer.piece.ints(1), keepdims=0)
    total = layer.add("Neg", _sum(layer, layer.add("Mul", row_sums, counted)))
    how = _normalisation(layer, "VALID")
    return [_normalised(layer, total, counted, how, outer, outer * inner), chances][: layer.tops]


@row("SigmoidCrossEntropyLoss", source="sigmoid_cross_entropy_loss")
def _sigmoid_loss(layer: CaffeLayer) -> list[str]:
    value, wanted = layer.bottom(), layer.bottom(1)
    # x * t - log(1 + exp(x)), where nothing overflows
    gain = layer.add("Sub", layer.add("Mul", value, wanted), layer.add("Softplus", value))
    counted = _counted(layer, wanted)
    total = layer.add("Neg", _sum(layer, layer.add("Mul", gain, counted)))
    how = _normalisation(layer, "BATCH_SIZE")
    shape = layer.shape()
    return [_normalised(layer, total, counted, how, shape[0], count(shape))]


@row("HingeLoss", source="hinge_loss")
def _hinge(layer: CaffeLayer) -> list[str]:
    shape = layer.shape()
    classes = count(shape[1:])
    chosen = _one_hot(layer, (shape[0], classes, 1))
    flat = layer.reshape(layer.bottom(), (shape[0], classes, 1))
    signs = layer.add("Sub", layer.number(1), layer.add("Mul", chosen, layer.number(2)))
    margin = layer.add("Relu", layer.add("Add", layer.add("Mul", flat, signs), layer.number(1)))
    norm = layer.choice("hinge_loss_param.norm", ("", "L1", "L2"), "L1")
    if norm == "L2":
        margin = layer.add("Mul", margin, margin)
    return [_divided(layer, _sum(layer, margin), shape[0])]


@row("ContrastiveLoss", source="contrastive_loss")
def _contrastive(layer: CaffeLayer) -> list[str]:
    shape = layer.shape()
    difference = layer.reshape(
        layer.add("Sub", layer.bottom(), layer.bottom(1)), (shape[0], count(shape[1:]))
    )
    square = layer.add("ReduceSumSquare", difference, layer.piece.ints(1), keepdims=0)
    margin = layer.number(layer.real("contrastive_loss_param.margin", 1.0))
    if layer.flag("contrastive_loss_param.legacy_version", False):
        other = layer.add("Relu", layer.add("Sub", margin, square))
    else:
        short = layer.add("Relu", layer.add("Sub", margin, layer.add("Sqrt", square)))
        other = layer.add("Mul", short, short)
    alike = layer.piece.cast(layer.reshape(layer.bottom(2), (shape[0],)), np.bool_)
    loss = layer.add("Where", alike, square, other)
    return [_divided(layer, _sum(layer, loss), 2 * shape[0])]


@row("Accuracy", source="accuracy")
def _accuracy(layer: CaffeLayer) -> list[str]:
    """A label is found if fewer than ``top_k`` others are as large as the value at it."""
    axis = layer.axis("accuracy_param.axis", 1)
    outer, _, inner = shape = _around(layer, axis)
    if layer.tops > 1:
        raise layer.refused("tells the accuracy of each class")
    values = layer.reshape(layer.bottom(), shape)
    chosen = _one_hot(layer, shape, "accuracy_param.ignore_label")
    ones = layer.piece.ints(1)
    at_label = layer.add("ReduceSum", layer.add("Mul", values, chosen), ones)
    as_large = layer.piece.cast(layer.add("GreaterOrEqual", values, at_label), layer.dtype)
    others = layer.add("Sub", layer.add("ReduceSum", as_large, ones), layer.number(1))
    top = layer.number(layer.integer("accuracy_param.top_k", 1))
    correct = layer.piece.cast(layer.add("Less", others, top), layer.dtype)
    labels = layer.reshape(layer.bottom(1), (outer, 1, inner))
    counted = _counted(layer, labels, "accuracy_param.ignore_label")
    right = _sum(layer, layer.add("Mul", correct, counted))
    return [layer.add("Div", right, _sum(layer, counted))]


def _around(layer: CaffeLayer, axis: int) -> tuple[int, int, int]:
    """The elements before, along and behind the axis of the classes."""
    shape = layer.shape()
    return count(shape[:axis]), shape[axis], count(shape[axis + 1 :])


def _one_hot(
    layer: CaffeLayer, shape: tuple[int, int, int], ignored: str = "loss_param.ignore_label"
) -> str:
    """One at each label that is not ignored, in the *shape* (outer, classes, inner)."""
    outer, classes, inner = shape
    labels = layer.reshape(layer.piece.cast(layer.bottom(1), np.int64), (outer, 1, inner))
    every = layer.piece.const(np.arange(classes).reshape(1, classes, 1))
    chosen = layer.piece.cast(layer.add("Equal", labels, every), layer.dtype)
    counted = _counted(layer, layer.reshape(layer.bottom(1), (outer, 1, inner)), ignored)
    return layer.add("Mul", chosen, counted)


def _at_labels(layer: CaffeLayer, values: str, shape: tuple[int, int, int]) -> tuple[str, str]:
    """The value at each label, and 1 for each label that counts: both (outer, 1, inner)."""
    outer, _, inner = shape
    flat = layer.reshape(values, shape)
    labels = layer.reshape(layer.bottom(1), (outer, 1, inner))
    counted = _counted(layer, labels)
    places = layer.piece.cast(layer.add("Mul", labels, counted), np.int64)
    return layer.add("GatherElements", flat, places, axis=1), counted


def _counted(layer: CaffeLayer, labels: str, ignored: str = "loss_param.ignore_label") -> str:
    """1 for each of *labels* that counts, 0 for one that is ignored."""
    if layer.setting(ignored) is None:
        same = layer.add("Equal", labels, labels)
    else:
        same = layer.add("Not", layer.add("Equal", labels, layer.number(layer.integer(ignored, 0))))
    return layer.piece.cast(same, layer.dtype)


def _normalisation(layer: CaffeLayer, usual: str) -> str:
    if layer.setting("loss_param.normalization") is None:
        old = layer.setting("loss_param.normalize")
        return usual if old is None else "VALID" if old else "BATCH_SIZE"
    return layer.choice("loss_param.normalization", _NORMALISED, usual)


def _normalised(
    layer: CaffeLayer, total: str, counted: str, how: str, batch: int, full_count: int
) -> str:
    if how == "VALID":
        valid = layer.add("Max", _sum(layer, counted), layer.number(1))
        return layer.add("Div", total, valid)
    return _divided(layer, total, {"BATCH_SIZE": batch, "FULL": full_count, "NONE": 1}[how])


def _divided(layer: CaffeLayer, total: str, by: float) -> str:
    return layer.add("Div", total, layer.number(max(by, 1)))


def _sum(layer: CaffeLayer, tensor: str) -> str:
    return layer.add("ReduceSum", tensor, keepdims=0)
