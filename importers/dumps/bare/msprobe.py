"""The tensors of an msprobe dump by the names of its calls, without a graph."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from importers.dumps.bare.tensor import BareTensor, Identity
from importers.dumps.index import DamagedError
from importers.dumps.msprobe.index import DUMP, call_tensors, read_dump_json


def msprobe_tensors(folder: Path, below: str) -> Iterator[BareTensor]:
    """One tensor for each input and output of each call of the ``dump.json`` in *folder*,
    *below* being the folder's name from where the search began.

    Raises:
        DamagedError: no readable ``dump.json``.
    """
    path = folder / DUMP
    for call, entry in read_dump_json(path).items():
        for io, port, found in call_tensors(path, call, entry):
            name = f"{call}.{io}.{port}"
            full = f"{below}/{name}" if below else name
            identity = Identity(below, "", call, io, port)
            if isinstance(found, DamagedError):
                yield BareTensor(full, str(path), None, found.reason, found.detail, (identity, 0))
            else:
                yield BareTensor(full, str(found.path), found, _told=(identity, 0))
