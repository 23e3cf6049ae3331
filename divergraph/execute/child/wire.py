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
    _send(write, head, [buffer.raw() for buffer in buffers])


def read_command(fill: Fill) -> Any:
    """What :func:`send_command` said."""
    head, buffers = _receive(fill, None)
    return pickle.loads(head, buffers=buffers)  # noqa: S301 - our own


def send_answer(write: Write, answer: Mapping[str, Any]) -> None:
    """Answer with mappings, lists, texts, numbers and arrays."""
    buffers: list[memoryview] = []
    head = json.dumps(_packed(answer, buffers)).encode()
    _send(write, head, buffers)


def read_answer(fill: Fill, limit: int) -> dict[str, Any]:
    """What :func:`send_answer` said, of at most *limit* bytes.

    Raises:
        AnswerError: it is something else.
    """
    head, buffers = _receive(fill, limit)
    try:
        answer = _unpacked(json.loads(head), iter(buffers))
    except (ValueError, TypeError, KeyError, StopIteration, RecursionError) as error:
        raise AnswerError(str(error)) from error
    if not isinstance(answer, dict):
        raise AnswerError("no mapping")
    return answer


def _send(write: Write, head: bytes, buffers: Sequence[memoryview]) -> None:
    lengths = b"".join(_LENGTH.pack(buffer.nbytes) for buffer in buffers)
    frame = [_HEAD.pack(len(head), len(buffers)), lengths, head]
    if sum(buffer.nbytes for buffer in buffers) <= _SMALL:
        write(b"".join((*frame, *buffers)))
        return
    write(b"".join(frame))
    for buffer in buffers:
        write(buffer)


def _receive(fill: Fill, limit: int | None) -> tuple[bytes, list[memoryview]]:
    length, count = _HEAD.unpack(_read(fill, _HEAD.size))
    if limit is not None and (length > limit or count > _MOST_BUFFERS):
        raise AnswerError("a message too long")
    lengths = [length for (length,) in _LENGTH.iter_unpack(_read(fill, _LENGTH.size * count))]
    if limit is not None and sum(lengths) > limit:
        raise AnswerError("a message too long")
    return bytes(_read(fill, length)), [_read(fill, length) for length in lengths]


def _read(fill: Fill, count: int) -> memoryview:
    content = np.empty(count, np.uint8).data
    if count:
        fill(content)
    return content


def _packed(value: Any, buffers: list[memoryview]) -> Json:
    if isinstance(value, np.ndarray):
        return _packed_array(value, buffers)
    if isinstance(value, Mapping):
        return {"map": [[str(k), _packed(v, buffers)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return [_packed(element, buffers) for element in value]
    return value


def _packed_array(value: Array, buffers: list[memoryview]) -> Json:
    if value.dtype.kind in _PLAIN_KINDS:
        plain = np.ascontiguousarray(value)
        buffers.append(plain.reshape(-1).view(np.uint8).data)
        return {_ARRAY: [value.dtype.str, list(value.shape)]}
    if value.dtype.kind == "O":  # of texts, which both frameworks give so
        texts = [[type(element) is bytes, _as_text(element)] for element in value.ravel()]
        return {_TEXTS: [texts, list(value.shape)]}
    raise TypeError(f"elements of type {value.dtype}")


def _unpacked(value: Json, buffers: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(element, buffers) for element in value]
    if not isinstance(value, dict):
        return value
    if "map" in value:
        return {_text(name): _unpacked(element, buffers) for name, element in value["map"]}
    if _TEXTS in value:
        texts, shape = value[_TEXTS]
        array = np.empty(len(texts), object)
        array[:] = [_of_text(text) if raw else _text(text) for raw, text in texts]
        return array.reshape([int(size) for size in shape])
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
