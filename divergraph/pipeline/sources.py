"""Turn the user's paths into graphs and indexed dumps, saying what was chosen and why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from graphstore.errors import InputError
from graphstore.model import Framework, ModelGraph
from importers import choose_graph, read_graph
from importers.dumps import DumpIndex, find_dump_folder, model_names, scan_dumps


@dataclass(frozen=True, slots=True)
class GraphSource:
    """A graph as read, and in ``notes`` how it was chosen where there was a choice."""

    graph: ModelGraph
    path: Path
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DumpSource:
    """The dumps of one side, resolved against that side's graph."""

    index: DumpIndex
    path: Path
    notes: tuple[str, ...] = ()


def load_graph(path: Path, dump_dir: Path | None = None) -> GraphSource:
    """Read a graph file, or the right graph of a folder of ``ge_proto_*`` files.

    Raises:
        InputError: the path is missing, unreadable or no graph.
    """
    if path.is_dir() and not (path / "saved_model.pb").is_file():
        names = model_names(dump_dir) if dump_dir is not None and dump_dir.is_dir() else []
        choice = choose_graph(path, names)
        note = f"device graph {choice.path.name}: {choice.reason}"
        return GraphSource(read_graph(choice.path), choice.path, (note,))
    return GraphSource(read_graph(path), path)


def _below(root: Path, path: Path) -> str:
    return str(path.relative_to(root)) if path != root and path.is_relative_to(root) else path.name


def load_dumps(path: Path, graph: ModelGraph, side: str) -> DumpSource:
    """Find and index the dumps of *graph* under *path*.

    Raises:
        InputError: no such folder, or no file in it belongs to the graph.
    """
    if not path.exists():
        raise InputError("no such folder", where=str(path), hint=f"check --{side}-dump")
    if not path.is_dir():
        raise InputError(
            "a dump is a folder of files, this is a file",
            where=str(path),
            hint=f"give the folder to --{side}-dump",
        )
    notes: tuple[str, ...] = ()
    folder = path
    if graph.framework is Framework.ASCEND:
        found = find_dump_folder(path, graph.name)
        folder, notes = found.path, (f"{side} dump {_below(path, found.path)}: {found.reason}",)
    index = scan_dumps(folder, graph)
    if not index.tensors and not index.problems:
        raise InputError(
            f"none of the {index.files} files here belongs to an op of {graph.name!r}",
            where=str(folder),
            hint="is this the dump of that graph? docs/dumps.md says how names are matched",
        )
    return DumpSource(index, folder, notes)
