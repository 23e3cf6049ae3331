"""What the header of an Ascend dump file says, the same for every version of the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphstore.model import DType, DumpFormat, TensorIO

MAX_TENSORS = 1 << 16
"""Inputs and outputs of one file past this are taken for damage."""


@dataclass(frozen=True, slots=True)
class HeaderTensor:
    """One tensor as a header describes it.

    ``number`` counts within inputs or outputs. ``dtype`` is None for a type number we
    do not know, ``type_number`` what the header says; ``undefined`` types are shown as
    bytes. ``shape`` is the stored shape, empty also where it is not given. The data
    takes ``size`` bytes of the file from ``offset``; layouts keep their stored name.
    """

    io: TensorIO
    number: int
    dtype: DType | None
    type_number: int
    shape: tuple[int, ...]
    offset: int
    size: int
    layout: str
    groups: int = 0
    original_shape: tuple[int, ...] | None = None
    address: int | None = None
    undefined: bool = False


@dataclass(frozen=True, slots=True)
class RawBlock:
    """Bytes of a dump file that are no tensor: ``buffer`` (L1) or ``workspace``."""

    kind: str
    number: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class DumpHeader:
    """Everything a dump file's header says; no tensor data is read for it.

    ``op_name`` is exact where the writer gives it, else empty; ``dump_time`` is in
    microseconds, 0 if not given. ``attributes`` are the op attributes as text.
    """

    format: DumpFormat
    tensors: tuple[HeaderTensor, ...]
    op_name: str = ""
    dump_time: int = 0
    blocks: tuple[RawBlock, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
