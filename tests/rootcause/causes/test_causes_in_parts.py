"""Errors in a part of an output: where they are, and what is wrong there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from divergraph.rootcause.causes.evidence import FaultEvidence
from divergraph.rootcause.causes.rules import explain
from graphstore.model import DType, Finding

Array = np.ndarray[Any, np.dtype[np.float32]]
HALF = 2.0**-11
SHAPE = (2, 16, 24, 20)


def expected(shape: tuple[int, ...] = SHAPE) -> Array:
    """A feature map, its channels of different size."""
    values = np.random.default_rng(4).standard_normal(shape)
    values *= np.linspace(0.5, 2, shape[1]).reshape(-1, *(1,) * (len(shape) - 2))
    return values.astype(np.float32)


def cause(fault: Callable[[Array], Array], values: Array | None = None) -> Finding:
    """What is said of a half-precision device with this fault."""
    reference = expected() if values is None else values
    noise = np.random.default_rng(1).standard_normal(reference.shape) * HALF
    device = (reference * (1 + noise)).astype(np.float16).astype(np.float32)
    made = np.ascontiguousarray(fault(device), np.float32)
    finding = explain(FaultEvidence("op", 0, made, reference, 1.2 * HALF, dtype=DType.FLOAT16))
    assert finding is not None
    return finding


def flipped_bit(x: Array) -> Array:
    x[1, 3, 4, 5] = 4096.0
    return x


def stretch_of_zeros(x: Array) -> Array:
    x.reshape(-1)[5000:6500] = 0
    return x


def garbage_at_the_end(x: Array) -> Array:
    x.reshape(-1)[-1500:] = np.random.default_rng(8).normal(0, 9, 1500)
    return x


def transposed_tile(x: Array) -> Array:
    x[:, :, :8, 8:16] = x[:, :, :8, 8:16].swapaxes(2, 3).copy()
    return x


def doubled_tile(x: Array) -> Array:
    x[:, :, 8:16, 4:12] *= 2
    return x


def lane(x: Array) -> Array:
    x.reshape(-1)[5::16] = 0
    return x


def border(x: Array) -> Array:
    x[:, :, [0, -1]] += 1
    x[..., [0, -1]] += np.random.default_rng(8).standard_normal(2)
    return x


def copied_item(x: Array) -> Array:
    x[1] = x[0]
    return x


def copied_rows(x: Array) -> Array:
    x[:, :, 8:16] = x[:, :, :8]
    return x


PARTS: dict[str, tuple[Callable[[Array], Array], str, str]] = {
    "flipped bit": (flipped_bit, "few_values", "4096 at [1, 3, 4, 5]"),
    "zeros": (stretch_of_zeros, "all_zero", "only elements 5000 to 6499 in memory"),
    "garbage": (garbage_at_the_end, "unrelated_values", "the end of it"),
    "turned tile": (transposed_tile, "reordered", "block of indices 0 to 7 of axis 2, 8 to 15 of"),
    "tile added twice": (doubled_tile, "gain", "8 to 15 of axis 2, 4 to 11 of axis 3"),
    "lane": (lane, "all_zero", "every 16th value in memory, from 5 on"),
    "border": (border, "wrong_border", "the border, 1 wide, of axes 2 and 3"),
    "copied item": (
        copied_item,
        "repeated_slices",
        "slice 1 of axis 0 holds the values of slice 0",
    ),
    "copied rows": (copied_rows, "repeated_slices", "slices 8-15 of axis 2 hold the values of"),
}


@pytest.mark.parametrize("kind", PARTS)
def test_the_part_and_what_is_wrong_there_are_said(kind: str) -> None:
    fault, label, words = PARTS[kind]

    finding = cause(fault)

    assert finding.label == label
    assert words in finding.sentence
    assert finding.confidence >= 0.75


def test_a_part_with_errors_of_no_kind_is_still_named() -> None:
    def noisy_block(x: Array) -> Array:
        x[:, :, 4:12, 4:12] *= np.random.default_rng(8).uniform(0.5, 1.5, (2, 16, 8, 8))
        return x

    finding = cause(noisy_block)

    assert finding.label == "wrong_region"
    assert finding.evidence["box"] == [[0, 1], [0, 15], [4, 11], [4, 11]]


def test_values_that_wrap_around_are_told_from_values_cut_off() -> None:
    def wrapped(x: Array) -> Array:
        step = 4.0 / 127
        return ((np.round(x / step) + 128) % 256 - 128) * step

    finding = cause(wrapped)

    assert finding.label == "wrapped_around"
    assert finding.evidence["period"] == pytest.approx(256 * 4.0 / 127, rel=0.01)


def test_dropout_left_on_is_seen_by_its_zeros_and_its_factor() -> None:
    def dropped(x: Array) -> Array:
        kept = np.random.default_rng(8).random(x.shape) < 0.9
        return np.where(kept, x / 0.9, 0)

    finding = cause(dropped)

    assert finding.label == "scattered_zeros"
    assert "as a Dropout does in training" in finding.sentence


def test_other_values_of_the_same_distribution_are_not_the_right_ones_in_another_order() -> None:
    other = np.random.default_rng(9).standard_normal((64, 120)).astype(np.float32)
    values = np.random.default_rng(4).standard_normal((64, 120)).astype(np.float32)

    finding = cause(lambda _: other, values)

    assert finding.label == "unrelated_values"


def test_scattered_noise_is_no_part() -> None:
    def noise(x: Array) -> Array:
        return x * (1 + 0.05 * np.random.default_rng(8).standard_normal(x.shape))

    assert cause(noise).label in ("unclassified", "rounding")
