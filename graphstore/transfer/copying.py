"""Copy runs and graphs from one store to another, without loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby

from graphstore.contract import GraphInfo, GraphStore, RunData
from graphstore.errors import NameTakenError, UnknownNameError
from graphstore.model import ModelGraph, Run
from graphstore.schema import codec
from graphstore.transfer.memory import copy_memory
from graphstore.transfer.portable import content_hash, graph_lines, run_lines


class Done(StrEnum):
    """What became of an entry that was to be kept in a store."""

    ADDED = "added"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"
    """It was there already, with the same content."""


@dataclass(frozen=True, slots=True)
class CopiedEntry:
    """An entry of a store: a ``run`` or ``graph`` (*kind*), its name, what was done."""

    kind: str
    name: str
    done: Done


@dataclass(frozen=True)
class StoreListing:
    """The runs and graphs of a store by name, oldest first."""

    runs: dict[str, Run]
    graphs: dict[str, GraphInfo]

    @classmethod
    def of(cls, store: GraphStore) -> StoreListing:
        """Those of *store*, as they are now."""
        return cls(
            {run.name: run for run in store.runs()}, {info.name: info for info in store.graphs()}
        )

    def names(self) -> list[str]:
        """All names, those of graphs first."""
        return [*self.graphs, *self.runs]


def copy_entry(
    source: GraphStore,
    target: GraphStore,
    name: str,
    *,
    new_name: str | None = None,
    replace_it: bool = False,
) -> CopiedEntry:
    """Copy one run or graph, visible in *target* in one step or not at all.

    Times and content stay. What is there already with the same name and content is left.

    Raises:
        UnknownNameError: *source* has no such run or graph.
        NameTakenError: *target* has something else of that name, and not *replace_it*.
    """
    new_name = name if new_name is None else new_name
    listing = StoreListing.of(source)
    if name in listing.graphs:
        created = listing.graphs[name].created
        return keep_graph(target, source.graph(name), new_name, created, replace_it=replace_it)
    data = source.run_data(name)
    data = replace(data, run=replace(data.run, name=new_name))
    copied = keep_run(target, data, replace_it=replace_it)
    copy_memory(source, target, {name: new_name})
    return copied


def copy_entries(
    source: GraphStore, target: GraphStore, names: list[str], *, replace_it: bool = False
) -> Iterator[CopiedEntry]:
    """Copy several, one after the other; that all are there is looked at first."""
    there = StoreListing.of(source)
    names_there = there.names()
    for name in names:
        if name not in names_there:
            source.graph(name)  # says what is near
            raise UnknownNameError("run or graph", name)

    def graphs(name: str) -> tuple[str, str] | None:
        return (run.golden, run.device) if (run := there.runs.get(name)) else None

    names_before = StoreListing.of(target).names()
    for of_graphs, group in groupby(names, graphs):
        for are_free, some in groupby(group, lambda name: name not in names_before):
            alike = list(some)
            if of_graphs is not None and are_free and len(alike) > 1:
                yield from keep_new_runs(target, map(source.run_data, alike))
                copy_memory(source, target, {name: name for name in alike})
            else:
                for name in alike:
                    yield copy_entry(source, target, name, replace_it=replace_it)


def keep_graph(
    store: GraphStore, graph: ModelGraph, name: str, created: str, *, replace_it: bool
) -> CopiedEntry:
    """Save a graph with the time it was made, unless it is there already."""
    before = StoreListing.of(store).graphs.get(name)
    if before is not None and same_graph(store, name, content_hash(graph_lines(graph))):
        return CopiedEntry("graph", name, Done.UNCHANGED)
    store.save_graph(graph, name, replace=replace_it, created=created)
    return CopiedEntry("graph", name, Done.ADDED if before is None else Done.REPLACED)


def keep_run(store: GraphStore, data: RunData, *, replace_it: bool) -> CopiedEntry:
    """Save a run, unless it is there already."""
    name = data.run.name
    before = StoreListing.of(store)
    if name in before.runs and same_run(store, data):
        return CopiedEntry("run", name, Done.UNCHANGED)
    try:
        store.save_run(data, replace=replace_it)
    except NameTakenError:
        if name in StoreListing.of(store).runs and same_run(store, data):
            return CopiedEntry("run", name, Done.UNCHANGED)  # another process was faster
        raise
    return CopiedEntry("run", name, Done.REPLACED if name in before.runs else Done.ADDED)


def keep_new_runs(store: GraphStore, runs: Iterable[RunData]) -> Iterator[CopiedEntry]:
    """Save runs of names that are free, together: the store may keep their graphs once.

    Raises:
        NameTakenError: a name was taken meanwhile; the others are there.
    """
    names: list[str] = []

    def named() -> Iterator[RunData]:
        for data in runs:
            names.append(data.run.name)
            yield data

    saved = store.save_runs(named())
    for name in names:
        if name not in saved:
            yield CopiedEntry("run", name, Done.ADDED)
    for name in saved:
        raise NameTakenError.by("run", name, or_replace=True)


def same_graph(store: GraphStore, name: str, content: str) -> bool:
    """True if the graph *name* of *store* has this :func:`content_hash`."""
    return content_hash(graph_lines(store.graph(name))) == content


def same_run(store: GraphStore, data: RunData) -> bool:
    """True if the run of *store* with the name of *data* is *data*."""
    if codec.text_of(store.run(data.run.name)) != codec.text_of(data.run):
        return False
    return whole_run_hash(store.run_data(data.run.name)) == whole_run_hash(data)


def whole_run_hash(data: RunData) -> str:
    """Equal for equal runs with equal graphs; states have no order."""
    data = replace(data, states=dict(sorted(data.states.items())))
    graphs = "".join(content_hash(graph_lines(graph)) for graph in (data.golden, data.device))
    return f"{content_hash(run_lines(data))}{graphs}"
