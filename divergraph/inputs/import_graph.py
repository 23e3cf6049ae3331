"""Read a graph and keep it: what ``import`` does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from divergraph.inputs.sources import GraphSource, load_graph
from graphstore.contract import GraphInfo, GraphStore
from graphstore.entry_names import check_new_name
from graphstore.errors import InputError, NameTakenError
from graphstore.model import ModelGraph


class Imported(NamedTuple):
    """A kept graph: as the store lists it, as it was read, and if it was there already."""

    info: GraphInfo
    source: GraphSource
    unchanged: bool


def import_into(
    store: GraphStore,
    path: Path,
    *,
    name: str | None = None,
    replace_it: bool = False,
    options: Mapping[str, str] | None = None,
) -> Imported:
    """Keep the graph of *path* under *name* (default: its own name, made unique).

    A graph that is there under this name with the same content stays as it is, wherever its
    file lies now. *options* go to the importer of the
    file's format.

    Raises:
        InputError: *path* is no graph, or the given name is taken.
        StoreError: the store cannot be written.
    """
    store.check_writable()
    if name is not None:
        check_new_name(name)
    source = load_graph(path, options=options)
    wanted = name or _safe(source.graph.name)
    graphs = {info.name: info for info in store.graphs()}
    for stored_info in graphs.values():
        is_wanted = stored_info.name == wanted or (
            name is None and _is_numbered(stored_info.name, wanted)
        )
        if (
            is_wanted
            and stored_info.id == source.graph.id
            and _is_there(store, stored_info, source.graph)
        ):
            return Imported(stored_info, source, unchanged=True)
    names = {*graphs, *(run.name for run in store.runs())}
    if name is None:
        info = store.save_graph(source.graph, _unique(wanted, names))
        return Imported(info, source, unchanged=False)
    if wanted in names and not (replace_it and wanted in graphs):
        raise InputError(
            f"the name {wanted!r} is taken", hint="choose another --name, or --replace a graph"
        )
    info = store.save_graph(source.graph, wanted, replace=replace_it)
    return Imported(info, source, unchanged=info == graphs.get(wanted))


def _is_there(store: GraphStore, info: GraphInfo, graph: ModelGraph) -> bool:
    """True if the stored graph *info* is *graph*, read perhaps from another place."""
    graph = replace(graph, source=info.source)
    try:
        return store.save_graph(graph, info.name) == info
    except NameTakenError:
        return False


def _safe(name: str) -> str:
    allowed = "".join(char if char.isalnum() or char in "._-+@" else "_" for char in name)
    return allowed.strip(".") or "graph"


def _is_numbered(name: str, base: str) -> bool:
    """True if *name* is one that :func:`_unique` made of *base*."""
    return re.fullmatch(rf"{re.escape(base)}-\d+", name) is not None


def _unique(name: str, names: set[str]) -> str:
    if name not in names:
        return name
    number = 2
    while f"{name}-{number}" in names:
        number += 1
    return f"{name}-{number}"
