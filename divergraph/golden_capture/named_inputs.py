"""Inputs out of files that name their tensors: Polygraphy's JSON, ``.npz`` archives, PyTorch."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from pathlib import Path
from typing import TypeAlias

from divergraph.execute.contract import Array
from divergraph.values.one_tensor import read_stored
from divergraph.values.unread import or_raise
from graphstore.errors import ImportFormatError, InputError
from graphstore.model import DumpTensorRef
from importers.dumps.arrays.polygraphy import iteration_of
from importers.dumps.contract import NO_FORM, FilePlace
from importers.dumps.index import DamagedError, shown
from importers.dumps.readers import reader_of

_SHOWN = 4
_Found: TypeAlias = Mapping[str, DumpTensorRef | DamagedError]


def full_name(name: str, names: Container[str]) -> str:
    """The tensor *name* stands for: itself, or ``name:0`` as TensorFlow has it."""
    return f"{name}:0" if name not in names and f"{name}:0" in names else name


def names_tensors(path: Path) -> bool:
    """Whether the file at *path* names the tensors it holds."""
    reader = reader_of(path)
    return reader is not None and reader.names_inputs


def first_iteration(path: Path) -> tuple[Path, tuple[str, ...]]:
    """Of a folder of Polygraphy's ``--save-inputs`` the file to take, and a remark; *path*
    itself if it is no folder.

    Raises:
        InputError: a folder that holds no such files.
    """
    if not path.is_dir():
        return path, ()
    files = sorted(path for path in path.iterdir() if iteration_of(path.name) is not None)
    if not files:
        hint = "NAME=FILE for each input, or a file that names its tensors"
        raise InputError("this is a folder, not the value of an input", where=str(path), hint=hint)
    others = f"{path.name}: {files[0].name} is taken, one of {len(files)} iterations"
    return files[0], (others,) if len(files) > 1 else ()


def named_value(path: Path, name: str) -> tuple[Array, tuple[str, ...]]:
    """The tensor *name* of the file at *path*, or its only one, and remarks.

    Raises:
        InputError: it has no such tensor.
        ImportFormatError: it is damaged.
    """
    refs, remarks = _tensors(path)
    tensors = {full_name(own_name, (name,)): own_name for own_name in refs}
    chosen = tensors.get(name) or (next(iter(refs)) if len(refs) == 1 else None)
    if chosen is None:
        what = f"there is no tensor {name!r} in this file"
        raise InputError(what, where=str(path), hint=_held(refs))
    return _value(path, refs, chosen), remarks


def named_values(path: Path, inputs: Collection[str]) -> tuple[dict[str, Array], tuple[str, ...]]:
    """The tensors of the file at *path* that are *inputs* of a model, and remarks. A file of
    one tensor holds the only input whatever it is called.

    Raises:
        InputError: none is an input.
        ImportFormatError: the file is damaged.
    """
    refs, remarks = _tensors(path)
    wanted = {full_name(own_name, inputs): own_name for own_name in refs}
    wanted = {name: own_name for name, own_name in wanted.items() if name in inputs}
    if not wanted and len(refs) == len(inputs) == 1:
        wanted = dict(zip(inputs, refs, strict=True))
    if not wanted:
        listed = ", ".join(inputs) or "none"
        hint = f"{_held(refs)}; inputs: {listed}"
        what = "no tensor in this file is an input of the model"
        raise InputError(what, where=str(path), hint=hint)
    others = [own_name for own_name in refs if own_name not in wanted.values()]
    if others:
        passed = f"{path.name}: not inputs of the model, passed over: {_few(others)}"
        remarks = (*remarks, passed)
    values = {name: _value(path, refs, own_name) for name, own_name in wanted.items()}
    return values, remarks


def _tensors(path: Path) -> tuple[_Found, tuple[str, ...]]:
    """The tensors of a file by name, those of its first inference, and a remark if there are more
    of the same names."""
    reader = reader_of(path)
    assert reader is not None
    try:
        place = FilePlace(path, path.name, "", path.stat().st_size)
        tensors = list(reader.tensors(place, NO_FORM))
    except DamagedError as damage:
        raise ImportFormatError(path, damage.detail) from damage
    iterations = list(dict.fromkeys(tensor.iteration for tensor in tensors))
    first = iterations[0] if iterations else ""
    refs: _Found = {
        reader.array_name(tensor): tensor.ref or DamagedError(tensor.damage)
        for tensor in tensors
        if tensor.iteration == first
    }
    if len(iterations) < 2:
        return refs, ()
    unpack = f"divergraph convert -d {path.name} -out DIR parts them"
    return refs, (f"{path.name}: {first} is taken, one of {len(iterations)} ({unpack})",)


def _value(path: Path, refs: _Found, name: str) -> Array:
    tensor = refs[name]
    if isinstance(tensor, DamagedError):
        raise ImportFormatError(path, f"tensor {shown(name)}: {tensor.detail}") from tensor
    return or_raise(read_stored(tensor))


def _held(refs: _Found) -> str:
    return f"it holds {_few(list(refs)) or 'no tensors'}"


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(shown, names[:_SHOWN])) + more
