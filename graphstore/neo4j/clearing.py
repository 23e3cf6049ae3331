"""Deleting the rows of what is not shown any more, or never was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from graphstore.neo4j.pending import Pending, hide_unused, own, take_over

if TYPE_CHECKING:
    from graphstore.neo4j.connection import Statement
    from graphstore.neo4j.writers import Writer

_ROWS = 5000
"""Nodes or relationships deleted in one transaction."""
_HUB = 64
"""An op with more relationships loses them first: 5000 hubs at once would be too much."""
_HUBS = 100
"""Hubs that lose their relationships together."""

_RUN_ROWS = (
    "MATCH (x:Columns {of: $key}) WHERE x.kind IN ['outputs', 'links'] WITH x LIMIT $rows DELETE x",
    "MATCH (x:Metric {run: $key}) WITH x LIMIT $rows DETACH DELETE x",
    "MATCH (x:Finding {run: $key}) WITH x LIMIT $rows DETACH DELETE x",
    "MATCH ()-[x:FUSES {run: $key}]->() WITH x LIMIT $rows DELETE x",
    "MATCH ()-[x:NEXT_MEASURED {run: $key}]->() WITH x LIMIT $rows DELETE x",
)
_GRAPH_ROWS = (
    "MATCH (x:Columns {of: $key}) WHERE x.kind IN ['ops', 'edges'] WITH x LIMIT $rows DELETE x",
    "MATCH (x:OpBlock {graph: $key}) WITH x LIMIT $rows DETACH DELETE x",
    # tensors are written after their ops, and so are never without them
    "MATCH (o:Op {graph: $key}) WITH o LIMIT $rows OPTIONAL MATCH (t:Tensor {op: o.id}) "
    "WITH o AS x, collect(t) AS tensors FOREACH (t IN tensors | DELETE t) DETACH DELETE x",
)
_FIND_HUBS = "MATCH (o:Op {graph: $key}) WHERE COUNT { (o)--() } > $hub RETURN o.id AS id"
_HUB_EDGES = "UNWIND $ids AS id MATCH (:Op {id: id})-[x]-() WITH DISTINCT x LIMIT $rows DELETE x"


def clear(writer: Writer, items: Sequence[Pending]) -> list[Pending]:
    """Delete those of *items* whose writers are dead, and what only they used."""
    taken = writer.batch(0, lambda run: take_over(run, items, writer.token), turn=True)
    if taken is None:  # done, but the answer was lost
        taken = writer.batch(0, lambda run: own(run, writer.token)) or []
    for item in taken:
        drop(writer, item)
    return taken


def clear_own(writer: Writer) -> None:
    """Delete what the writer has hidden or claimed."""
    for item in writer.batch(0, lambda run: own(run, writer.token)) or ():
        drop(writer, item)


def drop(writer: Writer, item: Pending) -> None:
    """Delete one pending node of the writer's own with its rows, and graphs only it used."""
    if item.label == "PendingGraph":
        _delete_hub_edges(writer, item.id)
    for statement in {"PendingRun": _RUN_ROWS, "PendingGraph": _GRAPH_ROWS}.get(item.label, ()):
        params = {"key": item.id, "rows": _ROWS}
        _delete_all(writer, statement, params)
    writer.batch(0, lambda run: _delete_node(run, writer.token, item), turn=True)
    if item.graphs:
        for unused in writer.batch(0, lambda run: own(run, writer.token)) or ():
            if unused.label == "PendingGraph" and unused.id in item.graphs:
                drop(writer, unused)


def _delete_hub_edges(writer: Writer, key: str) -> None:
    found = writer.batch(0, lambda run: run(_FIND_HUBS, key=key, hub=_HUB))
    if found is None:  # read, but the answer was lost
        return _delete_hub_edges(writer, key)
    hubs = [row["id"] for row in found]
    for first in range(0, len(hubs), _HUBS):
        params = {"ids": hubs[first : first + _HUBS], "rows": _ROWS}
        _delete_all(writer, _HUB_EDGES, params)
    return None


def _delete_all(writer: Writer, statement: str, params: Mapping[str, object]) -> None:
    while True:
        rows = writer.batch(0, lambda run: run(f"{statement} RETURN count(*) AS n", **params))
        if rows is not None and rows[0]["n"] < _ROWS:
            return


def _delete_node(run: Statement, token: str, item: Pending) -> None:
    mine = f"MATCH (n:{item.label} {{id: $id, writer: $token}}) "
    rows = run(f"{mine} RETURN n.model AS model", id=item.id, token=token)
    run(f"{mine} DETACH DELETE n", id=item.id, token=token)
    hide_unused(run, token, item.graphs)
    for row in rows:
        _delete_unused_model(run, row["model"])


def _delete_unused_model(run: Statement, model: str | None) -> None:
    """Delete a model no graph is of; who writes one of it waits until this is done."""
    run("MATCH (m:Model {id: $model}) SET m.asked = true", model=model)
    run(
        "MATCH (m:Model {id: $model}) "
        "WHERE NOT EXISTS { MATCH (g:Graph|PendingGraph) WHERE g.model = m.id } DELETE m",
        model=model,
    )
    run("MATCH (m:Model {id: $model}) REMOVE m.asked", model=model)
