"""What lies in a ``.pt2`` archive: the program as JSON, and where its weights lie.

The format is that of ``torch/export/pt2_archive`` and of the dataclasses in
``torch/_export/serde/schema.py`` (PyTorch 2.8 and later): ``models/NAME.json``, and a raw file for
each storage of a weight, which ``data/weights/NAME_weights_config.json`` names. Nothing in the
archive is run or unpickled.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphstore.errors import ImportFormatError
from graphstore.model import Constant, DType, Shape, Tensor
from importers.dumps.arrays.npz import list_members, member_place
from importers.dumps.index import DamagedError, open_dump
from importers.nesting import json_fault
from importers.source import read_at

_OLD = "serialized_exported_program.json"
_MOST_JSON = 1 << 30
_HINT = "it was cut or damaged; export or copy it again"
_DTYPES = {
    number: DType(name)
    for number, name in enumerate(
        "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool "
        "bfloat16".split(),
        1,
    )
} | {28: DType.UINT16, 29: DType.FLOAT8_E4M3FN, 30: DType.FLOAT8_E5M2, 33: DType.FLOAT8_E8M0}
"""Element types by their numbers in ``schema.ScalarType``."""


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """A weight or constant: its *tensor* of the program's type and shape, as ``strides`` and
    ``start`` (in elements) lay it out in ``nbytes`` at byte ``offset`` of the archive."""

    tensor: Tensor
    strides: tuple[int, ...]
    start: int
    offset: int
    nbytes: int

    @property
    def constant(self) -> Constant:
        """It as a constant of a graph; only one in C order has a place in the file."""
        shape = [size or 0 for size in self.tensor.shape or ()]
        in_order = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
        plain = all(
            size < 2 or stride == wanted
            for size, stride, wanted in zip(shape, self.strides, in_order, strict=True)
        )
        bits = self.tensor.dtype.bits if self.tensor.dtype else None
        if not plain or bits is None:
            return Constant(self.tensor)
        width = bits // 8
        at = self.offset + self.start * width
        return Constant(self.tensor, offset=at, nbytes=math.prod(shape) * width)


@dataclass(frozen=True, slots=True)
class ExportedProgram:
    """The JSON of a program, its ``name`` in the archive, and its weights by their names there."""

    name: str
    content: Mapping[str, Any]
    weights: Mapping[str, StoredWeight]


def read_program(path: Path) -> ExportedProgram:
    """The only program of the archive at *path*.

    Raises:
        ImportFormatError: there is none or several, or it is damaged.
    """
    try:
        with open_dump(path) as (fd, size):
            return _read(path, fd, size)
    except DamagedError as damage:
        raise ImportFormatError(path, damage.detail, hint=_HINT) from damage
    except (AttributeError, KeyError, TypeError) as error:
        what = f"its lists of weights are not as PyTorch writes them: {error}"
        raise ImportFormatError(path, what, hint=_HINT) from error


def tensor_of(name: str, meta: Any) -> Tensor:
    """The tensor that a ``TensorMeta`` describes. Sizes that vary are those of the example inputs
    the model was exported with; None where the file does not tell them."""
    number, sizes = meta.get("dtype"), meta.get("sizes")
    shape: Shape | None = None
    if isinstance(sizes, list):
        shape = tuple(integer_of(size) for size in sizes)
    return Tensor(name, _DTYPES.get(number), shape)


def integer_of(value: Any) -> int | None:
    """A ``SymInt`` as a number: that of the example inputs where it varies."""
    number = value.get("as_int") if isinstance(value, dict) else None
    if number is None and isinstance(value, dict):
        hint = (value.get("as_expr") or {}).get("hint") or {}
        number = hint.get("as_int")
    return number if type(number) is int else None


def element_type(number: Any) -> DType | None:
    """The type with this *number*; None for one that is not known here."""
    return _DTYPES.get(number)


def _read(path: Path, fd: int, size: int) -> ExportedProgram:
    members = {info.filename: info for info in list_members(fd, "archive of torch.export")}
    if _OLD in members:
        hint = "load it with PyTorch 2.8 or later and save it again (torch.export.save)"
        raise ImportFormatError(path, "a model exported before PyTorch 2.8", hint=hint)
    programs = [
        name
        for name in members
        if name.rpartition("/")[0].endswith("/models") and name.endswith(".json")
    ]
    if len(programs) != 1:
        what = f"{len(programs)} programs in the archive"
        raise ImportFormatError(path, what, hint="save one model in a file (torch.export.save)")
    root, _, file = programs[0].partition("/models/")
    name = file.removesuffix(".json")
    weights: dict[str, StoredWeight] = {}
    for kind in ("weights", "constants"):
        folder = f"{root}/data/{kind}/"
        config = members.get(f"{folder}{name}_{kind}_config.json")
        if config is not None:
            entries = _json(config, fd, size).get("config")
            for weight in _weights(entries, folder, members, fd, size):
                weights[weight.tensor.name] = weight
    return ExportedProgram(root, _json(members[programs[0]], fd, size), weights)


def _weights(
    entries: Any, folder: str, members: Mapping[str, zipfile.ZipInfo], fd: int, size: int
) -> Iterator[StoredWeight]:
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        meta = entry.get("tensor_meta")
        info = members.get(f"{folder}{entry.get('path_name')}")
        if info is None or not isinstance(meta, dict) or entry.get("use_pickle"):
            continue  # of no plain tensor: an object of a class of the user
        place = member_place(info, fd, size, zipfile.ZIP_STORED)
        tensor = tensor_of(name, meta)
        strides = tuple(integer_of(stride) or 0 for stride in meta["strides"])
        if tensor.shape is None or None in tensor.shape or len(strides) != len(tensor.shape):
            raise DamagedError(f"weight {name} has no shape and strides", offset=place)
        start = integer_of(meta.get("storage_offset")) or 0
        yield StoredWeight(tensor, strides, start, place, info.compress_size)


def _json(info: zipfile.ZipInfo, fd: int, size: int) -> dict[str, Any]:
    if info.compress_size > _MOST_JSON:
        raise DamagedError(f"{info.filename} takes {info.compress_size} bytes", offset=0)
    place = member_place(info, fd, size, zipfile.ZIP_STORED)
    try:
        content = json.loads(read_at(fd, info.compress_size, place))
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{info.filename}: {json_fault(error)}", offset=place) from error
    if not isinstance(content, dict):
        raise DamagedError(f"{info.filename} is no object", offset=place)
    return content
