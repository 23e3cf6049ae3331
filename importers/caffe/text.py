"""Read a Caffe net written as protobuf text; layer types and parameters may be of any fork."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from graphstore.errors import ImportFormatError
from graphstore.model import AttrValue
from importers.caffe.net import MAX_DIM, Layer, Net, PhaseRule, State, input_shapes, type_of_old
from importers.kept import kept_list, kept_text
from importers.proto.literals import boolean, integer, is_string, real, string
from importers.proto.text_reader import Buffer, EventKind, Fields, TextReader, Value

_Reader: TypeAlias = Callable[[Value], str]
_OWN = frozenset({b"name", b"type", b"bottom", b"top", b"include", b"exclude", b"blobs"})
_PHASES = {b"TRAIN": "TRAIN", b"0": "TRAIN", b"TEST": "TEST", b"1": "TEST"}
_V0_HINT = "rewrite it with Caffe's upgrade_net_proto_text"


def read_text(buffer: Buffer, path: Path) -> Net:
    """The net in the text *buffer*, the content of *path*.

    Raises:
        ImportFormatError: with line and column, where the text is broken or no net.
    """
    reader = TextReader(buffer, path)
    texts: dict[bytes, list[str]] = {b"name": [], b"input": []}
    dims: list[int] = []
    shapes: list[tuple[int, ...]] = []
    layers: list[Layer] = []
    state = State()
    for event in reader.events():
        if event.kind is not EventKind.FIELD:
            continue
        try:
            if event.name in texts:
                texts[event.name].append(_text(event.value))
            elif event.name == b"input_dim":
                dims.append(_number(event.value))
            elif event.name == b"input_shape":
                shapes.append(_dims(_block(event.value)))
            elif event.name == b"state":
                state = _state(_block(event.value))
            elif event.name in (b"layer", b"layers"):
                layers.append(_layer(_block(event.value), old=event.name == b"layers"))
        except _FirstFormatError as error:
            raise reader.error(event.offset, str(error), hint=_V0_HINT) from error
        except ValueError as error:
            raise reader.error(event.offset, f"{event.name.decode()}: {error}") from error
    if not layers:
        raise ImportFormatError(path, "the net has no layers")
    names = texts[b"name"]
    inputs = input_shapes(texts[b"input"], shapes, dims)
    return Net(names[-1] if names else "", inputs, tuple(layers), state)


class _FirstFormatError(ValueError):
    pass


def _layer(fields: Fields, *, old: bool) -> Layer:
    if old and any(name == b"layer" for name, _ in fields):
        raise _FirstFormatError("a layer in Caffe's first format (V0)")
    kind = _last(fields, b"type", _word)
    if old:
        kind = type_of_old(kind)
    phase = _last(fields, b"phase", _phase)
    return Layer(
        name=_last(fields, b"name", _text),
        type=kind,
        bottoms=tuple(_text(value) for name, value in fields if name == b"bottom"),
        tops=tuple(_text(value) for name, value in fields if name == b"top"),
        attrs=_attrs(fields),
        shapes=tuple(_shapes(fields)),
        include=tuple(_rule(_block(value)) for name, value in fields if name == b"include"),
        exclude=tuple(_rule(_block(value)) for name, value in fields if name == b"exclude"),
        phase=phase,
    )


def _rule(fields: Fields) -> PhaseRule:
    levels = {name: _number(value) for name, value in fields if name.endswith(b"_level")}
    return PhaseRule(
        phase=_last(fields, b"phase", _phase) or None,
        min_level=levels.get(b"min_level"),
        max_level=levels.get(b"max_level"),
        stages=tuple(_text(value) for name, value in fields if name == b"stage"),
        not_stages=tuple(_text(value) for name, value in fields if name == b"not_stage"),
    )


def _state(fields: Fields) -> State:
    levels = [_number(value) for name, value in fields if name == b"level"]
    stages = tuple(_text(value) for name, value in fields if name == b"stage")
    return State(_last(fields, b"phase", _phase), levels[-1] if levels else 0, stages)


def _last(fields: Fields, wanted: bytes, read: _Reader) -> str:
    values = [value for name, value in fields if name == wanted]
    return read(values[-1]) if values else ""


def _shapes(fields: Fields) -> Iterator[tuple[int, ...]]:
    """The ``shape { dim ... }`` blocks in the parameters of a layer."""
    for name, value in fields:
        if name.endswith(b"_param") and not isinstance(value, bytes):
            for inner, shape in value:
                if inner == b"shape":
                    yield _dims(_block(shape))


def _attrs(fields: Fields) -> dict[str, AttrValue]:
    found: dict[str, list[AttrValue]] = {}
    for path, value in _scalars([field for field in fields if field[0] not in _OWN], ""):
        found.setdefault(path, []).append(_scalar(value))
    return {path: v[0] if len(v) == 1 else kept_list(v) for path, v in found.items()}


def _scalars(fields: Fields, around: str) -> Iterator[tuple[str, bytes]]:
    stack = [(around, iter(fields))]
    while stack:
        prefix, rest = stack[-1]
        for name, value in rest:
            path = prefix + name.decode("ascii", "backslashreplace")
            if isinstance(value, bytes):
                yield path, value
            else:
                stack.append((f"{path}.", iter(value)))
                break
        else:
            stack.pop()


def _scalar(token: bytes) -> AttrValue:
    if is_string(token):
        return kept_text(string(token))
    for read in (integer, real, boolean):
        try:
            value = read(token)
        except ValueError:
            continue
        if type(value) is not int or -MAX_DIM - 1 <= value <= MAX_DIM:
            return value
    return kept_text(token.decode("ascii", "backslashreplace"))


def _block(value: Value) -> Fields:
    if isinstance(value, bytes):
        raise ValueError("a block is needed here")  # noqa: TRY004 - file, not call
    return value


def _token(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a block where a value belongs")  # noqa: TRY004 - file, not call
    return value


def _text(value: Value) -> str:
    token = _token(value)
    if not is_string(token):
        raise ValueError(f"{token.decode('ascii', 'backslashreplace')} is no text in quotes")
    return string(token)


def _word(value: Value) -> str:
    token = _token(value)
    return string(token) if is_string(token) else token.decode("ascii", "backslashreplace")


def _phase(value: Value) -> str:
    token = _token(value)
    if token not in _PHASES:
        word = token.decode("ascii", "backslashreplace")
        raise ValueError(f"the phase {word} is neither TRAIN nor TEST")
    return _PHASES[token]


def _number(value: Value) -> int:
    return integer(_token(value))


def _dims(fields: Sequence[tuple[bytes, Value]]) -> tuple[int, ...]:
    return tuple(_number(value) for name, value in fields if name == b"dim")
