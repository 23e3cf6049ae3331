"""Rows to a server, in batches over several connections at once.

Properties are set by a literal map from the places of a row, not by ``SET n += row``: that was
measured to cost the server a quarter less. Two connections keep two of its cores busy.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphstore.errors import StoreError
from graphstore.neo4j.writers import server_code
from graphstore.records import Records
from graphstore.schema import NODES, RELS

if TYPE_CHECKING:
    from graphstore.neo4j.connection import Statement
    from graphstore.neo4j.writers import Writer

LANES = 2
"""Connections that write at once."""
_ROWS = 2500
"""Rows a transaction: few enough that four writers fit a server with 256 MB of heap."""
_LONG = 4_000_000
"""Most characters or bytes in the long columns of a transaction, but for one row with more."""
_WAITING = 4
"""Stages that wait at most while rows are made faster than they are sent."""

_COLUMNS: Mapping[str, Sequence[str]] = {
    **{node.label: [column.name for column in node.columns] for node in NODES},
    **{rel.type: [column.name for column in rel.columns] for rel in RELS},
}

Rows = Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Batch:
    """A statement, its ``$rows`` and its other parameters."""

    cypher: str
    rows: Rows
    params: Mapping[str, object] = field(default_factory=dict)


class Sender:
    """Sends stages of batches one after the other, the batches of a stage side by side.

    Stages are taken by threads: the caller makes the next one meanwhile.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._stages: list[Iterator[Batch]] = []
        self._under_way = 0
        self._error: BaseException | None = None
        self._closed = False
        self._changed = threading.Condition()

    @contextmanager
    def running(self) -> Iterator[Sender]:
        """The threads run inside; leaving waits until all is sent.

        Raises:
            StoreError: as the sending did.
        """
        threads = [
            threading.Thread(target=self._lane, args=(lane,), daemon=True)
            for lane in range(self._writer.lanes)
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
            self.drain()
        except BaseException as error:
            with self._changed:
                self._error = self._error or error
            raise
        finally:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            for thread in threads:
                thread.join()

    def stage(self, batches: Iterable[Batch]) -> None:
        """Send *batches* after all stages before are done; waits if too many are waiting."""
        with self._changed:
            while len(self._stages) >= _WAITING and self._error is None:
                self._changed.wait()
            self._raise()
            self._stages.append(iter(batches))
            self._changed.notify_all()

    def drain(self) -> None:
        """Return when all stages are sent."""
        with self._changed:
            while (self._stages or self._under_way) and self._error is None:
                self._changed.wait()
            self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _lane(self, lane: int) -> None:
        try:
            while (batch := self._next()) is not None:
                self._send(lane, batch)
                with self._changed:
                    self._under_way -= 1
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            with self._changed:
                self._error = self._error or error
                self._changed.notify_all()

    def _next(self) -> Batch | None:
        """The next batch; waits for one, None when there are no more."""
        with self._changed:
            while self._error is None:
                if self._stages:
                    batch = next(self._stages[0], None)
                    if batch is not None:
                        self._under_way += 1
                        return batch
                    if not self._under_way:
                        self._stages.pop(0)
                        self._changed.notify_all()
                        continue
                elif self._closed:
                    return None
                self._changed.wait()
            return None

    def _send(self, lane: int, batch: Batch) -> None:
        rows = batch.rows

        def work(run: Statement) -> None:
            run(batch.cypher, rows=rows, **batch.params)

        try:
            self._writer.batch(lane, work)
        except StoreError as error:
            if len(rows) == 1 or not _is_too_big(error):
                raise
            middle = len(rows) // 2
            for half in (rows[:middle], rows[middle:]):
                self._send(lane, Batch(batch.cypher, half, batch.params))


def op_batches(records: Records) -> Iterator[Batch]:
    """The ops of a graph."""
    yield from _node_batches("Op", records)


def graph_batches(records: Records) -> Iterator[Batch]:
    """The rest of a graph whose ops are there."""
    yield from _node_batches("OpBlock", records)
    yield from _node_batches("Tensor", records)
    for name in ("FEEDS", "CONTROLS"):
        yield from _rel_batches(name, records)


def metric_batches(records: Records, run_key: str) -> Iterator[Batch]:
    """The metrics of a run whose graphs are there, with ``OF`` and ``COMPARED``."""
    op = _COLUMNS["Metric"].index("op")
    cypher = (
        "MATCH (r:PendingRun {id: $run}) UNWIND $rows AS row "
        f"MATCH (o:Op {{id: row[{op}]}}) "
        f"CREATE (m:Metric {_properties('Metric')})-[:OF]->(o) CREATE (r)-[:COMPARED]->(m)"
    )
    for rows in _slices(records.nodes.get("Metric", ())):
        yield Batch(cypher, rows, {"run": run_key})


def run_batches(records: Records) -> Iterator[Batch]:
    """The rest of a run whose metrics are there."""
    for name in ("FUSES", "NEXT_MEASURED", "AGAINST"):
        yield from _rel_batches(name, records)


def finding_batches(records: Records, run_key: str) -> Iterator[Batch]:
    """The findings of a run whose graphs are there, with ``FOUND`` and ``ABOUT``."""
    op = _COLUMNS["Finding"].index("op")
    cypher = (
        "MATCH (r:PendingRun {id: $run}) UNWIND $rows AS row "
        f"CREATE (r)-[:FOUND]->(f:Finding {_properties('Finding')}) "
        f"WITH f, row MATCH (o:Op {{id: row[{op}]}}) CREATE (f)-[:ABOUT]->(o)"
    )
    for rows in _slices(records.nodes.get("Finding", ()), _long_columns("Finding")):
        yield Batch(cypher, rows, {"run": run_key})


def properties_of(label: str, row: Sequence[object]) -> dict[str, object]:
    """A row of a table with few rows as a map."""
    return dict(zip(_COLUMNS[label], row, strict=True))


def _node_batches(label: str, records: Records) -> Iterator[Batch]:
    cypher = f"UNWIND $rows AS row CREATE (n:{label} {_properties(label)})"
    for rows in _slices(records.nodes.get(label, ()), _long_columns(label)):
        yield Batch(cypher, rows)


def _rel_batches(name: str, records: Records) -> Iterator[Batch]:
    rel = next(rel for rel in RELS if rel.type == name)
    values = ", ".join(
        f"`{column}`: row[{place}]" for place, column in enumerate(_COLUMNS[name], start=2)
    )
    cypher = (
        f"UNWIND $rows AS row MATCH (a:{rel.source} {{id: row[0]}}) "
        f"MATCH (b:{rel.target} {{id: row[1]}}) CREATE (a)-[:{name} {{{values}}}]->(b)"
    )
    for rows in _slices(records.rels.get(name, ())):
        yield Batch(cypher, rows)


def _properties(label: str) -> str:
    """Properties from the list ``row``; those that are null are not set."""
    values = ", ".join(f"`{name}`: row[{place}]" for place, name in enumerate(_COLUMNS[label]))
    return f"{{{values}}}"


def _long_columns(label: str) -> list[int]:
    names = _COLUMNS[label]
    return [at for at, name in enumerate(names) if name.endswith("_json") or name == "data"]


def _slices(table: Rows, long: Sequence[int] = ()) -> Iterator[Rows]:
    """*table* in parts of few rows, and little text or data in its *long* columns."""
    for first in range(0, len(table), _ROWS):
        rows = list(table[first : first + _ROWS])
        start, size = 0, 0
        if long:
            for place, row in enumerate(rows):
                length = sum(len(row[column]) for column in long)
                if size + length > _LONG and place > start:
                    yield rows[start:place]
                    start, size = place, 0
                size += length
        yield rows[start:]


def _is_too_big(error: StoreError) -> bool:
    """Whether the server had no memory or time for a transaction of that size."""
    code = server_code(error)
    return any(part in code for part in ("OutOfMemory", "TimedOut", "Terminated"))
