"""One channel, row or step that is wrong, and noise that looks like one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divergraph.rootcause.devices.precisions.bf16 import BF16
from divergraph.rootcause.tolerances.slices import slice_suspicion

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
