"""A store of schema version 2 made one of version 3, at the first write or by ``store repair``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from graphstore.columns.op_attributes import RANKS, attribute_texts, job_ranks
from graphstore.cypher.statements import load_statements
from graphstore.model import ModelGraph
from graphstore.neo4j.writers import take_turn
from graphstore.schema import codec
from graphstore.schema.graph_rows import own_rank

if TYPE_CHECKING:
    from graphstore.neo4j.connection import Connection, Statement

_STATEMENTS = load_statements("upgrade.neo4j")
_PENDING = load_statements("pending.neo4j")
_ROWS = 2500
"""Ops or results a transaction."""


def upgrade(wire: Connection) -> None:
    """Add the relationships and properties that version 2 lacks; it may be cut short and done
    again.

    Raises:
        StoreError: the server cannot be used, or refuses it.
    """
    graphs = _read(wire, "graphs")
    for graph in graphs:
        for part in _parts(graph["last"]):
            wire.change(partial(_describe_ops, graph=graph, part=part))
            for statement in ("tensors", "inputs"):
                _change(wire, _STATEMENTS[statement], graph=graph["id"], **part)
    for result in _read(wire, "runs"):
        for part in _parts(result["last"]):
            _change(wire, _STATEMENTS["results"], run=result["id"], **part)
        _change(wire, _PENDING["join_run"], key=result["id"])
    for name in _read(wire, "imports"):
        _change(wire, _PENDING["join_import"], name=name["id"])
    _change(wire, _PENDING["join_graphs"], keys=[graph["id"] for graph in graphs])


def _describe_ops(run: Statement, graph: Mapping[str, Any], part: Mapping[str, int]) -> None:
    take_turn(run, "upgrade")
    is_job = RANKS in codec.record_of(ModelGraph, graph["header"]).attrs
    old_ops = run(_STATEMENTS["old_ops"], graph=graph["id"], **part)
    rows = [[row["id"], *_described(row["attributes"], is_job)] for row in old_ops]
    run(_STATEMENTS["ops"], graph=graph["id"], kind=graph["kind"], rows=rows)


@lru_cache(4096)
def _described(text: str, is_job: bool) -> list[object]:
    """The attributes of an op that were one *text*, and in the graph of a job its ranks: in others
    it has none, whatever attributes are called."""
    attrs = codec.attrs_value(text)
    ranks = job_ranks(attrs)
    return [list(attribute_texts(attrs)), *([own_rank(ranks), list(ranks)] if is_job else ())]


def _read(wire: Connection, statement: str) -> list[dict[str, Any]]:
    answer = wire.read(_STATEMENTS[statement], {})
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def _change(wire: Connection, cypher: str, **params: object) -> None:
    """Nobody else does the same at once: it would be there twice."""

    def work(run: Statement) -> None:
        take_turn(run, "upgrade")
        run(cypher, **params)

    wire.change(work)


def _parts(last: int) -> Iterator[dict[str, int]]:
    for start in range(0, last + 1, _ROWS):
        yield {"from": start, "until": start + _ROWS}
