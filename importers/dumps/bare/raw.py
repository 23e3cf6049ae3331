"""Files of nothing but values: their names tell the form, or the user does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from graphstore.model import DType, DumpFormat, DumpTensorRef
from importers.contract import Confidence
from importers.dumps.bare.tensor import BareTensor, found_tensor, identity_of
from importers.dumps.contract import DumpReader, FilePlace, RawForm
from importers.dumps.decode import stored_bytes
from importers.dumps.index import DamagedError

_RAW = ".bin"
_TOLD_RAW = re.compile(r".+\.(?P<shape>\d+(?:_\d+)*)\.(?P<dtype>[a-z]+\d+)\.(?P<layout>[A-Z]\w*)")
_DTYPES = {dtype.value: dtype for dtype in DType}


def may_be_raw(name: str) -> bool:
    """Whether a file so called may hold nothing but values."""
    return name.endswith((_RAW, ".raw", ".data")) or "." not in name


class RawReader(DumpReader):
    """Files as ``divergraph convert -t bin`` writes them, and any of which the user tells type and
    shape."""

    name = "raw"
    reads = "{name}.{shape}.{type}.{layout}.bin, or any file with --dtype and --shape (diff)"
    diff_only = True
    generic = True
    names_inputs = False

    def claims(self, name: str, folder: str) -> Confidence:
        """A name that tells the form."""
        return Confidence.NO if _name_match(name) is None else Confidence.SURE

    def tensors(self, place: FilePlace, form: RawForm) -> Iterator[BareTensor]:
        """The one tensor, checked against the size of the file."""
        stem, layout = place.stem, None
        if match := _name_match(place.file):
            shape = tuple(map(int, match["shape"].split("_")))
            form = RawForm(_DTYPES[match["dtype"]], shape)
            layout = None if match["layout"] == "ND" else match["layout"]
            stem = place.file.removesuffix(_RAW)
        assert form.dtype is not None
        identity, time = identity_of(place.folder, stem)
        bits = form.dtype.bits or 8
        shape = form.shape if form.shape is not None else (place.size * 8 // bits,)
        nbytes = stored_bytes(form.dtype, prod(shape))
        if nbytes != place.size:
            what = f"{prod(shape)} elements of {form.dtype} take {nbytes} bytes"
            raise DamagedError(f"{what}, the file has {place.size}")
        ref = DumpTensorRef(
            *(place.path, DumpFormat.RAW, *identity.key, form.dtype, shape, 0, nbytes, layout)
        )
        yield found_tensor(place.below(stem), place.path, ref, identity, time)


def _name_match(name: str) -> re.Match[str] | None:
    match = _TOLD_RAW.fullmatch(name.removesuffix(_RAW)) if name.endswith(_RAW) else None
    return match if match is not None and match["dtype"] in _DTYPES else None
