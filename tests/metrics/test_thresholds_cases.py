"""What the built-in limits say of pairs whose truth is known: faults, and rounding alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from divergraph.metrics.limits.thresholds import ThresholdJudgement, Thresholds
from divergraph.metrics.measure import measure
from graphstore.model import DType, Level, Metric

PASS, WARN, FAIL = Level.PASS, Level.WARN, Level.FAIL
LIMITS = Thresholds()
ORDER = [PASS, WARN, FAIL]
UNITS = {DType.FLOAT16: 2.0**-11, DType.BFLOAT16: 2.0**-8, DType.FLOAT8_E4M3FN: 2.0**-4}


def judged(
    device, golden, dtype=DType.FLOAT16, golden_dtype=DType.FLOAT32, **of
) -> ThresholdJudgement:
    found = measure(np.asarray(device), np.asarray(golden))
    return LIMITS.judge(found.metrics, found.figures, device=dtype, golden=golden_dtype, **of)


def normal(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=count).astype(np.float32)


def image(seed: int = 1) -> np.ndarray:
    """What a convolution and a Relu leave, 64 channels of 14 by 14."""
    channels = np.random.default_rng(seed).normal(0.3, 1, (1, 64, 14, 14))
    return np.maximum(channels, 0).astype(np.float32)


def changed(values: np.ndarray, place: object, value: object) -> np.ndarray:
    made = values.copy()
    made[place] = value
    return made


def rounded(values: np.ndarray, dtype: DType) -> np.ndarray:
    """*values* with the significant bits *dtype* has, exponents unlimited."""
    mantissa, exponent = np.frexp(values.astype(np.float64))
    step = 2.0 * UNITS[dtype]
    return np.ldexp(np.round(mantissa / step) * step, exponent).astype(np.float32)


LONG = normal(1_000_000)
IMAGE = image()
GRID = np.clip(np.round(normal(4096) * 40), -128, 126).astype(np.int8)
EVERY_FIFTH = np.arange(4096) % 5 == 0
LARGE = np.linspace(1.0, 3.4e38, 1000)
SCORES = np.array([410.0, 60.0, 500.0, 120.0, 0.9], np.float32)

CASES: dict[str, tuple[Level, object, object, DType]] = {
    # an error of scale leaves the cosine at 1
    "scaled by 14 %": (FAIL, LONG * np.float32(1.14), LONG, DType.FLOAT16),
    "scaled by 14 % in bfloat16": (FAIL, LONG * np.float32(1.14), LONG, DType.BFLOAT16),
    "scaled by 2 %": (WARN, LONG * np.float32(1.02), LONG, DType.FLOAT16),
    # the largest of them are infinite as float32, of which the metrics are
    "scaled by 0.3 % beyond float32": (PASS, LARGE * 1.003, LARGE, DType.FLOAT64),
    "scaled by 14 % beyond float32": (FAIL, LARGE * 1.14, LARGE, DType.FLOAT64),
    "scaled by 0.1 %": (PASS, LONG * np.float32(1.001), LONG, DType.FLOAT16),
    "the sign lost": (FAIL, -IMAGE, IMAGE, DType.FLOAT16),
    # an error of few elements hardly shows in sums
    "0.1 % zero": (FAIL, changed(LONG, slice(None, None, 1000), 0), LONG, DType.FLOAT16),
    "0.1 % doubled": (
        FAIL,
        changed(LONG, slice(None, None, 1000), 2 * LONG[::1000]),
        LONG,
        DType.FLOAT16,
    ),
    "0.1 % zero in bfloat16": (
        FAIL,
        changed(LONG, slice(None, None, 1000), 0),
        LONG,
        DType.BFLOAT16,
    ),
    "a dead channel of 64": (FAIL, changed(IMAGE, (0, 37), 0), IMAGE, DType.FLOAT16),
    "a zero tail": (FAIL, changed(LONG, slice(-100, None), 0), LONG, DType.FLOAT16),
    "one huge element": (FAIL, changed(LONG, 77, 500), LONG, DType.FLOAT16),
    "one element off by its root mean square": (
        FAIL,
        changed(IMAGE, (0, 3, 5, 5), IMAGE[0, 3, 5, 5] + 1),
        IMAGE,
        DType.FLOAT16,
    ),
    "one element off by a hundredth": (
        PASS,
        changed(LONG, 77, LONG[77] + 0.01),
        LONG,
        DType.FLOAT16,
    ),
    # tiny tensors: sums average nothing
    "a scalar": (PASS, np.float32(1.001), np.float32(1), DType.FLOAT16),
    "a scalar off": (FAIL, np.float32(1.2), np.float32(1), DType.FLOAT16),
    "a scalar of the wrong sign": (FAIL, np.float32(-3), np.float32(3), DType.FLOAT32),
    "two values": (PASS, [1.0005, 2.0], [1.0, 2.0], DType.FLOAT16),
    "two values, the small one off": (FAIL, [0.2, 20.0], [0.7, 20.0], DType.FLOAT16),
    "a box right, its score wrong": (WARN, changed(SCORES, 4, 0.1), SCORES, DType.FLOAT16),
    "eight, the last lost": (
        FAIL,
        changed(np.ones(8, np.float32), 7, 0),
        np.ones(8),
        DType.FLOAT16,
    ),
    "probabilities, the small one underflown": (PASS, [0.0, 1.0], [1e-9, 1.0], DType.FLOAT16),
    "a shape with a wrong dimension": (
        FAIL,
        np.array([1, 64, 112, 113]),
        np.array([1, 64, 112, 112]),
        DType.INT64,
    ),
    # constants have no structure for cosine or divergence to compare
    "a constant": (PASS, np.full(500, 0.5), np.full(500, 0.5), DType.FLOAT16),
    "a constant rounded": (
        PASS,
        changed(np.full(500, 0.1, np.float32), slice(None, None, 7), np.float16(0.1)),
        np.full(500, 0.1, np.float32),
        DType.FLOAT16,
    ),
    "a constant off by a fifth": (FAIL, np.full(500, 0.6), np.full(500, 0.5), DType.FLOAT16),
    "a constant lost": (FAIL, np.zeros(500), np.full(500, 0.5), DType.FLOAT16),
    "large values rounded": (PASS, np.round(LONG * 100) + 3e4, LONG * 100 + 3e4, DType.FLOAT16),
    # zeros
    "all zero": (PASS, np.zeros(1000), np.zeros(1000), DType.FLOAT16),
    "noise where golden is zero": (PASS, np.full(1000, 1e-12), np.zeros(1000), DType.FLOAT32),
    "subnormal noise where golden is zero": (
        WARN,
        np.full(1000, 4e-6),
        np.zeros(1000),
        DType.FLOAT16,
    ),
    "the same in float32": (FAIL, np.full(1000, 4e-6), np.zeros(1000), DType.FLOAT32),
    "values where golden is zero": (FAIL, np.full(1000, 1e-3), np.zeros(1000), DType.FLOAT16),
    "a gradient lost": (FAIL, np.zeros(1000), LONG[:1000] * 1e-3, DType.FLOAT16),
    "a gradient under float16's smallest step": (
        WARN,
        np.zeros(1000),
        np.full(1000, 1e-9),
        DType.FLOAT16,
    ),
    # NaN and infinities
    "the same NaN": (PASS, changed(LONG, 5, np.nan), changed(LONG, 5, np.nan), DType.FLOAT16),
    "a mask, the rest rounded": (
        PASS,
        changed(rounded(LONG, DType.FLOAT16), slice(0, 999), -np.inf),
        changed(LONG, slice(0, 999), -np.inf),
        DType.FLOAT16,
    ),
    "a mask, the rest scaled": (
        FAIL,
        changed(LONG * np.float32(1.2), slice(0, 999), -np.inf),
        changed(LONG, slice(0, 999), -np.inf),
        DType.FLOAT16,
    ),
    "a mask, one value of the rest wrong": (
        FAIL,
        changed(changed(LONG, 5000, 9), slice(0, 999), -np.inf),
        changed(LONG, slice(0, 999), -np.inf),
        DType.FLOAT16,
    ),
    "a new NaN": (FAIL, changed(LONG, 5, np.nan), LONG, DType.FLOAT16),
    "infinities elsewhere": (
        FAIL,
        changed(LONG, 5, np.inf),
        changed(LONG, 6, np.inf),
        DType.FLOAT16,
    ),
    # small integers: one step either way is rounding
    "int8 one step off": (PASS, GRID + EVERY_FIFTH, GRID, DType.INT8),
    "int8 twice": (FAIL, np.clip(GRID.astype(int) * 2, -128, 127), GRID, DType.INT8),
    "flags as uint8 turned": (FAIL, 1 - (GRID > 0), (GRID > 0) * 1, DType.UINT8),
    # indices: near is not right
    "indices one too large": (FAIL, np.arange(1, 1001), np.arange(1000), DType.INT64),
    "one index of a thousand": (
        WARN,
        changed(np.arange(1000), 5, 900),
        np.arange(1000),
        DType.INT64,
    ),
    # flags
    "flags": (PASS, IMAGE > 0.2, IMAGE > 0.2, DType.BOOL),
    "0.5 % of flags": (
        WARN,
        (IMAGE > 0.2) ^ (np.arange(12544).reshape(IMAGE.shape) % 200 == 0),
        IMAGE > 0.2,
        DType.BOOL,
    ),
    "5 % of flags": (
        FAIL,
        (IMAGE > 0.2) ^ (np.arange(12544).reshape(IMAGE.shape) % 20 == 0),
        IMAGE > 0.2,
        DType.BOOL,
    ),
    "no elements": (PASS, np.empty(0), np.empty(0), DType.FLOAT16),
}


@pytest.mark.parametrize("case", CASES)
def test_the_level_is_the_expected_one_and_has_a_reason(case):
    expected, device, golden, dtype = CASES[case]
    golden_dtype = dtype if dtype.value.startswith(("int", "uint")) else DType.FLOAT32
    result = judged(device, golden, dtype, golden_dtype)
    assert (result.level, bool(result.failed)) == (expected, expected is FAIL), result.limit
    assert result.limit.startswith(("default", "always"))


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("count", [1, 2, 5, 8, 9, 64, 1000, 50_000])
@pytest.mark.parametrize("roundings", [1, 4])
def test_rounding_never_fails(dtype, count, roundings):
    """Once is the type's own; four times, at random, is what a few layers do."""
    for seed in range(5):
        golden = np.maximum(normal(count, seed), -0.2) * 10.0 ** (seed - 2)
        device = rounded(golden, dtype)
        noise = np.random.default_rng(seed).uniform(-1, 1, (roundings - 1, count))
        device = device * (1 + noise * UNITS[dtype]).prod(0)
        result = judged(device.astype(np.float32), golden, dtype)
        assert result.level is not FAIL, result.limit
        if roundings == 1:
            assert result.level is PASS, result.limit


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
def test_the_noise_of_a_reduction_in_float16_passes_at_any_scale(scale):
    """Elements near zero have large relative errors, and large values large absolute ones."""
    golden = normal(20_000) * scale
    noise = normal(20_000, seed=2) * 2.0**-9 * scale
    assert judged(golden + noise, golden).level is PASS


def test_the_coarser_of_both_types_sets_the_limits():
    device = LONG * np.float32(1.06)
    assert judged(device, LONG, DType.FLOAT32, DType.FLOAT32).level is FAIL
    assert judged(device, LONG, DType.FLOAT32, DType.BFLOAT16).level is WARN
    assert judged(device, LONG, DType.BFLOAT16, DType.FLOAT32).limit == (
        "default.bfloat16: relative_euclidean_distance > 0.04 (warn)"
    )


def test_indices_of_int32_are_told_by_the_op_that_makes_them():
    device, golden = np.arange(1, 1001, dtype=np.int32), np.arange(1000, dtype=np.int32)
    assert judged(device, golden, DType.INT32, DType.INT32, op_type="Conv2D").level is PASS
    found = judged(device, golden, DType.INT32, DType.INT32, op_type="ArgMaxV2")
    assert (found.level, found.limit) == (FAIL, "default.indices: equal_share < 0.99")


FLOATS = st.floats(-1e4, 1e4, width=32)
TENSORS = st.integers(1, 40).flatmap(lambda n: arrays(np.float32, n, elements=FLOATS))
ANY_FLOATS = st.floats(width=32, allow_subnormal=False)
DTYPES = st.sampled_from([DType.FLOAT16, DType.FLOAT32, DType.BFLOAT16, None])


@given(st.integers(0, 40).flatmap(lambda n: arrays(np.float32, n, elements=ANY_FLOATS)), DTYPES)
def test_a_tensor_against_itself_passes(values, dtype):
    assert judged(values, values, dtype, dtype).level is PASS


@given(arrays(np.int8, 30), st.sampled_from([DType.INT8, DType.INT32, DType.INT64]))
def test_integers_against_themselves_pass(values, dtype):
    assert judged(values, values, dtype, dtype).level is PASS


@pytest.mark.slow
@settings(max_examples=200)
@given(TENSORS, DTYPES, st.data())
def test_a_larger_error_never_gets_a_better_level(golden, dtype, data):
    error = data.draw(arrays(np.float32, golden.shape, elements=st.floats(-1, 1, width=32)))
    assume(np.abs(error).max() > 1e-3)
    exact = golden.astype(np.float64), error.astype(np.float64)
    levels = [
        ORDER.index(judged(exact[0] + size * exact[1], exact[0], dtype).level)
        for size in (0.0, 1e-9, 1e-4, 1e-2, 0.3, 1.0, 30.0, 1e5)
    ]
    assert levels == sorted(levels)
    assert levels[0] == 0


def test_what_decides_is_among_the_failed_metrics():
    result = judged(changed(LONG, 77, 9), LONG)
    assert result.failed == (Metric.MAX_ABSOLUTE_ERROR,)
    assert result.limit == "default: worst_error > 0.5"
    assert Metric.RELATIVE_EUCLIDEAN_DISTANCE in judged(changed(LONG, 77, 500), LONG).failed
