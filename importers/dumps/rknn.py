"""Snapshot folders of RKNN-Toolkit2's ``accuracy_analysis``.

``output_dir`` (``snapshot`` by default) holds ``map_name_to_file.txt``, a table of the columns
``layer_name`` and ``file_name``, and a folder for each run: ``golden`` (float) and ``simulator``
(quantised, on the host), with a board ``runtime``. In each is a ``.txt`` file for each layer, one
value a line, and in its folder ``npy`` the same values with their shapes, in the model's order of
axes. That is what version 2 of the toolkit writes; its manual names the folders only. Layers that
the toolkit adds end in ``-rs`` or ``_rs`` (the tensor in another shape) and ``_mm`` (a Gemm as a
matrix product).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore.model import DType, DumpFormat, DumpTensorRef
from importers.contract import Confidence
from importers.dumps.arrays.npy import read_npy_header
from importers.dumps.bare.tensor import NPY, BareTensor
from importers.dumps.contract import NO_FORM, DumpReader, FilePlace, RawForm, named_tensor
from importers.dumps.index import DamagedError, FolderListing, list_folder, open_dump
from importers.source import read_at

_MAP = "map_name_to_file.txt"
_RUNS = frozenset({"golden", "simulator", "runtime"})
_ARRAYS = "npy"
_TEXT = ".txt"
_ADDED = ("-rs", "_rs", "_mm")


class RknnReader(DumpReader):
    """The layers of one run, by the names that the table gives their files."""

    name = "rknn"
    reads = "folders golden and simulator of RKNN-Toolkit2's accuracy_analysis"
    whole_folder = True
    names_inputs = False

    def claims(self, name: str, folder: str) -> Confidence:
        """Text and ``.npy`` files in folders called as those of a snapshot."""
        is_result = (folder in _RUNS and name.endswith(_TEXT)) or (
            folder == _ARRAYS and name.endswith(NPY)
        )
        return Confidence.MAYBE if is_result else Confidence.NO

    def is_dump(self, path: Path) -> bool:
        """Whether the table lies where it should."""
        return _map_of(path.parent) is not None

    def owns(self, listing: FolderListing) -> bool:
        """A folder of a run, or that of its arrays."""
        return _map_of(listing.folder) is not None

    def files_in(self, listing: FolderListing) -> list[str]:
        """The arrays where there are some, else the texts: both hold the same values."""
        folder = listing.folder
        if folder.name == _ARRAYS:
            return [name for name in listing.files if name.endswith(NPY)]
        if (folder / _ARRAYS).is_dir():
            files = list_folder(folder / _ARRAYS).files
            return [f"{_ARRAYS}/{name}" for name in files if name.endswith(NPY)]
        return [name for name in listing.files if name.endswith(_TEXT)]

    def tensors(self, place: FilePlace, form: RawForm) -> Iterator[BareTensor]:
        """The one tensor of a file; of a text its shape is one axis of all values."""
        stem = place.path.stem
        table = _map_of(place.path.parent)
        name = _names(table, table.stat().st_mtime_ns).get(stem, stem) if table else stem
        with open_dump(place.path) as (fd, size):
            if place.path.suffix == NPY:
                header = read_npy_header(fd, size)
                kind = header.element_type(form.raw_type)
                at, nbytes = header.data_offset, header.nbytes
                shape, reader = header.shape, DumpFormat.NPY.value
            else:
                kind, at, nbytes = DType.FLOAT32, 0, size
                shape, reader = (len(read_at(fd, size, 0).split()),), self.name
        yield named_tensor(
            *(place, name, kind, shape), offset=at, nbytes=nbytes, format=reader, alone=True
        )

    def folder_tensors(self, folder: Path, below: str) -> Iterator[BareTensor]:
        """Those of :meth:`files_in`."""
        for name in self.files_in(list_folder(folder)):
            path = folder / name
            place = FilePlace(path, path.name, below, path.stat().st_size)
            yield from self.tensors(place, NO_FORM)

    def other_names(self, name: str) -> Iterable[str]:
        """A layer that was added holds the values of the tensor it is called after."""
        return [name.removesuffix(end) for end in _ADDED if name.endswith(end)]

    def read(self, ref: DumpTensorRef) -> NDArray[Any]:
        """The numbers of a text."""
        with open_dump(ref.path) as (fd, size):
            words = read_at(fd, size, 0).split()
        try:
            return np.array(words, np.float32)
        except ValueError as error:
            raise DamagedError(f"not all lines are numbers: {error}") from None


def _map_of(folder: Path) -> Path | None:
    """The table that names the files of *folder*; None if it is no folder of a snapshot."""
    run = folder.parent if folder.name == _ARRAYS else folder
    table = run.parent / _MAP
    return table if run.name in _RUNS and table.is_file() else None


@lru_cache(8)
def _names(table: Path, _changed: int) -> Mapping[str, str]:
    """The layer's name by the name of its file without ending."""
    with open_dump(table) as (fd, size):
        lines = read_at(fd, size, 0).decode("utf-8", "replace").splitlines()
    # the columns are padded with blanks, of which names have none
    rows = [parts for line in lines[1:] if len(parts := line.split()) == 2]
    return {Path(file).stem if file.endswith((_TEXT, NPY)) else file: name for name, file in rows}
