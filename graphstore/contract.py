"""What every store can do. Front ends and analysis know only this.

Stores answer look-ups, joins and Cypher; long traversals run on
:class:`graphstore.traverse.arrays.GraphArrays` loaded from the store, the same on every store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphstore.errors import NameTakenError
from graphstore.model import (
    Baseline,
    Comparison,
    Finding,
    LineageLink,
    ModelGraph,
    Note,
    Op,
    OpState,
    Origin,
    Run,
    RunStanding,
    Side,
    TensorRef,
)

if TYPE_CHECKING:
    from graphstore.cancellation import Cancellation
    from graphstore.columns.link_columns import LinkColumns
    from graphstore.columns.listed_ops import GraphColumns, ListedOps
    from graphstore.columns.op_figures import OpFigures
    from graphstore.traverse.arrays import GraphArrays


@dataclass(frozen=True, slots=True)
class RunData:
    """Everything a finished comparison writes, in one step.

    ``comparisons`` holds one or more values for each device op; ``states`` the state of
    each device op by id; ``origins`` are in rank order, ``suspects`` too: ops over the
    lower limit of suspicion that are not guilty.
    """

    run: Run
    golden: ModelGraph
    device: ModelGraph
    links: tuple[LineageLink, ...]
    comparisons: tuple[Comparison, ...]
    states: Mapping[str, OpState]
    origins: tuple[Origin, ...]
    suspects: tuple[Origin, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphInfo:
    """A stored graph as ``runs`` lists it; ``name`` is what the user calls it.

    ``edges`` are the file's own, data and control; calls into bodies follow from them.
    """

    name: str
    id: str
    kind: str
    framework: str
    format: str
    ops: int
    edges: int
    subgraphs: int
    fused_ops: int
    created: str
    source: str


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Rows of a query. ``truncated`` is set if the row limit cut it.

    ``notes`` are sentences on what the rows may lack otherwise, such as an engine's limit.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    truncated: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryParameters:
    """Limits of one query: ``limit`` rows, ``timeout`` seconds.

    ``cancellation`` stops it from another thread; the query then raises CancelledError.
    """

    values: Mapping[str, object] = field(default_factory=dict)
    limit: int = 1000
    timeout: float = 30.0
    cancellation: Cancellation | None = None


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a store is and holds, as ``store info`` shows it.

    ``engine`` is the database and its version; ``schema`` None for a store nothing was
    written to yet. ``ops`` counts those of all graphs, ``bytes`` the disk space (None if
    the server does not say). ``pending`` has a text for each thing a writer that died
    left behind; ``repair`` clears them. ``damaged`` has one for each entry that cannot
    be read; those are not counted. ``other_engines`` has one for each entry that another
    version of the engine wrote, ``views`` one for each engine that made databases of tables.
    """

    url: str
    engine: str
    schema: int | None
    runs: int
    graphs: int
    ops: int
    bytes: int | None
    pending: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    other_engines: tuple[str, ...] = ()
    views: tuple[str, ...] = ()


class GraphStore(ABC):
    """A place that keeps graphs and runs.

    *target* names a run or an imported graph; *side* picks the graph of a run and is
    ignored for an imported graph. Unknown names raise
    :class:`graphstore.errors.UnknownNameError`. Results are deterministic: ops in
    ``topo`` order, runs by creation time, links and comparisons in saved order.
    """

    url: str

    @abstractmethod
    def save_graph(
        self,
        graph: ModelGraph,
        name: str,
        *,
        replace: bool = False,
        created: str | None = None,
    ) -> GraphInfo:
        """Keep *graph* under *name*; visible in one step or not at all.

        A graph that is there under this name with the same content stays as it is, and
        its info is returned. *created* is the time of a copy's original, ISO 8601 in
        UTC; now, if it is None.

        Raises:
            NameTakenError: *name* is in use for something else, and not *replace* or a run.
        """

    @abstractmethod
    def save_run(self, data: RunData, *, replace: bool = False) -> None:
        """Keep a run under ``data.run.name``; visible in one step or not at all."""

    def save_runs(self, runs: Iterable[RunData], *, replace: bool = False) -> tuple[str, ...]:
        """Keep *runs* as they come, each visible in one step or not at all.

        Equal to saving one after the other, but a store may keep what runs of the same graphs
        share once, and show them when all have come. Returns the names of those not kept, as
        there was something of that name.
        """
        names = []
        for data in runs:
            try:
                self.save_run(data, replace=replace)
            except NameTakenError:
                names.append(data.run.name)
        return tuple(names)

    @abstractmethod
    def runs(self) -> list[Run]:
        """All runs, oldest first."""

    @abstractmethod
    def graphs(self) -> list[GraphInfo]:
        """All imported graphs (not those inside runs), oldest first."""

    @abstractmethod
    def run(self, name: str) -> Run:
        """One run."""

    @abstractmethod
    def graph(self, target: str, side: Side = Side.DEVICE) -> ModelGraph:
        """A whole graph, equal to the one saved."""

    @abstractmethod
    def graph_columns(self, target: str, side: Side = Side.DEVICE) -> GraphColumns:
        """A graph without its ops, and of all of these names, types and edges; read from what
        :meth:`arrays` keeps."""

    @abstractmethod
    def ops(self, target: str, ids: Sequence[str], side: Side = Side.DEVICE) -> dict[str, Op]:
        """The ops with these ids that there are, equal to those saved, by id."""

    @abstractmethod
    def listed_ops(
        self, target: str, side: Side = Side.DEVICE, numbers: range | None = None
    ) -> Iterator[ListedOps]:
        """All ops, or those of these *numbers*, in topo order as columns, slice by slice, read as
        they are taken; one empty slice if there are none."""

    @abstractmethod
    def op_figures(self, run: str) -> OpFigures:
        """The states of all device ops, and the numbers that a graph shows, as columns."""

    @abstractmethod
    def makers(self, target: str, tensor: str, side: Side = Side.DEVICE) -> list[TensorRef]:
        """The outputs of ops that are called *tensor*, in topo order."""

    @abstractmethod
    def comparisons(self, run: str, ops: Sequence[str] | None = None) -> list[Comparison]:
        """The comparisons of a run, all or those of the device ops with these ids."""

    @abstractmethod
    def states(self, run: str) -> dict[str, OpState]:
        """The state of every device op of a run, by op id, in topo order."""

    @abstractmethod
    def origins(self, run: str) -> list[Origin]:
        """The origins of a run in rank order."""

    def origins_of(self, runs: Sequence[str]) -> dict[str, list[Origin]]:
        """Those of some runs, by run; of runs that are kept together all at once."""
        return {run: self.origins(run) for run in runs}

    @abstractmethod
    def suspects(self, run: str) -> list[Origin]:
        """The ops of a run over the lower limit of suspicion, not guilty, in rank order."""

    @abstractmethod
    def findings(self, run: str) -> list[Finding]:
        """What was found in a run, in saved order."""

    @abstractmethod
    def links(self, run: str, op: str | None = None, side: Side = Side.DEVICE) -> list[LineageLink]:
        """Lineage links, all or those of one device (or golden) op."""

    @abstractmethod
    def link_columns(self, run: str) -> LinkColumns:
        """All lineage links as columns, by the numbers of the ops in the graphs' arrays."""

    @abstractmethod
    def arrays(self, target: str, side: Side = Side.DEVICE) -> GraphArrays:
        """The graph as arrays for traversal; cached by content."""

    @abstractmethod
    def named(
        self,
        query: str,
        target: str,
        params: Mapping[str, object],
        *,
        limit: int | None = None,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> QueryResult:
        """The answer of a named query of ``graphstore/cypher/queries`` on *target*.

        At most *limit* rows are fetched, in *timeout* seconds; None: all, in any time.
        """

    @abstractmethod
    def query(
        self, cypher: str, parameters: QueryParameters, target: str | None = None
    ) -> QueryResult:
        """The answer of the user's own Cypher, read-only; on one target or all."""

    @abstractmethod
    def explain(self, cypher: str, parameters: QueryParameters, target: str | None = None) -> str:
        """How the store would answer a query of :meth:`query`: its plan, as text."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a run or imported graph."""

    @abstractmethod
    def rename(self, name: str, new_name: str) -> None:
        """Give a run or imported graph another name, in one step.

        Raises:
            NameTakenError: *new_name* is in use.
        """

    @abstractmethod
    def run_data(self, name: str) -> RunData:
        """Everything of a run, equal to what was saved."""

    @abstractmethod
    def notes(self, model: str | None = None) -> list[Note]:
        """All notes, or those on one model, oldest first."""

    @abstractmethod
    def keep_note(self, note: Note) -> None:
        """Keep *note*, in place of an earlier one of its id.

        Raises:
            InputError: it says nothing, or too much.
        """

    @abstractmethod
    def delete_note(self, note: str) -> None:
        """Remove the note of this id.

        Raises:
            UnknownNameError: there is none.
        """

    @abstractmethod
    def baselines(self) -> list[Baseline]:
        """The baselines, one a model, by model. Deleting its run deletes one; renaming does
        not."""

    @abstractmethod
    def keep_baseline(self, baseline: Baseline) -> None:
        """Let other runs of the model be held against this one."""

    @abstractmethod
    def drop_baseline(self, model: str) -> None:
        """Let the model have no baseline.

        Raises:
            UnknownNameError: it has none.
        """

    @abstractmethod
    def standings(self) -> list[RunStanding]:
        """What was kept of how runs stand against baselines; runs never change, so it is true as
        long as both are there."""

    @abstractmethod
    def keep_standings(self, model: str, standings: Sequence[RunStanding]) -> None:
        """Keep how the runs of a model stand, in place of what was kept of it, if the store may be
        written: it can be reckoned again."""

    @abstractmethod
    def info(self) -> StoreInfo:
        """What the store is and holds."""

    @abstractmethod
    def repair(self, *, set_aside: bool = False) -> tuple[str, ...]:
        """Remove what writers that died left; a sentence for each thing done.

        What a writer that still lives is writing stays untouched. With *set_aside*, an
        embedded store also moves entries that cannot be read out of the way.
        """

    def check(self) -> tuple[str, ...]:
        """Read everything and say what is damaged; a text for each run or graph.

        A server looks after its own files: then there is nothing to check.
        """
        return ()

    def check_writable(self) -> None:
        """Return if the store can be reached and written, as far as can be told early.

        Raises:
            StoreError: it cannot be; better said before long work than after it.
        """
        self.graphs()

    def rest(self) -> None:  # noqa: B027 - a server's memory is its own
        """Let go of memory that no question needs at present."""

    @abstractmethod
    def close(self) -> None:
        """Release files and connections; the store is not used afterwards."""

    def __enter__(self) -> GraphStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
