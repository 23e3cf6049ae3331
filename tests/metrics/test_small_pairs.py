"""Small pairs measured together give what each gives by itself, to the last bit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divergraph.metrics.measure import DEFAULT, Wanted, measure
from divergraph.metrics.pairs.small_files import NpyFiles
from divergraph.metrics.pairs.small_pairs import measured_together
from divergraph.metrics.pairs.work import MeasureWork
from divergraph.values.tensor_pair import TensorPair
from importers.dumps.bare.index import find_tensors

SIZES = (1, 2, 7, 1000, 8192, 8193)
TYPES = (
    ("float32", "float32"),
    ("float16", "float32"),
    ("float16", "float16"),
    ("int8", "int8"),
    ("uint16", "float16"),
    ("float64", "float32"),
    ("bool", "bool"),
    ("bool", "float32"),
)


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


def overflown(device, golden):
    device[0] = 65504


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
    overflown,
    half_bad,
)


@pytest.fixture(scope="module", params=TYPES, ids="-".join)
def pairs(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    random = np.random.default_rng(4)
    for side in ("device", "golden"):
        (folder / side).mkdir()
    for size in SIZES:
        for case in CASES:
            golden = 9 * random.standard_normal(size, dtype=np.float32)
            device = golden + np.float32(1e-3) * random.standard_normal(size, dtype=np.float32)
            case(device, golden)
            for side, array, dtype in zip(
                ("device", "golden"), (device, golden), request.param, strict=True
            ):
                with np.errstate(all="ignore"):
                    np.save(folder / side / f"{case.__name__}_{size}.npy", array.astype(dtype))
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


@pytest.mark.parametrize("want", [DEFAULT, Wanted(1e-3, 1e-3)])
def test_files_piled_up_as_each_alone(pairs, want):
    work = MeasureWork(want)
    files = [
        NpyFiles(str(pair.device.path), str(pair.golden.path), pair.device.nbytes)
        for pair in (*pairs, *pairs)
    ]
    for pair, piled in zip((*pairs, *pairs), work.many(files), strict=True):
        assert repr(piled) == repr(work(pair))
    assert repr(work(files[0])) == repr(work(pairs[0]))
    assert work.lost(files[0], "gone") == work.lost(pairs[0], "gone")


def test_files_of_other_shapes_and_of_no_whole_number_of_elements(tmp_path):
    """Each is told what it is told alone, whatever lies beside it."""
    values = np.arange(30, dtype=np.float32)
    for number, (device, golden) in enumerate(
        [
            (values, values + 1),
            (values.reshape(5, 6), values + 1),
            (values[:29].astype("i1"), values[:29] + 1),
            (values[:29].astype("i2"), (values[:29] + 1).astype("i1")),
            (values.astype("f8"), values),
            (np.asfortranarray(values.reshape(5, 6)), values.reshape(5, 6) + 1),
            (values, values[::-1].astype(">f4")),
        ]
        * 2
    ):
        np.save(tmp_path / f"{number}.device.npy", device)
        np.save(tmp_path / f"{number}.golden.npy", golden)
    (tmp_path / "0.device.npy").write_bytes((tmp_path / "0.device.npy").read_bytes()[:-1])
    (tmp_path / "7.golden.npy").unlink()
    files = [
        NpyFiles(str(tmp_path / f"{number}.device.npy"), str(tmp_path / f"{number}.golden.npy"))
        for number in range(14)
    ]
    work = MeasureWork()
    together = [*work.many(files)]
    assert [repr(found) for found in together] == [repr(work(each)) for each in files]
    assert [number for number, found in enumerate(together) if found.metrics is None] == [0, 7]


def test_sent_to_another_process_as_made_here(pairs):
    found = MeasureWork().many(pairs)
    assert repr(list(pickle.loads(pickle.dumps(found)))) == repr(list(found))
    assert len(found) == len(pairs)
    assert repr(found[3]) == repr(list(found)[3])


@given(st.data())
def test_values_of_every_size_together_as_alone(data):
    """Numbers of any magnitude, on rows of one table."""
    size = data.draw(st.integers(2, 40))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    values = random.standard_normal((2, 8, size)) * 10.0 ** random.uniform(-44, 38, (2, 8, 1))
    if data.draw(st.booleans()):
        values[0] = values[1] * (
            1 + random.standard_normal((8, size)) * 10.0 ** random.uniform(-8, 0)
        )
    with np.errstate(all="ignore"):
        device, golden = values.astype(np.float32)
    tables, known = measured_together(range(8), list(zip(device, golden, strict=True)), DEFAULT)
    for table in tables:
        for row, (metrics, figures) in zip(table.numbers, table, strict=True):
            alone = measure(device[row], golden[row])
            assert repr(metrics) == repr(alone.metrics)
            assert repr(figures) == repr(alone.figures)
    for row, sums in known.items():
        alone = measure(device[row], golden[row])
        assert repr(measure(device[row], golden[row], sweeper=sums)) == repr(alone)


def test_more_pairs_than_are_treated_at_once(pairs):
    work = MeasureWork()
    many = [pair for pair in pairs if pair.device.path.stem == "nothing_8192"] * 20
    assert {repr(found) for found in work.many(many)} == {repr(work(many[0]))}
