"""The store of a server of ours, asked over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import quote, urlencode

from graphstore.contract import GraphInfo, QueryResult, RunData, StoreInfo
from graphstore.cypher.limits import NO_LIMITS, QueryLimits
from graphstore.cypher.memory import check_memory
from graphstore.cypher.queries import Dialect, NamedQuery
from graphstore.cypher.store import CypherStore, utc_now
from graphstore.cypher.targets import TargetKeys
from graphstore.errors import StoreError, UnknownNameError
from graphstore.model import Baseline, ModelGraph, Note, Run, TensorIO
from graphstore.remote.connection import ServerConnection
from graphstore.remote.wire import arrays_of_bytes, keys_json, keys_of, rows_of, table_of_bytes
from graphstore.schema import codec
from graphstore.schema.stored_graph import StoredGraph


class RemoteStore(CypherStore):
    """What the server at ``http[s]://host[:port]`` keeps.

    It is read as any store; runs and graphs are renamed and deleted as far as the server lets who
    asks. What writes runs is a job of the server: a comparison here would need its files there.
    """

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        super().__init__(url, read_only=read_only, now=utc_now)
        self._wire = ServerConnection(url)
        self._dialect: Dialect | None = None

    @property
    def dialect(self) -> Dialect:  # type: ignore[override]
        """That of the server's own store, which is asked for it once."""
        if self._dialect is None:
            self._dialect = self._wire.understood(
                self._wire.ask("described"), lambda data: Dialect(json.loads(data)["dialect"])
            )
        return self._dialect

    def runs(self) -> list[Run]:
        """All runs, oldest first."""
        return self._wire.understood(
            self._wire.ask("runs"),
            lambda data: [codec.record_of(Run, text) for text in json.loads(data)["runs"]],
        )

    def graphs(self) -> list[GraphInfo]:
        """All imported graphs (not those inside runs), oldest first."""
        return self._wire.understood(
            self._wire.ask("graphs"),
            lambda data: [GraphInfo(**fields) for fields in json.loads(data)["graphs"]],
        )

    def run(self, name: str) -> Run:
        """One run."""
        run = self._wire.understood(self._wire.ask("run", {"name": name}), _run_of)
        if run is None:
            self._run_place(name)  # which knows what to say of a name that is none
            raise UnknownNameError("run", name)
        return run

    def delete(self, name: str) -> None:
        """Remove a run or imported graph, if the server lets who asks."""
        self._check_allowed()
        self._wire.send("DELETE", self._address(name))

    def rename(self, name: str, new_name: str) -> None:
        """Give a run or imported graph another name, if the server lets who asks."""
        self._check_allowed()
        body = json.dumps({"name": new_name}).encode()
        self._wire.send("PUT", f"{self._address(name)}/name", body)

    def tensor(self, run: str, op: str, io: TensorIO, port: int) -> Mapping[str, Any]:
        """Both sides of a tensor of *run*, as the server reads them: arrays ``device`` and
        ``golden``, and its ``layout``.

        Raises:
            QueryError: there is no such tensor, or its values cannot be read.
            InputError: who asks may not see values.
        """
        query = urlencode({"op": op, io.value: port})
        data = self._wire.send("GET", f"/v1/runs/{quote(run, safe='')}/tensor.npz?{query}")
        return self._wire.understood(data, arrays_of_bytes)

    def info(self) -> StoreInfo:
        """What the server's store is and holds."""

        def info_of(data: bytes) -> StoreInfo:
            info = json.loads(data)
            lists = {name: tuple(value) for name, value in info.items() if isinstance(value, list)}
            return StoreInfo(**{**info, **lists, "url": self.url})

        return self._wire.understood(self._wire.ask("info"), info_of)

    def repair(self, *, set_aside: bool = False) -> tuple[str, ...]:
        """Not from here."""
        self._refuse("repaired")

    def save_run(self, data: RunData, *, replace: bool = False) -> None:
        """Not from here."""
        self._refuse("written")

    def keep_note(self, note: Note) -> None:
        """Keep *note* under the name of who asks, if the server lets them."""
        self._check_allowed()
        check_memory(note)
        self._wire.read("keep-note", {"text": codec.text_of(note)})

    def delete_note(self, note: str) -> None:
        """Remove the note of this id, if the server lets who asks."""
        self._check_allowed()
        if note not in {note.id for note in self.notes()}:
            raise UnknownNameError("note", note)
        self._wire.send("DELETE", f"/v1/notes/{note}")

    def keep_baseline(self, baseline: Baseline) -> None:
        """Let other runs of the model be held against this one, if the server lets who asks."""
        self._check_allowed()
        self._wire.read("keep-baseline", {"text": codec.text_of(baseline)})

    def drop_baseline(self, model: str) -> None:
        """Let the model have no baseline, if the server lets who asks."""
        self._check_allowed()
        if model not in {baseline.model for baseline in self.baselines()}:
            raise UnknownNameError("baseline of the model", model)
        self._wire.read("drop-baseline", {"name": model})

    def check_writable(self) -> None:
        """Raise the error that nothing is written from here."""
        self._refuse("written")

    def close(self) -> None:
        """Close the connection; the store is not used afterwards."""
        self._wire.close()

    def _refuse(self, what: str) -> NoReturn:
        raise StoreError(
            f"a server's store is not {what} from here",
            where=self.url,
            hint="start a job there: its page has a form, POST /v1/jobs the same",
        )

    def _address(self, name: str) -> str:
        kind = "graphs" if self._place(name).run is None else "runs"
        return f"/v1/{kind}/{quote(name, safe='')}"

    def _names(self) -> list[str]:
        return [run.name for run in self.runs()] + [info.name for info in self.graphs()]

    def _place(self, target: str) -> TargetKeys:
        place_keys = self._wire.understood(self._wire.ask("place", {"name": target}), _place_of)
        if place_keys is None:
            raise self._unknown_target("run or graph", target)
        return place_keys

    def _ask(
        self,
        place: TargetKeys,
        query: NamedQuery,
        params: Mapping[str, object],
        limits: QueryLimits = NO_LIMITS,
    ) -> QueryResult:
        question = {
            **_query_request(place, query, params),
            "limit": limits.limit,
            "timeout": limits.timeout,
        }
        return self._wire.understood(self._wire.ask("rows", question, limits.cancellation), rows_of)

    def _ask_table(self, place: TargetKeys, query: NamedQuery, params: Mapping[str, object]) -> Any:
        data = self._wire.ask("table", _query_request(place, query, params))
        return self._wire.understood(data, table_of_bytes)

    def _query(
        self, cypher: str, values: Mapping[str, object], limits: QueryLimits, target: str | None
    ) -> QueryResult:
        question = _own_question(cypher, values, limits, target)
        return self._wire.understood(
            self._wire.ask("query", question, limits.cancellation), rows_of
        )

    def _plan(
        self, cypher: str, values: Mapping[str, object], limits: QueryLimits, target: str | None
    ) -> str:
        question = {**_own_question(cypher, values, limits, target), "limit": 1}  # it has no rows
        data = self._wire.ask("plan", question, limits.cancellation)
        return self._wire.understood(data, lambda read: str(json.loads(read)["plan"]))

    def _remembered(self, kind: str) -> list[str]:
        data = self._wire.ask("remembered", {"kind": kind})
        return self._wire.understood(data, lambda read: list(json.loads(read)["texts"]))

    def _remember(self, kind: str, key: str, text: str) -> None:
        self._refuse("written")

    def _forget(self, kind: str, key: str) -> bool:
        self._refuse("written")

    def _prepare(self, name: str) -> None:
        self._refuse("written")

    def _numbered(self, graph: ModelGraph) -> StoredGraph:
        self._refuse("written")

    def _same_graph(self, name: str, stored: StoredGraph) -> GraphInfo | None:
        self._refuse("written")

    def _write_graph(self, stored: StoredGraph, info: GraphInfo, *, replace: bool) -> None:
        self._refuse("written")


def _run_of(data: bytes) -> Run | None:
    text = json.loads(data)["run"]
    return None if text is None else codec.record_of(Run, text)


def _place_of(data: bytes) -> TargetKeys | None:
    keys = json.loads(data)["place"]
    return None if keys is None else keys_of(keys)


def _query_request(
    place: TargetKeys, query: NamedQuery, params: Mapping[str, object]
) -> dict[str, object]:
    return {"place": keys_json(place), "query": query.name, "values": dict(params)}


def _own_question(
    cypher: str, values: Mapping[str, object], limits: QueryLimits, target: str | None
) -> dict[str, object]:
    return {
        "cypher": cypher,
        "values": dict(values),
        "limit": limits.limit,
        "timeout": limits.timeout,
        "target": target,
    }
