"""A store of runs and graphs, opened by path or URL."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from divergraph.api.arguments import AnyPath, side_of
from divergraph.api.asking import Asking
from divergraph.api.graph import Graph
from divergraph.api.rows import Rows
from divergraph.api.runs.compared_run import ComparedRun
from divergraph.text.printable import printable
from divergraph.text.words import counted
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphInfo, GraphStore, QueryParameters, QueryResult, StoreInfo
from graphstore.cypher.queries import is_name
from graphstore.cypher.user_question import CypherQuestion
from graphstore.errors import InputError
from graphstore.model import Baseline, Note, RunStanding, Side
from graphstore.model import Run as RunRecord

if TYPE_CHECKING:
    import networkx

    from divergraph.ask.questions.compare_runs import RunChanges
    from divergraph.ask.questions.recurring import RecurringAnswer
    from divergraph.inputs.import_graph import Imported
    from graphstore.transfer.backup import BackupEntry
    from graphstore.transfer.copying import CopiedEntry


class Store(Asking):
    """Runs and imported graphs by name; close it, or use ``with``.

    >>> import divergraph as dg
    >>> with dg.open_store("runs") as store:
    ...     run = dg.demo(store)
    ...     print(list(store), store["demo"].verdict.value)
    ['demo'] diverged
    """

    def __init__(self, contents: GraphStore) -> None:
        self._contents = contents

    @property
    def url(self) -> str:
        """Where it is."""
        return self._contents.url

    def run(self, name: str) -> ComparedRun:
        """The run *name*; the same as ``store[name]``.

        Raises:
            UnknownNameError: there is none; ``near`` has close names.
        """
        self._contents.run(name)  # says at once if there is none of this name
        return ComparedRun(name, store=self._contents)

    def __getitem__(self, name: str) -> ComparedRun:
        return self.run(name)

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __iter__(self) -> Iterator[str]:
        """The names of the runs, oldest first."""
        return (run.name for run in self._contents.runs())

    def __len__(self) -> int:
        return len(self._contents.runs())

    def graph(self, name: str) -> Graph:
        """The imported graph *name*.

        Raises:
            UnknownNameError: there is none.
        """
        return Graph(self._contents.graph(name), name, self._contents)

    def runs(self) -> Rows[RunRecord]:
        """The records of all runs, oldest first."""
        return Rows(RunRecord, self._contents.runs())

    def graphs(self) -> Rows[GraphInfo]:
        """The imported graphs, oldest first."""
        return Rows(GraphInfo, self._contents.graphs())

    def import_graph(
        self,
        path: AnyPath,
        name: str | None = None,
        *,
        replace: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> Imported:
        """Read a graph file, whatever its format, and keep it under *name* or its own.

        *options* go to the format's importer, such as ``weights`` of a Caffe net.

        Raises:
            InputError: it is no graph, or the name is taken.
        """
        from divergraph.inputs.import_graph import import_into

        return import_into(
            self._contents, Path(path), name=name, replace_it=replace, options=options
        )

    def compare_runs(self, old: str, new: str, *, times: float = 2.0) -> RunChanges:
        """What changed from one run to another, op by op; changes below a factor *times* are
        ignored."""
        changes: RunChanges = self.ask("compare-runs", old=old, new=new, times=times)
        return changes

    def recurring(self) -> RecurringAnswer:
        """What is guilty in several runs."""
        answer: RecurringAnswer = self.ask("recurring")
        return answer

    def query(
        self,
        cypher: str,
        run: str | None = None,
        *,
        limit: int = 1000,
        timeout: float = 30.0,
        **values: Any,
    ) -> QueryResult:
        """The rows of a read-only Cypher query, or of one with a name, about one *run* or graph or
        the whole store: at most *limit* rows, within *timeout* seconds. *values* are the values of
        its ``$parameters``.

        Raises:
            QueryError: the text is wrong, not allowed, or took too long.
            UnknownNameError: no query has this name.
        """
        if is_name(cypher):
            parameters = {name: json.dumps(value) for name, value in values.items()}
            question = CypherQuestion(cypher, run, parameters, limit, timeout)
            return question.answer(self._contents, Cancellation())
        return self._contents.query(cypher, QueryParameters(values, limit, timeout), run)

    def delete(self, name: str) -> None:
        """Remove a run or imported graph."""
        self._contents.delete(name)

    def notes(self, run: str | None = None, op: str | None = None) -> Rows[Note]:
        """All notes, those on the model of a *run*, or on one of its ops, oldest first."""
        from divergraph.ask.memory.notes import list_notes

        return Rows(Note, list_notes(self._contents, run, op))

    def add_note(
        self, run: str, op: str, text: str, *, output: int | None = None, bookmark: bool = False
    ) -> Note:
        """Note something on a golden *op* of the model of *run*, or the device *op* made of it.

        Raises:
            UnknownNameError: no such run or op.
            InputError: the op stands for no golden op; the note says nothing.
        """
        from divergraph.ask.memory.authors import author_name
        from divergraph.ask.memory.notes import add_note

        author = author_name()
        return add_note(self._contents, run, op, text, author, output=output, bookmark=bookmark)

    def edit_note(self, note: str, text: str) -> Note:
        """Let the note of this id say *text*."""
        from divergraph.ask.memory.notes import edit_note

        return edit_note(self._contents, note, text)

    def delete_note(self, note: str) -> None:
        """Remove the note of this id."""
        self._contents.delete_note(note)

    def baselines(self) -> Rows[Baseline]:
        """The runs others are held against, one a model."""
        return Rows(Baseline, self._contents.baselines())

    def set_baseline(self, run: str) -> Baseline:
        """Let other runs of the model of *run* be held against it."""
        from divergraph.ask.memory.authors import author_name
        from divergraph.ask.memory.baselines import set_baseline

        return set_baseline(self._contents, run, author_name())

    def drop_baseline(self, run: str) -> Baseline:
        """Let the model of *run* have no baseline; returns the one it had."""
        from divergraph.ask.memory.baselines import drop_baseline

        return drop_baseline(self._contents, run)

    def standings(self) -> Rows[RunStanding]:
        """How runs stand against the baseline of their model, oldest run first."""
        from divergraph.ask.memory.baselines import standings

        return Rows(RunStanding, list(standings(self._contents, self._contents.runs()).values()))

    def rename(self, name: str, new_name: str) -> None:
        """Give a run or imported graph another name.

        Raises:
            NameTakenError: the new name is in use.
        """
        self._contents.rename(name, new_name)

    def copy(
        self, to: AnyStore, names: Sequence[str] = (), *, replace: bool = False
    ) -> tuple[CopiedEntry, ...]:
        """Copy runs and graphs, all or those named, to another store."""
        from graphstore.transfer.copying import StoreListing, copy_entries

        wanted = list(dict.fromkeys(names)) or StoreListing.of(self._contents).names()
        target = opened_for_keeping(to)
        return tuple(copy_entries(self._contents, target, wanted, replace_it=replace))

    def backup(self, path: AnyPath, names: Sequence[str] = ()) -> tuple[BackupEntry, ...]:
        """Write runs and graphs, all or those named, to one portable file."""
        from divergraph.files.whole_files import whole_file
        from graphstore.transfer.backup import write_backup

        with whole_file(Path(path), "backup") as place, place.open("wb") as archive:
            return tuple(write_backup(self._contents, archive, tuple(names)))

    def restore(
        self, path: AnyPath, names: Sequence[str] = (), *, replace: bool = False
    ) -> tuple[CopiedEntry, ...]:
        """Read what :meth:`backup` wrote, all of it or what is named."""
        from graphstore.transfer.restore import open_backup, restore

        with open_backup(Path(path)) as backup:
            self._contents.check_writable()
            return tuple(restore(backup, self._contents, tuple(names), replace_it=replace))

    def info(self) -> StoreInfo:
        """What the store is, what it holds, and what is wrong with it."""
        return self._contents.info()

    def repair(self, *, set_aside: bool = False) -> tuple[str, ...]:
        """Remove what killed processes left behind; returns a sentence for each thing done."""
        return self._contents.repair(set_aside=set_aside)

    def close(self) -> None:
        """Release files and connections; runs opened from it cannot be asked any more."""
        self._contents.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _asked(self) -> GraphStore:
        return self._contents

    def __repr__(self) -> str:
        return f"<Store {self.url!r}: {counted(len(self), 'run')}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(printable(self.url))}</p>{self.runs()._repr_html_()}"


AnyStore: TypeAlias = Store | GraphStore | AnyPath
"""An open store, or the folder or URL of one."""


def open_store(place: AnyPath, *, read_only: bool = False) -> Store:
    """The store at *place*: a folder, or ``neo4j://host[:port][/database]``.

    A folder need not exist: it is made at the first write.

    Raises:
        InputError: the URL is not of a known kind.
        StoreError: the store cannot be opened.

    >>> import divergraph as dg
    >>> store = dg.open_store("empty")
    >>> store
    <Store 'empty': 0 runs>
    >>> store.close()
    """
    return Store(_opened(place, read_only=read_only))


def to_networkx(
    source: ComparedRun | Graph | Store | GraphStore,
    name: str | None = None,
    side: Side | str = "device",
) -> networkx.MultiDiGraph[str]:
    """One *side* of a run, a graph, or what a store has under *name*, as a networkx graph.

    Nodes are op ids with name, type, topo, dtype, fused, originals and, of a run, state, level,
    role, guilt and numbers where they are known and finite; edges have kind (data, control, call),
    source_port, target_port and tensor.

    Raises:
        UnknownNameError: the store has no such run or graph.
        InputError: a store without a name.
    """
    if isinstance(source, ComparedRun):
        return source.to_networkx(side)
    if isinstance(source, Graph):
        return source.to_networkx()
    if name is None:
        raise InputError("a store holds many graphs", hint="give the name of one")
    from divergraph.present.networkx_graph import to_networkx as shown

    return shown(opened_for_keeping(source), name, side_of(side))


def opened_for_keeping(place: AnyStore) -> GraphStore:
    """The store to write to.

    Raises:
        InputError: the URL is not of a known kind.
        StoreError: the store cannot be opened.
    """
    if isinstance(place, GraphStore):
        return place
    return place._contents if isinstance(place, Store) else _opened(place)


def _opened(place: AnyPath, *, read_only: bool = False) -> GraphStore:
    from graphstore.open_store import open_store as opened

    return opened(place if isinstance(place, str) else Path(place), read_only=read_only)
