"""The one codec: frozen dataclasses as JSON and back without loss, by their declared types.

A dataclass is an object of its fields, those equal to their default left out; a tuple is a
list, an enum its value. NaN and infinities are as Python's json writes them. Journals,
backups, manifests and the columns that hold whole records are written by this; a new
field of a record needs nothing but its declaration.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache, lru_cache
from types import UnionType
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from graphstore.model import AttrValue, Evidence, EvidenceValue, Shape

_T = TypeVar("_T")
_Text = TypeVar("_Text", str, str | None)
_Way: TypeAlias = Callable[[Any], Any]


class _Attribute:
    """Stands for AttrValue, which refers to itself: lists in it are tuples at any depth."""


def _plain_number(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not a JSON value")


_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)
_VALUES = json.JSONEncoder(separators=(",", ":"), default=_plain_number)


def dumps(value: object) -> str:
    """Compact JSON; NaN and infinities as Python's json writes them."""
    return _ENCODER.encode(value)


def text_of(record: object, *, zeros_unsigned: bool = False) -> str:
    """A *record* (a dataclass, or a sequence of them) as compact JSON in ASCII.

    With *zeros_unsigned* -0.0 is written as 0.0: of what stands in columns, a database may
    lose the sign, and the text must be the same from every store.
    """
    return _VALUES.encode(encoded(record, zeros_unsigned=zeros_unsigned))


def encoded(record: object, *, zeros_unsigned: bool = False) -> Any:
    """A *record* as what json writes; see :func:`text_of`."""
    if isinstance(record, list | tuple):
        return [encoded(element, zeros_unsigned=zeros_unsigned) for element in record]
    kind: Any = type(record)
    return _encoder(kind, zeros_unsigned)(record)


def record_of(kind: type[_T], text: str) -> _T:
    """The record of *kind* behind :func:`text_of`.

    Raises:
        TypeError, ValueError, LookupError, AttributeError: the text is no such record.
    """
    return decoded(kind, json.loads(text))


def records_of(kind: type[_T], text: str | None) -> list[_T]:
    """The records behind :func:`text_of` of a sequence; none for None."""
    return [] if text is None else [decoded(kind, element) for element in json.loads(text)]


def decoded(kind: type[_T], read: object) -> _T:
    """The record of *kind* behind :func:`encoded`."""
    declared_kind: Any = kind
    record: _T = _decoder(declared_kind)(read)
    return record


@cache
def declared(kind: type) -> Mapping[str, Any]:
    """The types of the fields of a dataclass, by name."""
    # Both refer to themselves. What is in evidence is JSON as it is.
    types = {"AttrValue": _Attribute, "Evidence": Mapping[str, object]}
    return get_type_hints(kind, localns=types)


@cache
def _encoder(kind: Any, zeros_unsigned: bool) -> _Way:
    inner = [_encoder(arg, zeros_unsigned) for arg in get_args(kind) if arg is not Ellipsis]
    origin = get_origin(kind) or kind
    if origin in (Union, UnionType):
        encoders = [encoder for encoder in inner if encoder is not _same]
        return (lambda value: None if value is None else encoders[0](value)) if encoders else _same
    if origin is tuple and get_args(kind)[-1] is not Ellipsis:
        return lambda value: [
            encoder(element) for encoder, element in zip(inner, value, strict=True)
        ]
    if origin is tuple:
        encoder = inner[0]
        return list if encoder is _same else lambda value: [encoder(element) for element in value]
    if origin is Mapping:
        key, encoder = inner
        return lambda value: {key(name): encoder(element) for name, element in value.items()}
    if kind is float:
        return (lambda value: float(value) + 0.0) if zeros_unsigned else float
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda value: value.value
    return _object_encoder(kind, zeros_unsigned) if is_dataclass(kind) else _same


def _object_encoder(kind: Any, zeros_unsigned: bool) -> _Way:
    hints = declared(kind)
    parts = [
        (field.name, _encoder(hints[field.name], zeros_unsigned), _default(field))
        for field in fields(kind)
    ]

    def encode(value: Any) -> dict[str, Any]:
        encoded_fields = {}
        for name, encoder, default in parts:
            part = getattr(value, name)
            if part is not default and part != default:
                encoded_fields[name] = encoder(part)
        return encoded_fields

    return encode


def _default(field: Field[Any]) -> object:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


@cache
def _decoder(kind: Any) -> _Way:
    inner = [_decoder(arg) for arg in get_args(kind) if arg is not Ellipsis]
    origin = get_origin(kind) or kind
    if origin in (Union, UnionType):
        decoders = [decoder for decoder in inner if decoder is not _same]
        return (lambda read: None if read is None else decoders[0](read)) if decoders else _same
    if origin is tuple and get_args(kind)[-1] is not Ellipsis:
        return lambda read: tuple(
            [decoder(element) for decoder, element in zip(inner, read, strict=True)]
        )
    if origin is tuple:
        decoder = inner[0]
        return (
            tuple
            if decoder is _same
            else lambda read: tuple([decoder(element) for element in read])
        )
    if origin is Mapping:
        key, decoder = inner
        return lambda read: {key(name): decoder(element) for name, element in read.items()}
    if kind is _Attribute:
        return _attribute
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    return _object_decoder(kind) if is_dataclass(kind) else _same


def _object_decoder(kind: Any) -> _Way:
    hints = declared(kind)
    decoders = {field.name: _decoder(hints[field.name]) for field in fields(kind)}

    def decode(read: Any) -> Any:
        return kind(**{name: decoders[name](value) for name, value in read.items()})

    return decode


def _same(value: Any) -> Any:
    return value


def _attribute(read: Any) -> AttrValue:
    return tuple(map(_attribute, read)) if isinstance(read, list) else read


def attrs_text(attrs: Mapping[str, AttrValue]) -> str:
    """Attributes as a JSON object; tuples as lists."""
    return dumps(dict(attrs))


def attrs_value(text: str) -> dict[str, AttrValue]:
    """The attributes behind :func:`attrs_text`."""
    return {name: _attribute(value) for name, value in json.loads(text).items()}


def values_text(values: Evidence) -> str:
    """JSON values by name; numbers of arrays as numbers.

    Raises:
        TypeError: one is no JSON value.
    """
    return _VALUES.encode(dict(values))


def values_of(text: str | None) -> dict[str, EvidenceValue]:
    """The values behind :func:`values_text`; none for None."""
    read: dict[str, EvidenceValue] = {} if text is None else json.loads(text)
    return read


def plain_text(text: str) -> str:
    """*text* as a database can hold it: half surrogate pairs as backslash escapes."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def plain_texts(texts: Sequence[_Text]) -> Sequence[_Text]:
    """The same for many at once, faster; None stays None."""
    if "".join(filter(None, texts)).isascii():
        return texts
    return [None if text is None else plain_text(text) for text in texts]


@lru_cache(4096)
def shape_text(shape: Shape | None) -> str | None:
    """``[1,null,224]``; None for an unknown rank."""
    return None if shape is None else dumps(list(shape))


@lru_cache(4096)
def shape_value(text: str | None) -> Any:
    """The shape behind :func:`shape_text`; one value for all that are equal."""
    return None if text is None else tuple(json.loads(text))
