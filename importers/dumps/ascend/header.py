"""The headers of Ascend dump files, whichever version wrote them.

* Version 2: ``uint64 H`` (little endian), H bytes of a ``DumpData`` message, then the raw
  bytes of all inputs, outputs, buffers and workspaces, each as long as its ``size``.
* Version 1: the whole file is one ``DumpData`` message, the bytes in its ``data`` fields.
* msaccucmp's npy converter: as version 2, the header being the same message as JSON text.
* Nano chips: see :mod:`importers.dumps.ascend.nano`.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError

from graphstore.model import DumpFormat, TensorIO
from importers.dumps.ascend import wire_walk as wirewalk
from importers.dumps.ascend.nano import MAGIC, nano_header
from importers.dumps.ascend.values import MAX_TENSORS, DumpHeader, HeaderTensor, RawBlock
from importers.dumps.decode import stored_bytes
from importers.dumps.index import DamagedError, shown
from importers.number_formats import DTYPES, UNDEFINED, layout_of
from importers.proto.messages import dump_data_pb2 as pb
from importers.proto.wire import BLOCK, VARINT, FieldSpan, varint_bytes
from importers.source import read_at

_FIRST_READ = 4096
_MAX_HEADER = 64 << 20
_MAX_JSON = 8 << 20
_MAX_DIM = 1 << 62
_FIELDS = range(1, 10)
_OUTPUT, _INPUT, _BUFFER, _SPACE = 3, 4, 5, 8
# Which field of a version 1 message holds the bytes.
_DATA_FIELD = {_OUTPUT: 5, _INPUT: 4, _BUFFER: 2, _SPACE: 2}
_MAX_DESCRIPTION = 1 << 20


def read_header(fd: int, size: int) -> DumpHeader:
    """The header of the open dump file of *size* bytes.

    That the data it describes lies within the file is not checked here, so that the
    whole tensors of a cut file can still be used.

    Raises:
        DamagedError: it is no dump file, or its header is damaged.
    """
    if size <= 8:
        raise DamagedError(f"the file has only {size} bytes", offset=0)
    start = read_at(fd, _FIRST_READ, 0)
    length = int.from_bytes(start[:8], "little")
    if length == 0 or length > min(size - 8, _MAX_HEADER):
        if _is_version_1(fd, size):
            return _version_1(fd, size)
        raise _no_header(size, length)
    while len(start) < 8 + length:
        more = read_at(fd, 8 + length - len(start), len(start))
        if not more:
            raise DamagedError("the file ends here", offset=len(start))
        start += more
    return _header(fd, size, start[: 8 + length])


def _header(fd: int, size: int, start: bytes) -> DumpHeader:
    """The header whose bytes, the length before it included, are *start*."""
    if start[8:12] == MAGIC:
        header = nano_header(start, size)
    elif start[8:9] == b"{":
        header = _json_header(start, size)
    else:
        try:
            message = _parsed(start, 8)
        except DamagedError:
            if _is_version_1(fd, size):
                return _version_1(fd, size)
            raise
        header = _described(DumpFormat.ASCEND_V2, message, _in_a_row(message, len(start)))
    if not header.tensors and not header.blocks:
        raise DamagedError("the header describes no tensor", offset=8)
    return header


def _no_header(size: int, length: int) -> DamagedError:
    if 0 < length <= _MAX_HEADER:
        return DamagedError(
            f"the file ends inside its header, which takes {8 + length} bytes", offset=size
        )
    return DamagedError(
        f"this is not an Ascend dump: a header of {length} bytes in a file of {size}", offset=0
    )


def _parsed(data: bytes, start: int) -> pb.DumpData:
    """The ``DumpData`` message from *start* to the end of *data*."""
    header = pb.DumpData()
    try:
        # Walked first: a message of empty entries takes a hundred times its size to parse.
        for _ in wirewalk.fields(data, start, len(data)):
            pass
        header.ParseFromString(data[start:])
    except (DamagedError, DecodeError) as error:
        detail = error.detail if isinstance(error, DamagedError) else f"at byte {start}: {error}"
        what = f"the header is damaged: it is not a DumpData message ({shown(detail)})"
        raise DamagedError(what) from None
    return header


def _in_a_row(
    header: pb.DumpData, offset: int, file_size: int | None = None
) -> Iterator[tuple[int, int]]:
    """Places and sizes of data that lie one after the other from *offset*.

    Where a size is left out, and *file_size* given, the data is as long as its shape.
    """
    heads: list[pb.OpInput | pb.OpOutput] = [*header.input, *header.output]
    raw: list[pb.OpBuffer | pb.Workspace] = [*header.buffer, *header.space]
    for head in heads:
        size = head.size
        if not size and file_size is not None:
            size = min(_shape_bytes(head), max(file_size - offset, 0))
        yield offset, size
        offset += size
    for part in raw:
        yield offset, part.size
        offset += part.size


def _shape_bytes(head: pb.OpInput | pb.OpOutput) -> int:
    dtype, dims = DTYPES.get(head.data_type), head.shape.dim
    has_size = dtype is not None and dtype.bits is not None and max(dims, default=0) < _MAX_DIM
    return stored_bytes(dtype, prod(dims)) if has_size and dtype is not None else 0


def _described(
    form: DumpFormat, header: pb.DumpData, places: Iterable[tuple[int, int]]
) -> DumpHeader:
    """The header with the places of the data of inputs, outputs, buffers and workspaces."""
    places_left = iter(places)
    heads: list[tuple[TensorIO, int, pb.OpInput | pb.OpOutput]] = [
        *((TensorIO.INPUT, number, head) for number, head in enumerate(header.input)),
        *((TensorIO.OUTPUT, number, head) for number, head in enumerate(header.output)),
    ]
    return DumpHeader(
        format=form,
        tensors=tuple(_tensor(*head, next(places_left)) for head in heads),
        op_name=_text(header.op_name),
        dump_time=header.dump_time,
        blocks=(
            *(RawBlock("buffer", at, *next(places_left)) for at in range(len(header.buffer))),
            *(RawBlock("workspace", at, *next(places_left)) for at in range(len(header.space))),
        ),
        attributes={_text(op_attr.name): _text(op_attr.value) for op_attr in header.attr},
    )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _tensor(
    io: TensorIO, number: int, head: pb.OpInput | pb.OpOutput, place: tuple[int, int]
) -> HeaderTensor:
    layout = layout_of(head.format & 0xFFFF_FFFF, head.sub_format)
    return HeaderTensor(
        io=io,
        number=number,
        dtype=DTYPES.get(head.data_type),
        type_number=head.data_type,
        shape=tuple(head.shape.dim),
        offset=place[0],
        size=place[1],
        layout=layout.name,
        groups=layout.groups,
        original_shape=_plain_dims(tuple(head.original_shape.dim)),
        address=head.address,
        undefined=head.data_type == UNDEFINED,
    )


def _plain_dims(dims: tuple[int, ...]) -> tuple[int, ...] | None:
    """The dims, or None if there are none or one is not known (-1 as unsigned)."""
    return dims if dims and all(dim < _MAX_DIM for dim in dims) else None


# --- version 1 ---


def _is_version_1(fd: int, size: int) -> bool:
    """True if the whole file is one message of DumpData's fields."""
    with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as data:
        try:
            return all(
                field.number in _FIELDS and field.wire_type in (VARINT, BLOCK)
                for field in wirewalk.fields(data, 0, size)
            )
        except DamagedError:
            return False


def _version_1(fd: int, size: int) -> DumpHeader:
    places: dict[int, list[tuple[int, int]]] = {number: [] for number in _DATA_FIELD}
    rest = bytearray()
    with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as data:
        for field in wirewalk.fields(data, 0, size):
            if field.wire_type == BLOCK and field.number in places:
                inner, *place = _split(data, field)
                rest += data[field.key : field.key + 1] + varint_bytes(len(inner)) + inner
                places[field.number].append((place[0], place[1]))
            elif field.end - field.key <= _MAX_DESCRIPTION:
                rest += data[field.key : field.end]
    in_order = [place for number in (_INPUT, _OUTPUT, _BUFFER, _SPACE) for place in places[number]]
    if not in_order:
        raise DamagedError("the header describes no tensor", offset=0)
    return _described(DumpFormat.ASCEND_V1, _parsed(bytes(rest), 0), in_order)


def _split(data: mmap.mmap, part: FieldSpan) -> tuple[bytes, int, int]:
    """An entry of a version 1 message without its data; where that lies, and its size."""
    rest = bytearray()
    place, size = part.end, 0
    for field in wirewalk.fields(data, part.start, part.end):
        if field.number == _DATA_FIELD[part.number] and field.wire_type == BLOCK:
            place, size = field.start, field.end - field.start
        elif field.end - field.key <= _MAX_DESCRIPTION:
            rest += data[field.key : field.end]
    return bytes(rest), place, size


# --- JSON ---


def _json_header(start: bytes, size: int) -> DumpHeader:
    if len(start) > _MAX_JSON:
        raise _bad_json(f"it takes {len(start)} bytes, more than {_MAX_JSON}")
    try:
        content = json.loads(start[8:])
    except (ValueError, RecursionError) as error:
        raise _bad_json(str(error) or "nested too deep") from None
    if not isinstance(content, dict):
        raise _bad_json("it is not an object")
    entries: dict[str, Any] = {key: _entries(content, key) for key in ("input", "output")}
    try:
        entries["dump_time"] = content.get("dump_time")
        header = ParseDict(entries, pb.DumpData(), ignore_unknown_fields=True)
    except ParseError as error:
        raise _bad_json(shown(str(error))) from None
    name = content.get("op_name")
    header.op_name = name.encode("utf-8", "replace") if isinstance(name, str) else b""
    return _described(DumpFormat.ASCEND_JSON, header, _in_a_row(header, len(start), size))


def _entries(content: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The tensors of a JSON header as the message has them: some write a shape as its sizes."""
    entries = content.get(key) or []
    if not isinstance(entries, list) or len(entries) > MAX_TENSORS:
        raise _bad_json(f"its {key} is not a list of tensors")
    if not all(isinstance(entry, dict) for entry in entries):
        raise _bad_json(f"its {key} holds what is not a tensor")
    return [
        {
            name: {"dim": value} if isinstance(value, list) else value
            for name, value in entry.items()
        }
        for entry in entries
    ]


def _bad_json(what: str) -> DamagedError:
    return DamagedError(f"the JSON header is damaged: {what}", offset=8)
