"""Dump files as arrays other tools read: what ``msaccucmp convert`` does.

File names are those of msaccucmp, so scripts that look for them go on working. One tensor
is in memory at a time, large ones are mapped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from pathlib import Path

from divergraph.conversion.relayout import relayout
from divergraph.files.array_files import Array, OutputFolder
from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.values.one_tensor import read_stored
from divergraph.values.unread import or_raise
from graphstore.errors import DivergraphError, ImportFormatError, InputError
from graphstore.model import DumpTensorRef, TensorIO
from importers.dumps.ascend.file import DeviceFile, read_device_file
from importers.dumps.ascend.overflow import read_record, record_json
from importers.dumps.contract import NO_FORM, DumpReader, FilePlace
from importers.dumps.detect import list_dumps
from importers.dumps.index import DamagedError, list_folder
from importers.dumps.msprobe.statistics_csv import ENDING
from importers.dumps.names import MAPPING, OPDEBUG
from importers.dumps.readers import owner_of, reader_of
from importers.layouts import LayoutError

FAILED_LIST = "convert_failed_file_list.txt"
_ARRAY = ".npy"
_NAME_PARTS = 5
_WHOLE_FILES = frozenset({"ascend", "raw"})
"""Readers of files with blocks beside the tensors; and of what may be one in another name."""
_MAX_LOG = 1 << 24


class DumpType(StrEnum):
    """What a tensor is written as."""

    NPY = "npy"
    BIN = "bin"
    TXT = "txt"
    MSNPY = "msnpy"


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """What to convert: files or folders of dump files, and what of them.

    ``layout`` and ``shape`` (without blocks and padding) say how tensors are to lie; None
    leaves them as the device stored them. ``input`` and ``output`` choose one tensor of
    each; if both are None all are written.
    """

    paths: tuple[Path, ...]
    folder: Path
    type: DumpType = DumpType.NPY
    layout: str | None = None
    shape: tuple[int, ...] | None = None
    input: int | None = None
    output: int | None = None


@dataclass(frozen=True, slots=True)
class DumpsConverted:
    """What was written, and why each other file was not (or not all of it).

    ``disk_failed``: one at least for want of a place on the disk.
    """

    folder: Path
    files: int
    written: tuple[Path, ...]
    failed: tuple[tuple[Path, str], ...]
    disk_failed: bool


def parse_paths(text: str) -> tuple[Path, ...]:
    """The paths in *text*: one, or several with commas between them."""
    if "," not in text or os.path.lexists(text):
        return (Path(text),)
    return tuple(Path(part.strip()) for part in text.split(",") if part.strip())


def convert_dumps(request: DumpRequest, progress: Progress = NO_PROGRESS) -> DumpsConverted:
    """Write every tensor of the dump files into the folder.

    A file that fails does not stop the others: it is listed in the result and in
    ``convert_failed_file_list.txt``, path and reason with a tab between them.

    Raises:
        InputError: a path is missing, holds no dump files, or nothing can be written.
    """
    files = tuple(_listed(request.paths))
    folder = OutputFolder(request.folder)
    folder.forget(FAILED_LIST)
    failed: list[tuple[Path, str]] = []
    progress.stage("converting", len(files))
    for path in files:
        reasons = _File(path, request, folder).converted()
        if reasons:
            failed.append((path, "; ".join(reasons)))
        progress.step(1, path.name)
    folder.finish()
    if failed:
        lines = [f"{path}\t{' '.join(reason.split())}\n" for path, reason in failed]
        folder.told(FAILED_LIST, "".join(lines))
    written = tuple(folder.written)
    return DumpsConverted(request.folder, len(files), written, tuple(failed), folder.disk_failed)


def _listed(paths: tuple[Path, ...]) -> Iterator[Path]:
    for path in paths:
        try:
            is_folder = path.is_dir()
            if not is_folder and not path.exists():
                raise InputError("no such file or folder", where=str(path))
        except (OSError, ValueError) as error:
            raise InputError(f"not a usable path: {error}", where=str(path)) from error
        yield from _in_folder(path) if is_folder else (path,)


def _in_folder(folder: Path) -> Iterable[Path]:
    listing = list_folder(folder)
    if (owner := owner_of(listing)) is not None:
        return owner.value_files(listing)
    names = [name for name in listing.files if name not in (MAPPING, FAILED_LIST)]
    if not names:
        inner = [str(dump.path) for dump in list_dumps(folder)]
        hint = f"give one of {', '.join(inner[:3])}" if inner else "give the folder they lie in"
        raise InputError("no dump files in this folder", where=str(folder), hint=hint)
    return (folder / name for name in names)


class _File:
    """One dump file on its way into the folder."""

    def __init__(self, path: Path, request: DumpRequest, folder: OutputFolder) -> None:
        self._path = path
        self._request = request
        self._folder = folder
        self._reasons: list[str] = []
        self._op_name = ""

    def converted(self) -> list[str]:
        """Write its tensors; the reasons why some or all were not."""
        try:
            if self._path.name.startswith(OPDEBUG):
                self._overflow_record()
            elif self._path.name.endswith(ENDING):
                raise InputError("statistics have no values to convert")
            elif (reader := reader_of(self._path)) is not None and reader.name not in _WHOLE_FILES:
                self._named(reader)
            else:
                self._device_file(read_device_file(self._path))
        except ImportFormatError as error:
            place = f" at byte {error.offset}" if error.offset is not None else ""
            self._reasons.append(f"{error.what}{place}")
        except DamagedError as damage:
            self._reasons.append(damage.detail)
        except DivergraphError as error:
            self._reasons.append(str(error))
        return self._reasons

    def _device_file(self, file: DeviceFile) -> None:
        self._op_name = file.header.op_name
        self._reasons += file.unusable if self._chosen(None) else ()
        for tensor in file.tensors:
            if self._chosen(tensor):
                self._tensor(tensor)
        self._check_choice(file)
        if self._chosen(None) and self._request.layout is None:
            self._blocks(file)

    def _chosen(self, tensor: DumpTensorRef | None) -> bool:
        """Whether *tensor* is to be written; of None: whether all of the file is."""
        wanted = {TensorIO.INPUT: self._request.input, TensorIO.OUTPUT: self._request.output}
        if self._request.input is None and self._request.output is None:
            return True
        return tensor is not None and wanted[tensor.io] == tensor.port

    def _check_choice(self, file: DeviceFile) -> None:
        there = {(tensor.io, tensor.port) for tensor in file.tensors}
        for io, number in (
            (TensorIO.INPUT, self._request.input),
            (TensorIO.OUTPUT, self._request.output),
        ):
            if number is not None and (io, number) not in there:
                damaged = [why for why in file.unusable if why.startswith(f"{io} {number}:")]
                count = sum(its_io is io for its_io, _ in there)
                self._reasons += damaged or [f"no {io} {number}: the file has {count} {io}s"]

    def _tensor(self, ref: DumpTensorRef) -> None:
        try:
            array = or_raise(read_stored(ref))
            layout = ref.layout or "ND"
            if self._request.layout is not None:
                shape = self._request.shape or _fits(ref.original_shape)
                exact = self._request.shape is not None
                wanted = self._request.layout
                array, layout = relayout(array, layout, wanted, shape, ref.groups, exact=exact)
            self._write(f"{ref.io}.{ref.port}", array, layout)
        except LayoutError as error:
            hint = " (say its shape with -s)" if self._request.shape is None else ""
            self._reasons.append(f"{ref.io} {ref.port}: {error}{hint}")
        except DivergraphError as error:
            self._reasons.append(f"{ref.io} {ref.port}: {error}")

    def _write(self, tensor: str, array: Array, layout: str) -> None:
        name = f"{self._path.name}.{tensor}"
        match self._request.type:
            case DumpType.NPY if self._request.layout is None:
                self._folder.npy(f"{name}{_ARRAY}", array)
            case DumpType.NPY:
                self._folder.npy(f"{name}.{_dims(array, 'x')}{_ARRAY}", array)
            case DumpType.MSNPY:
                self._folder.npy(f"{self._short_name()}.{tensor}.{layout}{_ARRAY}", array)
            case DumpType.BIN:
                self._folder.raw(_raw_name(name, array, layout), array)
            case DumpType.TXT if self._request.layout is None:
                self._folder.text(f"{name}.txt", array)
            case DumpType.TXT:
                self._folder.text(f"{name}.{_dims(array, 'x')}.txt", array)

    def _short_name(self) -> str:
        """The file's name with the last part of the op's name in place of the whole."""
        parts = self._path.name.split(".")
        if len(parts) == _NAME_PARTS and self._op_name:
            parts[1] = self._op_name.split("/")[-1]
        return ".".join(parts)

    def _blocks(self, file: DeviceFile) -> None:
        with self._path.open("rb") as source:
            for block in file.blocks:
                kind = "l1buffer" if block.kind == "buffer" else "space"
                source.seek(block.offset)
                try:
                    name = f"{self._path.name}.{kind}.{block.number}.bin"
                    self._folder.copied(name, source, block.size)
                    source.seek(block.offset)
                    if kind == "space" and block.size <= _MAX_LOG:
                        self._log(block.number, source.read(block.size))
                except DivergraphError as error:
                    self._reasons.append(f"{block.kind} {block.number}: {error}")

    def _log(self, number: int, data: bytes) -> None:
        """A workspace that is text is what an AI CPU op printed."""
        try:
            text = data.replace(b"\0", b"").decode("utf-8")
        except UnicodeDecodeError:
            return
        if text and all(char.isprintable() or char.isspace() for char in text):
            self._folder.words(f"{self._path.name}.{number}.log", text)

    def _overflow_record(self) -> None:
        record, _ = read_record(self._path)
        text = json.dumps(record_json(record), indent=4)
        self._folder.words(f"{self._path.name}.output.0.json", text)

    def _named(self, reader: DumpReader) -> None:
        as_arrays = self._request.type in (DumpType.NPY, DumpType.MSNPY)
        if self._path.name.endswith(_ARRAY) and (as_arrays or self._request.layout):
            hint = "-t bin and -t txt write it otherwise; it has no device layout"
            raise InputError("this is a .npy file already", hint=hint)
        if self._request.layout is not None:
            raise InputError("what this file holds has no device layout", hint="leave -f out")
        size = self._path.stat().st_size
        tensors = list(reader.tensors(FilePlace(self._path, self._path.name, "", size), NO_FORM))
        several = len({tensor.iteration for tensor in tensors}) > 1
        for tensor in tensors:
            name = reader.array_name(tensor)
            if tensor.ref is None:
                self._reasons.append(f"{name}: {tensor.damage}")
                continue
            try:
                folder = self._folder.inner(tensor.iteration if several else "")
                self._plainly(folder, name, tensor.ref)
            except DivergraphError as error:
                self._reasons.append(f"{name}: {error}")

    def _plainly(self, folder: OutputFolder, name: str, ref: DumpTensorRef) -> None:
        array = or_raise(read_stored(ref))
        match self._request.type:
            case DumpType.TXT:
                folder.text(f"{name}.txt", array)
            case DumpType.BIN:
                folder.raw(_raw_name(name, array, "ND"), array)
            case _:
                folder.npy(f"{name}{_ARRAY}", array)


def _fits(shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """An original shape that can be one: devices write 0 where they know none."""
    return shape if shape and prod(shape) else None


def _dims(array: Array, between: str) -> str:
    return between.join(map(str, array.shape))


def _raw_name(name: str, array: Array, layout: str) -> str:
    return f"{name}.{_dims(array, '_')}.{array.dtype.name}.{layout}.bin"
