"""The header of dump files written by Nano chips: tag, length, value.

``uint64`` length, ``uint32`` 0x5A5A5A5A, ``uint32`` version, then the lists of inputs
(tag 4) and outputs (tag 5), each tag, length, count and so many descriptions; the data of
all inputs and all outputs follows the header. Everything is little endian. Type numbers
are those of ACL, not those of the dump schema. Layout as in msaccucmp's open sources.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from graphstore.model import DumpFormat, TensorIO
from importers.dumps.ascend.values import MAX_TENSORS, DumpHeader, HeaderTensor
from importers.dumps.index import DamagedError
from importers.number_formats import ACL_DTYPES, ACL_UNDEFINED, layout_of

MAGIC = b"\x5a\x5a\x5a\x5a"
_LENGTH_BYTES = 8
_INPUTS, _OUTPUTS = 4, 5
_DIMS, _ORIGINAL_DIMS = 0, 1
# data_type, format, address_type; of outputs also the original index, type and format.
_TYPES = {_INPUTS: struct.Struct("<3i"), _OUTPUTS: struct.Struct("<6i")}
# address, offset, size, length of the list that follows
_PLACE = struct.Struct("<3QI")
_TAG = struct.Struct("<2I")
_COUNT = struct.Struct("<I")
_MAX_DIMS = 64


@dataclass(slots=True)
class _Reader:
    """The header's bytes and how far they are read; places are those of the file."""

    data: bytes
    at: int

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, form: struct.Struct) -> tuple[int, ...]:
        if self.left < form.size:
            raise _bad("the header ends inside a description", self.at)
        return form.unpack(self.block(form.size))

    def block(self, length: int) -> bytes:
        if length > self.left:
            raise _bad(f"a value of {length} bytes in a header with {self.left} left", self.at)
        start, self.at = self.at, self.at + length
        return self.data[start : self.at]


def nano_header(start: bytes, size: int) -> DumpHeader:
    """The header of a Nano dump file of *size* bytes that begins with *start*.

    *start* holds the whole header, from the file's first byte.

    Raises:
        DamagedError: the header is damaged, or the file is not as long as it says.
    """
    reader = _Reader(start, _LENGTH_BYTES + 8)
    offset = len(start)
    tensors: list[HeaderTensor] = []
    while reader.left >= _TAG.size:
        tag, length = reader.take(_TAG)
        if tag not in _TYPES:
            reader.block(length)
            continue
        (count,) = reader.take(_COUNT)
        if count > MAX_TENSORS or count * _TYPES[tag].size > reader.left:
            raise _bad(f"{count} tensors in a header with {reader.left} bytes left", reader.at)
        for number in range(count):
            tensors.append(_tensor(reader, tag, number, offset))
            offset += tensors[-1].size
    if offset != size:
        raise _bad(f"header and data take {offset} bytes, the file has {size}", min(offset, size))
    return DumpHeader(DumpFormat.ASCEND_NANO, tuple(tensors))


def _tensor(reader: _Reader, tag: int, number: int, offset: int) -> HeaderTensor:
    type_number, layout_number, *_ = reader.take(_TYPES[tag])
    address, _, size, list_length = reader.take(_PLACE)
    dims = _dims(reader, list_length)
    layout = layout_of(layout_number & 0xFFFF_FFFF)
    return HeaderTensor(
        io=TensorIO.INPUT if tag == _INPUTS else TensorIO.OUTPUT,
        number=number,
        dtype=ACL_DTYPES.get(type_number),
        type_number=type_number,
        shape=dims.get(_DIMS, ()),
        offset=offset,
        size=size,
        layout=layout.name,
        groups=layout.groups,
        original_shape=dims.get(_ORIGINAL_DIMS) or None,
        address=address,
        undefined=type_number == ACL_UNDEFINED,
    )


def _dims(reader: _Reader, length: int) -> dict[int, tuple[int, ...]]:
    """The shapes in a list of *length* bytes by tag; names and unknown tags are skipped."""
    dims: dict[int, tuple[int, ...]] = {}
    stop = reader.at + length
    if stop > len(reader.data):
        raise _bad(f"a list of {length} bytes in a header with {reader.left} left", reader.at)
    while reader.at < stop:
        tag, size = reader.take(_TAG)
        value = reader.block(size)
        if tag not in (_DIMS, _ORIGINAL_DIMS):
            continue
        if size % 8 or size > 8 * _MAX_DIMS:
            raise _bad(f"a shape of {size} bytes", reader.at - size)
        dims[tag] = struct.unpack(f"<{size // 8}Q", value)
    return dims


def _bad(what: str, at: int) -> DamagedError:
    return DamagedError(f"the Nano header is damaged: {what}", offset=at)
