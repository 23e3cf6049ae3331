"""The embedded store: :class:`EmbeddedStore`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphstore.cancellation import Cancellation
from graphstore.contract import GraphInfo, QueryParameters, QueryResult, StoreInfo
from graphstore.cypher.arrow_columns import values_of
from graphstore.cypher.limits import NO_LIMITS, QueryLimits, cut
from graphstore.cypher.parsed_query import tables_named
from graphstore.cypher.queries import NamedQuery
from graphstore.cypher.returned_names import returned_names
from graphstore.cypher.targets import LoadedGraph, TargetKeys
from graphstore.cypher.traversals import longest_path
from graphstore.embedded.engine import engine_name, give_back
from graphstore.embedded.entry_facts import entry_info, entry_place, entry_run, what
from graphstore.embedded.folders import Entry
from graphstore.embedded.keeping import KeepingStore
from graphstore.embedded.outline_files import keep, kept
from graphstore.embedded.query_process import QueryProcesses
from graphstore.embedded.refused import (
    MAX_HOPS,
    check_aggregates,
    check_hops,
    check_kinds,
    check_lists,
    check_patterns,
    hop_notes,
)
from graphstore.embedded.repairs import (
    damaged_entries,
    disk_space,
    incomplete,
    leftovers,
    readable_entries,
    remove_leftovers,
    renew,
    set_damaged_aside,
    written_by_others,
)
from graphstore.embedded.run_listing import ListedRun, listed_runs
from graphstore.embedded.spelling import for_engine
from graphstore.embedded.table_answers import answer, plain
from graphstore.errors import InputError, UnknownNameError
from graphstore.model import Origin, Run
from graphstore.schema import codec

_LOOKS = 20
"""So often the entries are listed anew while others delete some of them."""


class EmbeddedStore(KeepingStore):
    """A store in the folder *root*, made at the first write.

    A run or graph is one immutable folder of tables; any number of processes may read and
    write the store at once. With *read_only*, writing raises StoreError.
    """

    def runs(self) -> list[Run]:
        """All runs, oldest first."""
        runs = [listed.run for listed in self._listed()]
        return sorted(runs, key=lambda run: (run.created, run.name))

    def _listed(self) -> list[ListedRun]:
        return listed_runs(self._folder, may_write=not self._read_only)

    def graphs(self) -> list[GraphInfo]:
        """All imported graphs (not those inside runs), oldest first."""
        graphs = [entry_info(entry) for entry in self._folder.entries("graphs")]
        return sorted(graphs, key=lambda info: (info.created, info.name))

    def run(self, name: str) -> Run:
        """One run."""
        entry = self._entry(name)
        if entry is None or entry.kind != "runs":
            raise self._unknown_target("run", name)
        return entry_run(entry)

    def origins_of(self, runs: Sequence[str]) -> dict[str, list[Origin]]:
        """The origins of some runs, by run: a question for each database, not for each run."""
        wanted = set(runs)
        together: dict[str, dict[str, str]] = {}
        for listed in self._listed():
            if listed.shared is not None and listed.run.name in wanted:
                together.setdefault(listed.shared, {})[listed.key] = listed.run.name
        origins: dict[str, list[Origin]] = {}
        for names in together.values():
            place = self._run_place(next(iter(names.values())))
            for row in self._rows(place, "origins_of_all", {}):
                if row["run"] in names:
                    origins[names[row["run"]]] = codec.records_of(Origin, row["origins"])
        # the others have databases of their own, or were replaced meanwhile
        return {run: origins[run] if run in origins else self.origins(run) for run in runs}

    def _query(
        self, cypher: str, values: Mapping[str, object], limits: QueryLimits, target: str | None
    ) -> QueryResult:
        answer = self._database_of(target, cypher).ask(for_engine(cypher), values, limits)
        return dataclasses.replace(
            answer,
            columns=returned_names(cypher, answer.columns),
            notes=hop_notes(cypher, lambda: self._graph_depths(target)),
        )

    def _plan(
        self, cypher: str, values: Mapping[str, object], limits: QueryLimits, target: str | None
    ) -> str:
        answer = self._database_of(target).ask(
            for_engine(cypher), values, limits, "EXPLAIN LOGICAL "
        )
        return "\n".join(str(value) for row in answer.rows for value in row).rstrip()

    def _database_of(self, target: str | None, cypher: str = "") -> QueryProcesses:
        only = tables_named(cypher) if cypher else None
        for looks_left in reversed(range(_LOOKS)):
            if target is not None:
                entries = [self._known(target)]
            else:
                entries = self._folder.entries("runs") + self._folder.entries("graphs")
            if not entries:
                raise InputError(
                    "there is nothing to query yet",
                    where=self.url,
                    hint="make a run with compare, or import a graph",
                )
            try:
                return self._databases.of(entries, only)
            except UnknownNameError:
                # Another process deleted or replaced one between the listing and the look.
                if not looks_left:
                    raise
        raise AssertionError("the last look returns or raises")

    def _graph_depths(self, target: str | None) -> Iterator[tuple[str, int]]:
        """Names of the graphs a query on *target* sees, each with its most hops."""
        for name in self._names() if target is None else [target]:
            try:
                place = self._place(name)
            except UnknownNameError:
                if target is not None:
                    raise
                continue  # deleted since it was listed
            for row in self._rows(place, "graph_sizes", {}):
                key, content, ops = row["graph"], row["content"], row["ops"]
                if ops <= MAX_HOPS:
                    continue
                arrays = self._arrays_of(place, key, content)
                yield key, longest_path(arrays)

    def info(self) -> StoreInfo:
        """What the store is and holds."""
        there = self._folder.check()
        damaged = damaged_entries(self._folder, again=False)
        doubtful = {trouble.path for trouble in damaged}
        entries = [e for e in readable_entries(self._folder) if e.folder not in doubtful]
        return StoreInfo(
            url=self.url,
            engine=engine_name(),
            schema=self._folder.version() if there else None,
            runs=sum(entry.kind == "runs" for entry in entries),
            graphs=sum(entry.kind == "graphs" for entry in entries),
            ops=sum(self._op_counts(entries).values()),
            bytes=disk_space(self._folder.root) if there else 0,
            pending=tuple(item.text for item in leftovers(self._folder, self._views)),
            damaged=tuple(trouble.text for trouble in damaged),
            other_engines=tuple(written_by_others(entries)),
            views=tuple([f"{engine}: {n}" for engine, n in self._views.engines().items()]),
        )

    def repair(self, *, set_aside: bool = False) -> tuple[str, ...]:
        """Remove what writers that died left; a sentence for each thing done."""
        self._check_allowed()
        aside = set_damaged_aside(self._folder) if set_aside else []
        entries = readable_entries(self._folder)
        anew = list(renew(self._folder, entries, self._views))
        return (*anew, *remove_leftovers(self._folder, self._views), *aside)

    def check(self) -> tuple[str, ...]:
        """Read everything and say what is damaged; a text for each entry."""
        damaged = [trouble.text for trouble in damaged_entries(self._folder, again=True)]
        lost = [
            f"the {what(entry)} {entry.name!r}: {reason}; `divergraph store repair` writes it anew"
            for entries, reason in incomplete(readable_entries(self._folder))
            for entry in entries
        ]
        return (*damaged, *lost)

    def rest(self) -> None:
        """Let go of the engine's buffers; what is asked next opens its file in a millisecond."""
        self._databases.rest()
        give_back()

    def close(self) -> None:
        """Release all files; the store is not used afterwards."""
        self._databases.close()

    def _names(self) -> list[str]:
        return [entry.name for kind in ("runs", "graphs") for entry in self._folder.entries(kind)]

    def _place(self, target: str) -> TargetKeys:
        return entry_place(self._known(target))

    def _read_loaded(self, place: TargetKeys, key: str, content: str) -> LoadedGraph:
        home = self._known(place.name).home
        loaded = kept(home, content)
        if loaded is None:
            loaded = super()._read_loaded(place, key, content)
            if not self._read_only:
                keep(self._folder.root, home, content, len(loaded.index.ids), lambda: loaded)
        return loaded

    def _ask(
        self,
        place: TargetKeys,
        query: NamedQuery,
        params: Mapping[str, object],
        limits: QueryLimits = NO_LIMITS,
    ) -> QueryResult:
        entry = self._known(place.name)
        table = self._from_tables(entry, query, params, limits)
        if table is not None:
            columns = map(values_of, table.columns)
            rows = tuple(zip(*columns, strict=True))
            return cut(QueryResult(tuple(table.column_names), rows), limits.limit)
        return self._database_of(place.name).ask(query.text, params, limits)

    def _ask_table(self, place: TargetKeys, query: NamedQuery, params: Mapping[str, object]) -> Any:
        table = self._from_tables(self._known(place.name), query, params)
        return super()._ask_table(place, query, params) if table is None else table

    def _from_tables(
        self,
        entry: Entry,
        query: NamedQuery,
        params: Mapping[str, object],
        limits: QueryLimits = NO_LIMITS,
    ) -> Any:
        """The answer of a plain query as an Arrow table; None of one for the engine, as is what
        shows a name that the tables do not say."""
        clauses = plain(query.text)
        if clauses is None or _says_name(query):
            return None
        stopped = limits.cancellation or Cancellation()
        return self._databases.answer(
            entry, lambda reader: answer(clauses, reader, params, stopped.check)
        )

    def _checked_query(
        self, cypher: str, parameters: QueryParameters, target: str | None
    ) -> dict[str, object]:
        check_hops(cypher)
        check_aggregates(cypher)
        check_patterns(cypher)
        values = super()._checked_query(cypher, parameters, target)
        check_lists(cypher, values)
        check_kinds(values)
        return values

    def _op_counts(self, entries: list[Entry]) -> dict[str, int]:
        """The number of ops by content hash: a graph that several entries have counts once."""
        counts: dict[str, int] = {}
        for entry in entries:
            for graph in (entry.manifest["device"], entry.manifest.get("golden")):
                if graph is not None and graph["content"] not in counts:
                    counts[graph["content"]] = graph["ops"]
        return counts


def _says_name(query: NamedQuery) -> bool:
    """True if a query shows names to users. The stores' own ask for keys, so that a renamed entry
    is asked as it is; others need a copy that says the new name."""
    return not query.internal and re.search(r":\s*(Run|Import)\b", query.text) is not None
