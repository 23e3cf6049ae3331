"""The propagated part of an error, where single values of the reference were explained away."""

from __future__ import annotations

import math

import numpy as np
import pytest
from judged_output import context, split_by

GOLDEN = np.array([3.0, 4.0, 1e-9])
FLUSHED = np.array([3.3, 4.4, np.nan])


def propagated(device: list[float], reference: np.ndarray) -> float | None:
    known = context(inputs_error=0.1)
    return split_by(np.array(device), reference, GOLDEN, 1e-4, known).propagated


def test_a_value_explained_away_counts_for_nothing() -> None:
    assert propagated([3.3, 4.4, 0.0], FLUSHED) == pytest.approx(0.1)


def test_a_reference_that_makes_nan_like_the_device_is_infinitely_off() -> None:
    assert propagated([3.3, 4.4, math.nan], FLUSHED) == math.inf
