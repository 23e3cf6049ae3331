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
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from graphstore.model import DType, DumpFormat, DumpTensorRef, Reason, TensorIO
from importers.contract import Confidence
from importers.dumps.arrays.npz import list_members, member_place
from importers.dumps.bare.tensor import BareTensor, found_tensor, identity_of, plain
from importers.dumps.contract import DumpReader, FilePlace, RawForm
from importers.dumps.decode import stored_bytes
from importers.dumps.index import DamagedError, open_dump, shown
from importers.number_formats import named_dtype
from importers.source import read_at

ENDING = ".pt"
BETWEEN_TAGS = "___"
"""What parts the tags in the file names of SGLang's dumper, whose reader takes them apart."""
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
    "SETITEM SETITEMS APPEND APPENDS BINFLOAT LONG4 EMPTY_SET ADDITEMS POP BUILD".split()
)
"""What a dict of plain values adds: nothing that calls anything. BUILD, which gives the dict of a
``state_dict`` attributes, is made a POP: it could change any object."""


@dataclass(frozen=True, slots=True)
class TorchTensor:
    """A contiguous tensor and where its bytes lie in the file, with the checksum that the archive
    has of them; None if it is a part of what that is of, which was checked."""

    dtype: DType
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    crc32: int | None
    axes: tuple[int, ...] = ()
    """The axes in the order in which they lie in the file; empty for the same."""

    def ref(self, path: Path, key: tuple[str, TensorIO, int]) -> DumpTensorRef:
        """It as the tensor *key* of the file at *path*."""
        place = (self.offset, self.nbytes)
        return DumpTensorRef(
            path,
            DumpFormat.TORCH,
            *key,
            self.dtype,
            self.shape,
            *place,
            crc32=self.crc32,
            axes=self.axes,
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
    archive = _Archive(fd, size)
    torch_tensor = archive.placed(_tensor_of(archive.description(), key))
    if torch_tensor.axes:
        raise DamagedError(
            f"a tensor of shape {list(torch_tensor.shape)} with its axes in another order: "
            "only contiguous ones are read",
            Reason.LAYOUT_UNSUPPORTED,
        )
    return torch_tensor


def read_tensors(fd: int, size: int) -> Iterator[tuple[str, TorchTensor | DamagedError]]:
    """The tensors in the open ``.pt`` file of *size* bytes, by their keys in dicts and places in
    lists (``layer.0``; "" for one alone); other plain values are passed over.

    Raises:
        DamagedError: no such archive, or an object of a class in it.
    """
    archive = _Archive(fd, size)
    for name, tensor in _named(_loaded(archive.description(), _OPCODES_OF_DICTS), ""):
        try:
            yield name, archive.placed(tensor)
        except DamagedError as damage:
            yield name, damage


class _Archive:
    """An open archive of ``torch.save``.

    Raises:
        DamagedError: it is none.
    """

    def __init__(self, fd: int, size: int) -> None:
        self._fd, self._size = fd, size
        self._members = {info.filename: info for info in list_members(fd, "archive of torch.save")}
        pickles = [name for name in self._members if name.rpartition("/")[2] == "data.pkl"]
        if len(pickles) != 1:
            raise DamagedError(f"{len(pickles)} members data.pkl", offset=0)
        self._root = pickles[0].removesuffix("data.pkl")

    def description(self) -> bytes:
        """The pickle of what was saved."""
        order = self._members.get(f"{self._root}byteorder")
        if order is not None and _content(order, self._fd, self._size) != b"little":
            raise DamagedError("numbers in big-endian order", Reason.DTYPE_UNSUPPORTED)
        return _content(self._members[f"{self._root}data.pkl"], self._fd, self._size)

    def placed(self, tensor: _Tensor) -> TorchTensor:
        """*tensor* with the place of its bytes.

        Raises:
            DamagedError: they are not all there, or elements lie between them.
        """
        stored = self._members.get(f"{self._root}data/{tensor.storage.key}")
        if stored is None:
            raise DamagedError(f"no member data/{shown(tensor.storage.key)}", offset=0)
        start = member_place(stored, self._fd, self._size, zipfile.ZIP_STORED)
        torch_tensor = _placed(tensor, start, stored.compress_size)
        if (torch_tensor.offset, torch_tensor.nbytes) != (start, stored.compress_size):
            check_sum(self._fd, start, stored.compress_size, stored.CRC)
            return torch_tensor
        return replace(torch_tensor, crc32=stored.CRC)


def _named(value: Any, name: str) -> Iterator[tuple[str, _Tensor]]:
    """The tensors in nested dicts and lists."""
    waiting = [(name, value)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, _Tensor):
            yield name, value
        inside: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict):
            inside = value.items()
        elif type(value) in (list, tuple):
            inside = enumerate(value)
        waiting += reversed([(f"{name}.{key}" if name else str(key), each) for key, each in inside])


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
    # Axes as they lie in memory: a view may have them in another order.
    axes = sorted(range(len(shape)), key=lambda axis: (-tensor.strides[axis], axis))
    if not _is_dense(shape, tensor.strides, axes):
        raise DamagedError(
            f"a tensor of shape {list(shape)} with strides {list(tensor.strides)}: "
            "only contiguous ones are read",
            Reason.LAYOUT_UNSUPPORTED,
        )
    nbytes = stored_bytes(dtype, prod(shape))
    first = stored_bytes(dtype, tensor.start)
    if first + nbytes > stored:
        raise DamagedError(
            f"shape {list(shape)} of {dtype} takes {nbytes} bytes, "
            f"{max(stored - first, 0)} are stored",
            offset=start,
        )
    is_in_order = _is_dense(shape, tensor.strides, range(len(shape)))
    order = () if is_in_order else tuple(axes)
    return TorchTensor(dtype, shape, start + first, nbytes, None, order)


def _is_dense(shape: Sequence[int], strides: Sequence[int], axes: Iterable[int]) -> bool:
    """Whether no element lies between those of the tensor, whose *axes* come in this order."""
    step = 1
    for axis in reversed(list(axes)):
        if shape[axis] > 1 and strides[axis] != step and 0 not in shape:
            return False
        step *= max(shape[axis], 1)
    return True


def _tensor_of(data: bytes, key: str) -> _Tensor:
    """The tensor a ``data.pkl`` describes, by itself or in a dict.

    Raises:
        DamagedError: it describes anything but one tensor.
    """
    tensor = _loaded(data, _OPCODES_OF_DICTS if key else _OPCODES)
    if key and isinstance(tensor, dict):
        tensor = tensor.get(key)
    if not isinstance(tensor, _Tensor):
        raise DamagedError(
            "the file holds something else than one tensor", Reason.DTYPE_UNSUPPORTED
        )
    return tensor


def _loaded(data: bytes, allowed: Collection[str]) -> Any:
    """What a ``data.pkl`` of these opcodes describes."""
    try:
        without_state = bytearray(data)
        for place in _check_opcodes(data, allowed):
            without_state[place] = pickle.POP[0]
        return _Unpickler(io.BytesIO(without_state)).load()
    except (
        *(pickle.UnpicklingError, struct.error, EOFError),
        *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    ) as error:
        raise DamagedError(f"its description is damaged: {shown(str(error))}", offset=0) from None


def _check_opcodes(data: bytes, allowed: Collection[str]) -> list[int]:
    """The places of BUILD among the opcodes, which are all *allowed*."""
    builds: list[int] = []
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
            if opcode.name == "BUILD" and place is not None:
                builds.append(place)
            # Python's unpickler makes room for all numbers up to this one.
            if opcode.name == "LONG_BINPUT" and (argument or 0) > len(data):
                raise ValueError(f"it keeps a value as number {argument}")
    return builds


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
    "collections OrderedDict": dict,
    "torch._utils _rebuild_parameter": _of_parameter,
    "torch._utils _rebuild_tensor_v2": _rebuilt,
    "torch._utils _rebuild_tensor_v3": _rebuilt_of_bytes,
    "torch.storage UntypedStorage": DType.UINT8,
}


class TorchReader(DumpReader):
    """Files of a saved tensor, or of dicts and lists of them."""

    name = "torch"
    reads = ".pt files of a tensor or a dict of activations, called as the model calls them"
    endings = (ENDING, ".pth")
    whole_file = True
    generic = True

    def claims(self, name: str, folder: str) -> Confidence:
        """Weights are in such files far more often than activations."""
        is_named = name.endswith(self.endings) and BETWEEN_TAGS not in name
        return Confidence.MAYBE if is_named else Confidence.NO

    def tensors(self, place: FilePlace, form: RawForm) -> Iterator[BareTensor]:
        """All tensors, by their keys; one alone is called as its file."""
        with open_dump(place.path) as (fd, size):
            listed = list(read_tensors(fd, size))
        identity, time = identity_of(place.folder, place.stem)
        for name, tensor in listed:
            own = replace(identity, op=plain(name), port=0) if name else identity
            key = own.key
            ref = tensor.ref(place.path, key) if isinstance(tensor, TorchTensor) else tensor
            label = place.below(f"{place.stem}/{name}" if name else place.stem)
            model_name = name or place.stem
            yield found_tensor(label, place.path, ref, own, time, model_name=model_name)
