"""Tensor data read from dump files, in every element type."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

from graphstore.errors import ImportFormatError
from graphstore.model import DType, TensorIO
from importers.dumps.decode import decode, stored_bytes
from importers.dumps.detect import scan_dumps
from importers.dumps.read import read_array

KEY = ("a", TensorIO.OUTPUT, 0)
NAME = "Add.a.1.1.1664180560000000"


@pytest.fixture
def written(tmp_path, write_dump, dumped, graph_of):
    def write(*arguments, **options):
        write_dump(tmp_path / NAME, [dumped(*arguments, **options)])
        return scan_dumps(tmp_path, graph_of(("a", "Add"))).tensors[KEY]

    return write


@pytest.mark.parametrize(
    "name", ["float16", "float32", "float64", "int8", "int32", "int64", "bool"]
)
def test_numpy_types_come_as_they_are(written, name):
    values = np.arange(24).reshape(2, 3, 4).astype(name)
    found = read_array(written(values, DType(name)))
    assert found.dtype == values.dtype
    assert np.array_equal(found, values)


def test_bfloat16_comes_as_float32(written):
    values = np.array([1.0, -2.5, 3e38, 0.0], np.float32)
    halves = (values.view(np.uint32) >> 16).astype(np.uint16)
    expected = (halves.astype(np.uint32) << 16).view(np.float32)
    found = read_array(written(halves, DType.BFLOAT16))
    assert found.dtype == np.float32
    assert np.array_equal(found, expected)


def test_packed_types_are_unpacked_from_the_low_bits(written):
    raw = np.array([0x21, 0xF8, 0x07], np.uint8)
    assert read_array(written(raw, DType.INT4, shape=(5,))).tolist() == [1, 2, -8, -1, 7]


def test_single_bits_come_from_the_high_ones_down_as_msaccucmp_unpacks_them(written):
    raw = np.array([0x21, 0x80], np.uint8)
    found = read_array(written(raw, DType.UINT1, shape=(9,)))
    assert found.tolist() == [0, 0, 1, 0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("dtype", "known"),
    [
        # The largest value, the smallest above zero, one, and what is no number.
        (DType.FLOAT8_E5M2, {0x7B: 57344.0, 0x01: 2.0**-16, 0x3C: 1.0, 0x7C: np.inf, 0xFF: np.nan}),
        (DType.FLOAT8_E4M3FN, {0x7E: 448.0, 0x01: 2.0**-9, 0xB8: -1.0, 0x7F: np.nan}),
        (DType.FLOAT8_E5M2FNUZ, {0x7F: 57344.0, 0x01: 2.0**-17, 0x40: 1.0, 0x80: np.nan}),
        (DType.FLOAT8_E4M3FNUZ, {0x7F: 240.0, 0x01: 2.0**-10, 0x40: 1.0, 0x80: np.nan}),
        (DType.FLOAT8_E8M0, {0xFE: 2.0**127, 0x7F: 1.0, 0xFF: np.nan}),
        (DType.HIFLOAT8, {0x6E: 32768.0, 0x01: 2.0**-22, 0x08: 1.0, 0x6F: np.inf, 0x80: np.nan}),
        (DType.HIFLOAT8, {0x20: 4.0, 0x1F: 0.9375, 0x7E: 2.0**-15, 0x90: -2.0, 0xEF: -np.inf}),
        (DType.FLOAT4_E2M1, {0x07: 6.0, 0x01: 0.5, 0x0A: -1.0}),
        (DType.FLOAT4_E1M2, {0x07: 1.75, 0x01: 0.25, 0x0C: -1.0}),
    ],
)
def test_small_floats_have_the_values_of_their_definition(dtype, known):
    for code, value in known.items():
        found = decode(np.array([code], np.uint8), dtype, 1)
        assert found.dtype == np.float32
        assert np.array_equal(found, [np.float32(value)], equal_nan=True), hex(code)


def test_complex32_comes_as_complex64():
    raw = np.array([1.5, -2.0], np.float16).view(np.uint8)
    assert decode(raw, DType.COMPLEX32, 1).tolist() == [1.5 - 2.0j]


def test_the_size_says_what_a_missing_shape_does_not(written):
    one, many = np.array([7], np.float32), np.arange(5, dtype=np.float32)
    assert read_array(written(one, shape=())).shape == ()
    assert read_array(written(many, shape=())).tolist() == [0, 1, 2, 3, 4]


def test_an_undefined_type_is_shown_as_bytes(written):
    values = np.arange(3, dtype=np.int16)
    assert read_array(written(values, 0)).tolist() == [0, 0, 1, 0, 2, 0]


def test_padding_behind_the_elements_is_left_out(written):
    ref = written(np.arange(8, dtype=np.float32), shape=(5,))
    assert read_array(ref).tolist() == [0, 1, 2, 3, 4]


def test_a_size_of_zero_makes_an_empty_array(written):
    assert read_array(written(np.zeros((2, 0, 3), np.float32))).shape == (2, 0, 3)


def test_large_tensors_are_mapped_and_equal(written):
    values = np.random.default_rng(1).standard_normal((600, 1000)).astype(np.float32)
    found = read_array(written(values))
    assert np.array_equal(found, values)
    assert not found.flags.writeable


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files by /proc")
def test_no_file_stays_open_behind_an_array_let_go(written):
    ref = written(np.zeros((1 << 19,), np.float32))
    read_array(ref)
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        read_array(ref)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("elements", [10, 1 << 19])
def test_a_file_that_shrank_or_vanished_is_one_sentence(written, elements):
    ref = written(np.zeros((elements,), np.float32))
    content = ref.path.read_bytes()
    ref.path.write_bytes(content[:-4])
    with pytest.raises(ImportFormatError, match="has changed since"):
        read_array(ref)
    ref.path.unlink()
    with pytest.raises(ImportFormatError, match="cannot be read"):
        read_array(ref)


def test_packed_bytes_are_rounded_up():
    assert stored_bytes(DType.INT4, 5) == 3
    with pytest.raises(ValueError, match="no fixed size"):
        stored_bytes(DType.STRING, 1)
