"""The values of a recorded run's tensors, read when lineage needs them."""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from graphstore.errors import ImportFormatError
from graphstore.model import DumpTensorRef, TensorIO
from importers.msprobe.importer import RunFiles

_MOST = 1 << 22
"""Tensors with more values are not looked into: those would take seconds each."""
_KEPT = 128
"""So many tensors stay in memory, twice of what is looked into for one input."""


class RecordedValues:
    """The tensors that lie as files beside a ``dump.json``."""

    def __init__(self, files: RunFiles) -> None:
        from importers.dumps.msprobe.index import TENSORS  # readers of dumps load protobuf

        self._is_there = (files.path.parent / TENSORS).is_dir()
        # bound to no method of this one, which would keep all that was read until it is collected
        self._found = lru_cache(_KEPT)(partial(_read, files))

    def distinct(self, call: str, io: TensorIO, port: int) -> NDArray[np.generic] | None:
        """The values of a tensor of *call*, each once, in order, without NaN; None where no file
        has them."""
        return self._found(call, io, port) if self._is_there else None


def _read(files: RunFiles, call: str, io: TensorIO, port: int) -> NDArray[np.generic] | None:
    from importers.dumps.msprobe.index import call_tensors  # readers of dumps load protobuf

    path, entry = files.path, (files.calls or {}).get(call)
    if lent := files.lent.get((call, io, port)):
        path, call, entry, io, port = lent
    tensors = call_tensors(path, call, entry) if isinstance(entry, dict) else ()
    for where, at, ref in tensors:
        if (where, at) == (io, port) and isinstance(ref, DumpTensorRef):
            return None if ref.statistics is not None else _distinct(ref)
    return None


def _distinct(ref: DumpTensorRef) -> NDArray[np.generic] | None:
    from importers.dumps.read import read_array

    try:
        values = read_array(ref)
    except ImportFormatError:  # damage is told where the dump is read
        return None
    if values.size > _MOST or values.dtype.kind != "f":
        return None
    found: NDArray[np.generic] = np.unique(values[np.isfinite(values)])
    return found
