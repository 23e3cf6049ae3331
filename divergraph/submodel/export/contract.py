"""The contract of part writers, and the formats there are."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from itertools import chain, count
from pathlib import Path
from typing import Protocol

from divergraph.execute.contract import Array
from divergraph.submodel.selection import Selection
from graphstore.errors import InputError
from graphstore.model import Framework, ModelGraph


class PartFormat(StrEnum):
    """Forms a part can be written in."""

    ONNX = "onnx"
    TENSORFLOW = "tf"
    CAFFE = "caffe"
    GE = "ge"


@dataclass(frozen=True, slots=True)
class PartSource:
    """The graph a part is of, the file it was read from, and the file with its weights
    where that is another one. ``values`` are constants the model file does not hold: frozen
    inputs, and variables whose values were dumped, by tensor name."""

    graph: ModelGraph
    model: Path
    weights: Path | None = None
    values: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """The model that was written first, then its other files. ``names`` gives what the
    tensors of the part are called in it where that is not their own name. ``notes`` say what
    was left out, ``added`` how the inputs are written (log lines)."""

    files: tuple[Path, ...]
    names: Mapping[str, str]
    notes: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


class PartWriter(Protocol):
    """Writes the part into an empty place of a folder: files called ``dump`` with an ending."""

    def __call__(self, source: PartSource, part: Selection, folder: Path) -> WrittenPart:
        """Write *part*.

        Raises:
            InputError: it cannot be written in this form; the sentence says why.
            ImportFormatError: the model's file is damaged.
        """
        ...


REPLAYED_BY: Mapping[PartFormat, str] = {
    PartFormat.ONNX: "onnxruntime",
    PartFormat.TENSORFLOW: "tensorflow",
    PartFormat.CAFFE: "opencv-python-headless<5",
}
"""The package that runs a part on this machine; GE's text is for the device's tools."""

TOLERANCE: Mapping[PartFormat, float] = {
    PartFormat.ONNX: 0.0,
    PartFormat.TENSORFLOW: 1e-5,
    PartFormat.CAFFE: 1e-5,
}
"""Largest |replayed - expected| / |expected| (Euclidean): other programs sum in another order."""


_OWN: Mapping[Framework, PartFormat] = {
    Framework.ONNX: PartFormat.ONNX,
    Framework.PYTORCH: PartFormat.ONNX,
    Framework.TENSORFLOW: PartFormat.TENSORFLOW,
    Framework.CAFFE: PartFormat.CAFFE,
    Framework.ASCEND: PartFormat.GE,
}


_WRITERS: Mapping[PartFormat, str] = {
    PartFormat.ONNX: "onnx_export:write_onnx_part",
    PartFormat.TENSORFLOW: "tensorflow_export:write_tensorflow_part",
    PartFormat.CAFFE: "caffe_export:write_caffe_part",
    PartFormat.GE: "ge_export:write_ge_part",
}


_CALLS = "calls_export:write_calls_part"


def own_format(graph: ModelGraph) -> PartFormat:
    """The form of the graph's own framework.

    Raises:
        InputError: parts of this framework's models cannot be written.
    """
    part_format = _OWN.get(graph.framework)
    if part_format is None:
        raise InputError(
            f"parts of a {graph.framework} model cannot be written",
            hint="compare with its ONNX export as golden model",
        )
    return part_format


def writer_of(wanted: PartFormat, graph: ModelGraph) -> PartWriter:
    """The writer of *wanted* for parts of *graph*.

    Raises:
        InputError: the graph is of another framework.
    """
    own = own_format(graph)
    if wanted is not own:
        raise InputError(
            f"a part of a {graph.framework} model cannot be written as {wanted}",
            hint=f"--format {own}",
        )
    written_by = _CALLS if graph.framework is Framework.PYTORCH else _WRITERS[wanted]
    module, _, name = written_by.partition(":")
    writer: PartWriter = getattr(import_module(f"divergraph.submodel.export.{module}"), name)
    return writer


def another_model(path: Path) -> InputError:
    """The error that *path* holds another graph than the run's."""
    return InputError(
        "the model file is not the one the run was made with",
        where=str(path),
        hint="give that file with --model",
    )


def free_name(wanted: str, used: Container[str]) -> str:
    """*wanted*, or that with the first number behind it that is not in *used*."""
    names = chain((wanted,), (f"{wanted}_{number}" for number in count(2)))
    return next(name for name in names if name not in used)
