"""Tensors saved by ``torch.save``, read without unpickling anything.

A ``.pt`` file is a zip archive of stored (not compressed) members: ``data.pkl`` describes
the tensor, ``data/{key}`` holds its bytes. The pickle is walked opcode by opcode with
:mod:`pickletools`, which executes nothing; only what a saved tensor consists of is
understood, anything else is refused.
"""

from __future__ import annotations

import io
import os
import pickletools
import struct
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from graphstore.model import DType, Reason
from importers.dumps.decode import stored_bytes
from importers.dumps.index import DamagedError, shown

ENDING = ".pt"
_MAX_PICKLE = 1 << 20
_MAX_MEMBERS = 4096
_MAX_RANK = 64
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_STORAGES = {
    "FloatStorage": DType.FLOAT32,
    "DoubleStorage": DType.FLOAT64,
    "HalfStorage": DType.FLOAT16,
    "BFloat16Storage": DType.BFLOAT16,
    "LongStorage": DType.INT64,
    "IntStorage": DType.INT32,
    "ShortStorage": DType.INT16,
    "CharStorage": DType.INT8,
    "ByteStorage": DType.UINT8,
    "BoolStorage": DType.BOOL,
    "ComplexFloatStorage": DType.COMPLEX64,
    "ComplexDoubleStorage": DType.COMPLEX128,
    "Float8_e5m2Storage": DType.FLOAT8_E5M2,
    "Float8_e4m3fnStorage": DType.FLOAT8_E4M3FN,
}


@dataclass(frozen=True, slots=True)
class TorchTensor:
    """A contiguous tensor and where its bytes lie in the file."""

    dtype: DType
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class _Global:
    name: str


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


@dataclass(frozen=True, slots=True)
class _Mark:
    pass


_Item: TypeAlias = (
    "_Global | _Storage | _Tensor | _Mark | tuple[_Item, ...] | str | int | float | None"
)


def read_torch(fd: int, size: int) -> TorchTensor:
    """The one tensor in the open ``.pt`` file of *size* bytes.

    Raises:
        DamagedError: no such archive, more than a plain contiguous tensor in it, or its
            bytes are not all there.
    """
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(0)
        try:
            with zipfile.ZipFile(file) as archive:
                return _from_archive(archive, fd, size)
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            EOFError,
            RuntimeError,
            ValueError,
        ) as error:
            raise _bad(f"no archive of torch.save: {error}") from None


def _from_archive(archive: zipfile.ZipFile, fd: int, size: int) -> TorchTensor:
    members = archive.infolist()
    if len(members) > _MAX_MEMBERS:
        raise _bad(f"an archive of {len(members)} members")
    pickles = [info for info in members if info.filename.rpartition("/")[2] == "data.pkl"]
    if len(pickles) != 1:
        raise _bad(f"{len(pickles)} members data.pkl")
    root = pickles[0].filename.removesuffix("data.pkl")
    by_name = {info.filename: info for info in members}
    tensor = _tensor_of(_member(pickles[0], fd, size, _MAX_PICKLE))
    order = by_name.get(f"{root}byteorder")
    if order is not None and os.pread(fd, 6, _place(order, fd, size)) != b"little":
        raise DamagedError(Reason.DTYPE_UNSUPPORTED, "numbers in big-endian order")
    stored = by_name.get(f"{root}data/{tensor.storage.key}")
    if stored is None:
        raise _bad(f"no member data/{shown(tensor.storage.key)}")
    return _placed(tensor, _place(stored, fd, size), stored.file_size)


def _placed(tensor: _Tensor, start: int, stored: int) -> TorchTensor:
    dtype, shape = tensor.storage.dtype, tensor.shape
    expected = _row_strides(shape)
    moved = [
        axis
        for axis, (size, have) in enumerate(zip(shape, tensor.strides, strict=True))
        if size > 1 and have != expected[axis]
    ]
    if moved and 0 not in shape:
        raise DamagedError(
            Reason.LAYOUT_UNSUPPORTED,
            f"a tensor of shape {list(shape)} with strides {list(tensor.strides)}: "
            "only contiguous ones are read",
        )
    nbytes = stored_bytes(dtype, prod(shape))
    first = stored_bytes(dtype, tensor.start)
    if first + nbytes > stored:
        raise DamagedError(
            Reason.UNREADABLE_DUMP,
            f"shape {list(shape)} of {dtype} takes {nbytes} bytes, "
            f"{max(stored - first, 0)} are stored",
            offset=start,
        )
    return TorchTensor(dtype, shape, start + first, nbytes)


def _row_strides(shape: Sequence[int]) -> list[int]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


def _place(info: zipfile.ZipInfo, fd: int, size: int) -> int:
    """Where a stored member's bytes begin; checks that they lie within the file."""
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        raise _bad(f"member {shown(info.filename)} is compressed or encrypted")
    if not 0 <= info.header_offset <= size:
        raise _bad(f"a member at byte {info.header_offset} of {size}")
    head = os.pread(fd, _LOCAL_HEADER.size, info.header_offset)
    if len(head) < _LOCAL_HEADER.size or head[:4] != b"PK\x03\x04":
        raise _bad(f"no member at byte {info.header_offset}")
    _, name_length, extra_length = _LOCAL_HEADER.unpack(head)
    start = info.header_offset + _LOCAL_HEADER.size + name_length + extra_length
    if start + info.file_size > size:
        raise DamagedError(
            Reason.UNREADABLE_DUMP,
            f"the file is cut inside {shown(info.filename)}",
            offset=min(start, size),
        )
    return int(start)


def _member(info: zipfile.ZipInfo, fd: int, size: int, limit: int) -> bytes:
    if info.file_size > limit:
        raise _bad(f"{shown(info.filename)} takes {info.file_size} bytes")
    return os.pread(fd, info.file_size, _place(info, fd, size))


def _tensor_of(pickle: bytes) -> _Tensor:
    """The tensor a ``data.pkl`` describes.

    Raises:
        DamagedError: it describes anything but one tensor.
    """
    machine = _Machine()
    try:
        with warnings.catch_warnings():
            # A damaged text with a stray backslash is refused below, like every text.
            warnings.simplefilter("ignore", DeprecationWarning)
            for opcode, argument, place in pickletools.genops(io.BytesIO(pickle)):
                machine.do(opcode.name, argument, place or 0)
    except (ValueError, IndexError, KeyError, struct.error, OverflowError) as error:
        raise _bad(f"its description is damaged: {error}") from None
    result = machine.result
    if not isinstance(result, _Tensor):
        raise DamagedError(
            Reason.DTYPE_UNSUPPORTED, "the file holds something else than one tensor"
        )
    return result


class _Machine:
    """A stack of values for the few opcodes a saved tensor uses. Calls nothing."""

    def __init__(self) -> None:
        self._stack: list[_Item] = []
        self._memo: dict[int, _Item] = {}
        self.result: _Item = None

    def do(self, name: str, argument: object, place: int) -> None:
        stack = self._stack
        if name in ("PROTO", "FRAME"):
            return
        if name in (
            "BINUNICODE",
            "SHORT_BINUNICODE",
            "BINUNICODE8",
            "BINSTRING",
            "SHORT_BINSTRING",
        ):
            stack.append(str(argument))
        elif name in ("BININT", "BININT1", "BININT2", "LONG1", "INT"):
            stack.append(int(str(argument)) if not isinstance(argument, bool) else int(argument))
        elif name in ("NEWTRUE", "NEWFALSE", "NONE", "EMPTY_TUPLE", "EMPTY_DICT", "EMPTY_LIST"):
            stack.append({"NEWTRUE": 1, "NEWFALSE": 0, "NONE": None}.get(name, ()))
        elif name == "GLOBAL":
            stack.append(_Global(str(argument)))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            stack.append(_Global(f"{module} {attribute}"))
        elif name == "MARK":
            stack.append(_Mark())
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            self._tuple(int(name[-1]))
        elif name == "TUPLE":
            self._tuple(self._since_mark())
            stack.pop(-2)
        elif name in ("BINPUT", "LONG_BINPUT"):
            self._memo[int(str(argument))] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[int(str(argument))])
        elif name == "BINPERSID":
            stack.append(_storage(stack.pop()))
        elif name == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(_reduced(function, arguments))
        elif name == "STOP":
            self.result = stack[-1]
        else:
            raise DamagedError(
                Reason.DTYPE_UNSUPPORTED,
                f"the file holds more than one plain tensor (opcode {name} at {place} of data.pkl)",
            )

    def _tuple(self, count: int) -> None:
        items = tuple(self._stack[len(self._stack) - count :]) if count else ()
        if len(items) != count:
            raise ValueError("its stack is empty")
        del self._stack[len(self._stack) - count :]
        self._stack.append(items)

    def _since_mark(self) -> int:
        for count, item in enumerate(reversed(self._stack)):
            if isinstance(item, _Mark):
                return count
        raise ValueError("no mark")


def _storage(item: _Item) -> _Item:
    """``("storage", type, key, device, elements)`` of a persistent id."""
    match item:
        case ("storage", _Global(name=kind), str(key), *_):
            dtype = _STORAGES.get(kind.rpartition(" ")[2].rpartition(".")[2])
            if dtype is None:
                raise DamagedError(Reason.DTYPE_UNSUPPORTED, f"elements of {shown(kind)}")
            return _Storage(dtype, key)
    raise ValueError("no storage")


def _reduced(function: _Item, arguments: _Item) -> _Item:
    """What a call stands for, without calling it."""
    name = function.name if isinstance(function, _Global) else ""
    match name, arguments:
        case "collections OrderedDict", ():
            return ()
        case "torch._utils _rebuild_parameter", (_Tensor() as tensor, *_):
            return tensor
        case (
            "torch._utils _rebuild_tensor_v2",
            (_Storage() as storage, int(start), tuple(shape), tuple(strides), *_),
        ):
            sizes, steps = _sizes(shape), _sizes(strides)
            if len(sizes) != len(steps) or start < 0:
                raise ValueError("shape and strides differ in length")
            return _Tensor(storage, start, sizes, steps)
    raise DamagedError(
        Reason.DTYPE_UNSUPPORTED, f"the file holds an object of {name[:60]!r}, not a plain tensor"
    )


def _sizes(items: tuple[_Item, ...]) -> tuple[int, ...]:
    sizes = tuple(item for item in items if isinstance(item, int) and 0 <= item < 1 << 62)
    if len(sizes) != len(items) or len(sizes) > _MAX_RANK:
        raise ValueError("a shape that is no list of sizes")
    return sizes


def _bad(what: str) -> DamagedError:
    return DamagedError(Reason.UNREADABLE_DUMP, what, offset=0)
