"""Values of variables in a checkpoint of the second format (``PREFIX.index`` and
``PREFIX.data-00000-of-00001``), read without TensorFlow.

The index is a sorted table as LevelDB writes it (``table_format.md`` of LevelDB); its values are
messages of ``tensor_bundle.proto``: where in which data file a tensor lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from graphstore.errors import ImportFormatError
from graphstore.model import DType
from importers.proto.messages import tf_graph_pb2 as pb
from importers.proto.wire import BLOCK, read_varint, spans
from importers.tensorflow.types import dtype_of, shape_of

_MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
_FOOTER = 48
_TRAILER = 5
"""Bytes behind a block: how it is compressed, and a checksum."""
_MOST = 1 << 28
"""Bytes up to which an index is taken for one."""


@dataclass(frozen=True, slots=True)
class _Entry:
    dtype: DType | None
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    has_slices: bool


class Checkpoint:
    """The tensors of the checkpoint *prefix* by name."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        path = Path(f"{prefix}.index")
        if path.stat().st_size > _MOST:
            raise ImportFormatError(path, "too large for the index of a checkpoint")
        table = path.read_bytes()
        self._shards = 1
        self._entries: dict[str, _Entry] = {}
        try:
            for key, value in _table(table):
                if key:
                    self._entries[key.decode("utf-8", "backslashreplace")] = _entry(value)
                else:
                    self._shards = _shards(value)
        except (DecodeError, ValueError, IndexError) as error:
            raise ImportFormatError(
                path, f"damaged index of a checkpoint: {error}", hint="save or copy it again"
            ) from error

    def __contains__(self, name: object) -> bool:
        entry = self._entries.get(name) if isinstance(name, str) else None
        return entry is not None and not entry.has_slices and _stored(entry) is not None

    def __getitem__(self, name: str) -> NDArray[Any]:
        """The value of a tensor; bfloat16 as float32.

        Raises:
            ImportFormatError: the data file is missing or too short.
        """
        entry = self._entries[name]
        stored = _stored(entry)
        path = Path(f"{self._prefix}.data-{entry.shard:05d}-of-{self._shards:05d}")
        count = int(np.prod(entry.shape, dtype=object)) if entry.shape else 1
        if stored is None or count * stored.itemsize != entry.size:
            raise ImportFormatError(path, f"{name!r} is not of the size its shape says")
        try:
            with path.open("rb") as file:
                file.seek(entry.offset)
                content = file.read(entry.size)
        except OSError as error:
            raise ImportFormatError(path, f"cannot be read: {error.strerror}") from error
        if len(content) != entry.size:
            raise ImportFormatError(path, f"ends inside of {name!r}", offset=entry.offset)
        value = np.frombuffer(content, stored).reshape(entry.shape)
        return value.astype(np.float32) if stored == ml_dtypes.bfloat16 else value


def _stored(entry: _Entry) -> np.dtype[Any] | None:
    if entry.dtype is None:
        return None
    return np.dtype(ml_dtypes.bfloat16) if entry.dtype is DType.BFLOAT16 else entry.dtype.numpy


def _table(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a sorted table."""
    if table[-8:] != _MAGIC or len(table) < _FOOTER:
        raise ValueError("no table of LevelDB")
    footer = table[-_FOOTER:]
    at = 0
    numbers = []
    for _ in range(4):  # offset and size of two blocks; the second one is the index
        number, at = _number(footer, at)
        numbers.append(number)
    for _, handle in _block(table, numbers[2], numbers[3]):
        offset, next_at = _number(handle, 0)
        size, _ = _number(handle, next_at)
        yield from _block(table, offset, size)


def _block(table: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    end = offset + size
    if end + _TRAILER > len(table):
        raise ValueError(f"a block ends after the file does (at byte {offset})")
    if table[end]:
        raise ValueError(f"a compressed block (at byte {offset})")
    restarts = int.from_bytes(table[end - 4 : end], "little")
    last = end - 4 - 4 * restarts
    key = b""
    at = offset
    while at < last:
        shared, at = _number(table, at)
        own, at = _number(table, at)
        length, at = _number(table, at)
        if at + own + length > last or shared > len(key):
            raise ValueError(f"an entry ends after its block does (at byte {at})")
        key = key[:shared] + table[at : at + own]
        yield key, table[at + own : at + own + length]
        at += own + length


def _number(content: bytes, at: int) -> tuple[int, int]:
    number, next_at = read_varint(content, at)
    if number is None:
        raise ValueError(f"a number is cut (at byte {at})")
    return number, next_at


def _entry(content: bytes) -> _Entry:
    numbers: dict[int, int] = {}
    shape: tuple[int, ...] = ()
    for span in spans(content):
        if span.wire_type == BLOCK and span.number == 2:
            sizes = shape_of(pb.TensorShape.FromString(content[span.start : span.end])) or ()
            shape = tuple(size or 0 for size in sizes)
        else:
            numbers[span.number] = span.value
    kind = dtype_of(numbers.get(1, 0))
    shard, offset, size = (numbers.get(number, 0) for number in (3, 4, 5))
    return _Entry(kind, shape, shard, offset, size, has_slices=7 in numbers)


def _shards(content: bytes) -> int:
    return next((span.value for span in spans(content) if span.number == 1), 1)
