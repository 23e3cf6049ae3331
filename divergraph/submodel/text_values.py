"""Dumped tensors of text: no element type of comparisons, but what parts may be fed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from divergraph.execute.contract import Array
from graphstore.errors import ImportFormatError
from graphstore.model import ModelGraph, Reason, TensorIO, TensorRef
from importers.dumps import DumpIndex
from importers.dumps.arrays.golden_names import GoldenNames

_ENDING = ".npy"


class TextValues:
    """The ``.npy`` files of text in a dump of *graph*; pickled objects are none."""

    def __init__(self, graph: ModelGraph, dump: DumpIndex) -> None:
        self._graph = graph
        self._dump = dump

    def shape(self, key: TensorRef | str) -> tuple[int, ...] | None:
        """The shape of an output, or an input of the model, that is text; None for others."""
        return None if key not in self._paths else self.value(key).shape

    def value(self, key: TensorRef | str) -> Array:
        """Its text, as numpy's unicode or bytes.

        Raises:
            ImportFormatError: the file is damaged.
        """
        path = self._paths[key]
        try:
            return np.asarray(np.load(path, allow_pickle=False))
        except (OSError, ValueError, EOFError) as error:
            raise ImportFormatError(path, f"this cannot be read: {error}") from error

    @cached_property
    def _paths(self) -> dict[TensorRef | str, Path]:
        return dict(self._found())

    def _found(self) -> Iterator[tuple[TensorRef | str, Path]]:
        names: GoldenNames | None = None
        for problem in self._dump.problems:
            path = problem.path
            if problem.reason is not Reason.DTYPE_UNSUPPORTED or path.suffix != _ENDING:
                continue
            if not _is_text(path):
                continue
            if problem.op is not None:
                if problem.io is TensorIO.OUTPUT and problem.port is not None:
                    yield TensorRef(problem.op, problem.port), path
                continue
            names = names or GoldenNames(self._graph)
            given = names.find_input(path.name.removesuffix(_ENDING))
            if given is not None:
                yield given.tensor.name, path


def _is_text(path: Path) -> bool:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False).dtype.kind in "US"
    except (OSError, ValueError, EOFError):
        return False
