"""The values variables have before the step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from divergraph.execute.contract import Array
from divergraph.execute.tensorflow.files import saved_values
from divergraph.execute.tensorflow.state import values_of_dump
from divergraph.execute.tensorflow.variable_ops import HANDLES, VARIABLES
from divergraph.execute.translate.tensorflow.restoring import restored_names
from graphstore.errors import InputError
from graphstore.model import ModelGraph, Op
from importers.tensorflow.checkpoint import Checkpoint


def variables_of(graph: ModelGraph, options: Mapping[str, str]) -> Mapping[str, Array]:
    """The known values by op: of the dump that ``variables`` names, else of the checkpoint that
    ``checkpoint`` names or that lies beside the model. They are read when asked for.

    Raises:
        InputError: no such dump or checkpoint.
        ImportFormatError: a damaged checkpoint.
    """
    folder = options.get("variables", "")
    dumped = values_of_dump(graph, Path(folder)) if folder else {}
    prefix = options.get("checkpoint", "") or saved_values(graph)
    readable = bool(prefix) and Path(f"{prefix}.index").is_file()
    if not readable and not options.get("checkpoint"):
        return dumped
    if not readable:
        raise InputError(
            "no checkpoint has this prefix",
            where=prefix,
            hint="the prefix is the path of the .index file without .index",
        )
    saved = Checkpoint(prefix)
    names = {op.id: _saved_name(op) for op in graph.ops if op.type in VARIABLES}
    if any(name not in saved for name in names.values()):
        names = {**restored_names(graph), **{op: n for op, n in names.items() if n in saved}}
    return _Values(dumped, saved, {op: name for op, name in names.items() if name in saved})


def _saved_name(op: Op) -> str:
    shared = str(op.attrs.get("shared_name", "")) if op.type in HANDLES else ""
    return shared or op.id


class _Values(Mapping[str, Array]):
    def __init__(
        self, dumped: Mapping[str, Array], saved: Checkpoint, names: Mapping[str, str]
    ) -> None:
        self._dumped = dumped
        self._saved = saved
        self._names = names

    def __getitem__(self, op: str) -> Array:
        return self._dumped[op] if op in self._dumped else self._saved[self._names[op]]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._dumped, **self._names})

    def __len__(self) -> int:
        return len({**self._dumped, **self._names})
