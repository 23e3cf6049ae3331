"""The table of elements agrees with numpy, whatever the values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from divergraph.dump_diff import single_pair
from divergraph.dump_diff.elements import check_elements
from divergraph.dump_diff.single_pair import LookAtPart

FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)


def table(device, golden, atol=0.001, rtol=0.001, first=20, top=10):
    device, golden = np.asarray(device), np.asarray(golden)
    check_elements(device, golden)
    looking = LookAtPart(None, atol, rtol, first, top, (None, None))
    return looking.look(device, golden, 0, golden.size)[1].table(device, golden)


def test_a_small_tensor():
    found = table([[1.0, 2.0], [3.0, 0.5]], [[1.0, 2.5], [3.0, 0.0]])
    assert (found.total, found.bad) == (4, 2)
    assert [element.index for element in found.first_bad] == [(0, 1), (1, 1)]
    assert found.first_bad[0].relative == pytest.approx(0.2)
    assert found.first_bad[1].relative is None, "golden is 0"
    assert [element.index for element in found.worst_absolute] == [(0, 1), (1, 1)]
    assert [element.index for element in found.worst_relative] == [(0, 1)]
    assert (found.min_absolute, found.max_absolute) == (0.0, 0.5)
    assert (found.min_relative, found.max_relative) == (0.0, pytest.approx(0.2))


def test_only_as_many_rows_as_asked_for():
    found = table(np.arange(100.0), np.zeros(100), first=3, top=2)
    assert [element.index for element in found.first_bad] == [(1,), (2,), (3,)]
    assert [element.index for element in found.worst_absolute] == [(99,), (98,)]
    assert found.bad == 99


def test_nan_and_infinities():
    nan, inf = math.nan, math.inf
    found = table([nan, nan, inf, inf, 1.0], [nan, 1.0, inf, -inf, nan])
    assert [element.index for element in found.first_bad] == [(1,), (3,), (4,)]
    assert all(element.absolute == inf for element in found.first_bad)


@pytest.mark.parametrize(
    ("dtype", "bits"), [(np.float32, np.uint32(0x7F800001)), (np.float16, np.uint16(0x7C01))]
)
def test_a_signalling_nan_is_a_nan_and_no_warning(dtype, bits):
    golden = np.arange(1, 5, dtype=dtype)
    device = golden.copy()
    device.view(bits.dtype)[2] = bits
    assert [element.index for element in table(device, golden).first_bad] == [(2,)]
    assert [element.index for element in table(golden, device).first_bad] == [(2,)]


def test_64_bit_integers_keep_every_digit():
    big = 2**62
    found = table(np.array([big + 1, big]), np.array([big, big]), atol=0.0, rtol=0.0)
    assert found.bad == 1
    assert found.first_bad[0].device == big + 1
    assert found.first_bad[0].absolute == 1.0


def test_unsigned_and_boolean_differences_do_not_wrap():
    assert table(np.array([0], np.uint8), np.array([255], np.uint8)).max_absolute == 255
    assert table(np.array([False]), np.array([True])).bad == 1


def test_empty_and_scalar_tensors():
    found = table(np.zeros((0, 3)), np.zeros((0, 3)))
    assert found.total == 0
    assert math.isnan(found.max_absolute)
    assert table(np.float32(2), np.float32(1)).first_bad[0].index == ()


@given(
    hnp.arrays(np.float32, st.integers(1, 40), elements=FLOATS),
    st.integers(0, 2**32 - 1),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_any_floats_agree_with_numpy(golden, seed, atol, rtol):
    rng = np.random.default_rng(seed)
    device = np.where(rng.random(golden.shape) < 0.5, golden, rng.permutation(golden))
    found = table(device, golden, atol, rtol, first=100, top=100)
    bad = ~np.isclose(
        device.astype(np.float64), golden.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True
    )
    assert [element.index[0] for element in found.first_bad] == np.flatnonzero(bad).tolist()
    worst = [element.absolute for element in found.worst_absolute]
    assert worst == sorted(worst, reverse=True)
    assert len(worst) == np.count_nonzero(
        ~((device == golden) | (device != device) & (golden != golden))
    )


def test_blocks_do_not_show(monkeypatch):
    rng = np.random.default_rng(5)
    golden = rng.normal(size=(7, 11, 13)).astype(np.float32)
    device = golden + rng.normal(size=golden.shape).astype(np.float32) * (
        rng.random(golden.shape) < 0.1
    )
    whole = table(device, golden)
    monkeypatch.setattr(single_pair, "_BLOCK", 17)
    assert table(device, golden) == whole


def test_what_are_no_numbers():
    with pytest.raises(ValueError, match="complex"):
        table(np.array([1j]), np.array([1j]))
