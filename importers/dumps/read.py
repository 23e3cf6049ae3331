"""The data of one dumped tensor as a numpy array."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from graphstore.errors import ImportFormatError
from graphstore.model import (
    Derived,
    DType,
    DumpFormat,
    DumpTensorRef,
    TensorJoin,
    TensorProduct,
    TensorReduction,
)
from importers.dumps.arrays.npy import (
    MOST_BYTES,
    NpyHeader,
    parse_npy_header,
    read_npy_header,
    small_npy,
    small_npy_file,
)
from importers.dumps.decode import Bytes, can_decode, decode
from importers.dumps.index import DamagedError, open_dump
from importers.source import advise, read_at

_WHOLE = 1 << 16
"""Files up to this are read in one go, header and all."""


def read_array(ref: DumpTensorRef) -> NDArray[np.generic]:
    """The tensor's values in its stored (device) shape, native byte order, read-only.

    bfloat16 and 8-bit floats come as float32, packed integers as int8/uint8, complex32
    as complex64, quantised numbers of a known scale as the float32 they stand for, all
    others in their own type. Tensors over 1 MiB are mapped, not read;
    the mapping ends with the array.

    Raises:
        ImportFormatError: the file vanished, or is not what it was when scanned; or the
            tensor is larger than the memory.
    """
    if ref.derived is not None:
        return _derived(ref.derived)
    if ref.scale is not None:
        return _dequantised(ref, ref.scale)
    if ref.axes:
        return _in_order(ref)
    small = small_npy(ref) if ref.statistics is None else None
    if small is not None:
        return small
    if ref.statistics is not None:
        raise ImportFormatError(ref.path, "the dump holds statistics of this tensor, no values")
    if ref.format not in _FORMATS:
        return _read_by_its_reader(ref)
    if ref.shape is None and ref.format == DumpFormat.RAW and ref.dtype is not None:
        # without a graph nothing tells the shape
        flat = replace(ref, shape=(ref.nbytes * 8 // (ref.dtype.bits or 8),))
        return read_array(flat)
    if ref.dtype is None or ref.shape is None or not can_decode(ref.dtype):
        what = "elements without a known type" if ref.dtype is None else f"elements of {ref.dtype}"
        raise ImportFormatError(ref.path, f"{what} cannot be read", offset=ref.offset)
    with _told_damage(ref.path, f"shape {list(ref.shape)} of {ref.dtype}", ref.offset):
        values = _joined(ref) if ref.parts else _values(ref, ref.dtype, ref.shape)
    values.flags.writeable = False
    return values


_FORMATS = frozenset(DumpFormat)


def _read_by_its_reader(ref: DumpTensorRef) -> NDArray[np.generic]:
    from importers.dumps.readers import reader_named  # it loads every reader

    reader = reader_named(ref.format)
    if reader is None:
        hint = "install the plug-in that listed this dump"
        raise ImportFormatError(ref.path, f"no dump reader {ref.format!r} is here", hint=hint)
    with _told_damage(ref.path, f"shape {list(ref.shape or ())} of {ref.dtype}", ref.offset):
        values: NDArray[np.generic] = np.asarray(reader.read(ref))
    if ref.shape is not None and values.size != prod(ref.shape):
        what = f"{values.size} values were read, shape {list(ref.shape)} was listed"
        raise _changed(ref.path, what, ref.offset)
    values = values.reshape(values.shape if ref.shape is None else ref.shape)
    values.flags.writeable = False
    return values


def _derived(derived: Derived) -> NDArray[np.generic]:
    """The values of a tensor that lies in no file, computed in float64 and rounded once."""
    values: NDArray[np.generic]
    if isinstance(derived, TensorProduct):
        left, right = read_array(derived.left), read_array(derived.right)
        values = (left.astype(np.float64) @ right.astype(np.float64).T).astype(np.float32)
    elif isinstance(derived, TensorJoin):
        values = np.concatenate([read_array(part) for part in derived.parts], derived.axis)
    elif isinstance(derived, TensorReduction):
        values = _reduced([read_array(part) for part in derived.parts], derived.operation)
    else:
        values = read_array(derived.whole)
        for axis, runs in derived.runs:
            values = np.concatenate(
                [values[(slice(None),) * axis + (slice(*run),)] for run in runs], axis
            )
        if derived.factor != 1.0:
            scaled = np.multiply(values, derived.factor, dtype=np.float64)
            values = np.asarray(scaled, values.dtype)  # numpy makes scalars of arrays of no axis
    values.flags.writeable = False
    return values


_REDUCTIONS = {"SUM": np.add, "AVG": np.add, "PRODUCT": np.multiply, "MAX": np.maximum,
               "MIN": np.minimum}  # fmt: skip


def _reduced(parts: Sequence[NDArray[np.generic]], operation: str) -> NDArray[np.generic]:
    dtype = parts[0].dtype
    wide = np.float64 if dtype.kind == "f" else dtype
    reduced = _REDUCTIONS[operation].reduce([part.astype(wide) for part in parts])
    return np.asarray(reduced / len(parts) if operation == "AVG" else reduced, dtype)


def _in_order(ref: DumpTensorRef) -> NDArray[np.generic]:
    """The values with the axes as the shape has them, of a file where they lie otherwise."""
    shape = ref.shape or ()
    stored = read_array(replace(ref, axes=(), shape=tuple(shape[axis] for axis in ref.axes)))
    return stored.transpose(np.argsort(ref.axes))


def _dequantised(ref: DumpTensorRef, scale: float) -> NDArray[np.generic]:
    stored = read_array(replace(ref, scale=None))
    values = stored.astype(np.float32)
    values -= np.float32(ref.zero_point)
    values *= np.float32(scale)
    values.flags.writeable = False
    return values


@contextmanager
def _told_damage(path: Path, what: str, offset: int | None = None) -> Iterator[None]:
    try:
        yield
    except DamagedError as damage:
        raise ImportFormatError(path, damage.detail) from damage
    except ValueError as error:  # more dimensions, or larger ones, than numpy can have
        raise ImportFormatError(path, f"{what} cannot be read: {error}", offset=offset) from error
    except MemoryError as error:
        detail = f"{what} does not fit into the memory"
        raise ImportFormatError(path, detail, offset=offset) from error


def _values(ref: DumpTensorRef, dtype: DType, shape: tuple[int, ...]) -> NDArray[np.generic]:
    with open_dump(ref.path) as (fd, size):
        if ref.offset + ref.nbytes > size:
            end = ref.offset + ref.nbytes
            what = f"the tensor takes bytes {ref.offset} to {end}, the file has {size}"
            raise _changed(ref.path, what, size)
        header, raw = _npy_header(fd, size, ref)
        if header is not None and header.shape != shape:
            raise _other_header(ref, header)
        if ref.format is DumpFormat.TFDBG:
            from importers.dumps.arrays.tfdbg import event_values  # it loads TensorFlow's messages

            values = event_values(fd, size, ref)
            if values is not None:
                return values
        if ref.format is DumpFormat.TORCH and ref.crc32 is not None:
            from importers.dumps.arrays.torch_file import check_sum

            check_sum(fd, ref.offset, ref.nbytes, ref.crc32)
        if raw is None:
            raw = _part(fd, ref.path, ref.offset, ref.nbytes)
    return _shaped(raw, dtype, shape, header)


def _npy_header(fd: int, size: int, ref: DumpTensorRef) -> tuple[NpyHeader | None, Bytes | None]:
    """The header of an array that has one, and the bytes of its elements where they do not lie
    at the place of *ref*."""
    if ref.format is DumpFormat.BASE64_NPY:
        from importers.dumps.arrays.polygraphy import array_bytes

        header, data = array_bytes(fd, ref)
        return header, np.frombuffer(data, np.uint8)
    if ref.format is DumpFormat.NPZ:
        from importers.dumps.arrays.npz import member_data

        header, part = member_data(fd, ref)
        return header, (_part(fd, ref.path, part, header.nbytes) if isinstance(part, int) else part)
    if ref.format is not DumpFormat.NPY:
        return None, None
    header = read_npy_header(fd, size)
    if (header.data_offset, header.nbytes) != (ref.offset, ref.nbytes):
        raise _other_header(ref, header)
    return header, None


def _other_header(ref: DumpTensorRef, header: NpyHeader) -> ImportFormatError:
    what = (
        f"the header gives shape {list(header.shape)} of {header.dtype.str}, "
        f"not shape {list(ref.shape or ())} of {ref.dtype}"
    )
    return _changed(ref.path, what, 0)


def _changed(path: Path, what: str, offset: int) -> ImportFormatError:
    hint = "the file has changed since the folder was scanned"
    return ImportFormatError(path, what, offset=offset, hint=hint)


def read_npy(
    path: Path, raw_type: DType | None = None, size: int = 0
) -> tuple[NDArray[np.generic], DType]:
    """The values of a ``.npy`` file nobody looked at before, as :func:`read_array` gives
    them, and their type. *raw_type* is the type of elements numpy has no name for, *size*
    the bytes of the file as far as known.

    Raises:
        ImportFormatError: it is no such file, or larger than the memory.
    """
    small = small_npy_file(path, size)
    if small is not None:
        return small
    with _told_damage(path, "it"):
        with open_dump(path) as (fd, size):
            first = read_at(fd, min(size, _WHOLE), 0)
            header = parse_npy_header(first, size)
            dtype = header.element_type(raw_type)
            if len(first) == size:
                raw = np.frombuffer(first, np.uint8)[header.data_offset :]
            else:
                raw = _part(fd, path, header.data_offset, header.nbytes)
        values = _shaped(raw, dtype, header.shape, header)
    values.flags.writeable = False
    return values, dtype


def _joined(ref: DumpTensorRef) -> NDArray[np.generic]:
    """The values of all slices in one array of the whole's shape."""
    joined_array: NDArray[np.generic] | None = None
    for part in ref.parts:
        values = read_array(part.tensor)
        if joined_array is None:
            joined_array = np.empty(ref.shape or (), values.dtype)
        place = tuple(
            slice(start, start + size) for start, size in zip(part.start, values.shape, strict=True)
        )
        joined_array[place] = values
    assert joined_array is not None
    return joined_array


def _part(fd: int, path: Path, offset: int, nbytes: int) -> Bytes:
    if nbytes >= MOST_BYTES:
        return _mapped(fd, offset, nbytes)
    data = read_at(fd, nbytes, offset)
    if len(data) < nbytes:
        what = f"only {len(data)} of {nbytes} bytes could be read"
        raise _changed(path, what, offset)
    return np.frombuffer(data, np.uint8)


def _mapped(fd: int, offset: int, nbytes: int) -> Bytes:
    start = offset - offset % mmap.ALLOCATIONGRANULARITY
    length = offset - start + nbytes
    # Older Pythons keep a file descriptor with each mapping, closed with the array.
    options = {"trackfd": False} if sys.version_info >= (3, 13) else {}
    view = mmap.mmap(fd, length, access=mmap.ACCESS_READ, offset=start, **options)
    advise(view, "SEQUENTIAL")
    return np.frombuffer(view, np.uint8, nbytes, offset - start)


def _shaped(
    raw: Bytes, dtype: DType, shape: tuple[int, ...], header: NpyHeader | None
) -> NDArray[np.generic]:
    """The elements *raw*, which lie as *header* says; without one in C order, little endian."""
    swapped = sys.byteorder == "big" if header is None else not header.dtype.isnative
    if swapped and dtype.numpy is not None:
        raw = raw.view(dtype.numpy.newbyteorder()).astype(dtype.numpy).view(np.uint8)
    order: Literal["F", "C"] = "F" if header is not None and header.fortran_order else "C"
    return decode(raw, dtype, prod(shape)).reshape(shape, order=order)
