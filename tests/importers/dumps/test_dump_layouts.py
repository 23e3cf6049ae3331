"""Device layouts: there and back, and against the formulas element by element."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from math import lcm, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importers.layouts import (
    LayoutError,
    UnsupportedLayoutError,
    align_to_golden,
    from_layout,
    to_layout,
)

SIZE = st.integers(1, 20)
SMALL = st.integers(1, 4)
DTYPES = st.sampled_from(["float16", "float32", "int8", "bool", "float64"])
SOURCES = {
    "NC1HWC0": ["NCHW", "NHWC", "HWCN", "CHWN"],
    "FRACTAL_Z": ["NCHW", "NHWC", "HWCN", "CHWN"],
    "C1HWNCoC0": ["HWCN", "NCHW"],
    "NDC1HWC0": ["NCDHW", "NDHWC"],
    "FRACTAL_Z_3D": ["DHWCN", "NCDHW"],
    "NC1HWC0_C04": ["NCHW", "NHWC"],
    "NHWC": ["NCHW", "HWCN"],
}


def numbered(shape, dtype="float32"):
    return np.arange(1, prod(shape) + 1).reshape(shape).astype(dtype)


def sizes_for(source, draw):
    big = {"N", "C"}
    return tuple(draw(SIZE if axis in big else SMALL) for axis in source)


@given(st.data(), DTYPES)
def test_every_blocked_layout_comes_back(data, dtype):
    stored = data.draw(st.sampled_from(sorted(SOURCES)))
    source = data.draw(st.sampled_from(SOURCES[stored]))
    array = numbered(sizes_for(source, data.draw), dtype)
    device = from_layout(array, source, stored)
    back = to_layout(device, stored, source, array.shape)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)


@given(st.data(), DTYPES)
def test_few_channels_come_back_from_c04(data, dtype):
    array = numbered((data.draw(SIZE), data.draw(SMALL), data.draw(SMALL), data.draw(SMALL)), dtype)
    device = from_layout(array, "NCHW", "FRACTAL_Z_C04")
    assert np.array_equal(to_layout(device, "FRACTAL_Z_C04", "NCHW", array.shape), array)


@given(st.lists(SIZE, min_size=1, max_size=4), st.sampled_from(["FRACTAL_NZ", "FRACTAL_ZZ"]))
def test_matrices_of_any_rank_come_back(shape, stored):
    array = numbered(tuple(shape))
    device = from_layout(array, "ND", stored)
    assert np.array_equal(to_layout(device, stored, "ND", array.shape), array)


@given(st.integers(1, 6), st.integers(1, 20), st.integers(1, 20), SMALL, SMALL)
def test_grouped_weights_come_back(groups, filters, channels, height, width):
    array = numbered((groups * filters, channels, height, width))
    device = from_layout(array, "NCHW", "FRACTAL_Z", groups=groups)
    back = to_layout(device, "FRACTAL_Z", "NCHW", array.shape, groups=groups)
    assert np.array_equal(back, array)


def test_5hd_element_by_element():
    array = numbered((2, 20, 3, 2))
    device = from_layout(array, "NCHW", "NC1HWC0")
    assert device.shape == (2, 2, 3, 2, 16)
    for n, c, h, w in product(*map(range, array.shape)):
        assert device[n, c // 16, h, w, c % 16] == array[n, c, h, w]
    assert not device[:, 1, :, :, 4:].any()


def test_fractal_z_element_by_element():
    array = numbered((18, 20, 2, 3))
    device = from_layout(array, "NCHW", "FRACTAL_Z")
    assert device.shape == (2 * 2 * 3, 2, 16, 16)
    for n, c, h, w in product(*map(range, array.shape)):
        assert device[(c // 16 * 2 + h) * 3 + w, n // 16, n % 16, c % 16] == array[n, c, h, w]


def test_fractal_z_3d_element_by_element():
    array = numbered((2, 2, 3, 17, 18))
    device = from_layout(array, "DHWCN", "FRACTAL_Z_3D")
    for d, h, w, c, n in product(*map(range, array.shape)):
        first = ((d * 2 + c // 16) * 2 + h) * 3 + w
        assert device[first, n // 16, n % 16, c % 16] == array[d, h, w, c, n]


def test_fractal_nz_element_by_element():
    array = numbered((2, 18, 20), "float16")
    device = from_layout(array, "ND", "FRACTAL_NZ")
    assert device.shape == (2, 2, 2, 16, 16)
    for b, m, k in product(*map(range, array.shape)):
        assert device[b, k // 16, m // 16, m % 16, k % 16] == array[b, m, k]


@pytest.mark.parametrize(
    ("groups", "filters", "channels"), [(2, 8, 3), (3, 16, 16), (4, 2, 5), (5, 6, 12)]
)
def test_grouped_fractal_z_element_by_element(groups, filters, channels):
    array = numbered((groups * filters, channels, 2, 2))
    device = from_layout(array, "NCHW", "FRACTAL_Z", groups=groups)
    together = min(lcm(lcm(channels, 16) // channels, lcm(filters, 16) // filters), groups)
    blocks = -(-together * channels // 16)
    assert device.shape == (
        -(-groups // together) * blocks * 4,
        -(-together * filters // 16),
        16,
        16,
    )
    for q, n, c, h, w in product(*map(range, (groups, filters, channels, 2, 2))):
        c_in = q % together * channels + c
        n_in = q % together * filters + n
        first = q // together * blocks * 4 + c_in // 16 * 4 + h * 2 + w
        value = array[q * filters + n, c, h, w]
        assert device[first, n_in // 16, n_in % 16, c_in % 16] == value


def test_depthwise_weights_lie_on_the_diagonal():
    array = numbered((3, 3, 20, 1))
    device = from_layout(array, "HWCN", "C1HWNCoC0")
    assert device.shape == (2, 3, 3, 1, 16, 16)
    for h, w, c in product(range(3), range(3), range(20)):
        assert device[c // 16, h, w, 0, c % 16, c % 16] == array[h, w, c, 0]
    assert np.count_nonzero(device) == array.size


def test_one_byte_types_have_wider_blocks():
    assert from_layout(numbered((1, 33, 1, 1), "int8"), "NCHW", "NC1HWC0").shape[1:] == (
        2,
        1,
        1,
        32,
    )


def test_without_padding_to_join_nothing_is_copied():
    device = np.zeros((2, 1, 4, 4, 16), np.float32)
    assert np.shares_memory(to_layout(device, "NC1HWC0", "NHWC", (2, 4, 4, 3)), device)


@pytest.mark.parametrize(
    ("origin", "golden"),
    [
        ("NCHW", (2, 6, 5, 4)),
        ("NHWC", (2, 5, 4, 6)),
        ("NCHW", (2, 5, 4, 6)),  # only the swapped layout fits
        ("NHWC", (2, 6, 5, 4)),
        (None, (2, 5, 4, 6)),
        ("ND", (2, 6, 5, 4)),
    ],
)
@pytest.mark.parametrize("recorded", [True, False])
def test_device_values_take_the_golden_order(origin, golden, recorded):
    nchw = numbered((2, 6, 5, 4))
    expected = nchw if golden == nchw.shape else nchw.transpose(0, 2, 3, 1)
    device = from_layout(nchw, "NCHW", "NC1HWC0")
    original = golden if recorded else None
    found = align_to_golden(device, "NC1HWC0", origin, original, golden)
    assert np.array_equal(found, expected)


def test_the_recorded_shape_may_be_in_the_other_layout():
    nchw = numbered((2, 6, 5, 4))
    device = from_layout(nchw, "NCHW", "NC1HWC0")
    found = align_to_golden(device, "NC1HWC0", "NCHW", (2, 5, 4, 6), (2, 6, 5, 4))
    assert np.array_equal(found, nchw)


def test_a_square_tensor_follows_the_origin_layout():
    nchw = numbered((2, 8, 8, 8))
    device = from_layout(nchw, "NCHW", "NC1HWC0")
    for origin, expected in (("NCHW", nchw), ("NHWC", nchw.transpose(0, 2, 3, 1))):
        found = align_to_golden(device, "NC1HWC0", origin, (2, 8, 8, 8), (2, 8, 8, 8))
        assert np.array_equal(found, expected)


def test_a_flattened_golden_tensor_keeps_the_original_order():
    nhwc = numbered((2, 3, 3, 20))
    device = from_layout(nhwc, "NHWC", "NC1HWC0")
    found = align_to_golden(device, "NC1HWC0", "NHWC", nhwc.shape, (2, 180))
    assert np.array_equal(found, nhwc.reshape(2, 180))


def test_a_vector_of_channels_is_cut_from_its_blocks():
    vector = numbered((20,))
    device = from_layout(vector.reshape(1, 20, 1, 1), "NCHW", "NC1HWC0")
    for original in (None, (20,)):
        assert np.array_equal(align_to_golden(device, "NC1HWC0", "ND", original, (20,)), vector)


def test_plain_layouts_are_transposed_and_nd_is_left_alone():
    nchw = numbered((1, 3, 4, 4))
    nhwc = nchw.transpose(0, 2, 3, 1)
    assert np.array_equal(align_to_golden(nchw, "NCHW", "NHWC", None, nhwc.shape), nhwc)
    assert np.array_equal(align_to_golden(nchw, "NCHW", "NCHW", None, nhwc.shape), nhwc)
    assert np.array_equal(align_to_golden(nchw, "ND", "NHWC", None, nchw.shape), nchw)
    assert align_to_golden(numbered((3, 4)), "NHWC", "NCHW", None, (3, 4)).shape == (3, 4)


def test_filters_become_what_the_framework_holds():
    hwcn = numbered((3, 3, 5, 20))
    device = from_layout(hwcn, "HWCN", "FRACTAL_Z")
    found = align_to_golden(device, "FRACTAL_Z", "HWCN", hwcn.shape, hwcn.shape)
    assert np.array_equal(found, hwcn)
    nchw = hwcn.transpose(3, 2, 0, 1)
    assert np.array_equal(align_to_golden(device, "FRACTAL_Z", "NCHW", None, nchw.shape), nchw)


def test_grouped_filters_become_what_the_framework_holds():
    nchw = numbered((8, 3, 2, 2))
    device = from_layout(nchw, "NCHW", "FRACTAL_Z", groups=2)
    found = align_to_golden(device, "FRACTAL_Z", "NCHW", None, nchw.shape, groups=2)
    assert np.array_equal(found, nchw)


def test_a_matrix_takes_the_golden_shape():
    matrix = numbered((20, 18))
    device = from_layout(matrix, "ND", "FRACTAL_NZ")
    assert np.array_equal(align_to_golden(device, "FRACTAL_NZ", "ND", None, (20, 18)), matrix)
    folded = align_to_golden(device, "FRACTAL_NZ", "NHWC", (20, 18), (20, 3, 3, 2))
    assert np.array_equal(folded, matrix.reshape(20, 3, 3, 2))


def test_a_larger_device_tensor_is_cut():
    array = numbered((4, 8))
    assert np.array_equal(align_to_golden(array, "ND", "ND", None, (4, 5)), array[:, :5])
    assert np.array_equal(align_to_golden(array, "ND", "ND", None, (4,)), array[:, 0])


def test_empty_and_single_values_fit():
    assert align_to_golden(np.zeros((0,)), "ND", "ND", None, (0, 3)).shape == (0, 3)
    assert align_to_golden(np.zeros((1,)), None, None, None, ()).shape == ()


@pytest.mark.parametrize(
    ("stored", "shape", "golden"),
    [("ND", (4, 5), (4, 6)), ("NC1HWC0", (1, 1, 2, 2, 16), (1, 40, 2, 2)), ("ND", (3,), (0,))],
)
def test_sizes_that_differ_are_told_with_both_shapes(stored, shape, golden):
    with pytest.raises(LayoutError, match=r"device shape .* does not fit golden shape"):
        align_to_golden(np.zeros(shape), stored, "NCHW", None, golden)


def test_a_layout_nobody_knows_is_named():
    with pytest.raises(UnsupportedLayoutError, match=r"FRACTAL_DECONV .* not supported"):
        align_to_golden(np.zeros((2, 2)), "FRACTAL_DECONV", "NCHW", None, (2, 2))
    with pytest.raises(LayoutError, match="original shape is not known"):
        to_layout(np.zeros((9, 1, 16, 16)), "FRACTAL_Z", "NCHW")


@given(
    st.sampled_from(["NC1HWC0", "FRACTAL_Z", "FRACTAL_NZ", "NDC1HWC0", "C1HWNCoC0", "NCHW", "ND"]),
    st.lists(st.integers(0, 4), max_size=6),
    st.sampled_from(["NCHW", "NHWC", "HWCN", "ND", None]),
    st.one_of(st.none(), st.lists(st.integers(0, 5), max_size=5)),
    st.lists(st.integers(0, 5), max_size=5),
    st.integers(0, 3),
)
def test_any_shapes_either_fit_or_are_told(stored, shape, origin, original, golden, groups):
    recorded = None if original is None else tuple(original)
    with suppress(LayoutError):  # any other exception fails the test
        found = align_to_golden(
            np.zeros(shape), stored, origin, recorded, tuple(golden), groups=groups
        )
        assert found.shape == tuple(golden)


def test_without_a_device_layout_there_is_no_padding_to_cut():
    """What NonZero found is as long as its input makes it: 47 places are not 15 and padding."""
    device = numbered((2, 47))
    with pytest.raises(LayoutError, match="does not fit golden shape"):
        align_to_golden(device, None, "ND", None, (2, 15))
    assert align_to_golden(device, "ND", "ND", None, (2, 15)).shape == (2, 15)
