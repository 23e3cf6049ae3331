"""Losses, accuracy and recurrent layers, against their definitions in plain numpy."""

from __future__ import annotations

import numpy as np
import pytest


def softmax(x):
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


LABELS = np.array([0, 2, 1, 2], np.float32)


@pytest.mark.parametrize(("params", "kept", "by"), [
    ("", LABELS >= 0, 4), ("loss_param { ignore_label: 2 }", LABELS != 2, 2),
    ("loss_param { ignore_label: 2 normalization: BATCH_SIZE }", LABELS != 2, 4),
    ("loss_param { normalize: false }", LABELS >= 0, 4),
    ("loss_param { normalization: NONE }", LABELS >= 0, 1),
    ("loss_param { normalization: FULL }", LABELS >= 0, 4),
])  # fmt: skip
def test_softmax_with_loss(nets, rng, params, kept, by):
    x = rng(4, 3)
    made = nets.one("SoftmaxWithLoss", params, x, LABELS)
    chances = softmax(x)[np.arange(4), LABELS.astype(int)]
    assert made.shape == ()
    assert made == pytest.approx(-np.log(chances)[kept].sum() / by, rel=1e-5)


def test_softmax_loss_of_each_place(nets, rng):
    x, labels = rng(2, 3, 4), np.array([[0, 1, 2, 0], [1, 1, 2, 2]], np.float32)
    made = nets.one("SoftmaxWithLoss", "", x, labels)
    chances = np.take_along_axis(softmax(x), labels.astype(int)[:, None], 1)
    assert made == pytest.approx(-np.log(chances).mean(), rel=1e-5)


def test_other_losses(nets, rng):
    x, y = rng(4, 3), rng(4, 3, seed=1)
    made = nets.one("EuclideanLoss", "", x, y)
    assert made == pytest.approx(((x - y) ** 2).sum() / 8, rel=1e-5)
    wanted = (y > 0).astype(np.float32)
    made = nets.one("SigmoidCrossEntropyLoss", "", x, wanted)
    cross = wanted * np.log(sigmoid(x)) + (1 - wanted) * np.log(1 - sigmoid(x))
    assert made == pytest.approx(-cross.sum() / 4, rel=1e-5)
    chances = softmax(x)
    made = nets.one("MultinomialLogisticLoss", "", chances, LABELS)
    assert made == pytest.approx(-np.log(chances[range(4), LABELS.astype(int)]).mean(), rel=1e-5)
    signs = np.where(np.arange(3) == LABELS[:, None], -1, 1)
    margin = np.maximum(0, 1 + signs * x)
    assert nets.one("HingeLoss", "", x, LABELS) == pytest.approx(margin.sum() / 4, rel=1e-5)
    made = nets.one("HingeLoss", "hinge_loss_param { norm: L2 }", x, LABELS)
    assert made == pytest.approx((margin**2).sum() / 4, rel=1e-5)


@pytest.mark.parametrize("legacy", [False, True])
def test_contrastive_loss(nets, rng, legacy):
    x, y, alike = rng(4, 3) / 3, rng(4, 3, seed=1) / 3, np.array([1, 0, 0, 1], np.float32)
    said = f"contrastive_loss_param {{ margin: 2 legacy_version: {str(legacy).lower()} }}"
    made = nets.one("ContrastiveLoss", said, x, y, alike)
    square = ((x - y) ** 2).sum(1)
    other = np.maximum(0, 2 - square) if legacy else np.maximum(0, 2 - np.sqrt(square)) ** 2
    assert made == pytest.approx(np.where(alike, square, other).sum() / 8, rel=1e-5)


@pytest.mark.parametrize(("params", "wanted"), [
    ("", 0.25), ("top_k: 2", 0.75), ("ignore_label: 2", 0.5),
])  # fmt: skip
def test_accuracy(nets, params, wanted):
    x = np.array([[3, 2, 1], [3, 1, 2], [3, 2, 2.5], [1, 3, 2]], np.float32)
    labels = np.array([0, 2, 1, 2], np.float32)
    assert nets.one("Accuracy", f"accuracy_param {{ {params} }}", x, labels) == wanted


def test_a_value_as_large_as_that_at_the_label_counts_against_it(nets):
    x = np.array([[1, 1, 0]], np.float32)
    assert nets.one("Accuracy", "", x, np.zeros(1, np.float32)) == 0


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("still", [False, True])
def test_lstm(nets, rng, steps, still):
    hidden, x, more = 3, rng(steps, 2, 5), rng(2, 4)
    cont = np.ones((steps, 2), np.float32)
    cont[0] = 0
    cont[-1, 1] = 0  # a second sequence begins there
    weights = [rng(12, 5), rng(12), *([rng(12, 4)] if still else []), rng(12, 3)]
    inputs = (x, cont, more) if still else (x, cont)
    made = nets.one("LSTM", "recurrent_param { num_output: 3 }", *inputs, weights=weights)
    h = c = np.zeros((2, hidden))
    for t in range(steps):
        gates = x[t] @ weights[0].T + weights[1] + (h * cont[t, :, None]) @ weights[-1].T
        if still:
            gates = gates + more @ weights[2].T
        i, f, o, g = np.split(gates, 4, 1)
        c = cont[t, :, None] * sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        assert np.allclose(made[t], h, atol=1e-5)


def test_rnn_from_a_given_state(nets, rng):
    x, cont, begin = rng(3, 2, 5), np.ones((3, 2), np.float32), rng(1, 2, 4)
    weights = [rng(4, 5), rng(4), rng(4, 4), rng(4, 4, seed=1), rng(4, seed=1)]
    text = (
        'layer { name: "y" type: "RNN" bottom: "x" bottom: "cont" bottom: "begin" top: "y" '
        'top: "end" recurrent_param { num_output: 4 expose_hidden: true } }'
    )
    made = nets.run(text, {"x": x, "cont": cont, "begin": begin}, {"y": weights})
    h = begin[0]
    for t in range(3):
        h = np.tanh(x[t] @ weights[0].T + weights[1] + h @ weights[2].T)
        wanted = np.tanh(h @ weights[3].T + weights[4])
        assert np.allclose(made["y"][t], wanted, atol=1e-5)
    assert np.allclose(made["end"][0], h, atol=1e-5)


@pytest.mark.parametrize("ignored", [None, 2])
def test_infogain_weighs_all_chances_by_the_row_of_the_label(nets, rng, ignored):
    x, table = rng(3, 4, 2, 2), np.abs(rng(1, 1, 4, 4))
    labels = np.arange(12).reshape(3, 1, 2, 2).astype(np.float32) % 4
    said = "" if ignored is None else f"loss_param {{ ignore_label: {ignored} }}"
    made = nets.one("InfogainLoss", said, x, labels, table)
    power = np.exp(x.astype(float))
    logs = np.log(power / power.sum(1, keepdims=True))
    losses = [
        -(table[0, 0, int(labels[n, 0, i, j])] * logs[n, :, i, j]).sum()
        for n, i, j in np.ndindex(3, 2, 2)
        if labels[n, 0, i, j] != ignored
    ]
    assert made == pytest.approx(np.mean(losses), rel=1e-5)
