"""The ten metrics against an independent implementation straight from their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from divergraph.metrics.limits import notes
from divergraph.metrics.measure import measure
from divergraph.metrics.metrics import LengthMismatchError, UnsupportedElementError, overflow_flag
from divergraph.metrics.sweep import BLOCK, Sweeper
from graphstore.model import Metric

EPS64 = 2.220446049250313e-16
EPS32 = 1.1920929e-07
MAX = float(np.finfo(np.float32).max)


def expected(device: np.ndarray, golden: np.ndarray) -> dict[Metric, object]:
    """Every metric by its defining formula on whole float64 arrays."""
    with np.errstate(all="ignore"):
        x = device.reshape(-1).astype(np.float32).astype(np.float64)
        y = golden.reshape(-1).astype(np.float32).astype(np.float64)
        error = np.abs(x - y)
        relative = np.where(np.abs(y) > EPS64, np.abs(x / y - 1), 0.0)
        size_x, size_y = np.sqrt(np.sum(x**2)), np.sqrt(np.sum(y**2))
        if x.size == 1 or (size_x <= EPS64 and size_y < EPS64):
            cosine = 1.0
        elif np.sqrt(size_x) <= EPS64 or np.sqrt(size_y) <= EPS64:
            cosine = math.nan
        else:
            cosine = float(np.minimum(np.sum((x / size_x) * (y / size_y)), 1.0))
        p, q = _distribution(x), _distribution(y)
        divergence = float(np.sum(p * np.log(p / q)))
        return {
            Metric.COSINE_SIMILARITY: cosine,
            Metric.MAX_ABSOLUTE_ERROR: error.max(),
            Metric.ACCUMULATED_RELATIVE_ERROR: relative.sum(),
            Metric.RELATIVE_EUCLIDEAN_DISTANCE: (
                0.0 if size_y <= EPS64 else np.sqrt(np.sum(error**2) / np.sum(y**2))
            ),
            Metric.KULLBACK_LEIBLER_DIVERGENCE: 0.0 if abs(divergence) < EPS64 else divergence,
            Metric.STANDARD_DEVIATION: (x.mean(), x.std(), y.mean(), y.std()),
            Metric.MEAN_ABSOLUTE_ERROR: error.mean(),
            Metric.ROOT_MEAN_SQUARE_ERROR: np.sqrt(np.mean(error**2)),
            Metric.MAX_RELATIVE_ERROR: relative.max(),
            Metric.MEAN_RELATIVE_ERROR: relative.mean(),
        }


def _distribution(values: np.ndarray) -> np.ndarray:
    width = values.max() - values.min()
    scaled = (values - values.min()) / width if width != 0 else values
    floored = np.maximum(scaled, EPS32)
    return floored / floored.sum()


def assert_agrees(device: np.ndarray, golden: np.ndarray, block: int = BLOCK) -> None:
    measured = measure(device, golden, sweeper=Sweeper(block)).metrics
    for metric, value in expected(device, golden).items():
        got = np.atleast_1d(measured.value(metric))
        want = np.atleast_1d(np.asarray(value, np.float64))
        # A sum of rounded parts is only as good as the largest part.
        scale = 1.0
        if metric is Metric.STANDARD_DEVIATION:
            scale = max(1.0, float(np.max(np.abs(want), initial=0.0, where=np.isfinite(want))))
        np.testing.assert_allclose(
            got, want, rtol=1e-9, atol=1e-12 * scale, equal_nan=True, err_msg=metric
        )


SPECIAL = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e-45, -1e-40, 1e-17, 1.0, -1.0, MAX, -MAX]
FINITE = st.floats(-1e6, 1e6, width=32)
ANY = st.sampled_from(SPECIAL) | FINITE


@st.composite
def pairs(draw, elements):
    golden = draw(st.lists(elements, min_size=1, max_size=40))
    others = st.tuples(st.sampled_from(["same", "near", "other"]), elements)
    device = []
    for value in golden:
        how, other = draw(others)
        near = value * 1.001 if math.isfinite(value) and abs(value) < 1e30 else value
        device.append({"same": value, "near": near, "other": other}[how])
    return np.array(device, np.float32), np.array(golden, np.float32)


@given(pairs(FINITE), st.sampled_from([1, 3, 8, BLOCK]))
@settings(deadline=None)
def test_blocks_add_up_to_the_whole(pair, block):
    assert_agrees(*pair, block=block)


@given(pairs(ANY), st.sampled_from([1, 3, BLOCK]))
@settings(deadline=None)
@example((np.float32([1, math.inf]), np.float32([1, math.inf])), 1)
@example((np.float32([math.nan, 2]), np.float32([0, 2])), 1)
@example((np.float32([5, 2]), np.float32([-math.inf, 2])), BLOCK)
@example((np.float32([MAX, -MAX]), np.float32([-MAX, MAX])), 1)
@example((np.float32([0, 1, MAX, math.nan]), np.float32([0, 1, MAX, -MAX])), 1)
@example((np.float32([1e-45, 0]), np.float32([0, 1e-45])), BLOCK)
def test_nan_infinite_huge_and_denormal_values_follow_the_formulas(pair, block):
    assert_agrees(*pair, block=block)


@pytest.mark.parametrize("device_type", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u8", "?"])
@pytest.mark.parametrize("golden_type", ["f4", ">f4", "f8", "i8", "u2"])
def test_every_real_type_is_compared_as_float32(device_type, golden_type):
    values = np.random.default_rng(3).integers(0, 100, 1000)
    assert_agrees(values.astype(device_type), values[::-1].astype(golden_type), block=300)


@given(nps.arrays(np.float64, st.integers(1, 20), elements=st.sampled_from([1e300, -1e39, 0.5])))
def test_doubles_beyond_float32_count_as_infinite(golden):
    measured = measure(golden, golden).metrics
    assert measured.golden_nonfinite == np.count_nonzero(np.abs(golden) > 1)
    assert_agrees(golden, golden)


def test_large_tensor_is_swept_in_blocks():
    random = np.random.default_rng(5)
    golden = random.standard_normal(3 * BLOCK + 17, dtype=np.float32)
    golden[1000:2000] = 0
    device = (golden + 1e-3 * random.standard_normal(len(golden))).astype(np.float16)
    assert_agrees(device, golden)


def test_mean_far_from_zero_does_not_cost_the_deviation_its_digits():
    golden = (1e4 + 1e-2 * np.random.default_rng(1).standard_normal(BLOCK * 2)).astype(np.float32)
    measured = measure(golden, golden).metrics
    assert measured.standard_deviation[1] == pytest.approx(
        golden.astype(np.float64).std(), rel=1e-12
    )


def test_shape_and_strides_do_not_matter():
    golden = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    device = np.asfortranarray(golden + 1)
    assert (
        measure(device, golden).metrics == measure(device.ravel(order="C"), golden.ravel()).metrics
    )


def test_one_sweeper_serves_tensors_of_any_size():
    sweeper = Sweeper(64)
    for size in (1, 200, 3, 64, 65):
        golden = np.linspace(1, 2, size, dtype=np.float32)
        assert (
            measure(golden * 2, golden, sweeper=sweeper).metrics
            == measure(golden * 2, golden, sweeper=Sweeper(64)).metrics
        )


def test_equal_tensors_have_exactly_no_error():
    values = np.random.default_rng(2).standard_normal(1000, dtype=np.float32)
    measured = measure(values, values).metrics
    assert measured.cosine_similarity == 1.0
    assert measured.kullback_leibler_divergence == 0.0
    assert measured.accumulated_relative_error == 0.0
    assert measured.notes == {}


def test_scalar_has_cosine_one_whatever_it_holds():
    measured = measure(np.float32([[3.0]]), np.float32([[-4.0]])).metrics
    assert measured.cosine_similarity == 1.0
    assert measured.notes[Metric.COSINE_SIMILARITY] == notes.SCALAR
    assert measured.max_absolute_error == 7.0
    assert measured.mean_relative_error == 1.75


def test_zeros_on_both_sides_are_equal():
    measured = measure(np.zeros(5, np.float16), np.zeros(5)).metrics
    assert measured.cosine_similarity == 1.0
    assert measured.relative_euclidean_distance == 0.0
    assert measured.notes[Metric.COSINE_SIMILARITY] == notes.BOTH_ZERO


def test_zeros_on_one_side_leave_the_cosine_open_and_say_which():
    ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
    lost = measure(zeros, ones).metrics
    assert math.isnan(lost.cosine_similarity)
    assert lost.notes[Metric.COSINE_SIMILARITY] == notes.DEVICE_ZERO
    assert lost.relative_euclidean_distance == 1.0
    appeared = measure(ones, zeros).metrics
    assert math.isnan(appeared.cosine_similarity)
    assert appeared.notes[Metric.COSINE_SIMILARITY] == notes.GOLDEN_ZERO
    assert appeared.relative_euclidean_distance == 0.0
    assert appeared.notes[Metric.RELATIVE_EUCLIDEAN_DISTANCE] == notes.GOLDEN_ZERO


def test_golden_values_at_or_below_epsilon_have_no_relative_error():
    golden = np.float32([EPS64, -EPS64, 1e-15, 0.0])
    device = np.float32([1.0, 1.0, 2e-15, 1.0])
    measured = measure(device, golden).metrics
    assert measured.max_relative_error == pytest.approx(1.0)
    assert measured.accumulated_relative_error == pytest.approx(1.0)


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
def test_two_empty_tensors_are_equal(shape):
    measured = measure(np.empty(shape, np.float16), np.empty(shape, np.float32)).metrics
    assert measured.cosine_similarity == 1.0
    assert measured.root_mean_square_error == 0.0
    assert measured.elements == 0
    assert set(measured.notes.values()) == {notes.EMPTY}


def test_two_bool_tensors_have_a_cosine_and_a_count_of_what_differs():
    device = np.array([True, False, True, True])
    golden = np.array([True, True, False, True])
    measured = measure(device, golden).metrics
    assert measured.cosine_similarity == pytest.approx(2 / 3)
    assert measured.different == 2
    assert math.isnan(measured.relative_euclidean_distance)
    assert math.isnan(measured.max_absolute_error)
    assert all(map(math.isnan, measured.standard_deviation))
    assert measured.notes[Metric.KULLBACK_LEIBLER_DIVERGENCE] == notes.BOOLEAN
    assert len(measured.notes) == 9


def test_a_bool_golden_without_any_true_has_a_distance_of_0_as_in_the_reference():
    nothing = np.zeros(3, dtype=np.bool_)
    assert measure(nothing, nothing).metrics.relative_euclidean_distance == 0.0


def test_the_side_with_nan_is_named():
    golden = np.arange(1, 6, dtype=np.float32)
    device = golden.copy()
    device[[1, 2]] = np.nan, np.inf
    measured = measure(device, golden).metrics
    assert (measured.device_nonfinite, measured.golden_nonfinite) == (2, 0)
    assert math.isnan(measured.cosine_similarity)
    assert (
        measured.notes[Metric.MAX_ABSOLUTE_ERROR]
        == "device has 1 NaN and 1 infinite, golden none of 5 values"
    )


def test_the_same_infinities_on_both_sides_are_said_to_be_the_same():
    mask = np.float32([0, -np.inf, 0, np.nan])
    measured = measure(mask, mask).metrics
    assert measured.notes[Metric.COSINE_SIMILARITY].startswith(notes.SAME_NONFINITE)
    moved = measure(mask[::-1], mask).metrics
    assert not moved.notes[Metric.COSINE_SIMILARITY].startswith(notes.SAME_NONFINITE)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("type_", ["c8", "U3", "O", "V2", "M8[s]"])
def test_elements_that_are_no_real_numbers_are_refused(side, type_):
    arrays = [np.zeros(3, np.float32), np.zeros(3, np.float32)]
    arrays[side] = np.zeros(3, type_)
    with pytest.raises(UnsupportedElementError, match=("device", "golden")[side]):
        measure(*arrays)


def test_different_lengths_are_refused():
    with pytest.raises(LengthMismatchError, match="3 and golden 4 elements"):
        measure(np.zeros(3), np.zeros(4))


@pytest.mark.parametrize(
    ("values", "flag"),
    [
        ([1.0, 65504.0], True),
        ([-65504.0], True),
        ([np.inf, np.nan], True),
        ([65472.0, np.nan], False),
        ([], False),
    ],
)
def test_overflow_is_float16_at_its_end(values, flag):
    assert overflow_flag(np.array(values, np.float16)) is flag


def test_overflow_of_a_view_and_of_other_types():
    values = np.zeros((300, 300), np.float16)
    values[299, 0] = 65504
    assert overflow_flag(values.T) is True
    assert overflow_flag(values.T.astype(">f2")) is True
    assert overflow_flag(values.astype(np.float32)) is None
