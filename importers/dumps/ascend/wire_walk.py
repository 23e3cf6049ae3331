"""The fields of a protobuf message in a dump file; damage is told as that of a dump."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

from importers.dumps.index import DamagedError
from importers.proto.wire import FieldSpan, WireError, read_varint, spans

MAX_FIELDS = 1 << 16
"""Fields of one message past this are taken for damage."""

Buffer = bytes | mmap.mmap


def fields(data: Buffer, start: int, end: int, *, limit: int = MAX_FIELDS) -> Iterator[FieldSpan]:
    """The fields of the message in *data* from *start* to *end*, in order.

    Raises:
        DamagedError: it is no message; says at which byte of *data*.
    """
    try:
        for number, span in enumerate(spans(data, start, end)):
            if number == limit:
                raise _bad(f"more than {limit} fields", span.key)
            yield span
    except WireError as error:
        raise _bad(error.what, error.at) from None


def varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """The number at *at* and the place behind it.

    Raises:
        DamagedError: it is cut or longer than 10 bytes.
    """
    value, following = read_varint(data, at)
    if value is None or following > end:
        raise _bad("a number is cut or too long", at)
    return value, following


def _bad(what: str, at: int) -> DamagedError:
    return DamagedError(f"the message is damaged: {what}", offset=at)
