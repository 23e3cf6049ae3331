"""What statistics say of two tensors never says more than the tensors themselves."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from divergraph.metrics.limits.thresholds import Thresholds
from divergraph.metrics.measure import measure
from divergraph.metrics.statistics import (
    NoStatisticsError,
    compare_statistics,
    equal_checksums,
    statistics_of,
)
from graphstore.model import Level, Metric, TensorStatistics

BOUNDS = (
    Metric.MAX_ABSOLUTE_ERROR,
    Metric.MEAN_ABSOLUTE_ERROR,
    Metric.ROOT_MEAN_SQUARE_ERROR,
    Metric.RELATIVE_EUCLIDEAN_DISTANCE,
)
VALUES = st.floats(-1000, 1000, width=32)
SHAPES = array_shapes(max_dims=2, max_side=20)
PAIRS = SHAPES.flatmap(
    lambda shape: st.tuples(
        arrays(np.float32, shape, elements=VALUES), arrays(np.float32, shape, elements=VALUES)
    )
)
# Of the ten statistics any may be left out by the writer.
KEPT = st.sets(st.sampled_from(["maximum", "minimum", "mean", "norm"]), min_size=1)


def only(statistics, kept):
    told = {name: getattr(statistics, name) for name in kept}
    return TensorStatistics(count=statistics.count, **told)


@given(PAIRS, KEPT)
def test_bounds_never_exceed_the_errors(pair, kept):
    device, golden = pair
    true = measure(device, golden).metrics
    bound = compare_statistics(only(statistics_of(device), kept), only(statistics_of(golden), kept))
    for metric in BOUNDS:
        least = bound.value(metric)
        if not math.isnan(least):
            # The spread's difference is only as exact as mean and norm.
            slack = 1e-5 * (1 + np.abs(device).max() + np.abs(golden).max())
            assert least <= true.value(metric) + slack, metric


def test_a_scaled_tensor_is_caught_by_its_norm():
    golden = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    metrics = compare_statistics(statistics_of(golden * 1.1), statistics_of(golden))
    assert metrics.relative_euclidean_distance == pytest.approx(0.1, rel=1e-3)
    judgement = Thresholds().judge(metrics)
    assert judgement.level is Level.FAIL
    assert judgement.failed == (Metric.RELATIVE_EUCLIDEAN_DISTANCE,)


def test_a_permuted_tensor_passes_and_the_notes_say_why():
    golden = np.arange(100, dtype=np.float32)
    metrics = compare_statistics(statistics_of(golden[::-1]), statistics_of(golden))
    assert Thresholds().judge(metrics).level is Level.PASS
    assert math.isnan(metrics.cosine_similarity)
    assert "statistics only" in metrics.notes[Metric.COSINE_SIMILARITY]
    assert "at least" in metrics.notes[Metric.MAX_ABSOLUTE_ERROR]


def test_maximum_and_minimum_alone_are_enough_for_a_bound():
    device = TensorStatistics(count=4, maximum=8.0, minimum=0.0)
    golden = TensorStatistics(count=4, maximum=2.0, minimum=0.0)
    metrics = compare_statistics(device, golden)
    assert metrics.max_absolute_error == 6.0
    assert metrics.root_mean_square_error == 3.0  # one element of four
    assert metrics.relative_euclidean_distance == 1.5  # over the largest norm there can be


def test_new_nans_fail_and_the_same_nans_do_not_pass_silently():
    golden = statistics_of(np.array([1, 2, 3], np.float32))
    broken = statistics_of(np.array([1, np.nan, 3], np.float32))
    assert Thresholds().judge(compare_statistics(broken, golden)).level is Level.FAIL
    hidden = TensorStatistics(count=3, maximum=math.nan, minimum=math.nan, mean=math.nan)
    metrics = compare_statistics(hidden, golden)
    assert metrics.device_nonfinite > 0
    assert Thresholds().judge(metrics).level is Level.FAIL


def test_values_where_golden_is_zero_fail():
    golden = statistics_of(np.zeros(10, np.float32))
    device = statistics_of(np.full(10, 0.5, np.float32))
    assert Thresholds().judge(compare_statistics(device, golden)).level is Level.FAIL
    assert Thresholds().judge(compare_statistics(golden, golden)).level is Level.PASS


def test_zeros_a_layout_added_are_no_error():
    values = np.full(24, 3.0, np.float32)
    padded = np.concatenate([values, np.zeros(8, np.float32)])
    metrics = compare_statistics(statistics_of(padded), statistics_of(values), padded=True)
    assert metrics.max_absolute_error == 0.0
    assert metrics.relative_euclidean_distance == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(NoStatisticsError, match="32 elements and golden 24"):
        compare_statistics(statistics_of(padded), statistics_of(values))


def test_nothing_in_common_is_said():
    with pytest.raises(NoStatisticsError, match="no statistic in common"):
        compare_statistics(
            TensorStatistics(count=3, maximum=1.0), TensorStatistics(count=3, norm=1.0)
        )
    with pytest.raises(NoStatisticsError, match="complex"):
        statistics_of(np.zeros(3, np.complex64))


@given(arrays(np.float32, SHAPES, elements=st.floats(width=32)))
def test_statistics_are_those_of_the_finite_values(values):
    found = statistics_of(values)
    finite = values[np.isfinite(values)].astype(np.float64)
    assert found.count == values.size
    assert (found.nans, found.infinities) == (np.isnan(values).sum(), np.isinf(values).sum())
    if finite.size:
        assert (found.maximum, found.minimum) == (finite.max(), finite.min())
        assert found.norm == pytest.approx(np.linalg.norm(finite))
    else:
        assert found.mean is None


def test_a_norm_that_overflowed_between_finite_extremes_is_unknown():
    half = TensorStatistics(count=4096, maximum=60.0, minimum=-58.0, mean=0.5, norm=math.inf)
    metrics = compare_statistics(half, half)
    assert (metrics.device_nonfinite, metrics.golden_nonfinite) == (0, 0)
    assert metrics.max_absolute_error == 0.0
    broken = compare_statistics(replace(half, norm=math.nan), half)
    assert (broken.device_nonfinite, broken.golden_nonfinite) == (1, 0)
    unbounded = compare_statistics(replace(half, maximum=math.inf), half)
    assert (unbounded.device_nonfinite, unbounded.golden_nonfinite) == (1, 0)


@pytest.mark.parametrize(
    ("device", "golden", "same"),
    [
        ("md5:1f", "md5:1f", True),
        ("md5:1f", "md5:2e", False),
        ("md5:1f", "xor:1f", None),
        ("", "md5:1f", None),
        ("xor:1f", "xor:1f", True),
    ],
)
def test_checksums_of_one_kind_tell_equal_tensors_from_others(device, golden, same):
    known = TensorStatistics(count=8, maximum=1.0, minimum=0.0)
    sides = replace(known, checksum=device), replace(known, checksum=golden)
    assert equal_checksums(*sides) is same


def test_an_exclusive_or_alone_proves_nothing_against_other_statistics():
    known = TensorStatistics(count=8, maximum=1.0, minimum=0.0, checksum="xor:1f")
    assert equal_checksums(replace(known, maximum=2.0), known) is False


def test_infinities_counted_on_one_side_and_an_extreme_on_the_other_are_the_same():
    masked = np.array([1.5, -np.inf, 0.5, -np.inf], np.float32)
    dumped = TensorStatistics(4, maximum=1.5, minimum=-np.inf, mean=-np.inf, norm=np.inf)
    for sides in ((statistics_of(masked), dumped), (dumped, statistics_of(masked))):
        found = compare_statistics(*sides)
        assert (found.max_absolute_error, found.golden_nonfinite, found.device_nonfinite) == (
            0,
            0,
            0,
        )
    open_side = statistics_of(np.array([1.5, -2.0, 0.5, 1.0], np.float32))
    assert compare_statistics(open_side, dumped).golden_nonfinite == 1
