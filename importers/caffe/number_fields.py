"""Which settings of a layer are numbers, by Caffe's own schema; forks have others beside."""

from __future__ import annotations

import functools
import math
import re

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from importers.proto.messages import caffe_pb2 as pb

_NAME = re.compile(r"[A-Za-z_]")
_WHOLE = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}
"""The least and the largest number of each kind of whole ones."""
_SHOWN = 40
_REAL = frozenset({FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE})


class NoNumberError(ValueError):
    """The word *written* stands for the setting *path*, which is a number of another kind."""

    def __init__(self, path: str, written: str, wanted: str = "number") -> None:
        short = written if len(written) <= _SHOWN else f"{written[:_SHOWN]}..."
        super().__init__(f"{path} has {short!r}, which is no {wanted}")
        self.field, self.written = path.rpartition(".")[2], written
        self.hint = "is a letter there for a digit?" if _NAME.search(written) else ""


def check_name(path: str, written: str) -> None:
    """Return if the word *written*, which is no number, may be the value of the setting *path*.

    Raises:
        NoNumberError: it is no name either, or the setting is a number.
    """
    if _NAME.match(written) is None or _kind(path) in _WHOLE or _kind(path) in _REAL:
        raise NoNumberError(path, written)


def check_number(path: str, written: str, read: float) -> None:
    """Return if the setting *path* may have the number *read*, which the file has as *written*.

    Raises:
        NoNumberError: it is a fraction, too large or negative where Caffe takes no such number.
    """
    kind = _kind(path)
    if kind in _REAL and math.isinf(read) and _NAME.match(written.lstrip("-")) is None:
        raise NoNumberError(path, written, "number of a float's range")
    if kind is None or kind not in _WHOLE:
        return
    low, high = _WHOLE[kind]
    if type(read) is not int or not low <= read <= high:
        wanted = f"whole number from {low} to {high}"
        raise NoNumberError(path, written, wanted)


@functools.cache
def _kind(path: str) -> int | None:
    """What numbers, texts or words the setting *path* takes; None for one of a fork."""
    kinds = (pb.LayerParameter.DESCRIPTOR, pb.V1LayerParameter.DESCRIPTOR)
    return next(
        (cpp_type for kind in kinds if (cpp_type := _field_type(kind, path)) is not None), None
    )


def _field_type(layer: Descriptor, path: str) -> int | None:
    """What the field of a message of the kind *layer* takes; None if it has no such field."""
    *around, last = path.split(".")
    kind: Descriptor | None = layer
    for name in around:
        field = None if kind is None else kind.fields_by_name.get(name)
        kind = None if field is None else field.message_type
    declared = None if kind is None else kind.fields_by_name.get(last)
    return None if declared is None else declared.cpp_type
