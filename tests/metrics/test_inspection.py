"""The closer look: histogram of errors, ULP distances, places and largest errors."""

from __future__ import annotations

import math
import struct
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divergraph.metrics.inspection import inspect, ulp_distances
from divergraph.metrics.measure import Wanted, measure
from divergraph.metrics.metrics import LengthMismatchError
from graphstore.model import DType

RANDOM = np.random.default_rng(5)
GOLDEN = RANDOM.standard_normal((2, 40, 16, 16)).astype(np.float32)


def looked_at(device, golden=GOLDEN, layout="NCHW", **more):
    figures = measure(device, golden).figures
    return inspect(device, golden, atol=figures.atol, rtol=figures.rtol, layout=layout, **more)


def changed(place, by=1.0, golden=GOLDEN):
    device = golden.copy()
    device[place] += np.asarray(by, golden.dtype)
    return device


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (GOLDEN, ""),
        (GOLDEN + 1, "all elements"),
        (changed((0, 3, 2, 1)), "the element at [0, 3, 2, 1] only"),
        (changed(np.s_[:, 8:16]), "channels 8-15 of axis 1"),
        (changed(np.s_[:, 32:]), "channels 32-39 of axis 1 (the last block of C0 = 16)"),
        (changed(np.s_[:, 5]), "channel 5 of axis 1"),
        (changed(np.s_[:, [1, 20]]), "channels 1 and 20 of axis 1"),
        (changed(np.s_[:, [1, 3, 20, 22, 39]]), "channels 1-39 (5 of 40) of axis 1"),
        (changed(np.s_[:, 3::16]), "channels 3-35 in steps of 16 of axis 1"),
        (changed(np.s_[1]), "sample 1 of axis 0"),
        (
            changed(np.s_[0, 4:6, 2:4]),
            "sample 0 of axis 0, channels 4-5 of axis 1, rows 2-3 of axis 2",
        ),
    ],
)
def test_places_are_told_by_channel_row_and_column(device, words):
    assert looked_at(device).where_bad == words


def test_half_of_the_elements_of_some_channels_still_tell_the_channels():
    some = RANDOM.random((2, 8, 16, 16)) < 0.3
    assert looked_at(changed(np.s_[:, 8:16], some)).where_bad == "channels 8-15 of axis 1"


def test_a_stray_element_does_not_hide_the_pattern():
    device = changed(np.s_[:, 8:16])
    device[1, 30, 3, 3] += 1
    assert looked_at(device).where_bad == "mostly channels 8-15 of axis 1"


@pytest.mark.parametrize("count", [2, 30, 500, 9000])
def test_scattered_elements_make_no_pattern(count):
    device = GOLDEN.copy()
    device.reshape(-1)[RANDOM.choice(GOLDEN.size, count, replace=False)] += 1
    assert looked_at(device).where_bad == ""


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (np.s_[100:180], "indices 100-179 of axis 1"),
        (np.s_[3::64], "indices 3-1987 in steps of 64 of axis 1"),
        (np.s_[[5, 900]], "indices 5 and 900 of axis 1"),
        (RANDOM.choice(2000, 60, replace=False), ""),
        (np.s_[100:2000], ""),
    ],
)
def test_tensors_of_one_long_axis(place, words):
    golden = np.ones((1, 2000, 1), np.float32)
    assert looked_at(changed((0, place), golden=golden), golden, None).where_bad == words


def test_the_first_sweep_tells_places_too_unless_most_elements_are_bad():
    device = changed(np.s_[:, 32:])
    assert measure(device, GOLDEN, layout="NCHW").figures.where_bad == (
        "channels 32-39 of axis 1 (the last block of C0 = 16)"
    )
    unasked = measure(device, GOLDEN, want=Wanted(places=False)).figures
    assert (unasked.where_bad, unasked.bad > 0) == ("", True)
    assert measure(GOLDEN + 1, GOLDEN).figures.where_bad == "all elements"
    assert measure(changed(np.s_[:, 4:]), GOLDEN).figures.where_bad == ""


def test_axes_too_long_to_count_cost_nothing():
    golden = np.ones(3 << 20, np.float32)
    device = golden.copy()
    device[1000:3000] = 2
    assert measure(device, golden).figures.where_bad == "places 1000-2999 in memory order"


def test_a_tile_of_a_matrix():
    golden = RANDOM.standard_normal((256, 256)).astype(np.float32)
    device = golden.copy()
    device[16:32, 48:64] = 7
    assert looked_at(device, golden, None).where_bad == (
        "rows 16-31 of axis 0, columns 48-63 of axis 1"
    )


def test_a_run_of_memory_that_no_axis_shows():
    golden = np.ones((30, 30), np.float32)
    device = golden.copy()
    device.reshape(-1)[25:95] = 2
    assert looked_at(device, golden, None).where_bad == "places 25-94 in memory order"


def test_the_histogram_counts_by_powers_of_ten():
    golden = np.zeros(8)
    device = np.array([0, 1e-3, 9.99e-3, -1e-2, 5.0, 1e300, math.nan, math.inf])
    histogram = inspect(device, golden, atol=0, rtol=0).histogram
    assert histogram.decades == {-3: 2, -2: 1, 0: 1, 300: 1}
    assert (histogram.equal, histogram.nonfinite) == (1, 2)


@pytest.mark.parametrize("decade", [-320, -308, -16, -5, -3, 0, 1, 5, 22, 23, 308])
def test_the_ends_of_a_decade_fall_into_the_right_one(decade):
    end = float(f"1e{decade}")
    errors = np.array([end, math.nextafter(end, 0)])
    histogram = inspect(errors, np.zeros(2), atol=0, rtol=0).histogram
    assert histogram.decades == {decade: 1, decade - 1: 1}


def test_errors_too_large_for_a_float_are_in_the_last_decade():
    look = inspect(np.array([1.7e308]), np.array([-1.7e308]), atol=0, rtol=0)
    assert look.histogram.decades == {308: 1}
    assert look.histogram.nonfinite == 0


@pytest.mark.parametrize("shares", [(1.0,), (0.9, 0.09, 0.01), (0.5, 0.5)])
def test_many_errors_of_few_decades_and_few_of_many(shares):
    decades = RANDOM.choice(np.arange(-4, len(shares) - 4), 100_000, p=shares)
    errors = 10.0**decades * RANDOM.uniform(1.01, 9.99, len(decades))
    errors[:30] = [float(f"3e{decade}") for decade in range(-30, 0)]
    errors[30:40] = 0
    histogram = inspect(errors, np.zeros(len(errors)), atol=0, rtol=0).histogram
    wanted = Counter(decades[40:].tolist()) + Counter(range(-30, 0))
    assert (histogram.equal, dict(histogram.decades)) == (10, dict(sorted(wanted.items())))


def steps_between(x: float, y: float, code: str, whole: str) -> int:
    """How many numbers of a format lie between two: their bits as ordered integers."""

    def ordered(value: float) -> int:
        bits = struct.unpack(whole, struct.pack(code, value))[0]
        top = 1 << (8 * struct.calcsize(whole) - 1)
        return -(bits - top) if bits >= top else bits

    return abs(ordered(x) - ordered(y))


@pytest.mark.parametrize(
    ("unit", "width", "code", "whole"),
    [
        (DType.FLOAT64, 64, "<d", "<Q"),
        (DType.FLOAT32, 32, "<f", "<I"),
        (DType.FLOAT16, 16, "<e", "<H"),
    ],
)
@settings(max_examples=80)
@given(data=st.data())
def test_ulps_count_the_numbers_in_between(unit, width, code, whole, data):
    numbers = st.floats(allow_nan=False, allow_infinity=False, width=width)
    x, y = data.draw(numbers), data.draw(numbers)
    measured = ulp_distances(np.array([x]), np.array([y]), unit)
    assert measured.tolist() == [float(steps_between(x, y, code, whole))]


def test_ulps_of_bfloat16_that_came_as_float32():
    golden = np.float32([1.0, 1.0, 0.0])
    device = np.float32([1.0 + 2**-7, 1.0 - 2**-8, 2.0**-133])
    look = inspect(device, golden, atol=0, rtol=0, types=(DType.BFLOAT16, DType.FLOAT32))
    assert (look.ulps.unit, look.ulps.largest, look.ulps.mean) == (DType.BFLOAT16, 1.0, 1.0)


def test_a_golden_value_between_two_halves_is_part_of_a_unit_away():
    look = inspect(np.float16([1.0]), np.float32([1.0 + 2**-12]), atol=0, rtol=0)
    assert (look.ulps.unit, look.ulps.largest) == (DType.FLOAT16, 0.25)


def test_ulps_are_not_defined_for_integers_and_where_nothing_is_finite():
    assert inspect(np.int8([1]), np.float32([2]), atol=0, rtol=0).ulps is None
    assert inspect(np.float32([math.nan]), np.float32([2]), atol=0, rtol=0).ulps is None


def test_what_it_adds_to_the_figures():
    device = changed(np.s_[:, 8:16])
    figures = looked_at(device).joined_to(measure(device, GOLDEN).figures)
    assert figures.where_bad == "channels 8-15 of axis 1"
    assert figures.max_ulp > 1e6


def test_sides_of_different_length_are_refused():
    with pytest.raises(LengthMismatchError):
        inspect(np.zeros(3), np.zeros(4), atol=0, rtol=0)


def test_empty_tensors_show_nothing():
    look = inspect(np.empty((0, 4)), np.empty((0, 4)), atol=0, rtol=0)
    assert (look.where_bad, look.ulps) == ("", None)
