"""Arithmetics imitated by rounding, and found from values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from divergraph.rootcause.devices.precision import precision_of
from divergraph.rootcause.devices.precisions.bf16 import BF16
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.values import norms, relative
from graphstore.model import DType

singles = hnp.arrays(
    np.float32,
    hnp.array_shapes(max_dims=3, max_side=5),
    elements=st.floats(-60000, 60000, width=32),
)


@given(singles)
def test_half_precision_is_that_of_the_processor_within_its_range(values):
    assert np.array_equal(FP16.rounded(values), values.astype(np.float16).astype(np.float32))


@given(singles, st.sampled_from([FP16, BF16]))
def test_rounding_twice_changes_nothing_and_is_off_by_a_unit_at_most(values, precision):
    once = precision.rounded(values)
    assert np.array_equal(precision.rounded(once), once)
    normal = np.abs(values) >= 2.0**-14
    assert np.all(np.abs(once - values)[normal] <= precision.unit * np.abs(values)[normal])


def test_an_overflow_is_no_rounding():
    assert FP16.rounded(np.array([1.2e5], np.float32))[0] == pytest.approx(1.2e5, rel=1e-3)
    assert BF16.rounded(np.array([65504], np.float16))[0] == 65504
    kept = BF16.rounded(np.array([np.inf, -np.inf, np.nan], np.float32))
    assert np.isinf(kept[:2]).all()
    assert np.isnan(kept[2])


def test_the_precision_shows_in_the_values_not_in_the_type_alone():
    values = np.random.default_rng(0).standard_normal(500).astype(np.float32)
    assert precision_of(values, DType.FLOAT32) is FP32
    assert precision_of(FP16.rounded(values), DType.FLOAT32) is FP16
    assert precision_of(BF16.rounded(values), DType.FLOAT32) is BF16
    assert precision_of(values.astype(np.float16), DType.FLOAT16) is FP16
    assert precision_of(np.ones(500, np.float32), DType.FLOAT32) is None
    assert precision_of(np.arange(500), DType.INT64) is None
    # Round and Floor give these on any device
    assert precision_of(np.arange(500, dtype=np.float32), DType.FLOAT32) is None


@given(singles)
def test_norms_are_those_of_numpy(values):
    other = values * np.float32(1.5) + np.float32(1)
    apart, scale = norms(other, values)
    wide = values.astype(np.float64)
    assert apart == pytest.approx(np.linalg.norm(other.astype(np.float64) - wide))
    assert scale == pytest.approx(np.linalg.norm(wide))


def test_nothing_is_measured_where_the_reference_is_not_finite():
    reference = np.array([1.0, np.nan, np.inf, 2.0])
    assert relative(np.array([1.0, np.nan, 5.0, 2.0]), reference) == 0.0
    assert relative(np.array([np.nan, 0.0, 0.0, 2.0]), reference) == np.inf
