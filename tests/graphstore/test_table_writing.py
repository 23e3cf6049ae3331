"""Rows made into tables, and these into a new database file of the embedded engine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphstore.columns.coded import Coded
from graphstore.embedded import engine, engine_writing
from graphstore.embedded.arrow_rows import arrow_tables
from graphstore.embedded.database import ReadDatabase
from graphstore.embedded.engine import opened as open_engine
from graphstore.embedded.table_files import paths_in, write_table_files
from graphstore.embedded.write_process import embedded_ddl, write_database
from graphstore.schema.row_slices import Records, Table, absent

FIRST = 2**40


def op_table(ops: int) -> Table:
    def columns(first: int, until: int):
        rows = until - first
        numbers = np.arange(first, until)
        names = [f"op_{number}" for number in range(first, until)]
        return [
            numbers + FIRST,
            Coded.same("graph", rows),
            names,
            absent(rows),
            Coded.same("Add", rows),
            numbers,
            [None if number % 2 else 2**number for number in range(first, until)]
            if until <= 60
            else absent(rows),
            *[absent(rows)] * 8,
        ]

    return Table(ops, columns)


def chain(ops: int, name: str) -> Table:
    def columns(first: int, until: int):
        numbers = np.arange(first, until) + FIRST
        rows = until - first
        names = [f"{name}_{number}" for number in range(first, until)]
        return [numbers, numbers + 1, [0] * rows, [0] * rows, names, Coded.same("data", rows)]

    return Table(ops - 1, columns)


def links(ops: int) -> Table:
    def columns(first: int, until: int):
        numbers = np.arange(first, until) + FIRST
        return [numbers, numbers + 1]

    return Table(ops - 1, columns)


def files_of(folder: Path, records: Records) -> list[tuple[str, Path]]:
    write_table_files(folder / "tables", arrow_tables(records))
    return paths_in(folder / "tables")


def test_numbers_of_any_size_arrive_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "graph.lbug"
    write_database(path, files_of(tmp_path, Records({"Op": op_table(60)})))
    rows = _asked(path, "MATCH (o:Op) RETURN o.id, o.topo, o.place, o.graph ORDER BY o.topo")
    assert rows == tuple(
        (FIRST + number, number, None if number % 2 else 2**number, "graph") for number in range(60)
    )


@pytest.mark.parametrize(("small", "engines"), [(2**20, 1), (1500, 3), (0, 4)])
def test_small_tables_share_an_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int, engines: int
) -> None:
    """1500 bytes are more than the CONTROLS have and less than the others."""
    opened = []

    def noted(*arguments: Any, **more: Any) -> Any:
        opened.append(arguments)
        return open_engine(*arguments, **more)

    monkeypatch.setattr(engine_writing, "opened", noted)
    monkeypatch.setattr(engine_writing, "_SMALL", small)
    path = tmp_path / "graph.lbug"
    records = Records({"Op": op_table(60)}, {"FEEDS": chain(60, "name"), "CONTROLS": links(60)})
    engine_writing.make(path, list(embedded_ddl()), files_of(tmp_path, records))
    assert len(opened) == engines + (small == 1500), "the first makes the tables"
    assert _asked(path, "MATCH (:Op)-[f:FEEDS]->(:Op) RETURN count(f)") == ((59,),)
    assert _asked(path, "MATCH (:Op)-[c:CONTROLS]->(:Op) RETURN count(c)") == ((59,),)


def complete(ops: int) -> Table:
    """An edge from each op to all later ones."""
    sources, targets = np.triu_indices(ops, 1)

    def columns(first: int, until: int):
        rows, part = until - first, slice(first, until)
        ends = [sources[part] + FIRST, targets[part] + FIRST]
        return [*ends, [0] * rows, [0] * rows, ["name"] * rows, Coded.same("data", rows)]

    return Table(len(sources), columns)


def test_a_dense_graph_gets_more_memory_and_each_edge_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = []

    def noted(path: Path, pool: int = engine.BUFFER_POOL, **more: Any) -> Any:
        pools.append(pool)
        return open_engine(path, pool, **{**more, "least": min(pool, more.get("least", pool))})

    monkeypatch.setattr(engine_writing, "opened", noted)
    monkeypatch.setattr(engine_writing, "_pool_and_threads", lambda _: (2**22, 1))
    path = tmp_path / "graph.lbug"
    records = Records({"Op": op_table(400)}, {"FEEDS": complete(400)})
    engine_writing.make(path, list(embedded_ddl()), files_of(tmp_path, records))
    assert 2**22 in pools
    assert pools[-1] == 2 * pools[-2], "as long as it was too little"
    assert _asked(path, "MATCH (:Op)-[f:FEEDS]->(:Op) RETURN count(f)") == ((79_800,),)


@pytest.mark.slow
def test_many_edges_with_long_names_of_tensors_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "graph.lbug"
    ops = 700_000
    edges = chain(ops, "/model/layer/attention/self/query/MatMul_output_of_this_op")
    write_database(path, files_of(tmp_path, Records({"Op": op_table(ops)}, {"FEEDS": edges})))
    asked = "MATCH (a:Op)-[f:FEEDS]->(b:Op) RETURN count(f), count(f.tensor), sum(b.topo - a.topo)"
    assert _asked(path, asked) == ((ops - 1, ops - 1, ops - 1),)


def _asked(path: Path, cypher: str) -> Iterable[object]:
    database = ReadDatabase(path)
    try:
        return database.ask(cypher, {}).rows
    finally:
        database.close()
