"""Rows to a server, in batches over several connections at once.

Properties are set by a literal map from the places of a row, not by ``SET n += row``: that was
measured to cost the server a quarter less. Two connections keep two of its cores busy.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from graphstore.cypher.statements import load_statements
from graphstore.errors import StoreError
from graphstore.neo4j.writers import server_code
from graphstore.schema.row_slices import Records, Row, as_table, is_absent, plain_values
from graphstore.schema.tables import NODES, RELS

if TYPE_CHECKING:
    from graphstore.neo4j.connection import Statement
    from graphstore.neo4j.writers import Writer

_STATEMENTS = load_statements("rows.neo4j")

LANES = 2
"""Connections that write at once."""
_ROWS = 2500
"""Rows a transaction: few enough that four writers fit a server with 256 MB of heap."""
_MOST_LONG = 4_000_000
"""Most characters or bytes in the long columns of a transaction, but for one row with more."""
_LONG = ("attributes", "data")
"""Long columns beside those of JSON."""
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
        self._stages: list[Future[None]] = []
        self._broken = threading.Event()
        # a stage needs the nodes of those before it, so these wait for each other
        self._in_order = ThreadPoolExecutor(1)
        self._lanes = ThreadPoolExecutor(writer.lanes)

    @contextmanager
    def running(self) -> Iterator[Sender]:
        """The threads run inside; leaving waits until all is sent.

        Raises:
            StoreError: as the sending did.
        """
        try:
            yield self
            self._wait_for(len(self._stages))
        except BaseException:
            self._broken.set()  # what is under way is sent to its end, nothing after it
            raise
        finally:
            self._in_order.shutdown()
            self._lanes.shutdown()

    def stage(self, batches: Iterable[Batch]) -> None:
        """Send *batches* after all stages before are done; waits if too many are waiting."""
        self._wait_for(len(self._stages) if self._broken.is_set() else len(self._stages) - _WAITING)
        self._stages.append(self._in_order.submit(self._send_stage, iter(batches)))

    def _wait_for(self, count: int) -> None:
        """Return when the first *count* stages are sent; raises what went wrong with them."""
        for stage in self._stages[: max(count, 0)]:
            stage.result()

    def _send_stage(self, batches: Iterator[Batch]) -> None:
        turn = threading.Lock()
        lanes = range(self._writer.lanes)
        sent = [self._lanes.submit(self._send_some, lane, batches, turn) for lane in lanes]
        for some in sent:
            some.result()

    def _send_some(self, lane: int, batches: Iterator[Batch], turn: threading.Lock) -> None:
        """Send what is left of a stage over one connection, as another lane does, too."""
        try:
            while not self._broken.is_set():
                with turn:  # rows are made here, by one thread at a time
                    batch = next(batches, None)
                if batch is None:
                    return
                self._send(lane, batch)
        except BaseException:
            self._broken.set()
            raise

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


def op_batches(records: Records, key: str) -> Iterator[Batch]:
    """The ops of a claimed graph, with ``HAS_OP``."""
    for names, rows in _slices("Op", records.nodes.get("Op", ())):
        yield Batch(_STATEMENTS.filled("ops", properties=_properties(names)), rows, {"graph": key})


def tensor_batches(records: Records) -> Iterator[Batch]:
    """The tensors of a graph whose ops are there, with ``PRODUCES``."""
    for names, rows in _slices("Tensor", records.nodes.get("Tensor", ())):
        yield Batch(_of_ops("tensors", names), rows)


def graph_batches(records: Records) -> Iterator[Batch]:
    """The rest of a graph whose ops and tensors are there."""
    for names, rows in _slices("OpBlock", records.nodes.get("OpBlock", ())):
        yield Batch(
            _STATEMENTS.filled("nodes", label="OpBlock", properties=_properties(names)), rows
        )
    yield from _into_batches("FEEDS", records)
    yield from _into_batches("INPUT_OF", records)
    yield from _rel_batches("CONTROLS", records)


def metric_batches(records: Records, run_key: str) -> Iterator[Batch]:
    """The metrics of a run whose graphs are there, with ``OF`` and ``COMPARED``."""
    for names, rows in _slices("Metric", records.nodes.get("Metric", ())):
        yield Batch(_of_ops("metrics", names), rows, {"run": run_key})


def run_batches(records: Records) -> Iterator[Batch]:
    """The rest of a run whose metrics are there."""
    for name in ("FUSES", "NEXT_MEASURED", "AGAINST", "OF_TENSOR"):
        yield from _rel_batches(name, records)


def finding_batches(records: Records, run_key: str) -> Iterator[Batch]:
    """The findings of a run whose graphs are there, with ``FOUND`` and ``ABOUT``."""
    for names, rows in _slices("Finding", records.nodes.get("Finding", ())):
        yield Batch(_of_ops("findings", names), rows, {"run": run_key})


def properties_of(label: str, row: Sequence[object]) -> dict[str, object]:
    """A row of a table with few rows as a map."""
    return dict(zip(_COLUMNS[label], row, strict=True))


def _rel_batches(name: str, records: Records) -> Iterator[Batch]:
    rel = next(rel for rel in RELS if rel.type == name)
    cypher = _STATEMENTS.filled(
        "relationships",
        source=rel.source,
        target=rel.target,
        type=name,
        properties=_properties(_COLUMNS[name], 2),
    )
    table = as_table(records.rels.get(name, ()))
    for first in range(0, len(table), _ROWS):
        yield Batch(cypher, table[first : first + _ROWS])


def _into_batches(name: str, records: Records) -> Iterator[Batch]:
    """Edges into one op, which follow each other, come together: it is looked up once."""
    source = next(rel.source for rel in RELS if rel.type == name)
    properties = _properties(_COLUMNS[name], 2)
    cypher = _STATEMENTS.filled("into", source=source, type=name, properties=properties)
    table = as_table(records.rels.get(name, ()))
    for first in range(0, len(table), _ROWS):
        edges = groupby(table[first : first + _ROWS], itemgetter(1))
        yield Batch(cypher, [(target, list(rows)) for target, rows in edges])


def _of_ops(statement: str, names: Sequence[str]) -> str:
    """A statement that makes rows with these columns and hangs each on its op."""
    place = str(names.index("op"))
    return _STATEMENTS.filled(statement, op=place, properties=_properties(names))


def _properties(names: Sequence[str], first: int = 0) -> str:
    """Properties from the list ``row``, from place *first* on; null ones are not set."""
    values = ", ".join(f"`{name}`: row[{place}]" for place, name in enumerate(names, start=first))
    return f"{{{values}}}"


def _slices(label: str, table: Sequence[Row]) -> Iterator[tuple[Sequence[str], Rows]]:
    """(columns, rows) of parts of *table*: few rows, and little text or data in their long
    columns. A column without any value in a part is left out of it."""
    full_table = as_table(table)
    for first in range(0, len(full_table), _ROWS):
        columns = dict(zip(_COLUMNS[label], full_table.columns(first, first + _ROWS), strict=True))
        there = {
            name: plain_values(values) for name, values in columns.items() if not is_absent(values)
        }
        names = list(there)
        rows = list(zip(*there.values(), strict=True))
        for begin, end in _short_parts(rows, _long_columns(names)):
            yield names, rows[begin:end]


def _short_parts(rows: Rows, long: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where parts of *rows* begin and end that have little in their *long* columns."""
    start = size = 0
    for place, row in enumerate(rows) if long else ():
        length = sum(_length(row[column]) for column in long)
        if size + length > _MOST_LONG and place > start:
            yield start, place
            start, size = place, 0
        size += length
    yield start, len(rows)


def _length(value: Any) -> int:
    """Of a text, bytes, or of texts in a list; nothing has none."""
    return sum(map(len, value)) if isinstance(value, list) else len(value or "")


def _long_columns(names: Sequence[str]) -> list[int]:
    return [at for at, name in enumerate(names) if name.endswith("_json") or name in _LONG]


def _is_too_big(error: StoreError) -> bool:
    """Whether the server had no memory or time for a transaction of that size."""
    code = server_code(error)
    return any(part in code for part in ("OutOfMemory", "TimedOut", "Terminated"))
