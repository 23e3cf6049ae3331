"""Forms with files (``multipart/form-data``), read as they come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from graphstore.errors import InputError

MEDIA_TYPE = "multipart/form-data"


@dataclass(frozen=True, slots=True)
class PartBegin:
    """A field begins; ``file`` is what the user calls the file, None of a field of text."""

    field: str
    file: str | None


class PartEnd:
    """The field has come."""


PartEvent: TypeAlias = PartBegin | bytes | PartEnd


class MultipartReader:
    """Takes a body in pieces and tells the fields in it."""

    def __init__(self, content_type: str) -> None:
        """*content_type* is the header of the request.

        Raises:
            InputError: it names no boundary.
        """
        self._events: list[PartEvent] = []
        self._name, self._header = bytearray(), bytearray()
        self._disposition = b""
        boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
        if not boundary:
            raise InputError("the form names no boundary of its fields")
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._add_name,
                    "on_header_value": self._add_header,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._end_headers,
                    "on_part_data": self._add_data,
                    "on_part_end": lambda: self._events.append(PartEnd()),
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise InputError("the body is no form") from error
        self._whole = False

    def events(self, piece: bytes) -> Iterator[PartEvent]:
        """What *piece* holds.

        Raises:
            InputError: it is no form.
        """
        try:
            self._parser.write(piece)
        except FormParserError as error:
            raise InputError("the body is no form") from error
        events, self._events = self._events, []
        yield from events

    def finish(self) -> None:
        """Return if all has come.

        Raises:
            InputError: the last boundary has not.
        """
        if not self._whole:
            raise InputError("the form is cut")

    def _begin(self) -> None:
        self._disposition = b""

    def _add_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _add_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _end_header(self) -> None:
        if self._name.lower() == b"content-disposition":
            self._disposition = bytes(self._header)
        self._name.clear()
        self._header.clear()

    def _end_headers(self) -> None:
        named = parse_options_header(self._disposition)[1]
        if b"name" not in named:
            raise InputError("a field of the form has no name")
        field, file = (_text(named.get(name)) for name in (b"name", b"filename"))
        self._events.append(PartBegin(field or "", file))

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        self._events.append(data[start:end])

    def _end(self) -> None:
        self._whole = True


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "replace")
