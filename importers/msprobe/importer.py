"""Read runs of PyTorch and MindSpore recorded by msprobe, as graphs of their calls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from graphstore.errors import ImportFormatError, InputError
from graphstore.model import ModelGraph
from importers.contract import Confidence, Detection
from importers.msprobe.files import CONSTRUCT, DUMP, STACK, kind_of, load_run, runs_in

if TYPE_CHECKING:
    from importers.dumps.tree import Leaf

_NO = Detection(Confidence.NO, "")
_SHOWN = 8


class MsprobeImporter:
    """Importer of ``dump.json`` with the ``construct.json`` and ``stack.json`` beside it."""

    name = "msprobe"
    reads = "msprobe dump.json or its folder"
    options: Mapping[str, str] = {
        "step": "the number of the step, where a folder holds several",
        "rank": "the number of the rank, where a folder holds several",
    }

    def detect(self, path: Path, head: bytes) -> Detection:
        """By the first keys; a folder by the ``dump.json`` in or below it."""
        if not head:
            runs = runs_in(path) if path.is_dir() else []
            if not runs:
                return _NO
            folders = "1 folder" if len(runs) == 1 else f"{len(runs)} folders"
            return Detection(Confidence.SURE, f"{folders} with a {DUMP}")
        kind = kind_of(head)
        if kind == DUMP:
            return Detection(Confidence.SURE, "JSON with a task, a level and the data of calls")
        if kind == CONSTRUCT:
            return Detection(Confidence.SURE, "JSON that says which call ran in which")
        if kind == STACK:
            return Detection(Confidence.MAYBE, "JSON with the stacks of calls")
        return _NO

    def read(self, path: Path) -> ModelGraph:
        """The run that *path*, a file or a folder, belongs to."""
        return self.read_with(path, {})

    def read_with(self, path: Path, options: Mapping[str, str]) -> ModelGraph:
        """The run that *path* belongs to; ``step`` and ``rank`` choose among several."""
        from importers.msprobe.graph import run_graph

        if path.is_dir():
            path = _chosen(path, options) / DUMP
        return run_graph(load_run(path))


def _chosen(folder: Path, options: Mapping[str, str]) -> Path:
    from importers.dumps.tree import leaf_of  # readers of dumps load protobuf

    runs = runs_in(folder)
    fitting = [run for run in runs if _fits(leaf_of(folder, run), options)]
    if len(fitting) == 1:
        return fitting[0]
    names = [str(run.relative_to(folder)) for run in fitting or runs]
    listed = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    if not runs:
        raise ImportFormatError(folder, f"no {DUMP} in this folder")
    if not fitting:
        wanted = ", ".join(f"{key} {value}" for key, value in options.items())
        raise InputError(f"no run of {wanted} here", where=str(folder), hint=f"there are {listed}")
    raise InputError(
        f"{len(fitting)} runs are in this folder", where=str(folder), hint=f"give one of {listed}"
    )


def _fits(run: Leaf, options: Mapping[str, str]) -> bool:
    levels = {"step": run.step, "rank": run.device}
    return all(levels[key] == value for key, value in options.items())
