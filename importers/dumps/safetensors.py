"""Activations in ``.safetensors`` files.

The format, as https://github.com/huggingface/safetensors describes it: the length of a header as
a little-endian ``uint64``, the header as JSON (name to ``dtype``, ``shape`` and ``data_offsets``,
which count from its end), then the elements of all tensors in C order, little endian, without
gaps. ``__metadata__`` maps text to text; numbers called ``step`` and ``rank`` in it are taken for
those of the dump.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from graphstore.model import DType, Reason
from importers.contract import Confidence
from importers.dumps.bare.tensor import BareTensor
from importers.dumps.contract import DumpReader, FilePlace, RawForm, named_tensor
from importers.dumps.decode import stored_bytes
from importers.dumps.index import DamagedError, open_dump, shown
from importers.nesting import json_fault
from importers.source import read_at

_MAX_HEADER = 100_000_000
"""Bytes of a header, as the format's own reader has it."""
_METADATA = "__metadata__"
_DTYPES = {
    "BOOL": DType.BOOL,
    **{f"I{bits}": DType(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"U{bits}": DType(f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"F{bits}": DType(f"float{bits}") for bits in (16, 32, 64)},
    "BF16": DType.BFLOAT16,
    "F8_E5M2": DType.FLOAT8_E5M2,
    "F8_E4M3": DType.FLOAT8_E4M3FN,
    "F8_E8M0": DType.FLOAT8_E8M0,
    "C64": DType.COMPLEX64,
}


class SafetensorsReader(DumpReader):
    """A dict of tensors in each file."""

    name = "safetensors"
    reads = ".safetensors files of activations, called as the model calls them"
    endings = (".safetensors",)
    whole_file = True
    inner_levels = frozenset({"rank", "step"})

    def claims(self, name: str, folder: str) -> Confidence:
        """Weights are in such files far more often than activations."""
        return Confidence.MAYBE if name.endswith(self.endings) else Confidence.NO

    def tensors(self, place: FilePlace, form: RawForm) -> Iterator[BareTensor]:
        """All tensors in the order of the header, each checked against the file."""
        header, start = _header(place)
        metadata = header.get(_METADATA)
        step, rank = (_number(metadata, level) for level in ("step", "rank"))
        for name, entry in header.items():
            if name == _METADATA:
                continue
            try:
                dtype, shape, offset, nbytes = _described(entry)
            except DamagedError as damage:
                yield named_tensor(place, name, None, None, damage=damage, step=step, rank=rank)
                continue
            at = start + offset
            yield named_tensor(
                *(place, name, dtype, shape), offset=at, nbytes=nbytes, step=step, rank=rank
            )


def _number(metadata: Any, level: str) -> int | None:
    text = metadata.get(level) if isinstance(metadata, dict) else None
    return int(text) if isinstance(text, str) and text.isdecimal() else None


def _header(place: FilePlace) -> tuple[Mapping[str, Any], int]:
    """The header, and where the elements begin."""
    with open_dump(place.path) as (fd, size):
        length = int.from_bytes(read_at(fd, 8, 0), "little") if size >= 8 else 0
        if not 2 <= length <= min(_MAX_HEADER, size - 8):
            what = f"the header should take {length} bytes, the file has {size}"
            raise DamagedError(what, offset=0)
        text = read_at(fd, length, 8)
    try:
        header = json.loads(text)
    except json.JSONDecodeError as error:
        raise DamagedError(json_fault(error), offset=8 + error.pos) from None
    except (ValueError, RecursionError) as error:
        raise DamagedError(json_fault(error), offset=8) from None
    if not isinstance(header, dict):
        raise DamagedError("the header is no table of tensors", offset=8)
    return header, 8 + length


def _described(entry: Any) -> tuple[DType, tuple[int, ...], int, int]:
    """Type, shape, and place after the header of one tensor."""
    match entry:
        case {"dtype": str(kind), "shape": [*shape], "data_offsets": [int(begin), int(end)]}:
            pass
        case _:
            raise DamagedError("its entry has no dtype, shape and data_offsets", offset=8)
    dtype = _DTYPES.get(kind)
    if dtype is None:
        raise DamagedError(f"elements of type {shown(kind)}", Reason.DTYPE_UNSUPPORTED)
    if len(shape) > 64 or not all(type(size) is int and 0 <= size < 1 << 62 for size in shape):
        raise DamagedError(f"shape {str(shape)[:60]} is not a list of sizes", offset=8)
    needed = stored_bytes(dtype, prod(shape))
    if begin < 0 or end - begin != needed:
        what = f"shape {shape} of {dtype} takes {needed} bytes, its place has {end - begin}"
        raise DamagedError(what, offset=8)
    return dtype, tuple(shape), begin, needed
