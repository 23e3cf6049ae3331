"""Ops that cannot be run are judged by their gain."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from divergraph.rootcause import fallback
from graphstore.model import Guilt


@pytest.mark.parametrize(
    ("error", "before", "guilt"),
    [(0.5, 0.0, Guilt.GUILTY), (0.5, math.nan, Guilt.GUILTY), (0.5, 0.4, Guilt.NONE)],
)
def test_what_cannot_be_run_is_judged_by_its_gain(error, before, guilt) -> None:
    assert fallback._guilt(fallback._gain(error, before)) is guilt


@pytest.mark.parametrize(
    ("error", "nonfinite", "found"), [(0.5, 3, 0.5), (math.nan, 3, math.inf), (math.nan, 0, None)]
)
def test_an_error_that_is_no_number_is_infinite_if_the_device_broke(error, nonfinite, found):
    metrics = SimpleNamespace(relative_euclidean_distance=error, device_nonfinite=nonfinite)
    told = fallback._error(SimpleNamespace(metrics=metrics))
    assert math.isnan(told) if found is None else told == found
