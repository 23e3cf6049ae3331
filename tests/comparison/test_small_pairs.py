"""Small pairs measured together give what each gives by itself, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from divergraph.comparison.measure import DEFAULT, Wanted
from divergraph.comparison.tensor_pairs import TensorPair
from divergraph.comparison.work import MeasureWork
from importers.dumps.bare import find_tensors

SIZES = (1, 2, 7, 1000, 8192, 8193)


def nothing(device, golden):
    """Leave the pair as it is."""


def a_nan(device, golden):
    golden[-1] = np.nan


def an_infinity(device, golden):
    device[0] = -np.inf


def equal_sides(device, golden):
    device[:] = golden


def golden_zero(device, golden):
    golden[:] = 0


def device_constant(device, golden):
    device[:] = 3


def zeros_of_both_signs(device, golden):
    golden[::2], golden[1::3], device[::3] = -0.0, 0.0, -0.0


def far_from_zero(device, golden):
    golden += 1e4
    device += 1e4


def tiny(device, golden):
    golden *= np.float32(1e-38)
    device *= np.float32(1e-38)


def half_bad(device, golden):
    device[len(device) // 2 :] *= 2


CASES = (
    nothing,
    a_nan,
    an_infinity,
    equal_sides,
    golden_zero,
    device_constant,
    zeros_of_both_signs,
    far_from_zero,
    tiny,
    half_bad,
)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    random = np.random.default_rng(4)
    for side in ("device", "golden"):
        (folder / side).mkdir()
    for size in SIZES:
        for case in CASES:
            golden = random.standard_normal(size, dtype=np.float32)
            device = golden + np.float32(1e-3) * random.standard_normal(size, dtype=np.float32)
            case(device, golden)
            for side, array in (("device", device), ("golden", golden)):
                np.save(folder / side / f"{case.__name__}_{size}.npy", array)
    (folder / "device" / "cut_7.npy").write_bytes(b"\x93NUMPY\x01")
    np.save(folder / "golden" / "cut_7.npy", np.zeros(7, np.float32))
    sides = (find_tensors(folder / side).tensors for side in ("device", "golden"))
    return [TensorPair(one.ref, other.ref) for one, other in zip(*sides, strict=True)]


@pytest.mark.parametrize("want", [DEFAULT, Wanted(1e-3, 1e-3), Wanted(places=False)])
def test_together_as_alone(pairs, want):
    work = MeasureWork(want)
    assert len(pairs) == len(SIZES) * len(CASES) + 1
    for pair, together in zip(pairs, work.many(pairs), strict=True):
        assert repr(together) == repr(work(pair)), "NaN is not equal to itself"


def test_more_pairs_than_are_treated_at_once(pairs):
    work = MeasureWork()
    many = [pair for pair in pairs if pair.device.path.stem == "nothing_8192"] * 20
    assert {repr(found) for found in work.many(many)} == {repr(work(many[0]))}
