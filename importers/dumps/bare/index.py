"""Dumped tensors without a graph: what files and folders hold, by their names alone."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from graphstore.errors import InputError
from importers.archives import packed_note, refuse_archive
from importers.dumps.bare.tensor import NPY, BareTensor, npy_tensor
from importers.dumps.contract import NO_FORM, DumpReader, FilePlace, RawForm
from importers.dumps.index import DamagedError, FolderListing, is_inside
from importers.dumps.names import CAPTURED, MAPPING, captured_names, read_mapping
from importers.dumps.readers import owner_of, reader_of

__all__ = ["BareDump", "BareTensor", "find_tensors"]

_MAX_DEPTH = 32
_MAX_FILES = 5_000_000


@dataclass(slots=True)
class BareDump:
    """Everything found at one path; ``passed_over`` counts files of no known kind, with a
    few of their names."""

    path: Path
    tensors: list[BareTensor] = field(default_factory=list)
    passed_over: int = 0
    examples: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find_tensors(path: Path, form: RawForm = NO_FORM) -> BareDump:
    """The tensors of a file, or of all files in a folder and below it, in name order.

    Links that lead out of a folder are not followed; hidden files are passed over.

    Raises:
        InputError: nothing there, not readable, or a file of no known kind.
    """
    dump = BareDump(path)
    if path.is_dir():
        _Walk(dump, form).folder(path, "", 0)
        return dump
    try:
        status = path.stat()
    except OSError as error:
        what = "no such file or folder" if not path.exists() else f"not readable: {error.strerror}"
        raise InputError(what, where=str(path)) from error
    reader = reader_of(path, form=form)
    if reader is None:
        refuse_archive(path, "a file with tensors")
        raise InputError(
            "this is not a file with tensors",
            where=str(path),
            hint="of raw values say --dtype and --shape; docs/how-to/diff.md lists what is read",
        )
    _add(dump, reader, FilePlace(path, path.name, "", status.st_size), form)
    return dump


class _Walk:
    def __init__(self, dump: BareDump, form: RawForm) -> None:
        self._dump = dump
        self._form = form
        self._home = os.path.realpath(dump.path)
        self._files = 0

    def folder(self, folder: Path, below: str, depth: int) -> None:
        try:
            with os.scandir(folder) as entries:
                sorted_entries = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            if depth == 0:
                raise InputError(
                    f"the folder cannot be read: {error.strerror}", where=str(folder)
                ) from error
            self._dump.notes.append(f"{folder} cannot be read: {error.strerror}")
            return
        if note := packed_note(folder):
            self._dump.notes.append(note)
        names = {entry.name for entry in sorted_entries}
        owner = owner_of(FolderListing(folder, tuple(names), {}))
        if owner is not None and self._owned(owner, folder, below):
            return
        model_names = captured_names(folder) if CAPTURED in names else {}
        mapping: dict[str, str] = {}
        if MAPPING in names:
            mapping = read_mapping(folder)
        for entry in sorted_entries:
            if entry.name.startswith(".") or not self._is_ours(entry):
                continue
            inner = f"{below}/{entry.name}" if below else entry.name
            if entry.is_dir():
                if depth < _MAX_DEPTH:
                    self.folder(Path(entry.path), inner, depth + 1)
            elif entry.is_file():
                file, model_name = _full_name(entry.name, mapping), model_names.get(entry.name, "")
                self._file(entry, file, below, model_name)

    def _is_ours(self, entry: os.DirEntry[str]) -> bool:
        return not entry.is_symlink() or is_inside(entry.path, self._home)

    def _file(self, entry: os.DirEntry[str], file: str, below: str, model_name: str = "") -> None:
        self._files += 1
        if self._files > _MAX_FILES:
            raise InputError(f"more than {_MAX_FILES} files", where=str(self._dump.path))
        if file.endswith(NPY):  # dumps of many thousands of files are of these
            tensor = npy_tensor(entry.path, file, below, _size(entry), self._form.raw_type)
            tensor.model_name = model_name
            self._dump.tensors.append(tensor)
            return
        path = Path(entry.path)
        reader = reader_of(path, file, self._form)
        if reader is None:
            if file in (MAPPING, CAPTURED):
                return
            self._dump.passed_over += 1
            if len(self._dump.examples) < 3:
                self._dump.examples.append(entry.name)
            return
        _add(self._dump, reader, FilePlace(path, file, below, _size(entry)), self._form)

    def _owned(self, owner: DumpReader, folder: Path, below: str) -> bool:
        tensors = owner.folder_tensors(folder, below)
        if tensors is None:
            return False
        try:
            self._dump.tensors += tensors
        except DamagedError as damage:
            self._dump.notes.append(f"{folder}: {damage.detail}")
            return False
        return True


def _full_name(file: str, mapping: dict[str, str]) -> str:
    """The long name behind a number; golden dumps tell it without the file's ending."""
    full = mapping.get(file, file)
    return full if full == file or not file.endswith(NPY) else full.removesuffix(NPY) + NPY


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except OSError:  # a link that leads nowhere, or a file just removed
        return 0


def _add(dump: BareDump, reader: DumpReader, place: FilePlace, form: RawForm) -> None:
    try:
        dump.tensors += reader.tensors(place, form)
    except DamagedError as damage:
        file = (place.folder, place.file)
        name = place.below(place.file)
        stands_for = BareTensor(
            name, str(place.path), None, damage.reason, damage.detail, None, file
        )
        dump.tensors.append(stands_for)
