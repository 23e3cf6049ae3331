"""The figures of a sweep against exact arithmetic: fractions, and decimals of 60 digits."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from divergraph.metrics.measure import ZERO_TOLERANCE, Wanted, measure
from divergraph.metrics.sweep import Sweeper
from graphstore.model import Metric

EXACT = Context(prec=60, Emin=-20_000, Emax=20_000)


def decimal(value: Fraction) -> Decimal:
    return EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))


def root(value: Fraction) -> Decimal:
    return EXACT.sqrt(decimal(value))


def decibels(signal: Fraction, noise: Fraction) -> float:
    if not noise:
        return math.inf
    if not signal:
        return -math.inf
    return float(10 * EXACT.log10(EXACT.divide(decimal(signal), decimal(noise))))


def exact(values: np.ndarray) -> list[Fraction | float]:
    """Finite values as fractions, others as they are."""
    return [
        value if isinstance(value, float) and not math.isfinite(value) else Fraction(value)
        for value in values.reshape(-1).tolist()
    ]


def finite(value: Fraction | float) -> bool:
    return isinstance(value, Fraction)


def same(x: Fraction | float, y: Fraction | float) -> bool:
    return x == y or (x != x and y != y)  # NaN is not itself


def assert_exact(device: np.ndarray, golden: np.ndarray, *, rel: float = 1e-12) -> None:
    """Every figure of the pair is what exact arithmetic gives."""
    figures = measure(device, golden).figures
    x, y = exact(device), exact(golden)
    for side, values, array in ((figures.device, x, device), (figures.golden, y, golden)):
        known = [value for value in values if finite(value)]
        assert side.nans + side.infinities == len(values) - len(known)
        assert side.nans == sum(value != value for value in values)
        assert side.zeros == sum(value == 0 for value in values)
        if not known:
            assert math.isnan(side.low)
            assert math.isnan(side.mean)
            continue
        assert (side.low, side.high) == (float(min(known)), float(max(known))), array.dtype
        mean = sum(known) / len(known)
        largest = float(max(abs(min(known)), abs(max(known))))
        assert side.mean == pytest.approx(float(mean), rel=rel, abs=largest * 1e-15)
        spread = sum((value - mean) ** 2 for value in known) / len(known)
        # Values that agree in 10 digits leave 6 for what they differ in.
        assert side.std == pytest.approx(
            float(root(spread)), rel=1e-10, abs=largest * 1e-15 + 5e-324
        )
    pairs = [(a, b) for a, b in zip(x, y, strict=True) if finite(a) and finite(b)]
    assert figures.equal == sum(same(a, b) for a, b in zip(x, y, strict=True))
    noise = sum(((a - b) ** 2 for a, b in pairs), Fraction(0))
    signal = sum((b**2 for _, b in pairs), Fraction(0))
    if pairs:
        assert figures.snr == pytest.approx(decibels(signal, noise), abs=1e-9)
        golden_known = [value for value in y if finite(value)]
        width = max(golden_known) - min(golden_known)
        assert figures.psnr == pytest.approx(decibels(width**2 * len(x), noise), abs=1e-9)
        assert_worst(figures, x, y)
        assert_cosine_distance(figures.cosine_distance, pairs)


def assert_worst(figures, x, y) -> None:
    sizes = [
        (Fraction(0) if same(a, b) else abs(a - b) if finite(a) and finite(b) else math.inf)
        for a, b in zip(x, y, strict=True)
    ]
    largest = max(sizes)
    if not largest:
        assert figures.worst == -1
        assert math.isnan(figures.worst_device)
        return
    # Of errors that are one number of float64 the earliest is named.
    assert sizes[figures.worst] == pytest.approx(largest, rel=1e-15)
    assert same(figures.worst_device, float(x[figures.worst]))
    assert same(figures.worst_golden, float(y[figures.worst]))


def assert_cosine_distance(measured, pairs) -> None:
    size_x, size_y = (root(sum(pair[side] ** 2 for pair in pairs)) for side in (0, 1))
    if not size_x or not size_y:
        assert measured is None
        return
    product = decimal(sum(a * b for a, b in pairs))
    cosine = EXACT.divide(product, EXACT.multiply(size_x, size_y))
    error = root(sum((a - b) ** 2 for a, b in pairs))
    relative = float(EXACT.divide(error, max(size_x, size_y)))
    # To some 1e-16 of the relative distance of the sides: a plain 1 - cosine is good to 1e-16.
    assert measured == pytest.approx(float(1 - cosine), rel=1e-10, abs=2e-15 * relative + 1e-30)


RANDOM = np.random.default_rng(3)
NORMAL = RANDOM.standard_normal(300)
NOISE = 1e-3 * RANDOM.standard_normal(300)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-30, 1.0, 1e30, 1e200, 1e300, 1.5e307])
def test_float64_of_any_scale(scale):
    golden = NORMAL * scale
    assert_exact(golden * (1 + NOISE), golden)
    assert_exact(-golden, golden)


def test_float64_of_many_scales_at_once():
    golden = NORMAL * 10.0 ** RANDOM.integers(-300, 300, 300)
    assert_exact(golden + NOISE, golden)


@pytest.mark.parametrize(
    ("golden", "step"),
    [
        (np.float32(1e4) + np.float32(1e-2) * NORMAL.astype(np.float32), np.float32(1e-3)),
        (1e9 + NORMAL, 1e-3),
        (np.float32(1e-42) * NORMAL.astype(np.float32), np.float32(1e-44)),
        (np.float16(100) * NORMAL.astype(np.float16), np.float16(0.5)),
        (np.full(300, 65504.0, np.float16), np.float16(-32)),
        (np.full(300, np.finfo(np.float32).max, np.float32), np.float32(-1e32)),
    ],
    ids=["offset32", "offset64", "denormal", "half", "half top", "single top"],
)
def test_values_that_lose_digits(golden, step):
    assert_exact(golden + step, golden)


@pytest.mark.parametrize(
    ("device", "golden", "dtype"),
    [
        ([2**53 + 1, 5, -7], [2**53, 5, -7], np.int64),
        ([2**63 - 1, -(2**63)], [-(2**63), 2**63 - 1], np.int64),
        ([2**63 - 1, 2**63 - 2], [2**63 - 2, 2**63 - 2], np.int64),
        ([2**64 - 1, 0], [0, 2**64 - 1], np.uint64),
        ([2**31 - 1, -(2**31)], [-(2**31), 2**31 - 1], np.int32),
        ([2**24 + 1, 3], [2**24, 3], np.int32),
        ([0, 255, 3], [255, 0, 4], np.uint8),
        ([127, -128], [-128, 127], np.int8),
        ([True, False, True], [False, False, True], np.bool_),
    ],
)
def test_integers_do_not_wrap_or_round(device, golden, dtype):
    assert_exact(np.array(device, dtype), np.array(golden, dtype))


def test_sides_of_different_types():
    assert_exact(np.array([2**63 - 1, 1], np.int64), np.array([2**63, 1], np.uint64))
    assert_exact(np.array([2**60 + 1, 1], np.int64), np.array([2.0**60, 1.0]))
    assert_exact(np.array([0.5, 1.0], np.float16), np.array([0, 1], np.int8))
    assert_exact(np.array([0.1, 1.0], np.float32), np.array([0.1, 1.0]))


def test_differences_of_huge_integers_are_seen_where_the_metrics_are_blind():
    golden = np.full(4, 2**60, np.int64)
    device = golden + np.array([0, 0, 3, 1])
    measured = measure(device, golden, want=Wanted(atol=2.0, rtol=0.0))
    assert measured.metrics.max_absolute_error == 0.0  # of the values as float32
    assert measured.figures.equal == 2
    assert (measured.figures.bad, measured.figures.first_bad, measured.figures.worst) == (1, 2, 2)


REALS = st.floats(allow_nan=True, allow_infinity=True, width=64)
SMALL = nps.array_shapes(max_dims=2, max_side=6)


@settings(max_examples=150)
@given(
    SMALL.flatmap(
        lambda shape: st.tuples(
            nps.arrays(np.float64, shape, elements=REALS),
            nps.arrays(np.float64, shape, elements=REALS),
        )
    )
)
@example((np.array([math.nan, math.inf, 1.0]), np.array([math.nan, math.inf, 2.0])))
@example((np.array([math.nan, 1.0]), np.array([1.0, -math.inf])))
@example((np.array([1.7e308, -1.7e308]), np.array([-1.7e308, 1.7e308])))
@example((np.array([1e300, 2.0]), np.array([1e-300, 1e-300])))
@example((np.array([5e-324, 0.0]), np.array([-5e-324, 0.0])))
@example((np.array([5e-324, 5e-324]), np.array([0.0, 1.1e301])))
def test_any_float64(pair):
    device, golden = pair
    assert_exact(device, golden)
    assert_exact(golden, golden)


@settings(max_examples=80)
@given(
    st.sampled_from(["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float16"]),
    st.data(),
)
def test_any_other_type(dtype, data):
    shape = data.draw(SMALL)
    device, golden = (data.draw(nps.arrays(np.dtype(dtype), shape)) for _ in range(2))
    assert_exact(device, golden)


def test_tolerance_follows_the_scale_of_golden():
    golden = NORMAL * 1e-9
    device = golden.copy()
    device[7] += 1e-10
    figures = measure(device, golden).figures
    assert figures.atol == pytest.approx(0.01 * math.sqrt(np.mean(golden**2)))
    assert (figures.bad, figures.first_bad, figures.worst) == (1, 7, 7)
    as_asked = measure(device, golden, want=Wanted(atol=1e-3, rtol=0.0)).figures
    assert (as_asked.bad, as_asked.first_bad, as_asked.worst) == (0, -1, 7)


def test_tolerance_of_a_golden_tensor_of_zeros():
    golden = np.zeros(10, np.float32)
    device = golden.copy()
    device[3], device[4] = 1e-9, 1e-3
    figures = measure(device, golden).figures
    assert figures.atol == ZERO_TOLERANCE
    assert (figures.bad, figures.first_bad) == (1, 4)
    assert figures.snr == -math.inf


@settings(max_examples=60)
@given(st.data(), st.sampled_from([0.0, 1e-3, 0.5]), st.sampled_from([0.0, 0.01, 1.0]))
def test_bad_elements_are_those_the_definition_names(data, atol, rtol):
    values = st.floats(width=32) | st.sampled_from([0.0, 1.0, 1.001, 2.0])
    shape = data.draw(SMALL)
    x, y = (data.draw(nps.arrays(np.float32, shape, elements=values)).ravel() for _ in range(2))
    with np.errstate(invalid="ignore"):
        bounds = atol + rtol * np.abs(y.astype(np.float64))
    bad = [
        not (same(a, b) or (finite(a) and finite(b) and float(abs(a - b)) <= bound))
        for a, b, bound in zip(exact(x), exact(y), bounds, strict=True)
    ]
    figures = measure(x, y, want=Wanted(atol, rtol), sweeper=Sweeper(3)).figures
    assert figures.bad == sum(bad)
    assert figures.first_bad == (bad.index(True) if any(bad) else -1)


def test_equal_tensors_have_no_error_at_all():
    measured = measure(NORMAL, NORMAL.copy())
    figures = measured.figures
    assert (figures.equal, figures.bad, figures.worst, figures.first_bad) == (300, 0, -1, -1)
    assert figures.snr == figures.psnr == math.inf
    assert figures.cosine_distance == 0.0
    assert measured.metrics.value(Metric.KULLBACK_LEIBLER_DIVERGENCE) == 0.0


def test_empty_tensors():
    figures = measure(np.empty((0, 3), np.float32), np.empty((3, 0), np.float64)).figures
    assert (figures.equal, figures.bad, figures.worst) == (0, 0, -1)


def test_the_ten_metrics_are_of_float32_whatever_the_figures_are_of():
    golden = np.array([1e200, 1.0])
    measured = measure(golden * 2, golden)
    assert measured.metrics.golden_nonfinite == 1
    assert math.isnan(measured.metrics.max_absolute_error)
    assert measured.figures.golden.infinities == 0
    assert measured.figures.snr == pytest.approx(0.0, abs=1e-9)
