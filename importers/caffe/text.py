"""Read a Caffe net written as protobuf text; layer types and parameters may be of any fork.

The fields of a layer mean the same in a binary net, see :mod:`importers.caffe.binary`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from graphstore.errors import ImportFormatError
from graphstore.model import AttrValue, DType
from importers.caffe.first_format import is_first, upgraded, without_padding
from importers.caffe.net import (
    MAX_DIM,
    Blob,
    Layer,
    Net,
    PhaseRule,
    State,
    input_shapes,
    type_of_old,
)
from importers.caffe.number_fields import NoNumberError, check_name, check_number
from importers.kept import kept_list, kept_text
from importers.proto.literals import boolean, integer, is_string, real, string
from importers.proto.text_reader import Buffer, EventKind, TextReader
from importers.proto.values import Fields, Value, message, text, whole, word

_T = TypeVar("_T")
_OWN = frozenset({b"name", b"type", b"bottom", b"top", b"include", b"exclude", b"blobs"})
BLOB_VALUES = (b"data", b"double_data")
"""The fields with the values of a weight, in single and in double precision."""
_PHASES = {"TRAIN": "TRAIN", "0": "TRAIN", "TEST": "TEST", "1": "TEST"}


def read_text(buffer: Buffer, path: Path) -> Net:
    """The net in the text *buffer*, the content of *path*.

    Raises:
        ImportFormatError: with line and column, where the text is broken or no net.
    """
    reader = TextReader(buffer, path)
    around: list[tuple[bytes, Value]] = []
    layers: list[Layer] = []
    for event in reader.events():
        if event.kind is not EventKind.FIELD:
            continue
        try:
            if event.name in (b"layer", b"layers"):
                layers.append(layer_of(message(event.value), old=event.name == b"layers"))
            else:
                around.append((event.name, event.value))
                net_of(around[-1:], [])
        except NoNumberError as error:
            at = _place(buffer, event.offset, error)
            raise reader.error(at, f"{event.name.decode()}: {error}", error.hint) from error
        except ValueError as error:
            raise reader.error(event.offset, f"{event.name.decode()}: {error}") from error
    if not layers:
        raise ImportFormatError(path, "the net has no layers")
    try:
        return net_of(around, layers)
    except ValueError as error:
        raise ImportFormatError(path, str(error)) from error


def _place(buffer: Buffer, start: int, error: NoNumberError) -> int:
    """The byte where the field stands, behind that where its block starts."""
    field, written = (re.escape(word.encode()) for word in (error.field, error.written))
    match = re.compile(rb"\b%s\s*:[^{}:]*?%s" % (field, written)).search(buffer, start)
    return start if match is None else match.start()


def net_of(fields: Fields, layers: list[Layer]) -> Net:
    """The net of *layers* with what *fields* say of it.

    Raises:
        ValueError: a field is of a wrong kind, or padding is read by what does not pad.
    """
    states = _all(fields, b"state", message)
    state: Fields = states[-1] if states else []
    levels = _all(state, b"level", whole)
    shapes = [_dims(message(shape)) for shape in _all(fields, b"input_shape", message)]
    return Net(
        _last(fields, b"name", text),
        input_shapes(_all(fields, b"input", text), shapes, _all(fields, b"input_dim", whole)),
        tuple(without_padding(layers)),
        State(
            _last(state, b"phase", _phase),
            levels[-1] if levels else 0,
            tuple(_all(state, b"stage", text)),
        ),
    )


def layer_of(fields: Fields, *, old: bool, blobs: tuple[Blob, ...] = ()) -> Layer:
    """The layer that *fields* describe, of the *old* kinds (V0, V1) or the present one.

    Raises:
        ValueError: a field is of a wrong kind.
    """
    if old and is_first(fields):
        fields = upgraded(fields)
    kind = _last(fields, b"type", _word)
    return Layer(
        name=_last(fields, b"name", text),
        type=type_of_old(kind) if old else kind,
        bottoms=tuple(_all(fields, b"bottom", text)),
        tops=tuple(_all(fields, b"top", text)),
        attrs=_attrs(fields),
        shapes=tuple(_shapes(fields)),
        include=tuple(map(_rule, _all(fields, b"include", message))),
        exclude=tuple(map(_rule, _all(fields, b"exclude", message))),
        phase=_last(fields, b"phase", _phase),
        blobs=blobs or tuple(map(_blob, _all(fields, b"blobs", message))),
    )


def _all(fields: Fields, wanted: bytes, read: Callable[[Value], _T]) -> list[_T]:
    return [read(value) for name, value in fields if name == wanted]


def _last(fields: Fields, wanted: bytes, read: Callable[[Value], str]) -> str:
    values = _all(fields, wanted, read)
    return values[-1] if values else ""


def _rule(fields: Fields) -> PhaseRule:
    levels = {name: whole(value) for name, value in fields if name.endswith(b"_level")}
    return PhaseRule(
        phase=_last(fields, b"phase", _phase) or None,
        min_level=levels.get(b"min_level"),
        max_level=levels.get(b"max_level"),
        stages=tuple(_all(fields, b"stage", text)),
        not_stages=tuple(_all(fields, b"not_stage", text)),
    )


def _shapes(fields: Fields) -> Iterator[tuple[int, ...]]:
    """The ``shape { dim ... }`` blocks in the parameters of a layer."""
    for name, value in fields:
        if name.endswith(b"_param") and isinstance(value, list):
            yield from map(_dims, _all(value, b"shape", message))


def _attrs(fields: Fields) -> dict[str, AttrValue]:
    values_by_path: dict[str, list[AttrValue]] = {}
    for path, value in _scalars([field for field in fields if field[0] not in _OWN], ""):
        values_by_path.setdefault(path, []).append(_scalar(path, value))
    return {path: v[0] if len(v) == 1 else kept_list(v) for path, v in values_by_path.items()}


def _scalars(fields: Fields, around: str) -> Iterator[tuple[str, Value]]:
    stack = [(around, iter(fields))]
    while stack:
        prefix, rest = stack[-1]
        for name, value in rest:
            path = prefix + name.decode("ascii", "backslashreplace")
            if isinstance(value, list):
                stack.append((f"{path}.", iter(value)))
                break
            yield path, value
        else:
            stack.pop()


def _scalar(path: str, value: Value) -> AttrValue:
    if not isinstance(value, bytes):
        return value if isinstance(value, int | float) else kept_text(word(value))
    if is_string(value):
        return kept_text(string(value))
    for read in (integer, real, boolean):
        try:
            number = read(value)
        except ValueError:
            continue
        check_number(path, word(value), number)
        if type(number) is not int or -MAX_DIM - 1 <= number <= MAX_DIM:
            return number
    check_name(path, word(value))
    return kept_text(word(value))


def _blob(fields: Fields) -> Blob:
    """A weight written in text: its shape, and how many bytes its values are."""
    counts = [sum(name == value_name for name, _ in fields) for value_name in BLOB_VALUES]
    dtype = DType.FLOAT64 if counts[1] else DType.FLOAT32
    shapes = [_dims(message) for message in _all(fields, b"shape", message)]
    sides = [_all(fields, name, whole) for name in (b"num", b"channels", b"height", b"width")]
    dims = shapes[-1] if shapes else tuple(side[-1] if side else 0 for side in sides)
    if any(not 0 <= dim <= MAX_DIM for dim in dims):
        raise ValueError("a blob with a negative dimension")
    return Blob(dims, dtype, None, sum(counts) * (8 if counts[1] else 4))


def _word(value: Value) -> str:
    """A type: a text, or in old nets the name of an enum value."""
    return text(value) if isinstance(value, bytes) and is_string(value) else word(value)


def _phase(value: Value) -> str:
    if word(value) not in _PHASES:
        raise ValueError(f"the phase {word(value)} is neither TRAIN nor TEST")
    return _PHASES[word(value)]


def _dims(fields: Fields) -> tuple[int, ...]:
    return tuple(_all(fields, b"dim", whole))
