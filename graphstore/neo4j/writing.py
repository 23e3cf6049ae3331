"""Runs and graphs into a server: claimed, written in batches, shown in one step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from graphstore.contract import RunData
from graphstore.cypher.statements import load_statements
from graphstore.errors import StoreError
from graphstore.gc_paused import gc_paused
from graphstore.model import ModelGraph
from graphstore.neo4j.bulk import (
    LANES,
    Sender,
    finding_batches,
    graph_batches,
    metric_batches,
    op_batches,
    properties_of,
    run_batches,
)
from graphstore.neo4j.clearing import clear, clear_own
from graphstore.neo4j.pending import (
    WriteIntent,
    WriteLease,
    check_name_free,
    claim,
    hide,
    hide_unused,
    left_behind,
    rename,
    show_graph,
    show_run,
)
from graphstore.neo4j.server_schema import make_search_indexes, set_names_aside
from graphstore.neo4j.writers import Writer, lost_claim, take_turn
from graphstore.schema import codec
from graphstore.schema.codec import plain_text
from graphstore.schema.graph_rows import graph_records
from graphstore.schema.records import Records
from graphstore.schema.run_rows import run_records
from graphstore.schema.stored_graph import StoredGraph, stored_graph

if TYPE_CHECKING:
    from graphstore.neo4j.connection import Connection, Statement

_LOOK_AGAIN_SECONDS = 0.3

_ROWS = load_statements("rows.neo4j")
_PENDING = load_statements("pending.neo4j")


def save_run(wire: Connection, data: RunData, *, replace: bool) -> None:
    """Write a run and those of its graphs that are not there."""
    name = data.run.name
    wire.change(lambda run: check_name_free(run, "run", name, replace=replace))

    def wish() -> WriteIntent:
        golden = stored(wire, data.golden)
        device = stored(wire, data.device, {golden.key: golden.content})
        return WriteIntent("run", name, (golden, device), replace)

    with Writer(wire, LANES).living() as writer:
        wanted, claimed = _claimed(writer, wish)
        golden, device = wanted.graphs
        set_names_aside(wire, _new_ops(wanted, claimed))
        with Sender(writer).running() as sender, gc_paused():
            _send_graphs(writer, sender, wanted, claimed)
            key = claimed.run or name
            records = run_records(data, golden, device, key)
            _set_facts(writer, "Run", records, run_json=codec.text_of(data.run))
            sender.stage(metric_batches(records, key))
            sender.stage(run_batches(records))
            sender.stage(finding_batches(records, key))
        make_search_indexes(wire)
        _show(writer, lambda run: show_run(run, writer.token, wanted, claimed))


def save_graph(
    wire: Connection, graph: StoredGraph, name: str, created: str, *, replace: bool
) -> None:
    """Write a graph, if it is not there, and give it a name."""

    def wish() -> WriteIntent:
        return WriteIntent("graph", name, (stored(wire, graph.graph),), replace)

    first = WriteIntent("graph", name, (graph,), replace)
    with Writer(wire, LANES).living() as writer:
        wanted, claimed = _claimed(writer, wish, first)
        set_names_aside(wire, _new_ops(wanted, claimed))
        with Sender(writer).running() as sender, gc_paused():
            _send_graphs(writer, sender, wanted, claimed)
        make_search_indexes(wire)
        _show(writer, lambda run: show_graph(run, writer.token, wanted, claimed, created))


def delete(wire: Connection, name: str) -> None:
    """Take a run or imported graph from sight, then delete its rows."""

    def hidden(run: Statement) -> None:
        hide_unused(run, writer.token, hide(run, writer.token, name))

    with Writer(wire, 1).living() as writer:
        writer.batch(0, hidden, turn=True)
        clear_own(writer)


def give_name(wire: Connection, name: str, new_name: str) -> None:
    """Rename a run or imported graph."""

    def change(run: Statement) -> None:
        take_turn(run, "rename")
        rename(run, name, new_name)

    wire.change(change)


def repair(wire: Connection) -> tuple[str, ...]:
    """Delete what dead writers left; what was done."""
    left = wire.change(left_behind)
    if not left:
        return ()
    with Writer(wire, 1).living() as writer:
        return tuple(f"removed the rows of {item.left}" for item in clear(writer, left))


def stored(
    wire: Connection, graph: ModelGraph, others: Mapping[str, str] | None = None
) -> StoredGraph:
    """*graph* under a key no graph of other content has, nor one of *others* (key to content)."""
    rows = wire.read(_PENDING["contents"], {"id": plain_text(graph.id)}).rows
    taken = {**(others or {}), **{str(key): str(content) for key, content in rows}}
    with gc_paused():
        return stored_graph(graph, taken)


def _claimed(
    writer: Writer, wish: Callable[[], WriteIntent], first: WriteIntent | None = None
) -> tuple[WriteIntent, WriteLease]:
    """Claim what is wished; waits for others who write the same graphs."""
    wanted = first or wish()
    while True:
        got = writer.batch(0, partial(claim, token=writer.token, wish=wanted), turn=True)
        if got is None:  # claimed, but the answer was lost
            clear_own(writer)
        elif got.other:
            wanted = wish()
        elif got.left:
            clear(writer, got.left)
        elif got.busy:
            time.sleep(_LOOK_AGAIN_SECONDS)
        else:
            return wanted, got


def _new_ops(wanted: WriteIntent, claimed: WriteLease) -> int:
    return sum(len(graph.graph.ops) for graph in wanted.graphs if graph.key in claimed.mine)


def _send_graphs(writer: Writer, sender: Sender, wanted: WriteIntent, claimed: WriteLease) -> None:
    by_key = {graph.key: graph for graph in wanted.graphs}
    for key in claimed.mine:
        records = graph_records(by_key[key])
        _set_facts(writer, "Graph", records)
        sender.stage(op_batches(records))
        sender.stage(graph_batches(records))


def _set_facts(writer: Writer, label: str, records: Records, **others: str) -> None:
    """Write the properties of a claimed node, *others* with them, and the Model it belongs to."""
    model = [properties_of("Model", row) for row in records.nodes.get("Model", ())]
    facts = properties_of(label, records.nodes[label][0]) | others

    def work(run: Statement) -> None:
        run(_ROWS["model"], rows=model)
        run(_ROWS.filled("facts", label=label), facts=facts, token=writer.token)

    writer.batch(writer.spare, work)


def _show(writer: Writer, show: Callable[[Statement], bool]) -> None:
    shown = writer.batch(0, show, turn=True)
    if shown is False:
        raise lost_claim(writer.url)
    # What it replaced is out of sight; if its rows cannot be deleted now, `store info`
    # tells of them and `store repair` does it.
    with suppress(StoreError):
        clear_own(writer)
