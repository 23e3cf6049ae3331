"""Tensors saved by ``torch.save``, read without running anything of the file.

A ``.pt`` file is a zip archive of stored (not compressed) members: ``data.pkl`` describes
the tensor, ``data/{key}`` holds its bytes. Of the pickle only the opcodes a saved tensor
consists of are let through, and only its few names, which stand for functions of this module.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from graphstore.model import DType, DumpFormat, DumpTensorRef, Reason, TensorIO
from importers.dumps.arrays.npz import list_members, member_place
from importers.dumps.bare.tensor import BareTensor, found_tensor, identity_of
from importers.dumps.contract import DumpReader, FilePlace, RawForm
from importers.dumps.decode import stored_bytes
from importers.dumps.index import DamagedError, open_dump, shown
from importers.file_parts import read_at
from importers.number_formats import named_dtype

ENDING = ".pt"
_MAX_PICKLE = 1 << 20
_MAX_RANK = 64
_CHUNK = 1 << 20
_STORAGES = """
    Float Double Half BFloat16 Long Int Short Char Byte Bool ComplexFloat ComplexDouble Float8_e5m2
    Float8_e4m3fn
""".split()
_OPCODES = frozenset(
    """
    PROTO FRAME BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINSTRING SHORT_BINSTRING BININT BININT1
    BININT2 LONG1 INT NEWTRUE NEWFALSE NONE EMPTY_TUPLE EMPTY_DICT EMPTY_LIST GLOBAL STACK_GLOBAL
    MARK TUPLE1 TUPLE2 TUPLE3 TUPLE BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET BINPERSID REDUCE
    STOP
    """.split()
)
_OPCODES_OF_DICTS = _OPCODES | frozenset(
    "SETITEM SETITEMS APPEND APPENDS BINFLOAT LONG4 EMPTY_SET ADDITEMS POP".split()
)
"""What a dict of plain values adds: nothing that calls anything."""


@dataclass(frozen=True, slots=True)
class TorchTensor:
    """A contiguous tensor and where its bytes lie in the file, with the checksum that the archive
    has of them; None if it is a part of what that is of, which was checked."""

    dtype: DType
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    crc32: int | None

    def ref(self, path: Path, key: tuple[str, TensorIO, int]) -> DumpTensorRef:
        """It as the tensor *key* of the file at *path*."""
        place = (self.offset, self.nbytes)
        return DumpTensorRef(
            path, DumpFormat.TORCH, *key, self.dtype, self.shape, *place, crc32=self.crc32
        )


@dataclass(frozen=True, slots=True)
class _Storage:
    dtype: DType
    key: str


@dataclass(frozen=True, slots=True)
class _Tensor:
    storage: _Storage
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_torch(fd: int, size: int, key: str = "") -> TorchTensor:
    """The one tensor in the open ``.pt`` file of *size* bytes; where that holds a dict, the one of
    this *key*.

    Raises:
        DamagedError: no such archive, more than a plain contiguous tensor in it, or its
            bytes are not all there.
    """
    by_name = {info.filename: info for info in list_members(fd, "archive of torch.save")}
    pickles = [name for name in by_name if name.rpartition("/")[2] == "data.pkl"]
    if len(pickles) != 1:
        raise DamagedError(f"{len(pickles)} members data.pkl", offset=0)
    root = pickles[0].removesuffix("data.pkl")
    tensor = _tensor_of(_content(by_name[pickles[0]], fd, size), key)
    order = by_name.get(f"{root}byteorder")
    if order is not None and _content(order, fd, size) != b"little":
        raise DamagedError("numbers in big-endian order", Reason.DTYPE_UNSUPPORTED)
    stored = by_name.get(f"{root}data/{tensor.storage.key}")
    if stored is None:
        raise DamagedError(f"no member data/{shown(tensor.storage.key)}", offset=0)
    start = member_place(stored, fd, size, zipfile.ZIP_STORED)
    torch_tensor = _placed(tensor, start, stored.compress_size)
    if (torch_tensor.offset, torch_tensor.nbytes) != (start, stored.compress_size):
        check_sum(fd, start, stored.compress_size, stored.CRC)
        return replace(torch_tensor, crc32=None)
    return replace(torch_tensor, crc32=stored.CRC)


def check_sum(fd: int, start: int, nbytes: int, wanted: int) -> None:
    """Return if the bytes there are those that were saved.

    Raises:
        DamagedError: they are not.
    """
    crc = 0
    for place in range(start, start + nbytes, _CHUNK):
        crc = zlib.crc32(read_at(fd, min(_CHUNK, start + nbytes - place), place), crc)
    if crc != wanted:
        detail = f"its CRC-32 is {crc:08x}, the archive says {wanted:08x}"
        raise DamagedError(f"the tensor is damaged, or saved without checksums: {detail}")


def _content(info: zipfile.ZipInfo, fd: int, size: int) -> bytes:
    if info.compress_size > _MAX_PICKLE:
        raise DamagedError(f"{shown(info.filename)} takes {info.compress_size} bytes", offset=0)
    start = member_place(info, fd, size, zipfile.ZIP_STORED)
    check_sum(fd, start, info.compress_size, info.CRC)
    return read_at(fd, info.compress_size, start)


def _placed(tensor: _Tensor, start: int, stored: int) -> TorchTensor:
    dtype, shape = tensor.storage.dtype, tensor.shape
    step = 1
    for size, stride in zip(reversed(shape), reversed(tensor.strides), strict=True):
        if size > 1 and stride != step and 0 not in shape:
            raise DamagedError(
                f"a tensor of shape {list(shape)} with strides {list(tensor.strides)}: "
                "only contiguous ones are read",
                Reason.LAYOUT_UNSUPPORTED,
            )
        step *= max(size, 1)
    nbytes = stored_bytes(dtype, prod(shape))
    first = stored_bytes(dtype, tensor.start)
    if first + nbytes > stored:
        raise DamagedError(
            f"shape {list(shape)} of {dtype} takes {nbytes} bytes, "
            f"{max(stored - first, 0)} are stored",
            offset=start,
        )
    return TorchTensor(dtype, shape, start + first, nbytes, None)


def _tensor_of(data: bytes, key: str) -> _Tensor:
    """The tensor a ``data.pkl`` describes, by itself or in a dict.

    Raises:
        DamagedError: it describes anything but one tensor.
    """
    try:
        _check_opcodes(data, _OPCODES_OF_DICTS if key else _OPCODES)
        tensor = _Unpickler(io.BytesIO(data)).load()
    except (
        *(pickle.UnpicklingError, struct.error, EOFError),
        *(ArithmeticError, LookupError, TypeError, ValueError),
    ) as error:
        raise DamagedError(f"its description is damaged: {shown(str(error))}", offset=0) from None
    if key and isinstance(tensor, dict):
        tensor = tensor.get(key)
    if not isinstance(tensor, _Tensor):
        raise DamagedError(
            "the file holds something else than one tensor", Reason.DTYPE_UNSUPPORTED
        )
    return tensor


def _check_opcodes(data: bytes, allowed: Collection[str]) -> None:
    with warnings.catch_warnings():
        # A damaged text with a stray backslash is refused below, like every text.
        warnings.simplefilter("ignore", DeprecationWarning)
        for opcode, argument, place in pickletools.genops(data):
            if opcode.name not in allowed:
                raise DamagedError(
                    "the file holds more than one plain tensor "
                    f"(opcode {opcode.name} at {place} of data.pkl)",
                    Reason.DTYPE_UNSUPPORTED,
                )
            # Python's unpickler makes room for all numbers up to this one.
            if opcode.name == "LONG_BINPUT" and (argument or 0) > len(data):
                raise ValueError(f"it keeps a value as number {argument}")


class _Unpickler(pickle.Unpickler):
    """Knows the names in a saved tensor and no others; nothing is imported."""

    def find_class(self, module: str, name: str) -> Any:
        builder = _FUNCTIONS.get(f"{module} {name}")
        if builder is not None:
            return builder
        if module == "torch" and (element := named_dtype(name)) is not None:
            return element
        storage = name.rpartition(".")[2]
        if storage.endswith("Storage"):
            dtype = named_dtype(storage.removesuffix("Storage"))
            if dtype is None or storage.removesuffix("Storage") not in _STORAGES:
                raise DamagedError(f"elements of {shown(storage)}", Reason.DTYPE_UNSUPPORTED)
            return dtype
        raise DamagedError(
            f"the file holds an object of {f'{module} {name}'[:60]!r}, not a plain tensor",
            Reason.DTYPE_UNSUPPORTED,
        )

    def persistent_load(self, pid: Any) -> _Storage:
        """``("storage", type, key, device, elements)``."""
        match pid:
            case ("storage", DType() as dtype, str(key), *_):
                return _Storage(dtype, key)
        raise ValueError("no storage")


def _rebuilt(storage: Any, start: Any, shape: Any, strides: Any, *_: Any) -> _Tensor:
    sizes, steps = _sizes(shape), _sizes(strides)
    if not isinstance(storage, _Storage) or type(start) is not int or start < 0:
        raise ValueError("a tensor without a storage")
    if len(sizes) != len(steps):
        raise ValueError("shape and strides differ in length")
    return _Tensor(storage, start, sizes, steps)


def _sizes(items: Any) -> tuple[int, ...]:
    if not isinstance(items, tuple) or len(items) > _MAX_RANK:
        raise ValueError("a shape that is not a list of sizes")
    if not all(type(item) is int and 0 <= item < 1 << 62 for item in items):
        raise ValueError("a shape that is not a list of sizes")
    return items


def _of_parameter(tensor: Any, *_: Any) -> Any:
    return tensor


def _rebuilt_of_bytes(storage: Any, *arguments: Any) -> _Tensor:
    """Of the newer types, float8 among them: a storage of bytes, with the type beside it."""
    dtype = arguments[5] if len(arguments) > 5 else None
    if not isinstance(storage, _Storage) or not isinstance(dtype, DType):
        raise ValueError("a tensor without a type of elements")  # noqa: TRY004 - the file is wrong
    return _rebuilt(_Storage(dtype, storage.key), *arguments[:3])


_FUNCTIONS = {
    "collections OrderedDict": tuple,  # of hooks, always empty
    "torch._utils _rebuild_parameter": _of_parameter,
    "torch._utils _rebuild_tensor_v2": _rebuilt,
    "torch._utils _rebuild_tensor_v3": _rebuilt_of_bytes,
    "torch.storage UntypedStorage": DType.UINT8,
}


class TorchReader(DumpReader):
    """Files of one saved tensor."""

    name = "torch"
    reads = ".pt files of one tensor (msprobe's, diff)"
    endings = (ENDING, ".pth")
    diff_only = True
    generic = True

    def tensors(self, place: FilePlace, form: RawForm) -> Iterator[BareTensor]:
        """The one tensor, called as its file."""
        with open_dump(place.path) as (fd, size):
            tensor = read_torch(fd, size)
        identity, time = identity_of(place.folder, place.stem)
        ref = tensor.ref(place.path, identity.key)
        yield found_tensor(place.below(place.stem), place.path, ref, identity, time)
