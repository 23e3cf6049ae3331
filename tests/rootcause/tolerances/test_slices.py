"""One channel, row or step that is wrong, and noise that looks like one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divergraph.rootcause.devices.precisions.bf16 import BF16
from divergraph.rootcause.tolerances.slices import (
    departing_suspicion,
    flat_suspicion,
    slice_suspicion,
)

UNIT = BF16.unit / 4


def layer(seed: int, *shape: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A product, the same with operands in bfloat16, and one of operands a little off."""
    rng = np.random.default_rng(seed)
    rows, width = shape
    x, w = rng.standard_normal((rows, 24)), rng.standard_normal((24, width))
    w *= np.exp(rng.uniform(-1, 1, width))  # channels of different sizes
    x, w = x.astype(np.float32), w.astype(np.float32)
    near = (1 + rng.uniform(-1, 1, w.shape) * BF16.unit).astype(np.float32)
    return x @ w, BF16.rounded(x) @ BF16.rounded(w), x @ BF16.rounded(w * near)


@given(st.integers(0, 2**32 - 1), st.sampled_from([(8, 64), (40, 40), (200, 9)]))
def test_rounding_is_suspicious_in_no_slice(seed: int, shape: tuple[int, int]) -> None:
    exact, imitated, device = layer(seed, *shape)
    assert slice_suspicion(exact, device, [imitated], UNIT, 0.0) < 3


def test_one_value_is_a_slice_where_all_others_are_as_expected() -> None:
    exact, imitated, _ = layer(5, 1, 214)
    device = imitated.copy()
    device[0, 66] += np.float32(60) * np.abs(imitated - exact)[0, 66]
    assert slice_suspicion(exact, device, [imitated], UNIT, 0.0) > 10


@given(st.integers(0, 2**32 - 1))
def test_single_values_of_noise_that_is_not_imitated_exactly_say_nothing(seed: int) -> None:
    exact, imitated, device = layer(seed, 1, 214)
    assert slice_suspicion(exact, device, [imitated], UNIT, 0.0) < 6


def test_a_channel_with_one_value_is_held_against_the_noise_of_others() -> None:
    rng = np.random.default_rng(2)
    exact = np.maximum(rng.standard_normal((500, 16)), 0.0).astype(np.float32)
    exact[1:, 3] = 0.0  # as behind a Relu
    exact[0, 3] = 1.0
    imitated, device = (
        exact * (1 + rng.uniform(-1, 1, exact.shape) * BF16.unit).astype(np.float32)
        for _ in range(2)
    )
    imitated[0, 3] = exact[0, 3]  # by luck
    assert slice_suspicion(exact, device, [imitated], UNIT, 0.0) < 3
    device[0, 3] = 1.1
    assert slice_suspicion(exact, device, [imitated], UNIT, 0.0) > 10


@pytest.mark.parametrize("axis", [0, 1])
def test_a_slice_that_is_off_is_seen_whatever_its_axis(axis: int) -> None:
    exact, imitated, device = layer(1, 64, 128)
    at = (5, slice(None)) if axis == 0 else (slice(None), 5)
    device[at] *= np.float32(1.13)
    whole = np.linalg.norm(device - exact) / np.linalg.norm(imitated - exact)
    assert whole < 8
    assert slice_suspicion(exact, device, [imitated], UNIT, 0.0) > 10


def test_a_channel_the_imitation_holds_exactly_is_not_held_to_it() -> None:
    exact, imitated, device = layer(2, 64, 128)
    imitated[:, 9] = exact[:, 9]
    assert slice_suspicion(exact, device, [imitated], UNIT, 0.0) < 3


def test_few_slices_and_vectors_are_not_looked_at() -> None:
    exact, imitated, device = layer(3, 6, 6)
    assert slice_suspicion(exact, device + 1, [imitated], UNIT, 0.0) == 0
    flat = exact.reshape(-1)
    assert slice_suspicion(flat, flat + 1, [flat], UNIT, 0.0) == 0


def test_infinities_are_for_others_to_judge() -> None:
    exact, imitated, device = layer(4, 32, 32)
    device[3, 3] = np.inf
    assert slice_suspicion(exact, device, [imitated], UNIT, 0.0) == 0


STEP = 0.05


def quantised(seed: int, *shape: int) -> tuple[np.ndarray, np.ndarray]:
    """A product of values and weights on a grid, and what it is exactly."""
    rng = np.random.default_rng(seed)
    rows, width = shape
    x, w = rng.standard_normal((rows, 24)), rng.standard_normal((24, width))
    exact, made = x @ w, (np.rint(x / STEP) * STEP) @ w
    return exact.astype(np.float32), made.astype(np.float32)


def departing(exact: np.ndarray, device: np.ndarray, made: np.ndarray) -> float | None:
    return departing_suspicion(exact, device, made, 2.0**-22, 0.0, 0.0)


@pytest.mark.parametrize("shape", [(64, 32), (1, 10)], ids=["channels", "single values"])
def test_what_departs_from_errors_that_all_others_repeat_is_seen(shape: tuple[int, int]) -> None:
    exact, made = quantised(2, *shape)
    device = made.copy()
    assert departing(exact, device, made) == 0
    device[:, 4] += np.float32(0.8) * np.sign(device[:, 4])
    found = departing(exact, device, made)
    assert found is not None
    assert found > 6


@given(st.integers(0, 2**32 - 1))
def test_values_next_to_a_tie_depart_by_no_more_than_noise(seed: int) -> None:
    """An input that is rounded the other way moves its row by a step of that input."""
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((40, 8)), rng.standard_normal((8, 30))
    x[3, 2] = 0.5 * STEP * (2 * rng.integers(-20, 20) + 1)
    one, other = np.rint((x / STEP) - 1e-9) * STEP, np.rint((x / STEP) + 1e-9) * STEP
    exact, made, device = (each.astype(np.float32) for each in (x @ w, one @ w, other @ w))
    found = departing(exact, device, made)
    assert found is not None
    assert found < 6


def test_a_step_of_the_output_never_counts() -> None:
    exact, _ = quantised(3, 1, 12)
    made = np.rint(exact / 0.1).astype(np.float32) * np.float32(0.1)
    device = made.copy()
    device[0, 5] += np.float32(0.1)
    noise = 0.1 / 12**0.5
    assert departing_suspicion(exact, device, made, 2.0**-22, noise, 0.1) < 0.01
    device[0, 5] += np.float32(0.4)
    assert departing_suspicion(exact, device, made, 2.0**-22, noise, 0.1) > 6


def test_where_few_slices_have_the_errors_of_the_imitation_none_departs() -> None:
    exact, made = quantised(4, 40, 24)
    device = exact + (made - exact)[::-1]
    device[:, 4] *= 2
    assert departing(exact, device, made) is None
    assert departing(exact[0], device[0], made[0]) is None
    device[3, 3] = np.inf
    assert departing(exact, device, made) is None


def test_one_wrong_turn_is_seen_by_a_flat_share_although_those_after_it_are_off_as_well() -> None:
    rng = np.random.default_rng(5)
    exact = rng.standard_normal((12, 1, 16)).astype(np.float32)
    device = exact + 1e-3 * rng.standard_normal(exact.shape)
    assert flat_suspicion(exact, device, 0.02, 1.0) < 1
    fading = 0.35 * 0.5 ** np.arange(7)
    device[5:] += fading[:, None, None] * rng.standard_normal((7, 1, 16))
    assert np.linalg.norm(device - exact) < 6 * 0.02 * np.linalg.norm(exact)
    assert flat_suspicion(exact, device, 0.02, 1.0) > 10


def test_a_flat_share_is_of_large_slices_too_and_says_nothing_of_single_values() -> None:
    rng = np.random.default_rng(6)
    exact = rng.standard_normal((16, 40)).astype(np.float32)
    exact[3] *= 50
    assert flat_suspicion(exact, exact * np.float32(1.02), 0.02, 1.0) < 1.1
    assert flat_suspicion(exact[:1], exact[:1] * np.float32(2), 0.02, 1.0) == 0
    assert flat_suspicion(exact[0], exact[0] * np.float32(2), 0.02, 1.0) == 0
    exact[0, 0] = np.inf
    assert flat_suspicion(exact, exact + 1, 0.02, 1.0) == 0
