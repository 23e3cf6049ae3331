"""A graph, of a file or of the store, written in the format of another tool."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from divergraph.files.whole_files import check_place, whole_file
from divergraph.graph_formats.side import ShownGraph
from graphstore.errors import ImportFormatError, InputError
from graphstore.model import ModelGraph, Side

if TYPE_CHECKING:
    from graphstore.contract import GraphStore


class GraphFormat(StrEnum):
    """What a graph is written as."""

    JSON = "json"
    """The JSON that ``atc --mode=1`` makes of an offline model, ``--mode=5`` of a text."""
    GE_PROTO = "ge_proto"
    ONNX_JSON = "onnx-json"
    DOT = "dot"
    GRAPHML = "graphml"
    MODEL_EXPLORER = "model-explorer"


_ENDINGS = {
    GraphFormat.JSON: ".json",
    GraphFormat.GE_PROTO: ".txt",
    GraphFormat.ONNX_JSON: ".onnx.json",
    GraphFormat.DOT: ".dot",
    GraphFormat.GRAPHML: ".graphml",
    GraphFormat.MODEL_EXPLORER: ".model_explorer.json",
}
_OF_GE = (GraphFormat.JSON, GraphFormat.GE_PROTO)
_NODE_DATA = ".node_data.json"
_KEPT_OUT = "kernels and tasks were left out: they stay in the offline model"


@dataclass(frozen=True, slots=True)
class GraphConverted:
    """The files written, how many ops the graph has, and what could not be kept."""

    written: tuple[Path, ...]
    ops: int
    notes: tuple[str, ...] = ()


def convert_file(path: Path, form: GraphFormat, out: Path) -> GraphConverted:
    """Write the graph in the file (or folder) *path* as *form*.

    *out* is the file to write, or a folder, in which it is named after the graph's file.
    From one form of GE to another every field is kept; other graphs come as the importer
    reads them.

    Raises:
        ImportFormatError: *path* is no graph, or damaged.
        InputError: *out* cannot be written.
    """
    from divergraph.graph_formats.ge_sources import READERS
    from importers.registry import detect, read_graph

    target = _target(out, path.stem or path.resolve().name or "graph", form)
    graph = read_graph(path)  # the importer finds what is wrong, and says where
    kinds = [importer.name for importer, _ in detect(path)]
    if form in _OF_GE and kinds and kinds[0] in READERS and kinds[0] == _read_by(graph):
        from divergraph.graph_formats.ge_writers import write_json, write_text

        model = READERS[kinds[0]](path)
        offline = kinds[0] == "om"
        with _opened(target) as file:
            if form is GraphFormat.JSON:
                write_json(model, file, offline=offline)
            else:
                write_text(model, file)
        return GraphConverted((target,), len(graph.ops), (_KEPT_OUT,) if offline else ())
    return _write(ShownGraph(graph, graph.name), form, target)


def convert_stored(
    store: GraphStore, name: str, form: GraphFormat, out: Path, side: Side = Side.DEVICE
) -> GraphConverted:
    """Write the run or imported graph *name* as *form*; of a run the graph of *side*.

    Raises:
        UnknownNameError: no such run or graph.
        InputError: *out* cannot be written.
    """
    from divergraph.ask.facts import op_rows

    target = _target(out, name, form)
    graph = store.graph(name, side)
    rows = {row.id: row for row in op_rows(store, name, side)}
    return _write(ShownGraph(graph, name, rows), form, target)


def _read_by(graph: ModelGraph) -> str:
    return {"ge_proto": "ge_proto_text"}.get(graph.format, graph.format)


def _target(out: Path, name: str, form: GraphFormat) -> Path:
    try:
        is_folder = out.is_dir()
    except (OSError, ValueError) as error:
        raise InputError(f"not a usable path: {error}", where=str(out)) from error
    if not is_folder:
        check_place(out)
        return out
    safe = "".join(char if char.isprintable() and char not in "/\\" else "_" for char in name)
    prefix = "" if form is not GraphFormat.GE_PROTO or safe.startswith("ge_proto_") else "ge_proto_"
    target = out / f"{prefix}{safe[:80]}{_ENDINGS[form]}"
    check_place(target)
    return target


def _write(graph: ShownGraph, form: GraphFormat, target: Path) -> GraphConverted:
    count = len(graph.graph.ops)
    if form in _OF_GE:
        from divergraph.graph_formats.ge_from_graph import to_ge
        from divergraph.graph_formats.ge_writers import write_json, write_text

        model, notes = to_ge(graph.graph)
        with _opened(target) as file:
            if form is GraphFormat.JSON:
                write_json(model, file, offline=False)
            else:
                write_text(model, file)
        return GraphConverted((target,), count, tuple(notes))
    if form is GraphFormat.MODEL_EXPLORER:
        return GraphConverted(tuple(_model_explorer(graph, target)), count)
    if form is GraphFormat.GRAPHML:
        from divergraph.graph_formats.graphml import write_graphml

        with whole_file(target) as part:
            write_graphml(graph, part)
    else:
        with _opened(target) as file:
            _plain_writer(form)(graph, file)
    return GraphConverted((target,), count)


def _plain_writer(form: GraphFormat) -> Callable[[ShownGraph, TextIO], None]:
    if form is GraphFormat.DOT:
        from divergraph.graph_formats.dot import write_dot

        return write_dot
    from divergraph.graph_formats.onnx_json import onnx_document

    return lambda graph, file: _dump(onnx_document(graph.graph), file)


def _model_explorer(graph: ShownGraph, target: Path) -> Iterator[Path]:
    from divergraph.graph_formats.model_explorer import collection, node_data

    with _opened(target) as file:
        _dump(collection(graph), file)
    yield target
    stem = target.name.removesuffix(".json").removesuffix(".model_explorer")
    for metric, data in node_data(graph).items():
        path = target.with_name(f"{stem}.{metric}{_NODE_DATA}")
        with _opened(path) as file:
            _dump(data, file)
        yield path


def _dump(content: Any, file: TextIO) -> None:
    for piece in json.JSONEncoder(indent=1, ensure_ascii=False, allow_nan=False).iterencode(
        content
    ):
        file.write(piece)
    file.write("\n")


@contextmanager
def _opened(target: Path) -> Iterator[TextIO]:
    """The text file *target*, which appears whole at the end or not at all."""
    with (
        whole_file(target) as part,
        part.open("w", encoding="utf-8", errors="backslashreplace") as file,
    ):
        yield file


def reads_as_graph(path: Path) -> bool:
    """True if *path* is a graph some importer reads."""
    from importers.registry import detect

    try:
        return bool(detect(path))
    except ImportFormatError:
        return False


def output_place(text: str) -> Path:
    """The path *text*; with a slash at its end it is a folder, and made if it is missing.

    Raises:
        InputError: it cannot be made.
    """
    path = Path(text)
    if not text.endswith(("/", os.sep)):
        return path
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"the folder cannot be made: {why}", where=str(path)) from error
    return path
