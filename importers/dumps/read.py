"""The data of one dumped tensor as a numpy array."""

from __future__ import annotations

import mmap
import os
import sys
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from graphstore.errors import ImportFormatError
from graphstore.model import DType, DumpFormat, DumpTensorRef
from importers.dumps.arrays.npy import parse_npy_header, read_npy_header
from importers.dumps.arrays.small_npy import MOST_BYTES, small_npy, small_npy_file
from importers.dumps.decode import Bytes, can_decode, decode
from importers.dumps.index import DamagedError
from importers.dumps.open_file import open_dump

_WHOLE = 1 << 16
"""Files up to this are read in one go, header and all."""


def read_array(ref: DumpTensorRef) -> NDArray[np.generic]:
    """The tensor's values in its stored (device) shape, native byte order, read-only.

    bfloat16 and 8-bit floats come as float32, packed integers as int8/uint8, complex32
    as complex64, all others in their own type. Tensors over 1 MiB are mapped, not read;
    the mapping ends with the array.

    Raises:
        ImportFormatError: the file vanished, or is not what it was when scanned; or the
            tensor is larger than the memory.
    """
    small = small_npy(ref) if ref.statistics is None else None
    if small is not None:
        return small
    if ref.statistics is not None:
        raise ImportFormatError(ref.path, "the dump holds statistics of this tensor, no values")
    if ref.dtype is None or ref.shape is None or not can_decode(ref.dtype):
        what = "elements without a known type" if ref.dtype is None else f"elements of {ref.dtype}"
        raise ImportFormatError(ref.path, f"{what} cannot be read", offset=ref.offset)
    try:
        values = _joined(ref) if ref.parts else _values(ref)
    except DamagedError as damage:
        raise ImportFormatError(ref.path, damage.detail) from damage
    except ValueError as error:  # more dimensions, or larger ones, than numpy can have
        what = f"shape {list(ref.shape)} cannot be read: {error}"
        raise ImportFormatError(ref.path, what, offset=ref.offset) from error
    except MemoryError as error:
        what = f"shape {list(ref.shape)} of {ref.dtype} does not fit into the memory"
        raise ImportFormatError(ref.path, what, offset=ref.offset) from error
    values.flags.writeable = False
    return values


def _values(ref: DumpTensorRef) -> NDArray[np.generic]:
    with open_dump(ref.path) as (fd, size):
        if ref.format is DumpFormat.BASE64_NPY:
            return _from_text(fd, ref)
        if ref.format is DumpFormat.NPZ:
            return _from_member(fd, ref)
        fortran, swapped = _check(fd, size, ref)
        if ref.format is DumpFormat.TFDBG:
            from importers.dumps.arrays.tfdbg import event_values  # it loads TensorFlow's messages

            values = event_values(fd, size, ref)
            if values is not None:
                return values
        raw = _raw(fd, ref)
    return _shaped(raw, ref, fortran=fortran, swapped=swapped)


def _from_text(fd: int, ref: DumpTensorRef) -> NDArray[np.generic]:
    """The values of a ``.npy`` file kept as base64."""
    from importers.dumps.arrays.polygraphy import array_bytes

    header, data = array_bytes(fd, ref)
    if header.shape != ref.shape:
        raise ImportFormatError(
            ref.path,
            f"the array has shape {list(header.shape)}, not {list(ref.shape or ())}",
            offset=ref.offset,
            hint="the file has changed since the folder was scanned",
        )
    raw = np.frombuffer(data, np.uint8)
    swapped = not header.dtype.isnative
    return _shaped(raw, ref, fortran=header.fortran_order, swapped=swapped)


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
    try:
        with open_dump(path) as (fd, size):
            first = os.pread(fd, min(size, _WHOLE), 0)
            header = parse_npy_header(first, size)
            dtype = header.element_type(raw_type)
            if len(first) == size:
                raw = np.frombuffer(first, np.uint8)[header.data_offset :]
            else:
                raw = _part(fd, path, header.data_offset, header.nbytes)
        if not header.dtype.isnative:
            raw = raw.view(header.dtype).astype(header.dtype.newbyteorder("=")).view(np.uint8)
        order: Literal["F", "C"] = "F" if header.fortran_order else "C"
        values = decode(raw, dtype, prod(header.shape)).reshape(header.shape, order=order)
    except DamagedError as damage:
        raise ImportFormatError(path, damage.detail) from damage
    except ValueError as error:  # more dimensions, or larger ones, than numpy can have
        raise ImportFormatError(path, f"it cannot be read: {error}") from error
    except MemoryError as error:
        raise ImportFormatError(path, "it does not fit into the memory") from error
    values.flags.writeable = False
    return values, dtype


def _from_member(fd: int, ref: DumpTensorRef) -> NDArray[np.generic]:
    """The values of one array of an archive."""
    from importers.dumps.arrays.npz import member_data

    header, found = member_data(fd, ref)
    if header.shape != ref.shape:
        raise ImportFormatError(
            ref.path,
            f"the array has shape {list(header.shape)}, not {list(ref.shape or ())}",
            offset=ref.offset,
            hint="the file has changed since it was listed",
        )
    if isinstance(found, int):
        found = _raw(fd, replace(ref, offset=found, nbytes=header.nbytes))
    return _shaped(found, ref, fortran=header.fortran_order, swapped=not header.dtype.isnative)


def _joined(ref: DumpTensorRef) -> NDArray[np.generic]:
    """The values of all slices in one array of the whole's shape."""
    whole: NDArray[np.generic] | None = None
    for part in ref.parts:
        values = read_array(part.tensor)
        if whole is None:
            whole = np.empty(ref.shape or (), values.dtype)
        place = tuple(
            slice(start, start + size) for start, size in zip(part.start, values.shape, strict=True)
        )
        whole[place] = values
    assert whole is not None
    return whole


def _check(fd: int, size: int, ref: DumpTensorRef) -> tuple[bool, bool]:
    """If the data is in Fortran order, and in the other byte order."""
    if ref.offset + ref.nbytes > size:
        raise ImportFormatError(
            ref.path,
            f"the tensor takes bytes {ref.offset} to {ref.offset + ref.nbytes}, "
            f"the file has {size}",
            offset=size,
            hint="the file has changed since the folder was scanned",
        )
    if ref.format is not DumpFormat.NPY:
        return False, sys.byteorder == "big"
    header = read_npy_header(fd, size)
    if header.shape != ref.shape or header.data_offset != ref.offset or header.nbytes != ref.nbytes:
        raise ImportFormatError(
            ref.path,
            f"the header gives shape {list(header.shape)} of {header.dtype.str}, "
            f"not shape {list(ref.shape or ())} of {ref.dtype}",
            offset=0,
            hint="the file has changed since the folder was scanned",
        )
    return header.fortran_order, not header.dtype.isnative


def _raw(fd: int, ref: DumpTensorRef) -> Bytes:
    return _part(fd, ref.path, ref.offset, ref.nbytes)


def _part(fd: int, path: Path, offset: int, nbytes: int) -> Bytes:
    if nbytes >= MOST_BYTES:
        return _mapped(fd, offset, nbytes)
    data = os.pread(fd, nbytes, offset)
    if len(data) < nbytes:
        raise ImportFormatError(
            path,
            f"only {len(data)} of {nbytes} bytes could be read",
            offset=offset,
            hint="the file has changed since the folder was scanned",
        )
    return np.frombuffer(data, np.uint8)


def _mapped(fd: int, offset: int, nbytes: int) -> Bytes:
    start = offset - offset % mmap.ALLOCATIONGRANULARITY
    length = offset - start + nbytes
    # Older Pythons keep a file descriptor with each mapping, closed with the array.
    kept = {"trackfd": False} if sys.version_info >= (3, 13) else {}
    view = mmap.mmap(fd, length, access=mmap.ACCESS_READ, offset=start, **kept)
    view.madvise(mmap.MADV_SEQUENTIAL)
    return np.frombuffer(view, np.uint8, nbytes, offset - start)


def _shaped(raw: Bytes, ref: DumpTensorRef, *, fortran: bool, swapped: bool) -> NDArray[np.generic]:
    shape, dtype = ref.shape or (), ref.dtype or DType.INT8
    if swapped and dtype.numpy is not None:
        raw = raw.view(dtype.numpy.newbyteorder()).astype(dtype.numpy).view(np.uint8)
    values = decode(raw, dtype, prod(shape))
    return values.reshape(shape, order="F" if fortran else "C")
