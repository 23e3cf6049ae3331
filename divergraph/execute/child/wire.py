"""Messages between us and the process that runs a model.

What we say is pickled. What it answers never is: a model may have taken that process over, and a
pickle is a program. Answers are JSON with arrays behind it, of plain types only.
"""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from divergraph.execute.contract import Array

Write: TypeAlias = Callable[[bytes | memoryview], None]
Fill: TypeAlias = Callable[[memoryview], None]
Json: TypeAlias = Any

_HEAD = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_SMALL = 1 << 16
_PLAIN_KINDS = "biufcSU"
_ARRAY, _TEXTS = "array", "texts"
_MOST_BUFFERS = 1 << 20


class AnswerError(Exception):
    """What came is no message: the other side is not what it was."""


def send_command(write: Write, command: object) -> None:
    """Say *command*, any values of ours; arrays are not copied on the way."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(command, protocol=5, buffer_callback=buffers.append)
    _send(write, head, [each.raw() for each in buffers])


def read_command(fill: Fill) -> Any:
    """What :func:`send_command` said."""
    head, buffers = _receive(fill, None)
    return pickle.loads(head, buffers=buffers)  # noqa: S301 - our own


def send_answer(write: Write, answer: Mapping[str, Any]) -> None:
    """Answer with mappings, lists, texts, numbers and arrays."""
    buffers: list[memoryview] = []
    head = json.dumps(_packed(answer, buffers)).encode()
    _send(write, head, buffers)


def read_answer(fill: Fill, most: int) -> dict[str, Any]:
    """What :func:`send_answer` said, of at most *most* bytes.

    Raises:
        AnswerError: it is something else.
    """
    head, buffers = _receive(fill, most)
    try:
        answer = _unpacked(json.loads(head), iter(buffers))
    except (ValueError, TypeError, KeyError, StopIteration, RecursionError) as error:
        raise AnswerError(str(error)) from error
    if not isinstance(answer, dict):
        raise AnswerError("no mapping")
    return answer


def _send(write: Write, head: bytes, buffers: Sequence[memoryview]) -> None:
    lengths = b"".join(_LENGTH.pack(each.nbytes) for each in buffers)
    whole = [_HEAD.pack(len(head), len(buffers)), lengths, head]
    if sum(each.nbytes for each in buffers) <= _SMALL:
        write(b"".join((*whole, *buffers)))
        return
    write(b"".join(whole))
    for each in buffers:
        write(each)


def _receive(fill: Fill, most: int | None) -> tuple[bytes, list[memoryview]]:
    length, count = _HEAD.unpack(_read(fill, _HEAD.size))
    if most is not None and (length > most or count > _MOST_BUFFERS):
        raise AnswerError("a message too long")
    lengths = [each for (each,) in _LENGTH.iter_unpack(_read(fill, _LENGTH.size * count))]
    if most is not None and sum(lengths) > most:
        raise AnswerError("a message too long")
    return bytes(_read(fill, length)), [_read(fill, each) for each in lengths]


def _read(fill: Fill, count: int) -> memoryview:
    taken = np.empty(count, np.uint8).data
    if count:
        fill(taken)
    return taken


def _packed(value: Any, buffers: list[memoryview]) -> Json:
    if isinstance(value, np.ndarray):
        return _packed_array(value, buffers)
    if isinstance(value, Mapping):
        return {"map": [[str(k), _packed(v, buffers)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return [_packed(each, buffers) for each in value]
    return value


def _packed_array(value: Array, buffers: list[memoryview]) -> Json:
    if value.dtype.kind in _PLAIN_KINDS:
        plain = np.ascontiguousarray(value)
        buffers.append(plain.reshape(-1).view(np.uint8).data)
        return {_ARRAY: [value.dtype.str, list(value.shape)]}
    if value.dtype.kind == "O":  # of texts, which both frameworks give so
        texts = [[type(each) is bytes, _as_text(each)] for each in value.ravel()]
        return {_TEXTS: [texts, list(value.shape)]}
    raise TypeError(f"elements of type {value.dtype}")


def _unpacked(value: Json, buffers: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(each, buffers) for each in value]
    if not isinstance(value, dict):
        return value
    if "map" in value:
        return {_text(name): _unpacked(each, buffers) for name, each in value["map"]}
    if _TEXTS in value:
        texts, shape = value[_TEXTS]
        found = np.empty(len(texts), object)
        found[:] = [_of_text(text) if raw else _text(text) for raw, text in texts]
        return found.reshape([int(size) for size in shape])
    kind, shape = value[_ARRAY]
    dtype = np.dtype(_text(kind))
    if dtype.kind not in _PLAIN_KINDS:
        raise ValueError(kind)
    return np.frombuffer(next(buffers), dtype).reshape([int(size) for size in shape])


def _as_text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _of_text(value: object) -> bytes:
    return _text(value).encode("latin-1")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"no text but {type(value).__name__}")
    return value
