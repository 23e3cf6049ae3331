"""Rows into a new database file of the embedded engine."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from graphstore.embedded import engine, engine_writing, table_writing
from graphstore.embedded.database import ReadDatabase
from graphstore.embedded.engine import opened as open_engine
from graphstore.embedded.engine_writing import Writing
from graphstore.embedded.table_writing import copy_step, embedded_ddl, write_database
from graphstore.schema.row_slices import Absent, Records, Repeated, Table

FIRST = 2**40


def op_table(ops: int) -> Table:
    def columns(first: int, until: int):
        rows = until - first
        numbers = np.arange(first, until)
        names = [f"op_{number}" for number in range(first, until)]
        return [
            numbers + FIRST,
            Repeated("graph", rows),
            names,
            Absent(rows),
            Repeated("Add", rows),
            numbers,
            [None if number % 2 else 2**number for number in range(first, until)]
            if until <= 60
            else Absent(rows),
            *[Absent(rows)] * 8,
        ]

    return Table(ops, columns)


def chain(ops: int, name: str) -> Table:
    def columns(first: int, until: int):
        numbers = np.arange(first, until) + FIRST
        rows = until - first
        names = [f"{name}_{number}" for number in range(first, until)]
        return [numbers, numbers + 1, [0] * rows, [0] * rows, names, Repeated("data", rows)]

    return Table(ops - 1, columns)


def links(ops: int) -> Table:
    def columns(first: int, until: int):
        numbers = np.arange(first, until) + FIRST
        return [numbers, numbers + 1]

    return Table(ops - 1, columns)


def test_numbers_of_any_size_arrive_as_they_are(tmp_path) -> None:
    path = tmp_path / "graph.lbug"
    write_database(path, [Records({"Op": op_table(60)})])
    rows = _asked(path, "MATCH (o:Op) RETURN o.id, o.topo, o.place, o.graph ORDER BY o.topo")
    assert rows == tuple(
        (FIRST + number, number, None if number % 2 else 2**number, "graph") for number in range(60)
    )


def test_work_that_never_ends_holds_up_no_rows(tmp_path) -> None:
    path = tmp_path / "graph.lbug"
    edges = chain(60, "name")
    write_database(path, [Records({"Op": op_table(60)}, {"FEEDS": edges})], itertools.repeat(None))
    assert _asked(path, "MATCH (:Op)-[f:FEEDS]->(:Op) RETURN count(f)") == ((59,),)


@pytest.mark.parametrize(("small", "engines"), [(2**20, 1), (1500, 3), (0, 3)])
def test_small_tables_share_an_engine(tmp_path, monkeypatch, small, engines) -> None:
    """1500 bytes are more than the CONTROLS have and less than the others."""
    opened = []

    def noted(*arguments, **more):
        opened.append(arguments)
        return open_engine(*arguments, **more)

    monkeypatch.setattr(engine_writing, "opened", noted)
    monkeypatch.setattr(engine_writing, "_SMALL", small)
    path = tmp_path / "graph.lbug"
    writing = Writing()
    writing.make(path, list(embedded_ddl()))
    records = Records({"Op": op_table(60)}, {"FEEDS": chain(60, "name"), "CONTROLS": links(60)})
    for table, (made,) in table_writing._arrow_tables(table_writing._tables(records)):
        writing.copy_table(path, copy_step(table, made), made)
    writing.finish(path)
    assert len(opened) == 1 + engines, "one more makes the tables"
    assert _asked(path, "MATCH (:Op)-[f:FEEDS]->(:Op) RETURN count(f)") == ((59,),)
    assert _asked(path, "MATCH (:Op)-[c:CONTROLS]->(:Op) RETURN count(c)") == ((59,),)


def complete(ops: int) -> Table:
    """An edge from each op to all later ones."""
    sources, targets = np.triu_indices(ops, 1)

    def columns(first: int, until: int):
        rows, part = until - first, slice(first, until)
        ends = [sources[part] + FIRST, targets[part] + FIRST]
        return [*ends, [0] * rows, [0] * rows, ["name"] * rows, Repeated("data", rows)]

    return Table(len(sources), columns)


def test_a_dense_graph_gets_more_memory_and_each_edge_once(tmp_path, monkeypatch) -> None:
    pools = []

    def noted(path, pool=engine.BUFFER_POOL, **more):
        pools.append(pool)
        return open_engine(path, pool, **more)

    monkeypatch.setattr(engine_writing, "LEAST_POOL", 2**24)
    monkeypatch.setattr(engine_writing, "opened", noted)
    path = tmp_path / "graph.lbug"
    writing = Writing()
    writing.make(path, list(embedded_ddl()))
    records = Records({"Op": op_table(400)}, {"FEEDS": complete(400)})
    (_, (nodes,)), (_, (edges,)) = table_writing._arrow_tables(table_writing._tables(records))
    writing.copy_table(path, copy_step("Op", nodes), nodes)
    pools.clear()
    monkeypatch.setattr(engine_writing, "LEAST_POOL", 2**22)
    writing.copy_table(path, replace(copy_step("FEEDS", edges), pool=2**22), edges)
    writing.finish(path)
    assert pools[:2] == [2**22, 2**23]
    assert _asked(path, "MATCH (:Op)-[f:FEEDS]->(:Op) RETURN count(f)") == ((79_800,),)


@pytest.mark.slow
def test_many_edges_with_long_names_of_tensors_can_be_written(tmp_path) -> None:
    path = tmp_path / "graph.lbug"
    ops = 700_000
    edges = chain(ops, "/model/layer/attention/self/query/MatMul_output_of_this_op")
    write_database(path, [Records({"Op": op_table(ops)}, {"FEEDS": edges})])
    asked = "MATCH (a:Op)-[f:FEEDS]->(b:Op) RETURN count(f), count(f.tensor), sum(b.topo - a.topo)"
    assert _asked(path, asked) == ((ops - 1, ops - 1, ops - 1),)


def _asked(path, cypher):
    database = ReadDatabase(path)
    try:
        return database.ask(cypher, {}).rows
    finally:
        database.close()
