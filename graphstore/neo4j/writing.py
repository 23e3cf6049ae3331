"""Runs and graphs into a server: claimed, written in batches, shown in one step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
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
    tensor_batches,
)
from graphstore.neo4j.pending import (
    Pending,
    WriteIntent,
    WriteLease,
    check_name_free,
    claim,
    hide,
    hide_unused,
    left_behind,
    own,
    rename,
    show,
    take_over,
)
from graphstore.neo4j.server_schema import make_search_indexes, set_names_aside
from graphstore.neo4j.writers import Writer, lost_claim, take_turn
from graphstore.schema import codec
from graphstore.schema.codec import plain_text
from graphstore.schema.graph_rows import graph_records
from graphstore.schema.row_slices import Records
from graphstore.schema.run_rows import run_records
from graphstore.schema.stored_graph import StoredGraph, stored_graph

if TYPE_CHECKING:
    from graphstore.neo4j.connection import Connection, Statement

_LOOK_AGAIN_SECONDS = 0.3

_ROWS = load_statements("rows.neo4j")
_PENDING = load_statements("pending.neo4j")


_DELETED = 5000
"""Nodes or relationships deleted in one transaction."""
_HUB = 64
"""An op with more relationships loses them first: 5000 hubs at once would be too much."""
_HUBS = 100
"""Hubs that lose their relationships together."""

_CLEARING = load_statements("clearing.neo4j")
_ROWS_OF = {
    "PendingRun": ("run_metrics", "run_findings", "run_links", "run_order"),
    "PendingGraph": ("graph_blocks", "graph_ops"),
}
"""The statements that delete the rows of a pending node, in their order."""


def save_run(wire: Connection, data: RunData, *, replace: bool) -> None:
    """Write a run and those of its graphs that are not there."""
    name = data.run.name
    wire.change(lambda run: check_name_free(run, "run", name, replace=replace))

    def wish() -> WriteIntent:
        golden = stored(wire, data.golden)
        device = stored(wire, data.device, {golden.key: golden.content})
        return WriteIntent("run", name, (golden, device), replace)

    with Writer(wire, LANES).living() as writer:
        # Too much for one transaction, so rows are written under claims nobody sees and shown
        # in one step; who finds the claims of a dead writer can tell them from its own.
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
        _show(writer, lambda run: show(run, writer.token, wanted, claimed))


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
        _show(writer, lambda run: show(run, writer.token, wanted, claimed, created))


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
    pendings = wire.change(left_behind)
    if not pendings:
        return ()
    with Writer(wire, 1).living() as writer:
        return tuple(f"removed the rows of {item.left}" for item in clear(writer, pendings))


def stored(
    wire: Connection, graph: ModelGraph, others: Mapping[str, str] | None = None
) -> StoredGraph:
    """*graph* under a key no graph of other content has, nor one of *others* (key to content)."""
    rows = wire.read(_PENDING["contents"], {"id": plain_text(graph.id)}).rows
    contents = {**(others or {}), **{str(key): str(content) for key, content in rows}}
    with gc_paused():
        return stored_graph(graph, contents)


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
        sender.stage(op_batches(records, key))
        sender.stage(tensor_batches(records))
        sender.stage(graph_batches(records))


def _set_facts(writer: Writer, label: str, records: Records, **others: str) -> None:
    """Write the properties of a claimed node, *others* with them, and the Model it belongs to."""
    model = [properties_of("Model", row) for row in records.nodes.get("Model", ())]
    facts = properties_of(label, records.nodes[label][0]) | others

    def work(run: Statement) -> None:
        run(_ROWS["model"], rows=model)
        run(_ROWS.filled("facts", label=label), facts=facts, token=writer.token)

    writer.batch(writer.spare, work)


def _show(writer: Writer, work: Callable[[Statement], bool]) -> None:
    done = writer.batch(0, work, turn=True)
    if done is False:
        raise lost_claim(writer.url)
    # What it replaced is out of sight; if its rows cannot be deleted now, `store info`
    # tells of them and `store repair` does it.
    with suppress(StoreError):
        clear_own(writer)


def clear(writer: Writer, items: Sequence[Pending]) -> list[Pending]:
    """Delete those of *items* whose writers are dead, and what only they used."""
    pendings = writer.batch(0, lambda run: take_over(run, items, writer.token), turn=True)
    if pendings is None:  # done, but the answer was lost
        pendings = writer.batch(0, lambda run: own(run, writer.token)) or []
    for item in pendings:
        drop(writer, item)
    return pendings


def clear_own(writer: Writer) -> None:
    """Delete what the writer has hidden or claimed."""
    for item in writer.batch(0, lambda run: own(run, writer.token)) or ():
        drop(writer, item)


def drop(writer: Writer, item: Pending) -> None:
    """Delete one pending node of the writer's own with its rows, and graphs only it used."""
    if item.label == "PendingGraph":
        _delete_hub_edges(writer, item.id)
    for name in _ROWS_OF.get(item.label, ()):
        _delete_all(writer, _CLEARING[name], {"key": item.id, "rows": _DELETED})
    writer.batch(0, lambda run: _delete_node(run, writer.token, item), turn=True)
    if item.graphs:
        for unused in writer.batch(0, lambda run: own(run, writer.token)) or ():
            if unused.label == "PendingGraph" and unused.id in item.graphs:
                drop(writer, unused)


def _delete_hub_edges(writer: Writer, key: str) -> None:
    rows = writer.batch(0, lambda run: run(_CLEARING["hubs"], key=key, hub=_HUB))
    if rows is None:  # read, but the answer was lost
        return _delete_hub_edges(writer, key)
    hubs = [row["id"] for row in rows]
    for first in range(0, len(hubs), _HUBS):
        params = {"ids": hubs[first : first + _HUBS], "rows": _DELETED}
        for statement in ("hub_edges", "hub_inputs"):
            _delete_all(writer, _CLEARING[statement], params)
    return None


def _delete_all(writer: Writer, statement: str, params: Mapping[str, object]) -> None:
    while True:
        rows = writer.batch(0, lambda run: run(statement, **params))
        if rows is not None and rows[0]["n"] < _DELETED:
            return


def _delete_node(run: Statement, token: str, item: Pending) -> None:
    rows = run(_CLEARING.filled("model_of", label=item.label), id=item.id, token=token)
    run(_CLEARING.filled("node", label=item.label), id=item.id, token=token)
    hide_unused(run, token, item.graphs)
    for row in rows:
        _delete_unused_model(run, row["model"])


def _delete_unused_model(run: Statement, model: str | None) -> None:
    """Delete a model no graph is of; who writes one of it waits until this is done."""
    run(_CLEARING["ask_model"], model=model)
    run(_CLEARING["unused_model"], model=model)
    run(_CLEARING["free_model"], model=model)
