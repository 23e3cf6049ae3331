"""The tensors of files that are no device dumps, each with the name its array is to have.

Files of PyTorch, ``.npz`` archives, Polygraphy's JSON, what TensorFlow's debugger wrote, and
golden ``.pb`` files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from graphstore.model import DumpTensorRef
from importers.dumps.arrays.polygraphy import array_refs, is_results
from importers.dumps.arrays.tfdbg import DEVICE
from importers.dumps.bare.files import JSON, NO_FORM, NPY, FilePlace, bare_kind, finder_of
from importers.dumps.index import DamagedError


@dataclass(frozen=True, slots=True)
class NamedTensor:
    """A tensor and the name of its array, without ending. ``folder`` is empty, or tells the
    inferences of one file apart."""

    name: str
    found: DumpTensorRef | DamagedError
    folder: str = ""


def holds_named_tensors(path: Path) -> bool:
    """Whether *path* is a file whose tensors have names of their own."""
    if path.name.endswith(NPY):
        return False
    if path.name.endswith(JSON):
        return is_results(path)
    return bare_kind(path.name) in ("npz", "torch", "tfdbg") or path.name.endswith(
        (".pb", ".quant")
    )


def named_tensors(path: Path) -> Iterator[NamedTensor]:
    """What is in the file at *path*.

    Raises:
        DamagedError: it cannot be read.
    """
    if path.name.endswith(JSON):
        yield from _results(path)
        return
    finder = finder_of(path.name, path, NO_FORM)
    if finder is None:
        raise DamagedError("this is not a file with tensors")
    _, device, below = path.absolute().parent.as_posix().rpartition(DEVICE)
    place = FilePlace(path, path.name, f"{device}{below}" if device else "", 0)
    for tensor in finder(place):
        found = tensor.ref or DamagedError(tensor.damage)
        yield NamedTensor(_name(path, tensor.name, tensor.timestamp), found)


def _results(path: Path) -> Iterator[NamedTensor]:
    several = any(iteration.scope for iteration, _, _ in array_refs(path))
    for iteration, name, found in array_refs(path):
        yield NamedTensor(name, found, iteration.called if several else "")


def _name(path: Path, name: str, time: int) -> str:
    if bare_kind(path.name) == "tfdbg":
        op, _, port = name.rpartition(":")
        return f"{op}.{port}.{time}"
    inside = name.removeprefix(f"{path.stem}/")
    return path.stem if inside in (path.name, path.stem) else inside
