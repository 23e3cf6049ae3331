"""Losses and accuracy: what they are on the labels a net is fed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from divergraph.execute.translate.caffe.layer import CaffeLayer, row
from divergraph.execute.translate.caffe.shaping import count
from divergraph.execute.translate.piece import Expr

_NORMALISED = ("FULL", "VALID", "BATCH_SIZE", "NONE")
_TINY = float(np.finfo(np.float32).tiny)
_LEAST_PROBABILITY = 1e-20  # kLOG_THRESHOLD of Caffe


@row("EuclideanLoss", source="euclidean_loss")
def _euclidean(layer: CaffeLayer) -> list[Expr]:
    difference = layer.bottom() - layer.bottom(1)
    return [_divided(_sum(layer, difference * difference), 2 * layer.shape()[0])]


@row("SoftmaxWithLoss", source="softmax_loss")
def _softmax_loss(layer: CaffeLayer) -> list[Expr]:
    axis = layer.axis("softmax_param.axis", 1)
    chances = layer.add("Softmax", layer.bottom(), axis=axis)
    outer, classes, inner = _around(layer, axis)
    at_label, counted = _at_labels(layer, chances, (outer, classes, inner))
    at_label = at_label.max(_TINY)
    total = -_sum(layer, at_label.log() * counted)
    how = _normalisation(layer, "VALID")
    return [_normalised(layer, total, counted, how, outer, outer * inner), chances][: layer.tops]


@row("MultinomialLogisticLoss", source="multinomial_logistic_loss")
def _multinomial(layer: CaffeLayer) -> list[Expr]:
    shape = layer.shape()
    chances, _ = _at_labels(layer, layer.bottom(), (shape[0], count(shape[1:]), 1))
    logs = chances.max(_LEAST_PROBABILITY).log()
    return [_divided(-_sum(layer, logs), shape[0])]


@row("InfogainLoss", source="infogain_loss")
def _infogain(layer: CaffeLayer) -> list[Expr]:
    """The logarithms of all chances, weighted by the row of the third bottom at the label."""
    if len(layer.bottoms) < 3:
        raise layer.refused("reads its weights from a file (infogain_loss_param.source)")
    axis = layer.axis("infogain_loss_param.axis", 1)
    chances = layer.add("Softmax", layer.bottom(), axis=axis)
    outer, classes, inner = shape = _around(layer, axis)
    logs = chances.max(_LEAST_PROBABILITY).log()
    labels = layer.reshape(layer.bottom(1), (outer, inner))
    counted = _counted(layer, labels)
    places = layer.piece.cast(labels * counted, np.int64)
    table = layer.reshape(layer.bottom(2), (classes, classes))
    weights = layer.piece.transpose(layer.add("Gather", table, places, axis=0), 0, 2, 1)
    weighted = layer.reshape(logs, shape) * weights
    row_sums = layer.add("ReduceSum", weighted, layer.piece.ints(1), keepdims=0)
    total = -_sum(layer, row_sums * counted)
    how = _normalisation(layer, "VALID")
    return [_normalised(layer, total, counted, how, outer, outer * inner), chances][: layer.tops]


@row("SigmoidCrossEntropyLoss", source="sigmoid_cross_entropy_loss")
def _sigmoid_loss(layer: CaffeLayer) -> list[Expr]:
    value, wanted = layer.bottom(), layer.bottom(1)
    # x * t - log(1 + exp(x)), where nothing overflows
    gain = value * wanted - value.softplus()
    counted = _counted(layer, wanted)
    total = -_sum(layer, gain * counted)
    how = _normalisation(layer, "BATCH_SIZE")
    shape = layer.shape()
    return [_normalised(layer, total, counted, how, shape[0], count(shape))]


@row("HingeLoss", source="hinge_loss")
def _hinge(layer: CaffeLayer) -> list[Expr]:
    shape = layer.shape()
    classes = count(shape[1:])
    chosen = _one_hot(layer, (shape[0], classes, 1))
    flat = layer.reshape(layer.bottom(), (shape[0], classes, 1))
    margin = (flat * (1 - chosen * 2) + 1).relu()
    norm = layer.choice("hinge_loss_param.norm", ("", "L1", "L2"), "L1")
    if norm == "L2":
        margin = margin * margin
    return [_divided(_sum(layer, margin), shape[0])]


@row("ContrastiveLoss", source="contrastive_loss")
def _contrastive(layer: CaffeLayer) -> list[Expr]:
    shape = layer.shape()
    difference = layer.reshape(layer.bottom() - layer.bottom(1), (shape[0], count(shape[1:])))
    square = layer.add("ReduceSumSquare", difference, layer.piece.ints(1), keepdims=0)
    margin = layer.number(layer.real("contrastive_loss_param.margin", 1.0))
    if layer.flag("contrastive_loss_param.legacy_version", False):
        other = (margin - square).relu()
    else:
        short = (margin - square.sqrt()).relu()
        other = short * short
    alike = layer.piece.cast(layer.reshape(layer.bottom(2), (shape[0],)), np.bool_)
    loss = layer.add("Where", alike, square, other)
    return [_divided(_sum(layer, loss), 2 * shape[0])]


@row("Accuracy", source="accuracy")
def _accuracy(layer: CaffeLayer) -> list[Expr]:
    """A label is found if fewer than ``top_k`` others are as large as the value at it."""
    axis = layer.axis("accuracy_param.axis", 1)
    outer, _, inner = shape = _around(layer, axis)
    if layer.tops > 1:
        raise layer.refused("tells the accuracy of each class")
    values = layer.reshape(layer.bottom(), shape)
    chosen = _one_hot(layer, shape, "accuracy_param.ignore_label")
    ones = layer.piece.ints(1)
    at_label = layer.add("ReduceSum", values * chosen, ones)
    as_large = layer.piece.cast(values >= at_label, layer.dtype)
    others = layer.add("ReduceSum", as_large, ones) - 1
    top = layer.number(layer.integer("accuracy_param.top_k", 1))
    correct = layer.piece.cast(others < top, layer.dtype)
    labels = layer.reshape(layer.bottom(1), (outer, 1, inner))
    counted = _counted(layer, labels, "accuracy_param.ignore_label")
    return [_sum(layer, correct * counted) / _sum(layer, counted)]


def _around(layer: CaffeLayer, axis: int) -> tuple[int, int, int]:
    """The elements before, along and behind the axis of the classes."""
    shape = layer.shape()
    return count(shape[:axis]), shape[axis], count(shape[axis + 1 :])


def _one_hot(
    layer: CaffeLayer, shape: tuple[int, int, int], ignored: str = "loss_param.ignore_label"
) -> Expr:
    """One at each label that is not ignored, in the *shape* (outer, classes, inner)."""
    outer, classes, inner = shape
    labels = layer.reshape(layer.piece.cast(layer.bottom(1), np.int64), (outer, 1, inner))
    every = layer.piece.const(np.arange(classes).reshape(1, classes, 1))
    chosen = layer.piece.cast(labels.equals(every), layer.dtype)
    counted = _counted(layer, layer.reshape(layer.bottom(1), (outer, 1, inner)), ignored)
    return chosen * counted


def _at_labels(layer: CaffeLayer, values: Expr, shape: tuple[int, int, int]) -> tuple[Expr, Expr]:
    """The value at each label, and 1 for each label that counts: both (outer, 1, inner)."""
    outer, _, inner = shape
    flat = layer.reshape(values, shape)
    labels = layer.reshape(layer.bottom(1), (outer, 1, inner))
    counted = _counted(layer, labels)
    places = layer.piece.cast(labels * counted, np.int64)
    return layer.add("GatherElements", flat, places, axis=1), counted


def _counted(layer: CaffeLayer, labels: Expr, ignored: str = "loss_param.ignore_label") -> Expr:
    """1 for each of *labels* that counts, 0 for one that is ignored."""
    if layer.setting(ignored) is None:
        same = labels.equals(labels)
    else:
        same = ~labels.equals(layer.integer(ignored, 0))
    return layer.piece.cast(same, layer.dtype)


def _normalisation(layer: CaffeLayer, usual: str) -> str:
    if layer.setting("loss_param.normalization") is None:
        old = layer.setting("loss_param.normalize")
        return usual if old is None else "VALID" if old else "BATCH_SIZE"
    return layer.choice("loss_param.normalization", _NORMALISED, usual)


def _normalised(
    layer: CaffeLayer, total: Expr, counted: Expr, how: str, batch: int, full_count: int
) -> Expr:
    if how == "VALID":
        return total / _sum(layer, counted).max(1)
    return _divided(total, {"BATCH_SIZE": batch, "FULL": full_count, "NONE": 1}[how])


def _divided(total: Expr, by: float) -> Expr:
    return total / max(by, 1)


def _sum(layer: CaffeLayer, tensor: Expr) -> Expr:
    return layer.add("ReduceSum", tensor, keepdims=0)


# Caffe's recurrent layers, step by step as the net they are made of.
#
# ``cont`` is 0 where a sequence begins: there what was before counts as zero. Time is the first
# axis.


@row("LSTM", source="lstm and lstm_unit")
def _lstm(layer: CaffeLayer) -> list[Expr]:
    """Gates in the order input, forget, output, candidate; ``cont`` closes the forget gate."""
    hidden = layer.integer("recurrent_param.num_output", 0)
    steps, streams, projected, place = _projected_inputs(layer, 4 * hidden)
    weight = layer.weight(place, 4 * hidden, hidden)
    state, cell = _begin(layer, streams, hidden, 2)
    outputs = []
    for cont, fed in _steps(layer, projected, steps, streams, 4 * hidden):
        before = layer.add("Gemm", state * cont, weight, transB=1)
        gates = before + fed
        gates_split = layer.piece.add_many("Split", 4, gates, axis=1, num_outputs=4)
        opened, forget, output_gate = (gate.sigmoid() for gate in gates_split[:3])
        cell = forget * cont * cell + opened * gates_split[3].tanh()
        state = output_gate * cell.tanh()
        outputs.append(layer.reshape(state, (1, streams, hidden)))
    ends = [layer.reshape(state_part, (1, streams, hidden)) for state_part in (state, cell)]
    return [_joined(layer, outputs), *ends][: layer.tops]


@row("RNN", source="rnn")
def _rnn(layer: CaffeLayer) -> list[Expr]:
    """tanh(W_hh h + W_xh x + b_h), and tanh(W_ho h + b_o) of it as output."""
    hidden = layer.integer("recurrent_param.num_output", 0)
    steps, streams, projected, place = _projected_inputs(layer, hidden)
    weight = layer.weight(place, hidden, hidden)
    out, bias = layer.weight(place + 1, hidden, hidden), layer.weight(place + 2, hidden)
    (state,) = _begin(layer, streams, hidden, 1)
    outputs = []
    for cont, fed in _steps(layer, projected, steps, streams, hidden):
        before = layer.add("Gemm", state * cont, weight, transB=1)
        state = (before + fed).tanh()
        output = layer.add("Gemm", state, out, bias, transB=1).tanh()
        outputs.append(layer.reshape(output, (1, streams, hidden)))
    return [_joined(layer, outputs), layer.reshape(state, (1, streams, hidden))][: layer.tops]


def _exposed(layer: CaffeLayer) -> bool:
    return layer.flag("recurrent_param.expose_hidden", False)


def _projected_inputs(layer: CaffeLayer, width: int) -> tuple[int, int, Expr, int]:
    """Steps, streams, what the inputs give to all gates of all steps, and the place of the next
    weight."""
    steps, streams = layer.shape()[:2]
    inputs = count(layer.shape()[2:])
    flat = layer.reshape(layer.bottom(), (steps * streams, inputs))
    projected = layer.add(
        "Gemm", flat, layer.weight(0, width, inputs), layer.weight(1, width), transB=1
    )
    projected = layer.reshape(projected, (steps, streams, width))
    states = (2 if layer.settings.type == "LSTM" else 1) if _exposed(layer) else 0
    if len(layer.bottoms) - states < 3:
        return steps, streams, projected, 2
    size = count(layer.shape(2)[1:])
    still = layer.reshape(layer.bottom(2), (streams, size))
    still = layer.add("Gemm", still, layer.weight(2, width, size), None, transB=1)
    return steps, streams, projected + layer.reshape(still, (1, streams, width)), 3


def _begin(layer: CaffeLayer, streams: int, hidden: int, states: int) -> list[Expr]:
    """The states before the first step: the last bottoms, or zero."""
    if _exposed(layer):
        return [layer.reshape(bottom, (streams, hidden)) for bottom in layer.bottoms[-states:]]
    return [layer.array([[0.0] * hidden] * streams)] * states


def _steps(
    layer: CaffeLayer, projected: Expr, steps: int, streams: int, width: int
) -> Iterator[tuple[Expr, Expr]]:
    """``cont`` and what the inputs give, step by step."""
    cont = layer.reshape(layer.bottom(1), (steps, streams, 1))
    if steps == 1:
        yield layer.reshape(cont, (streams, 1)), layer.reshape(projected, (streams, width))
        return
    conts = layer.piece.add_many("Split", steps, cont, axis=0, num_outputs=steps)
    parts = layer.piece.add_many("Split", steps, projected, axis=0, num_outputs=steps)
    for one, part in zip(conts, parts, strict=True):
        yield layer.reshape(one, (streams, 1)), layer.reshape(part, (streams, width))


def _joined(layer: CaffeLayer, parts: list[Expr]) -> Expr:
    return parts[0] if len(parts) == 1 else layer.add("Concat", *parts, axis=0)
