"""The Neo4j store: :class:`Neo4jStore`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from graphstore.contract import GraphInfo, QueryResult, RunData, StoreInfo
from graphstore.cypher.limits import NO_LIMITS, QueryLimits
from graphstore.cypher.queries import Dialect, NamedQuery, load
from graphstore.cypher.statements import load_statements
from graphstore.cypher.store import CypherStore, utc_now
from graphstore.cypher.targets import TargetKeys
from graphstore.entry_names import check_new_name
from graphstore.errors import StoreError
from graphstore.model import ModelGraph, Run
from graphstore.neo4j import writing
from graphstore.neo4j.address import parse_address
from graphstore.neo4j.browser_view import paint, wash
from graphstore.neo4j.connection import Connection
from graphstore.neo4j.credentials import find_credentials
from graphstore.neo4j.passwords import Password
from graphstore.neo4j.pending import left_behind
from graphstore.neo4j.server_schema import make_schema, schema_version
from graphstore.schema import codec
from graphstore.schema.codec import plain_text
from graphstore.schema.stored_graph import StoredGraph
from graphstore.schema.tables import SCHEMA_VERSION

_MEMORY = load_statements("memory.neo4j")
_ANY = TargetKeys("", "", "")
_OLDER = (
    "an older divergraph wrote this store: HAS_OP, PRODUCES, INPUT_OF and others are not there "
    "yet; the next write adds them, and so does `divergraph store repair`"
)


class Neo4jStore(CypherStore):
    """A store in one database of a Neo4j server (5.26 or newer).

    Runs and graphs are written in batches under a pending label that no named query
    sees, and shown in one transaction at the end. A graph that is there already, with
    the same content, is shared.
    """

    dialect = Dialect.NEO4J

    def __init__(
        self,
        url: str,
        user: str,
        password: str | Password,
        database: str | None = None,
        *,
        source: str = "",
        read_only: bool = False,
        patience: float | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__(f"{url}/{database}" if database else url, read_only=read_only, now=now)
        self._wire = Connection(url, user, password, database, source, patience)
        self._checked = self._is_older = False
        self._has_schema = False

    @classmethod
    def from_url(
        cls, url: str, *, read_only: bool = False, patience: float | None = None
    ) -> Neo4jStore:
        """The store at ``neo4j://host[:port][/database]``.

        User and password are found as :mod:`graphstore.neo4j.credentials` says.

        Raises:
            InputError: a wrong URL, or there is no password for it.
        """
        address = parse_address(url)
        credentials = find_credentials(address)
        return cls(
            address.server,
            credentials.user,
            credentials.password,
            address.database or credentials.database,
            source=credentials.source,
            read_only=read_only,
            patience=patience,
        )

    def save_run(self, data: RunData, *, replace: bool = False) -> None:
        """Keep a run under ``data.run.name``; visible in one step or not at all."""
        self._prepare(data.run.name)
        writing.save_run(self._wire, data, replace=replace)

    def runs(self) -> list[Run]:
        """All runs, oldest first."""
        runs = list(map(_run_of, self._rows(_ANY, "run_texts", {})))
        return sorted(runs, key=lambda run: (run.created, run.name))

    def run(self, name: str) -> Run:
        """One run."""
        return _run_of(self._rows(self._run_place(name), "run_text", {})[0])

    def graphs(self) -> list[GraphInfo]:
        """All imported graphs (not those inside runs), oldest first."""
        infos = []
        for row in self._rows(_ANY, "imports", {}):
            identity = f"{row.pop('graph_name')}@{row.pop('sha256')[:12]}"
            infos.append(GraphInfo(id=identity, **row))
        return sorted(infos, key=lambda info: (info.created, info.name))

    def _query(
        self, cypher: str, values: Mapping[str, object], limits: QueryLimits, target: str | None
    ) -> QueryResult:
        self._check_version()
        answer = self._wire.ask(cypher, values, limits)
        return replace(answer, notes=(*answer.notes, _OLDER)) if self._is_older else answer

    def _plan(
        self, cypher: str, values: Mapping[str, object], limits: QueryLimits, target: str | None
    ) -> str:
        self._check_version()
        return self._wire.plan(cypher, values)

    def delete(self, name: str) -> None:
        """Remove a run or imported graph."""
        self._check_allowed()
        self._place(name)
        make_schema(self._wire)
        writing.delete(self._wire, name)
        self._baseline_gone(name)

    def rename(self, name: str, new_name: str) -> None:
        """Give a run or imported graph another name, in one step."""
        self._prepare(new_name)
        self._place(name)
        if name != new_name:
            writing.give_name(self._wire, name, new_name)
            self._baseline_renamed(name, new_name)

    def _remembered(self, kind: str) -> list[str]:
        self._check_version()
        return [str(row[0]) for row in self._wire.read(_MEMORY["all"], {"kind": kind}).rows]

    def _remember(self, kind: str, key: str, text: str) -> None:
        self._check_allowed()
        self._make_schema()
        values = {"id": f"{kind}/{key}", "kind": kind, "text": text}
        self._wire.change(lambda run: run(_MEMORY["keep"], **values), again=True)

    def _forget(self, kind: str, key: str) -> bool:
        self._check_allowed()
        rows = self._wire.change(lambda run: run(_MEMORY["forget"], id=f"{kind}/{key}"))
        return bool(rows and rows[0]["n"])

    def info(self) -> StoreInfo:
        """What the store is and holds; a server does not say how much disk it takes."""
        schema = schema_version(self._wire)
        counts = self._rows(_ANY, "store_counts", {})[0]
        pendings = () if schema is None else self._wire.look(left_behind)
        return StoreInfo(
            url=self.url,
            engine=self._wire.server_agent().replace("/", " "),
            schema=schema,
            **counts,
            bytes=None,
            pending=tuple(item.left for item in pendings),
        )

    def repair(self, *, set_aside: bool = False) -> tuple[str, ...]:
        """Remove what writers that died left; a sentence for each thing done."""
        self._check_allowed()
        if schema_version(self._wire) is None:
            return ()
        make_schema(self._wire)
        return writing.repair(self._wire)

    def paint(self, name: str) -> int:
        """Show the run *name*, and no other, to Neo4j Browser; how many ops got a colour.

        Raises:
            UnknownNameError: there is no such run.
        """
        self._check_allowed()
        place = self._lookup("run_place", name)
        if place is None:
            raise self._unknown_target("run", name)
        return paint(self._wire, place)

    def wash(self) -> None:
        """Take away what :meth:`paint` added."""
        self._check_allowed()
        wash(self._wire)

    def close(self) -> None:
        """Close all connections; the store is not used afterwards."""
        self._wire.close()

    def _names(self) -> list[str]:
        return [run.name for run in self.runs()] + [info.name for info in self.graphs()]

    def _place(self, target: str) -> TargetKeys:
        place = self._lookup("run_place", target) or self._lookup("import_place", target)
        if place is None:
            raise self._unknown_target("run or graph", target)
        return place

    def _lookup(self, query: str, name: str) -> TargetKeys | None:
        rows = self._rows(_ANY, query, {"name": plain_text(name)})
        return TargetKeys(name, **rows[0]) if rows else None

    def _ask(
        self,
        place: TargetKeys,
        query: NamedQuery,
        params: Mapping[str, object],
        limits: QueryLimits = NO_LIMITS,
    ) -> QueryResult:
        self._check_version()
        answer = self._wire.read(query.text, params, limits)
        if place is not _ANY:
            # A transaction sees single rows vanish that another deletes; looked at afterwards,
            # a target that is still shown was whole all the time.
            self._check_there(place)
        return answer

    def _check_there(self, place: TargetKeys) -> None:
        """Return if *place* is still shown, so that what was just read of it is whole.

        Raises:
            StoreError: somebody replaced or deleted it meanwhile.
        """
        keys = {"run": place.run, "graph": place.device}
        if not self._wire.read(load("still_there", self.dialect).text, keys).rows:
            raise StoreError(
                f"{place.name!r} was replaced or deleted while it was read",
                where=self.url,
                hint="do it again",
                retryable=True,
            )

    def _check_version(self) -> None:
        if not self._checked or self._is_older:
            self._is_older = schema_version(self._wire) not in (None, SCHEMA_VERSION)
            self._checked = True

    def check_writable(self) -> None:
        """Return if the server is reached and its database may be written."""
        self._check_allowed()
        self.graphs()
        self._wire.check_writable()

    def _prepare(self, name: str) -> None:
        """Make sure *name* can be written under."""
        self._check_allowed()
        check_new_name(name)
        self._make_schema()

    def _make_schema(self) -> None:
        if not self._has_schema:
            make_schema(self._wire)
            self._has_schema = True

    def _numbered(self, graph: ModelGraph) -> StoredGraph:
        return writing.stored(self._wire, graph)

    def _write_graph(self, stored: StoredGraph, info: GraphInfo, *, replace: bool) -> None:
        writing.save_graph(self._wire, stored, info.name, info.created, replace=replace)

    def _same_graph(self, name: str, stored: StoredGraph) -> GraphInfo | None:
        place = self._lookup("import_place", name)
        if place is None or place.content != stored.content:
            return None
        return next((info for info in self.graphs() if info.name == name), None)


def _run_of(row: Mapping[str, Any]) -> Run:
    """The run behind its record, under its name of now."""
    return replace(codec.record_of(Run, row["run"]), name=row["name"])
