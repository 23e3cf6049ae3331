"""Another function of the inputs, or the op with another attribute."""

from __future__ import annotations

import numpy as np
from feature_maps import Array, case, expected, label, on_device

from divergraph.rootcause.causes.rules import explain
from graphstore.model import Op, Tensor


def test_known_functions_are_named() -> None:
    x = expected(3)
    finding = explain(
        case(
            on_device(np.clip(0.2 * x + 0.5, 0, 1)),
            1 / (1 + np.exp(-x)),
            inputs={"x": x},
            ops=(Op("s", "s", "Sigmoid"),),
        )
    )
    assert finding is not None
    assert finding.label == "wrong_activation"
    assert "HardSigmoid" in finding.sentence


def test_zeros_of_no_relu_are_no_relu_that_is_missing() -> None:
    x = np.maximum(np.random.default_rng(3).standard_normal((16, 40)), 0).astype(np.float32)
    device = np.random.default_rng(4).standard_normal((16, 40)).astype(np.float32)
    device[x > 0] = x[x > 0]
    scaled = {"inputs": {"x": x * 2}, "ops": (Op("m", "m", "Mul"),)}

    assert label(on_device(-np.abs(device) * (x == 0) + x), x, **scaled) != "wrong_activation"


def test_what_hardly_varies_is_no_function() -> None:
    """All ones are near the cosine of small numbers."""
    x = np.random.default_rng(3).normal(0, 0.05, (8, 40)).astype(np.float32)
    ops = (Op("s", "s", "Softmax"),)

    finding = explain(case(np.ones_like(x), np.full_like(x, 0.025), inputs={"x": x}, ops=ops))

    assert finding is not None
    assert finding.label != "wrong_activation"


def test_attributes_are_tried_where_ops_can_be_run_again() -> None:
    x = expected(3, (6, 8))

    def softmax(axis: int) -> Array:
        powers = np.exp(x - x.max())
        made: Array = (powers / powers.sum(axis=axis, keepdims=True)).astype(np.float32)
        return made

    finding = explain(
        case(
            on_device(softmax(0)),
            softmax(1),
            ops=(Op("s", "s", "Softmax", outputs=(Tensor("y"),), attrs={"axis": 1}),),
            rerun=lambda _op, attrs: softmax(int(str(attrs["axis"]))),
        )
    )
    assert finding is not None
    assert finding.label == "wrong_axis"
    assert "axis 0 in place of 1" in finding.sentence


def test_a_softmax_over_an_axis_of_one_is_no_constant_output() -> None:
    """All ones: a setting of the op explains that."""
    logits = np.random.default_rng(2).standard_normal((1, 10)).astype(np.float32)
    right = np.exp(logits) / np.exp(logits).sum()
    softmax = Op(id="s", name="s", type="Softmax", attrs={"axis": -1})
    device = np.full_like(right, 0.9995)
    again = {"axis": lambda axis: np.ones_like(right) if axis in (0, -2) else right}
    finding = explain(
        case(
            device,
            right,
            ops=(softmax,),
            inputs={"x": logits},
            rerun=lambda _op, attrs: again["axis"](attrs["axis"]),
        )
    )
    assert finding is not None
    assert finding.label == "wrong_axis"
