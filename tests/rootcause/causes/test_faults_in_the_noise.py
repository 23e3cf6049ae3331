"""Faults in a channel or two that the noise of all others hides, and in so few values that much
explains them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from divergraph.rootcause.causes.evidence import FaultEvidence, InsideStep
from divergraph.rootcause.causes.rules import explain
from divergraph.rootcause.devices.precisions.bf16 import BF16
from graphstore.model import DType, Finding, InputRef, Op, Tensor

Array = np.ndarray[Any, Any]
READ, CHANNELS = 32, 256
AT = (5, 17)
PRODUCT = Op("m", "m", "MatMul", (InputRef("x"), InputRef("w")), (Tensor("y"),))
SUM = Op("a", "a", "Add", (InputRef("x"), InputRef("b")), (Tensor("y"),))


def weights() -> Array:
    return np.random.default_rng(1).standard_normal((READ, CHANNELS)).astype(np.float32)


def rows(count: int) -> Array:
    return np.random.default_rng(2).standard_normal((count, READ)).astype(np.float32)


def cause(
    x: Array,
    wrong: Array,
    *,
    right: Array | None = None,
    rounded: bool = True,
    bias: Array | None = None,
) -> Finding:
    """What is said of a device that multiplied *x* by *wrong* in place of the weights."""
    right = weights() if right is None else right
    rounding = BF16.rounded if rounded else np.asarray

    def made(w: Array) -> Array:
        added = 0.0 if bias is None else bias
        return np.asarray(rounding(rounding(x) @ rounding(w) + added), np.float32)

    def again(trials: Sequence[Mapping[str, Array]]) -> list[Array]:
        known = {"w": right, "b": 0.0 if bias is None else bias}
        return [x @ {**known, **trial}["w"] + {**known, **trial}["b"] for trial in trials]

    reference = x @ right + (0.0 if bias is None else bias)
    apart = made(right).astype(np.float64) - reference
    floor = float(np.linalg.norm(apart) / np.linalg.norm(reference))
    more = {} if bias is None else {"b": bias}
    found = explain(
        FaultEvidence(
            "m",
            0,
            made(wrong),
            reference,
            max(floor, 2.0**-23),
            {"x": x},
            dtype=DType.FLOAT32,
            ops=(PRODUCT,),
            constants={"w": right, **more},
            reweigh=again,
        )
    )
    assert found is not None
    return found


def with_one(by: float) -> Array:
    wrong = weights()
    wrong[AT] += np.float32(by)
    return wrong


def test_a_weight_whose_error_is_less_than_the_noise_of_all_is_named() -> None:
    found = cause(rows(200), with_one(0.4))
    assert found.label == "wrong_weights"
    assert "w[5, 17]" in found.sentence
    assert found.evidence["slices"] == [17]


def test_a_channel_that_is_dead_in_the_noise_is_said_to_be() -> None:
    wrong = weights()
    wrong[:, 17] = 0.0
    x = rows(200)
    found = cause(x, wrong)
    assert found.label == "dead_channels"
    assert found.evidence["slices"] == [17]


def test_in_a_channel_of_small_values_less_is_noise() -> None:
    small = weights()
    small[:, 17] *= np.float32(0.002)
    wrong = small.copy()
    wrong[:, 17] *= np.float32(1.13)
    found = cause(rows(200), wrong, right=small)
    assert found.label in ("wrong_weights", "channel_gain", "gain")
    assert found.evidence["slices"] == [17]


def test_where_no_channel_stands_out_no_weight_is_named() -> None:
    found = cause(rows(200), weights())
    assert found.label in ("unclassified", "rounding")


def test_two_exact_values_tell_one_weight_of_many() -> None:
    found = cause(rows(3), with_one(0.4), rounded=False)
    assert found.label == "wrong_weights"
    assert found.evidence["places"] == [list(AT)]


def test_three_rounded_values_do_not() -> None:
    """Of 32 weights some one fits them whatever is wrong."""
    wrong = weights()
    wrong[:, 17] += np.random.default_rng(4).normal(0, 0.2, READ).astype(np.float32)
    found = cause(rows(3), wrong)
    assert "exactly" not in found.sentence
    assert found.confidence <= 0.6


def test_guesses_that_are_far_worse_than_none_cost_no_answer() -> None:
    """The weights of another channel leave a hundred times the error, in each of 4000 values."""
    wrong = weights()
    wrong[:, 17] += np.random.default_rng(4).normal(0, 0.01, READ).astype(np.float32)
    assert cause(rows(4000), wrong, rounded=False).label in ("wrong_channels", "unclassified")


def test_weights_that_read_alike_are_not_told_apart() -> None:
    x = rows(40)
    x[:, 9] = x[:, AT[0]]
    found = cause(x, with_one(0.4), rounded=False)
    assert found.label == "wrong_weights"
    assert "(or one of 1 other weight)" in found.sentence
    assert found.confidence <= 0.75


def test_a_weight_that_reads_much_the_same_everywhere_is_not_told_as_the_bias() -> None:
    x = rows(60)
    x[:, AT[0]] = 1.0 + 0.02 * x[:, AT[0]]
    found = cause(x, with_one(2.0), bias=np.ones(CHANNELS, np.float32))
    assert found.label == "wrong_weights" or found.confidence <= 0.65
    assert "w[5, 17]" in found.sentence


def test_the_only_value_of_a_channel_may_come_of_its_weights() -> None:
    found = cause(rows(1), with_one(3.0))
    assert found.label == "wrong_parameters"
    assert "only channel 17 is wrong, as with the weights in w" in found.sentence
    assert "1 value of each channel cannot tell which, nor whether a bit flipped" in found.sentence
    assert found.evidence["slices"] == [17]
    assert found.confidence <= 0.6


def test_or_of_its_bias_where_there_is_one() -> None:
    x, bias = rows(1), np.ones(CHANNELS, np.float32)
    found = cause(x, with_one(3.0), bias=bias, rounded=False)
    assert found.label == "wrong_parameters"
    off = float(x[0] @ (with_one(3.0) - weights())[:, 17])
    alternatives = found.evidence["alternatives"]
    assert isinstance(alternatives, dict)
    assert alternatives["b"] == pytest.approx([off], rel=1e-3)
    product = float(x[0] @ weights()[:, 17])
    assert alternatives["w"] == pytest.approx([off / product], rel=1e-3)
    assert f"b[17] {1 + off:.5g} in place of 1" in found.sentence


def test_a_product_without_weights_has_none_that_are_wrong() -> None:
    x = np.random.default_rng(3).standard_normal((1, 6)).astype(np.float32)
    device = x.copy()
    device[0, 4] += 1.0
    found = explain(FaultEvidence("m", 0, device, x, 2.0**-23, ops=(PRODUCT,)))
    assert found is not None
    assert found.label == "few_values"
    assert "only 1 value of 6 is wrong" in found.sentence


@pytest.mark.parametrize("count", [1, 2, 60])
def test_a_changed_value_of_a_bias_is_told_with_what_else_a_single_value_may_be(count: int) -> None:
    x = np.random.default_rng(3).standard_normal((count, CHANNELS)).astype(np.float32)
    bias = np.random.default_rng(4).standard_normal(CHANNELS).astype(np.float32)
    wrong = bias.copy()
    wrong[17] += 1.5
    found = explain(
        FaultEvidence(
            "a",
            0,
            x + wrong,
            x + bias,
            2.0**-23,
            {"x": x},
            dtype=DType.FLOAT32,
            ops=(SUM,),
            constants={"b": bias},
            reweigh=lambda trials: [x + trial["b"] for trial in trials],
        )
    )
    assert found is not None
    assert found.label == "wrong_constant"
    assert f"b[17] {wrong[17]:.5g} in place of {bias[17]:.5g}" in found.sentence
    assert ("or a flipped bit" in found.sentence) is (count == 1)
    assert (found.confidence > 0.8) is (count == 60)


@dataclass(frozen=True)
class ProductAndBias:
    """A product of *x* with the weights, not measured, and a bias added to it."""

    x: Array
    bias: Array

    @property
    def steps(self) -> Sequence[InsideStep]:
        value = self.x @ weights()
        return [InsideStep(PRODUCT, "y", value, {"x": self.x}, {"w": weights()})]

    def replaced(self, guesses: Sequence[tuple[InsideStep, Array]]) -> list[Array]:
        return [np.asarray(value, np.float32) + self.bias for _, value in guesses]

    def remade(self, step: InsideStep, trials: Sequence[Mapping[str, Array]]) -> list[Array]:
        known = {"x": self.x, "w": weights()}
        return [{**known, **trial}["x"] @ {**known, **trial}["w"] for trial in trials]


@pytest.mark.parametrize(("noise", "label"), [(1e-6, "dead_channels"), (0.02, "few_values")])
def test_of_many_guesses_one_fits_a_single_value_in_the_noise(noise: float, label: str) -> None:
    inside = ProductAndBias(rows(1), np.ones(CHANNELS, np.float32))
    reference = inside.x @ weights() + inside.bias
    device = reference.copy()
    device[0, 17] = 1.0  # as if all its weights were 0
    summed = Op("s", "s", "Add", (InputRef("y"), InputRef("b")), (Tensor("z"),))
    found = explain(
        FaultEvidence(
            "s",
            0,
            device,
            reference,
            noise,
            {"x": inside.x},
            DType.FLOAT32,
            (PRODUCT, summed),
            inside=inside,
        )
    )
    assert found is not None
    assert found.label == label, found.sentence
