"""Where one dumped tensor lies and how its bytes are to be read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from graphstore.model.dtypes import DType


class Side(StrEnum):
    """The two sides of a comparison."""

    GOLDEN = "golden"
    DEVICE = "device"


class TensorIO(StrEnum):
    """Whether a dumped tensor was an input or an output of its op."""

    INPUT = "input"
    OUTPUT = "output"


class DumpFormat(StrEnum):
    """How the bytes lie in the file."""

    NPY = "npy"
    NPZ = "npz"
    """An array of a ``.npz`` archive; the place is that of its ``.npy`` file, packed or not."""
    ASCEND_V1 = "ascend_v1"
    ASCEND_V2 = "ascend_v2"
    ASCEND_NANO = "ascend_nano"
    ASCEND_JSON = "ascend_json"
    """An Ascend dump whose header is JSON text, as msaccucmp's npy converter writes."""
    TFDBG = "tfdbg"
    """A TensorFlow ``Event`` message of the debugger holding one tensor."""
    BASE64_NPY = "base64_npy"
    """A whole ``.npy`` file as base64 text inside a JSON file (Polygraphy)."""
    TORCH = "torch"
    """One contiguous tensor stored in a ``.pt`` archive, read without unpickling."""
    RAW = "raw"
    """Nothing but the values; type and shape come from the user or the file's name."""
    STATISTICS = "statistics"
    """No values, only :class:`TensorStatistics`."""


@dataclass(frozen=True, slots=True)
class TensorStatistics:
    """What a statistics-only dump says of a tensor, None where it does not say.

    ``count`` elements as stored (padding of device layouts included), ``norm`` is the
    Euclidean norm, ``infinities`` counts both signs. Of a tensor with NaN or infinities
    the writers compute the other numbers over different elements. ``checksum`` is its kind and
    text (``md5:1f3a``), "" without one.
    """

    count: int | None = None
    maximum: float | None = None
    minimum: float | None = None
    mean: float | None = None
    norm: float | None = None
    nans: int | None = None
    infinities: int | None = None
    checksum: str = ""


@dataclass(frozen=True, slots=True)
class DumpTensorRef:
    """One tensor in a dump file; reading it needs nothing but this value.

    ``op`` is the op id in the graph the dump was resolved against. ``shape`` is the
    stored shape (device layout), ``original_shape`` the shape before the device's
    layout, if recorded. ``offset`` and ``nbytes`` place the raw bytes in the file.
    ``layout`` is the stored layout name (``NC1HWC0``, ...), ``groups`` the sub-format
    of grouped convolution weights. ``timestamp`` is in microseconds, 0 if unknown. Whole
    numbers with a ``scale`` stand for ``scale * (number - zero_point)``. ``crc32`` is that
    of the whole ``.npy`` file, or of the bytes of a ``.pt`` file, as their archive tells it.
    ``axes`` are those of ``shape`` in the order in which they lie in the file, empty for the same;
    ``axes_assumed``: the file does not tell it. ``format`` is one of :class:`DumpFormat`, or the
    name of the dump reader that reads the values. ``derived`` says of a tensor that lies in no file
    how its values follow from others; ``path`` is then that of the first of them.
    """

    path: Path
    format: str
    op: str
    io: TensorIO
    port: int
    dtype: DType | None
    shape: tuple[int, ...] | None
    offset: int = 0
    nbytes: int = 0
    layout: str | None = None
    original_shape: tuple[int, ...] | None = None
    groups: int = 0
    address: int | None = None
    timestamp: int = 0
    parts: tuple[TensorPart, ...] = ()
    statistics: TensorStatistics | None = None
    scale: float | None = None
    zero_point: int = 0
    crc32: int | None = None
    axes: tuple[int, ...] = ()
    axes_assumed: bool = False
    derived: Derived | None = None


@dataclass(frozen=True, slots=True)
class TensorCut:
    """What one rank of a job has of a *whole* tensor: of each axis in ``runs`` these ranges, one
    after the other; times ``factor``."""

    whole: DumpTensorRef
    runs: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class TensorProduct:
    """``left @ right.T``: what one rank adds to a product whose inner axis is split over ranks."""

    left: DumpTensorRef
    right: DumpTensorRef


@dataclass(frozen=True, slots=True)
class TensorJoin:
    """``parts`` one after the other along ``axis``: what one call makes for several of golden's."""

    parts: tuple[DumpTensorRef, ...]
    axis: int


@dataclass(frozen=True, slots=True)
class TensorReduction:
    """``parts`` reduced to one of their shape, by ``operation``: ``SUM``, ``AVG``, ``PRODUCT``,
    ``MAX`` or ``MIN``."""

    parts: tuple[DumpTensorRef, ...]
    operation: str


Derived: TypeAlias = TensorCut | TensorProduct | TensorJoin | TensorReduction
"""How the values of a tensor that lies in no file follow from others."""


@dataclass(frozen=True, slots=True)
class TensorPart:
    """One slice of a tensor, and where its first element lies in the whole."""

    tensor: DumpTensorRef
    start: tuple[int, ...]
