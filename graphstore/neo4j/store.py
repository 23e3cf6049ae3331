"""The Neo4j store: :class:`Neo4jStore`."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from graphstore import codec
from graphstore.contract import GraphInfo, QueryResult, RunData
from graphstore.cypher_store import CypherStore, Place
from graphstore.entry_names import check_name
from graphstore.errors import NameTakenError, StoreError
from graphstore.model import ModelGraph, Run
from graphstore.neo4j.address import parse_address
from graphstore.neo4j.connection import Connection
from graphstore.neo4j.credentials import Password, find_credentials
from graphstore.queries import Dialect, NamedQuery, load
from graphstore.query_limits import NO_LIMITS, QueryLimits
from graphstore.records import (
    Records,
    StoredGraph,
    graph_info,
    graph_records,
    plain_text,
    run_records,
    stored_graph,
)
from graphstore.schema import NODES, PENDING, RELS, SCHEMA_VERSION, neo4j_ddl

_ANY = Place("", "", "")


def _utc_now() -> datetime:
    return datetime.now(UTC)


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
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        super().__init__()
        self.url = f"{url}/{database}" if database else url
        self._wire = Connection(url, user, password, database, source)
        self._read_only = read_only
        self._now = now
        self._checked = False
        self._has_schema = False

    @classmethod
    def from_url(cls, url: str, *, read_only: bool = False) -> Neo4jStore:
        """The store at ``neo4j://host[:port][/database]``.

        User and password are found as :mod:`graphstore.neo4j.credentials` says.

        Raises:
            InputError: a wrong URL, or there is no password for it.
        """
        address = parse_address(url)
        found = find_credentials(address)
        return cls(
            address.server,
            found.user,
            found.password,
            address.database or found.database,
            source=found.source,
            read_only=read_only,
        )

    def save_graph(
        self,
        graph: ModelGraph,
        name: str,
        *,
        replace: bool = False,
        created: str | None = None,
    ) -> GraphInfo:
        """Keep *graph* under *name*; visible in one step or not at all."""
        self._check_free("graph", name, replace)
        created = created or self._now().isoformat(timespec="microseconds")
        info = graph_info(graph, name, created)
        old = self._lookup("import_place", name)
        stored = self._write_graph(graph)
        give_name = "MERGE (i:Import {id: $name}) SET i.name = $name, i.graph = $graph, "
        give_name += "i.created = $created"
        values = {"name": name, "graph": stored.key, "created": info.created}
        self._wire.write([_show("Graph", stored.key), (give_name, values)])
        if old is not None and old.device != stored.key:
            self._drop_unused_graph(old.device)
        return info

    def save_run(self, data: RunData, *, replace: bool = False) -> None:
        """Keep a run under ``data.run.name``; visible in one step or not at all."""
        name = data.run.name
        self._check_free("run", name, replace)
        old = self._lookup("run_place", name)
        golden = self._write_graph(data.golden)
        device = self._write_graph(data.device)
        key = plain_text(name)
        if self._rows(_ANY, "run_key_taken", {"key": key}):
            key = f"{key}~{secrets.token_hex(4)}"
        self._write_records(run_records(data, golden, device, key), "CREATE")
        steps = [_show("Graph", golden.key), _show("Graph", device.key)]
        if old is not None and old.run is not None:
            steps.append(_hide("Run", old.run))
        stamp = (
            "MATCH (r:Run {id: $key}) SET r.stamp = $stamp",
            {"key": key, "stamp": secrets.token_hex(8)},
        )
        self._wire.write([*steps, _show("Run", key), stamp])
        if old is not None:
            self._drop_run(old)

    def runs(self) -> list[Run]:
        """All runs, oldest first."""
        rows = self._rows(_ANY, "run_texts", {})
        found = [codec.run_value(row["run"]) for row in rows]
        return sorted(found, key=lambda run: (run.created, run.name))

    def graphs(self) -> list[GraphInfo]:
        """All imported graphs (not those inside runs), oldest first."""
        found = []
        for row in self._rows(_ANY, "imports", {}):
            identity = f"{row.pop('graph_name')}@{row.pop('sha256')[:12]}"
            found.append(GraphInfo(id=identity, **row))
        return sorted(found, key=lambda info: (info.created, info.name))

    def _query(
        self, cypher: str, values: Mapping[str, object], limits: QueryLimits, target: str | None
    ) -> QueryResult:
        self._check_version()
        return self._wire.read(
            cypher,
            values,
            limit=limits.limit,
            timeout=limits.timeout,
            cancellation=limits.cancellation,
        )

    def _plan(
        self, cypher: str, values: Mapping[str, object], limits: QueryLimits, target: str | None
    ) -> str:
        self._check_version()
        return self._wire.plan(cypher, values)

    def delete(self, name: str) -> None:
        """Remove a run or imported graph."""
        self._check_writable()
        place = self._place(name)
        if place.run is not None:
            self._wire.write([_hide("Run", place.run)])
            self._drop_run(place)
        else:
            self._wire.write([("MATCH (i:Import {id: $name}) DELETE i", {"name": name})])
            self._drop_unused_graph(place.device)

    def close(self) -> None:
        """Close all connections; the store is not used afterwards."""
        self._wire.close()

    def _names(self) -> list[str]:
        return [run.name for run in self.runs()] + [info.name for info in self.graphs()]

    def _place(self, target: str) -> Place:
        place = self._lookup("run_place", target) or self._lookup("import_place", target)
        if place is None:
            raise self._unknown_target("run or graph", target)
        return place

    def _lookup(self, query: str, name: str) -> Place | None:
        rows = self._rows(_ANY, query, {"name": plain_text(name)})
        return Place(name, **rows[0]) if rows else None

    def _ask(
        self,
        place: Place,
        query: NamedQuery,
        params: Mapping[str, object],
        limits: QueryLimits = NO_LIMITS,
    ) -> QueryResult:
        self._check_version()
        return self._wire.read(
            query.text,
            params,
            limit=limits.limit,
            timeout=limits.timeout,
            cancellation=limits.cancellation,
        )

    def _check_version(self) -> None:
        if self._checked:
            return
        answer = self._wire.read(load("store_version", self.dialect).text, {})
        for (version,) in answer.rows:
            if not isinstance(version, int) or version > SCHEMA_VERSION:
                raise StoreError(
                    f"the store has schema version {version}, this program knows {SCHEMA_VERSION}",
                    where=self.url,
                    hint="install a newer divergraph",
                )
        self._checked = True

    def _check_writable(self) -> None:
        if self._read_only:
            raise StoreError("the store is opened for reading only", where=self.url)

    def _check_free(self, kind: str, name: str, replace: bool) -> None:
        self._check_writable()
        check_name(name)
        self._check_version()
        self._make_schema()
        for what, query in (("run", "run_place"), ("graph", "import_place")):
            if self._lookup(query, name) is None:
                continue
            if what != kind:
                raise NameTakenError(f"there is a {what} named {name!r} already", hint=_OTHER)
            if not replace:
                hint = f"use --replace to write over it, or {_OTHER.removeprefix('use ')}"
                raise NameTakenError(f"there is a {what} named {name!r} already", hint=hint)

    def _make_schema(self) -> None:
        if self._has_schema:
            return
        for statement in neo4j_ddl():
            self._wire.write_alone(statement, {})
        mark = "MERGE (s:Store {id: 'divergraph'}) SET s.schema = $version"
        self._wire.write([(mark, {"version": SCHEMA_VERSION})])
        self._has_schema = True

    def _write_graph(self, graph: ModelGraph) -> StoredGraph:
        rows = self._rows(_ANY, "graph_contents", {"id": plain_text(graph.id)})
        taken = {row["id"]: row["content"] for row in rows}
        stored = stored_graph(graph, taken)
        shown = {row["id"] for row in rows if row["shown"]}
        if stored.key not in shown:
            # what a writer that died left under this key is completed
            self._write_records(graph_records(stored), "MERGE" if stored.key in taken else "CREATE")
        return stored

    def _write_records(self, records: Records, verb: str) -> None:
        """Write rows; Graph and Run nodes get their pending label.

        With MERGE as *verb*, rows may be there already; CREATE is twice as fast.
        """
        for node in NODES:
            label = _pending(node.label)
            names = [column.name for column in node.columns]
            node_verb = "MERGE" if node.label == "Model" else verb
            self._wire.write_rows(
                f"UNWIND $rows AS row {node_verb} (n:{label} {{id: row.id}}) SET n += row",
                _dicts(names, records.nodes.get(node.label, ())),
            )
        for rel in RELS:
            key = ", ".join(f"`{name}`: row.`{name}`" for name in rel.key)
            names = ["_from", "_to", *(column.name for column in rel.columns)]
            rest = [column.name for column in rel.columns if column.name not in rel.key]
            sets = ", ".join(f"r.`{name}` = row.`{name}`" for name in rest)
            self._wire.write_rows(
                f"UNWIND $rows AS row MATCH (a:{_pending(rel.source)} {{id: row._from}}), "
                f"(b:{rel.target} {{id: row._to}}) "
                f"{verb} (a)-[r:{rel.type} {{{key}}}]->(b)" + (f" SET {sets}" if sets else ""),
                _dicts(names, records.rels.get(rel.type, ())),
            )

    def _drop_run(self, place: Place) -> None:
        """Delete the rows of a hidden run, and its graphs if nothing else uses them."""
        for pattern in (
            "(x:Metric {run: $key})",
            "()-[x:FUSES {run: $key}]->()",
            "()-[x:NEXT_MEASURED {run: $key}]->()",
            f"(x:{PENDING}Run {{id: $key}})",
        ):
            self._delete_all(pattern, place.run)
        for key in {place.golden, place.device}:
            if key is not None:
                self._drop_unused_graph(key)

    def _drop_unused_graph(self, key: str) -> None:
        if self._rows(_ANY, "graph_users", {"key": key}):
            return
        self._wire.write([_hide("Graph", key)])
        self._delete_all("(o:Op {graph: $key}), (x:Tensor {op: o.id})", key)
        self._delete_all("(x:Op {graph: $key})", key)
        self._delete_all(f"(x:{PENDING}Graph {{id: $key}})", key)

    def _delete_all(self, pattern: str, key: str | None) -> None:
        """Delete all ``x`` of *pattern* in batches."""
        detach = "DELETE" if "-[x" in pattern else "DETACH DELETE"
        self._wire.write_alone(
            f"MATCH {pattern} CALL (x) {{ {detach} x }} IN TRANSACTIONS OF 5000 ROWS",
            {"key": key},
        )


_OTHER = "use another name"


def _pending(label: str) -> str:
    return f"{PENDING}{label}" if label in ("Graph", "Run") else label


def _show(label: str, key: str) -> tuple[str, Mapping[str, object]]:
    pending = f"{PENDING}{label}"
    return f"MATCH (n:{pending} {{id: $key}}) REMOVE n:{pending} SET n:{label}", {"key": key}


def _hide(label: str, key: str) -> tuple[str, Mapping[str, object]]:
    pending = f"{PENDING}{label}"
    return f"MATCH (n:{label} {{id: $key}}) REMOVE n:{label} SET n:{pending}", {"key": key}


def _dicts(names: Sequence[str], rows: Iterable[Sequence[object]]) -> list[Mapping[str, object]]:
    return [dict(zip(names, row, strict=True)) for row in rows]
