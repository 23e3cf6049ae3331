"""Read a graph and keep it: what ``import`` does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from divergraph.pipeline.sources import GraphSource, load_graph
from graphstore.contract import GraphInfo, GraphStore
from graphstore.errors import InputError


def import_into(
    store: GraphStore,
    path: Path,
    *,
    name: str | None = None,
    replace_it: bool = False,
    options: Mapping[str, str] | None = None,
) -> tuple[GraphInfo, GraphSource]:
    """Keep the graph of *path* under *name* (default: its own name, made unique).

    The same graph again under its own name is kept once. *options* go to the importer of the
    file's format.

    Raises:
        InputError: *path* is no graph, or the given name is taken.
        StoreError: the store cannot be written.
    """
    source = load_graph(path, options=options)
    wanted = name or _safe(source.graph.name)
    graphs = {info.name: info for info in store.graphs()}
    known = graphs.get(wanted)
    if known is not None and known.id == source.graph.id:
        return known, source
    taken = {*graphs, *(run.name for run in store.runs())}
    if name is None:
        return store.save_graph(source.graph, _unique(wanted, taken)), source
    if wanted in taken and not (replace_it and known is not None):
        raise InputError(
            f"the name {wanted!r} is taken", hint="choose another --name, or --replace a graph"
        )
    return store.save_graph(source.graph, wanted, replace=replace_it), source


def _safe(name: str) -> str:
    kept = "".join(char if char.isalnum() or char in "._-+@" else "_" for char in name)
    return kept.strip(".") or "graph"


def _unique(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    return f"{name}-{number}"
