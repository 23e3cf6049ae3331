"""Copy runs and graphs from one store to another, without loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby

from graphstore.contract import GraphInfo, GraphStore, RunData
from graphstore.embedded import EmbeddedStore
from graphstore.errors import NameTakenError, UnknownNameError
from graphstore.model import Baseline, Note, Run
from graphstore.schema import codec
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

    def kind(self, name: str) -> str | None:
        """``run`` or ``graph``; None if there is neither."""
        return "run" if name in self.runs else "graph" if name in self.graphs else None


def copy_entry(
    source: GraphStore,
    target: GraphStore,
    name: str,
    *,
    new_name: str | None = None,
    replace_it: bool = False,
) -> CopiedEntry:
    """Copy one run or graph, under another name if there is a *new_name*; as
    :func:`copy_entries`."""
    (copied,) = _copies(source, target, {name: new_name or name}, replace_it=replace_it)
    return copied


def copy_entries(
    source: GraphStore, target: GraphStore, names: Iterable[str], *, replace_it: bool = False
) -> Iterator[CopiedEntry]:
    """Copy several, each visible in *target* in one step or not at all.

    Times and content stay, and notes and baselines of the models of runs go along. What is there
    already with the same name and content is left, so a copy that was stopped can be repeated.

    Raises:
        UnknownNameError: *source* has no such run or graph; then nothing was written.
        NameTakenError: *target* has something else of a name, and not *replace_it*; then nothing
            was written, unless another process took the name meanwhile.
    """
    return _copies(source, target, {name: name for name in names}, replace_it=replace_it)


def _copies(
    source: GraphStore, target: GraphStore, names: Mapping[str, str], *, replace_it: bool
) -> Iterator[CopiedEntry]:
    listing, there = StoreListing.of(source), StoreListing.of(target)
    for name in names:
        if listing.kind(name) is None:
            source.graph(name)  # says what is near
            raise UnknownNameError("run or graph", name)
    unchanged = {
        name
        for name, new_name in names.items()
        if listing.kind(name) == there.kind(new_name) and _same(source, name, target, new_name)
    }
    others = {name: new_name for name, new_name in names.items() if name not in unchanged}
    _check_free(listing, there, others, replace_it)

    def group(name: str) -> tuple[str, ...]:
        """Equal for new runs of the same graphs, which a store may keep once."""
        is_new_run = name in listing.runs and there.kind(names[name]) is None
        run = listing.runs.get(name)
        return (run.golden, run.device) if run is not None and is_new_run else (name,)

    for _, alike in groupby(names, group):
        some = {name: names[name] for name in alike}
        is_unchanged = some.keys() <= unchanged
        if not is_unchanged:
            _copy(source, target, some, listing, replace_it=replace_it)
        for name, new_name in some.items():
            done = Done.REPLACED if there.kind(new_name) else Done.ADDED
            kind = str(listing.kind(name))
            yield CopiedEntry(kind, new_name, Done.UNCHANGED if is_unchanged else done)
    runs = {name: names[name] for name in names if name in listing.runs}
    if runs:
        keep_memory(target, source.notes(), source.baselines(), runs)


def _copy(
    source: GraphStore,
    target: GraphStore,
    names: Mapping[str, str],
    listing: StoreListing,
    *,
    replace_it: bool,
) -> None:
    """Write one entry, or new runs of the same graphs."""
    try:
        taken = _written(source, target, names, listing, replace_it=replace_it)
    except NameTakenError:
        if len(names) > 1:
            raise
        taken = tuple(names.values())
    for name, new_name in names.items():
        # another process may have been faster, with the same
        if new_name in taken and not _same(source, name, target, new_name):
            raise NameTakenError.by(str(listing.kind(name)), new_name, or_replace=True)


def _written(
    source: GraphStore,
    target: GraphStore,
    names: Mapping[str, str],
    listing: StoreListing,
    *,
    replace_it: bool,
) -> tuple[str, ...]:
    """The names that were taken meanwhile."""
    if isinstance(source, EmbeddedStore) and isinstance(target, EmbeddedStore):
        return target.take(source, names, replace=replace_it)
    name, new_name = next(iter(names.items()))
    if name in listing.graphs:
        created = listing.graphs[name].created
        target.save_graph(source.graph(name), new_name, replace=replace_it, created=created)
        return ()
    runs = (_renamed(source.run_data(name), new_name) for name, new_name in names.items())
    if len(names) > 1:
        return target.save_runs(runs)
    target.save_run(next(runs), replace=replace_it)
    return ()


def _check_free(
    listing: StoreListing, there: StoreListing, names: Mapping[str, str], replace_it: bool
) -> None:
    in_use = []
    for name, new_name in names.items():
        kind, kind_there = listing.kind(name), there.kind(new_name)
        if kind_there is not None and kind_there != kind:
            raise NameTakenError(
                f"there is a {kind_there} named {new_name!r} already, and the {kind} cannot take "
                "its place; nothing was written",
                hint="rename or delete it first",
            )
        if kind_there is not None:
            in_use.append(repr(new_name))
    if in_use and not replace_it:
        more = f" and {len(in_use) - 5} more" if len(in_use) > 5 else ""
        raise NameTakenError(
            f"the store has something else named {', '.join(in_use[:5])}{more}; nothing was "
            "written",
            hint="use --replace to write over it, or other names",
        )


def _same(source: GraphStore, name: str, target: GraphStore, new_name: str) -> bool:
    """True if both stores say the same, of two runs or of two graphs."""
    if (
        isinstance(source, EmbeddedStore)
        and isinstance(target, EmbeddedStore)
        and source.sums(name) == target.sums(new_name)
    ):
        return True
    runs = StoreListing.of(source).runs
    if name not in runs:
        one, other = source.graph(name), target.graph(new_name)
        return content_hash(graph_lines(one)) == content_hash(graph_lines(other))
    if codec.text_of(replace(runs[name], name=new_name)) != codec.text_of(target.run(new_name)):
        return False
    data = _renamed(source.run_data(name), new_name)
    return whole_run_hash(data) == whole_run_hash(target.run_data(new_name))


def _renamed(data: RunData, name: str) -> RunData:
    return replace(data, run=replace(data.run, name=name))


def whole_run_hash(data: RunData) -> str:
    """Equal for equal runs with equal graphs; states have no order."""
    data = replace(data, states=dict(sorted(data.states.items())))
    graphs = "".join(content_hash(graph_lines(graph)) for graph in (data.golden, data.device))
    return f"{content_hash(run_lines(data))}{graphs}"


def keep_memory(
    store: GraphStore, notes: Iterable[Note], baselines: Iterable[Baseline], runs: Mapping[str, str]
) -> None:
    """Keep in *store* what is said of the models of *runs*: (name in the source, name here).

    Of two versions of a note the one written last stays; a baseline that is there stays, too.
    """
    models = {run.name: run.golden for run in store.runs()}
    there = {new: models[new] for new in runs.values() if new in models}
    notes_there = {note.id: note for note in store.notes()}
    for note in notes:
        before = notes_there.get(note.id)
        newer = before is None or before.changed < note.changed
        if note.model in there.values() and newer:
            store.keep_note(note)
    models_before = {baseline.model for baseline in store.baselines()}
    for baseline in baselines:
        new = runs.get(baseline.run)
        if new in there and baseline.model not in models_before:
            store.keep_baseline(replace(baseline, run=new))
