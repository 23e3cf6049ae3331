"""Files of every kind that hold tensors, looked at without a graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path

from graphstore.model import DType, DumpFormat, DumpTensorRef, TensorIO
from importers.dumps.arrays.golden import first_output, golden_ending
from importers.dumps.bare.tensor import (
    BareTensor,
    Identity,
    found_tensor,
    identity_of,
    plain,
    scope_of,
)
from importers.dumps.decode import stored_bytes
from importers.dumps.index import DamagedError, open_dump, or_damage
from importers.dumps.names import EXCEPTION, OPDEBUG, parse_dump_name

NPY, NPZ, JSON = ".npy", ".npz", ".json"
_TORCH = (".pt", ".pth")
_GOLDEN = (".pb", ".quant")
_RAW = ".bin"
_HASH = re.compile(r"\d{12,}")
_EVENT = re.compile(r"(?P<name>.+)_(?P<slot>\d{1,6})_DebugIdentity_(?P<time>\d{1,20})")
_TOLD_RAW = re.compile(r".+\.(?P<shape>\d+(?:_\d+)*)\.(?P<dtype>[a-z]+\d+)\.(?P<layout>[A-Z]\w*)")


@dataclass(frozen=True, slots=True)
class RawForm:
    """What the user says of files that do not tell: element type, and shape or None for
    one axis of all elements."""

    dtype: DType | None = None
    shape: tuple[int, ...] | None = None


NO_FORM = RawForm()


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A file: its name without folder (the long one behind a number), folder and size."""

    path: Path
    file: str
    folder: str
    size: int

    @property
    def scope(self) -> str:
        """The folder without levels that are a time only."""
        return scope_of(self.folder)

    def below(self, name: str) -> str:
        """A tensor's *name* with the folder before it."""
        return f"{self.folder}/{name}" if self.folder else name


Finder = Callable[[FilePlace], Iterator[BareTensor]]


def npy_file(path: str, file: str, folder: str, size: int, form: RawForm) -> BareTensor:
    """The tensor of the ``.npy`` file at *path*, named *file* below *folder*."""
    stem = file[: -len(NPY)]
    raw_type = form.dtype if form.dtype is not None and form.dtype.numpy is None else None
    name = f"{folder}/{stem}" if folder else stem
    # Whatever is in it is read with the values: opening a file twice doubles its cost.
    return BareTensor(name, path, None, None, "", None, (folder, stem), (size, raw_type))


def finder_of(file: str, path: Path, form: RawForm) -> Finder | None:
    """What reads a file of this name; None if it holds no tensors."""
    if file.endswith(NPY):
        return lambda place: iter([npy_file(str(path), file, place.folder, place.size, form)])
    if file.endswith(NPZ):
        return lambda place: _of_archive(place, form)
    if file.endswith(_TORCH):
        return _of_torch
    if file.endswith(JSON):
        from importers.dumps.arrays.polygraphy import is_results

        return _of_results if is_results(path) else None
    if _EVENT.fullmatch(file):
        return _of_event
    if file.endswith(_GOLDEN) and golden_ending(file):
        return _of_golden_file
    if _is_dump(file):
        return _of_device_file
    told = _TOLD_RAW.fullmatch(file.removesuffix(_RAW)) if file.endswith(_RAW) else None
    if told is not None and _named(told["dtype"]) is not None:
        return lambda place: _of_told_raw(place, told)
    if form.dtype is not None and (file.endswith((_RAW, ".raw", ".data")) or "." not in file):
        return lambda place: _of_raw(place, form)
    return None


def bare_kind(file: str) -> str:
    """The kind of a file of this name that holds tensors and names no op; empty for others."""
    if file.endswith((NPZ, *_TORCH)):
        return "npz" if file.endswith(NPZ) else "torch"
    if _EVENT.fullmatch(file):
        return "tfdbg"
    told = _TOLD_RAW.fullmatch(file.removesuffix(_RAW)) if file.endswith(_RAW) else None
    return "raw" if told is not None and _named(told["dtype"]) is not None else ""


def _is_dump(file: str) -> bool:
    if file.startswith((OPDEBUG, EXCEPTION)) or file.endswith((".csv", ".txt", ".log")):
        return False
    return _HASH.fullmatch(file.removesuffix(_RAW)) is not None or (
        parse_dump_name(file) is not None
    )


def _of_archive(place: FilePlace, form: RawForm) -> Iterator[BareTensor]:
    from importers.dumps.arrays.npz import read_members

    stem = place.file.removesuffix(NPZ)
    scope = f"{place.scope}/{stem}" if place.scope else stem
    with open_dump(place.path) as (fd, size):
        members = read_members(fd, size)
    for member in members:
        identity = Identity(scope, "", plain(member.name), TensorIO.OUTPUT, 0)
        ref = or_damage(partial(member.ref, place.path, form.dtype))
        full = place.below(f"{stem}/{member.name}")
        yield found_tensor(full, place.path, ref, identity, model_name=member.name)


def _of_torch(place: FilePlace) -> Iterator[BareTensor]:
    from importers.dumps.arrays.torch_file import read_torch

    with open_dump(place.path) as (fd, size):
        tensor = read_torch(fd, size)
    stem = place.file.rpartition(".")[0]
    identity, time = identity_of(place.folder, stem)
    ref = tensor.ref(place.path, identity.key)
    yield found_tensor(place.below(stem), place.path, ref, identity, time)


def _of_results(place: FilePlace) -> Iterator[BareTensor]:
    from importers.dumps.arrays.polygraphy import array_refs

    stem = place.file.removesuffix(JSON)
    for iteration, name, found in array_refs(place.path):
        scope = "/".join(filter(None, (place.scope, iteration.scope)))
        identity = Identity(scope, "", plain(name), TensorIO.OUTPUT, 0)
        inside = f"{iteration.called}/{name}" if iteration.scope else name
        full = place.below(f"{stem}/{inside}")
        yield found_tensor(full, place.path, found, identity, model_name=name)


def _of_event(place: FilePlace) -> Iterator[BareTensor]:
    from importers.dumps.arrays.tfdbg import DEVICE, read_event

    match = _EVENT.fullmatch(place.file)
    assert match is not None
    with open_dump(place.path) as (fd, size):
        event = read_event(fd, size)
    session, marked, inside = place.folder.rpartition(DEVICE)
    folder = inside.partition("/")[2] if marked else place.folder
    op = f"{folder}/{match['name']}" if folder else match["name"]
    port, time = int(match["slot"]), int(match["time"])
    ref = event.ref(place.path, (op, TensorIO.OUTPUT, port), time)
    identity = Identity(scope_of(session.strip("/")), "", plain(op), TensorIO.OUTPUT, port)
    yield found_tensor(f"{session}{op}:{match['slot']}", place.path, ref, identity, time)


def _of_device_file(place: FilePlace) -> Iterator[BareTensor]:
    from importers.dumps.ascend.file import look_at, tensor_ref

    name = parse_dump_name(place.file)
    file = look_at(place.path, name)
    header = file.whole_header()
    op = header.op_name or (name.op_name if name else place.file)
    kind, part = (name.op_type, name.part) if name else ("", "")
    for tensor in header.tensors:
        identity = Identity(place.scope, kind, plain(op), tensor.io, tensor.number, part)
        full = place.below(f"{place.file}.{tensor.io}.{tensor.number}")
        ref = or_damage(partial(tensor_ref, file, tensor, op, tensor.number))
        yield found_tensor(full, place.path, ref, identity, file.timestamp)


def _of_golden_file(place: FilePlace) -> Iterator[BareTensor]:
    identity, time = identity_of(place.folder, place.file.rpartition(".")[0])
    ref = or_damage(lambda: first_output(place.path))
    yield found_tensor(place.below(place.file), place.path, ref, identity, time)


def _of_told_raw(place: FilePlace, told: re.Match[str]) -> Iterator[BareTensor]:
    """Values as ``divergraph convert -t bin`` writes them: the name tells their form."""
    form = RawForm(_named(told["dtype"]), tuple(map(int, told["shape"].split("_"))))
    layout = None if told["layout"] == "ND" else told["layout"]
    return _of_raw(place, form, place.file.removesuffix(_RAW), layout)


def _of_raw(
    place: FilePlace, form: RawForm, stem: str = "", layout: str | None = None
) -> Iterator[BareTensor]:
    assert form.dtype is not None
    stem = stem or place.file.rpartition(".")[0] or place.file
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


def msprobe_tensors(folder: Path, below: str) -> Iterator[BareTensor]:
    """One tensor for each input and output of each call of the ``dump.json`` in *folder*,
    *below* being the folder's name from where the search began.

    Raises:
        DamagedError: no readable ``dump.json``.
    """
    from importers.dumps.msprobe.index import (
        DEBUG,
        DUMP,
        call_tensors,
        read_dump_json,
        sole_process,
    )

    scope = below.replace(folder.name, "rank0") if sole_process(folder) else below
    path = folder / (DUMP if (folder / DUMP).is_file() else DEBUG)
    for call, entry in read_dump_json(path).items():
        for io, port, found in call_tensors(path, call, entry):
            name = f"{call}.{io}.{port}"
            identity = Identity(scope, "", call, io, port)
            yield found_tensor(f"{below}/{name}" if below else name, path, found, identity)


def damaged_file(place: FilePlace, damage: DamagedError) -> BareTensor:
    """What stands for the tensors of a file that cannot be read."""
    file = (place.folder, place.file)
    name = place.below(place.file)
    return BareTensor(name, str(place.path), None, damage.reason, damage.detail, None, file)


def _named(name: str) -> DType | None:
    return DType(name) if name in DType.__members__.values() else None
