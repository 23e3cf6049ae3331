"""Which settings of a layer are numbers, by Caffe's own schema; forks have others beside."""

from __future__ import annotations

import functools
import re

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from importers.proto.messages import caffe_pb2 as pb

_NAME = re.compile(r"[A-Za-z_]")
_NUMBERS = frozenset(
    {
        FieldDescriptor.CPPTYPE_INT32,
        FieldDescriptor.CPPTYPE_INT64,
        FieldDescriptor.CPPTYPE_UINT32,
        FieldDescriptor.CPPTYPE_UINT64,
        FieldDescriptor.CPPTYPE_FLOAT,
        FieldDescriptor.CPPTYPE_DOUBLE,
    }
)


class NoNumberError(ValueError):
    """The word *written* stands for the setting *path*, which is a number."""

    def __init__(self, path: str, written: str) -> None:
        super().__init__(f"{path} has {written!r}, which is no number")
        self.field, self.written = path.rpartition(".")[2], written


def check_name(path: str, written: str) -> None:
    """Return if the word *written*, which is no number, may be the value of the setting *path*.

    Raises:
        NoNumberError: it is no name either, or the setting is a number.
    """
    if _NAME.match(written) is None or _is_number(path):
        raise NoNumberError(path, written)


@functools.cache
def _is_number(path: str) -> bool:
    return any(_found(kind.DESCRIPTOR, path) for kind in (pb.LayerParameter, pb.V1LayerParameter))


def _found(layer: Descriptor, path: str) -> bool:
    """Whether a message of the kind *layer* has such a field, and it is a number."""
    *around, last = path.split(".")
    kind: Descriptor | None = layer
    for name in around:
        field = None if kind is None else kind.fields_by_name.get(name)
        kind = None if field is None else field.message_type
    return (
        kind is not None
        and last in kind.fields_by_name
        and (kind.fields_by_name[last].cpp_type in _NUMBERS)
    )
