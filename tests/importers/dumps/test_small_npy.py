"""The one read of small ``.npy`` files gives what the careful reader gives, or nothing."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from graphstore.errors import ImportFormatError
from graphstore.model import DType, DumpFormat, DumpTensorRef, TensorIO
from importers.dumps.arrays.npy import read_npy_header, small_npy, small_npy_file
from importers.dumps.read import read_array, read_npy

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def saved(path, values, dtype=None, **changes) -> DumpTensorRef:
    np.save(path, values)
    with path.open("rb") as file:
        header = read_npy_header(file.fileno(), path.stat().st_size)
    ref = DumpTensorRef(
        path,
        DumpFormat.NPY,
        "op",
        TensorIO.OUTPUT,
        0,
        dtype or DType(values.dtype.name),
        values.shape,
        offset=header.data_offset,
        nbytes=header.nbytes,
    )
    return replace(ref, **changes)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint16", "int64"])
@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 2, 3, 1)])
def test_plain_files_are_read_at_once(tmp_path, dtype, shape):
    values = VALUES.astype(dtype).reshape(shape)
    ref = saved(tmp_path / "a.npy", values)
    for _ in range(2):  # the header is new, then known
        found = small_npy(ref)
        assert found.dtype == values.dtype
        assert not found.flags.writeable
        np.testing.assert_array_equal(found, values, strict=True)


def test_a_single_value(tmp_path):
    assert small_npy(saved(tmp_path / "a.npy", np.float32(7))).item() == 7.0


@pytest.mark.parametrize(
    "values",
    [np.asfortranarray(VALUES), VALUES.astype(">f4"), VALUES > 2, np.empty((0, 3), np.float32)],
    ids=["fortran", "byte order", "bool", "empty"],
)
def test_files_that_are_not_plain_are_left_to_the_careful_reader(tmp_path, values):
    ref = saved(tmp_path / "a.npy", values)
    assert small_npy(ref) is None
    np.testing.assert_array_equal(read_array(ref), values)


def test_raw_bytes_of_a_type_numpy_lacks_are_left(tmp_path):
    ref = saved(tmp_path / "a.npy", np.array([b"\x80\x3f"], "V2"), DType.BFLOAT16)
    assert small_npy(ref) is None
    assert read_array(ref).tolist() == [1.0]


@pytest.mark.parametrize(
    "change", [{"shape": (3, 2)}, {"dtype": DType.INT32}, {"offset": 64}, {"nbytes": 20}]
)
def test_what_is_not_as_the_index_says_is_left(tmp_path, change):
    good = saved(tmp_path / "a.npy", VALUES)
    assert small_npy(good) is not None  # so the header is known
    assert small_npy(replace(good, **change)) is None


@pytest.mark.parametrize("damage", ["cut", "longer", "header", "gone", "folder", "pipe"])
def test_damage_is_told_by_the_careful_reader(tmp_path, damage):
    path = tmp_path / "a.npy"
    ref = saved(path, VALUES)
    assert small_npy(ref) is not None
    data = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(data[:-1])
    elif damage == "longer":
        path.write_bytes(data + b"\0")
    elif damage == "header":
        path.write_bytes(data.replace(b"descr", b"decsr"))
    elif damage == "folder":
        path.mkdir()
    elif damage == "pipe":
        os.mkfifo(path)
    assert small_npy(ref) is None
    with pytest.raises(ImportFormatError):
        read_array(ref)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "complex64"])
def test_files_nobody_looked_at(tmp_path, dtype):
    values = VALUES.astype(dtype)
    saved(tmp_path / "a.npy", values)
    for _ in range(2):  # the header is new, then known
        found, kind = small_npy_file(tmp_path / "a.npy")
        assert kind == DType(dtype)
        np.testing.assert_array_equal(found, values, strict=True)
    assert not found.flags.writeable


@pytest.mark.parametrize(
    "values",
    [
        np.asfortranarray(VALUES),
        VALUES.astype(">f4"),
        VALUES > 2,
        np.empty((0, 3), np.float32),
        np.zeros(20_000, np.float32),
    ],
    ids=["fortran", "byte order", "bool", "empty", "large"],
)
def test_other_files_nobody_looked_at(tmp_path, values):
    np.save(tmp_path / "a.npy", values)
    assert small_npy_file(tmp_path / "a.npy") is None
    np.testing.assert_array_equal(read_npy(tmp_path / "a.npy")[0], values)


@pytest.mark.parametrize("keep", [0, 5, 9, 100, 150, 151, 153])
def test_files_of_a_wrong_length(tmp_path, keep):
    path = tmp_path / "a.npy"
    saved(path, VALUES)
    assert small_npy_file(path) is not None
    path.write_bytes((path.read_bytes() + b"\0")[:keep])
    assert small_npy_file(path) is None
    with pytest.raises(ImportFormatError):
        read_npy(path)


def test_raw_bytes_of_an_unnamed_type(tmp_path):
    np.save(tmp_path / "a.npy", np.array([b"\x80\x3f"], "V2"))
    assert small_npy_file(tmp_path / "a.npy") is None
    assert read_npy(tmp_path / "a.npy", DType.BFLOAT16)[0].tolist() == [1.0]
