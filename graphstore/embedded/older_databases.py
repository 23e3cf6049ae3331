"""Entries that earlier versions kept as a database of the engine: read as the tables of now.

What their databases lack, of schema version 2, is made of what they say.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from graphstore.columns.op_attributes import RANKS
from graphstore.cypher.arrow_columns import integers
from graphstore.cypher.statements import load_statements
from graphstore.embedded.arrow_rows import arrow_types, table_columns
from graphstore.embedded.database import ReadDatabase
from graphstore.embedded.disk import is_as_written, os_errors
from graphstore.embedded.engine import check_form
from graphstore.embedded.entry_facts import damaged
from graphstore.embedded.folders import Entry
from graphstore.model import ModelGraph
from graphstore.own_folder import OwnFolder
from graphstore.schema import codec
from graphstore.schema.stored_graph import first_id
from graphstore.schema.tables import RELS, SCHEMA_VERSION
from graphstore.schema.version_2 import MADE

_STATEMENTS = load_statements("entries.embedded")
_PACKED = ".zst"
_PIECE = 2**20
_SLICE = 200_000
"""Rows asked for at once: the engine keeps an answer in its buffer."""
_RELS = {rel.type: rel for rel in RELS}
_KEYS = {
    "HAS_GRAPH": ("Graph", "model", "id"),
    "OF_DEVICE": ("Run", "id", "device"),
    "OF_GOLDEN": ("Run", "id", "golden"),
    "OF_GRAPH": ("Import", "id", "graph"),
    "HAS_OP": ("Op", "graph", "id"),
    "PRODUCES": ("Tensor", "op", "id"),
    "OF_TENSOR": ("Metric", "id", "tensor"),
    "COMPARED": ("Metric", "run", "id"),
    "FOUND": ("Finding", "run", "id"),
}
"""Relationships that say what two keys of a node say, by type: the label and these keys."""


@contextmanager
def older_tables(entry: Entry) -> Iterator[OlderTables]:
    """The tables of *entry* and of what shares its database, read from a copy: the engine may write
    its own form into what it opens.

    Raises:
        DamagedStoreError: the database is not what was written.
        StoreError: a newer version of the engine wrote it.
    """
    if not is_as_written(entry.database, entry.manifest):
        raise damaged(entry, entry.database.name)
    check_form(entry.database, entry.manifest.get("engine"))
    with OwnFolder("older") as folder:
        copy = folder / "graph.lbug"
        with os_errors("copy", copy):
            _copy(entry.database, copy)
        database = ReadDatabase(copy)
        try:
            yield OlderTables(database, is_older=entry.manifest["schema"] != SCHEMA_VERSION)
        finally:
            database.close()


def _copy(database: Path, copy: Path) -> None:
    """Copy a database file; large ones of several runs are packed."""
    if database.suffix != _PACKED:
        shutil.copyfile(database, copy)
        return
    import pyarrow as pa

    with pa.CompressedInputStream(str(database), "zstd") as file, copy.open("wb") as out:
        shutil.copyfileobj(file, out, _PIECE)


class OlderTables:
    """The tables of a *database*, in which the nodes may be those of schema version 2."""

    def __init__(self, database: ReadDatabase, *, is_older: bool) -> None:
        self._database = database
        self._is_older = is_older

    def table(self, name: str) -> Any:
        """The Arrow table of a label or relationship type, None if it has no rows."""
        import pyarrow as pa

        parts = [part for part in self._parts(name) if len(part)]
        return pa.concat_tables(parts) if parts else None

    def _parts(self, name: str) -> Iterator[Any]:
        if name in _KEYS:
            label, *ends = _KEYS[name]
            for where in self._ranges(label):
                columns = ", ".join(
                    f"n.{key} AS `{end}`" for key, end in zip(ends, ("from", "to"), strict=True)
                )
                there = f"{where} AND n.{ends[1]} IS NOT NULL"
                yield self._nodes(label, there, columns)
        elif name == "INPUT_OF":
            yield from self._inputs()
        elif name in _RELS:
            for where in self._ranges(_RELS[name].source, of="a"):
                yield self._edges(name, where)
        elif name in ("Op", "Tensor") and self._is_older:
            yield from self._older_nodes(name)
        else:
            columns = ", ".join(f"n.`{one.name}` AS `{one.name}`" for one in table_columns(name))
            for where in self._ranges(name):
                yield self._cast(name, self._nodes(name, where, columns))

    def _ranges(self, label: str, of: str = "n") -> Iterator[str]:
        """Conditions that split the nodes of a label, called *of*."""
        column = f"{of}.{'op' if label == 'Tensor' else 'id'}"
        if label in ("Op", "OpBlock", "Tensor"):
            for graph in self._graphs:
                yield from _slices(column, graph["id"], graph["ops"])
            return
        counts = []
        if label in ("Metric", "Finding"):
            counts = list(self._database.ask(_STATEMENTS.filled("count", label=label), {}).rows)
        if len(counts) != 1:
            yield "true"  # few of each run where there are several
        else:
            ((run, count),) = counts
            yield from _slices(column, str(run), int(str(count)))

    @cached_property
    def _graphs(self) -> Sequence[Mapping[str, Any]]:
        rows: list[dict[str, Any]] = self._nodes(
            "Graph", "true", "n.id AS id, n.kind AS kind, n.ops AS ops, n.header_json AS header"
        ).to_pylist()
        return rows

    def _nodes(self, label: str, where: str, columns: str) -> Any:
        text = _STATEMENTS.filled("node_slice", label=label, range=where, columns=columns)
        return self._database.table(text)

    def _edges(self, name: str, where: str) -> Any:
        rel = _RELS[name]
        columns = ["a.id AS `from`", "b.id AS `to`"]
        columns += [f"r.`{column.name}` AS `{column.name}`" for column in rel.columns]
        text = _STATEMENTS.filled(
            "relationship_slice",
            source=rel.source,
            type=rel.type,
            target=rel.target,
            range=where,
            columns=", ".join(columns),
        )
        return self._cast(name, self._database.table(text))

    def _cast(self, name: str, rows: Any) -> Any:
        """*rows* in the types of now: the engine gives a column without values another."""
        import pyarrow as pa

        types = arrow_types()
        columns = table_columns(name)
        return pa.table({one.name: rows[one.name].cast(types[one.type]) for one in columns})

    def _older_nodes(self, label: str) -> Iterator[Any]:
        """Nodes of schema version 2 in the columns of now."""
        import pyarrow as pa

        columns, types = table_columns(label), arrow_types()
        by = "n.op" if label == "Tensor" else "n.id"
        for graph in self._graphs:
            made: dict[str, tuple[str, Any]] = {
                **MADE,
                "kind": ("graph", partial(_always, graph["kind"])),
            }
            if RANKS not in codec.record_of(ModelGraph, graph["header"]).attrs:
                made |= dict.fromkeys(("rank", "ranks"), ("graph", partial(_always, None)))
            names = [column.name for column in columns]
            sources = {name: made[name][0] if name in made else name for name in names}
            read = ", ".join(f"n.`{source}` AS `{name}`" for name, source in sources.items())
            for where in _slices(by, graph["id"], graph["ops"]):
                rows = self._nodes(label, where, read)
                for name in made.keys() & sources.keys():
                    values = [made[name][1](value) for value in rows[name].to_pylist()]
                    kind = next(types[one.type] for one in columns if one.name == name)
                    place = rows.column_names.index(name)
                    rows = rows.set_column(place, name, [pa.array(values, kind)])
                yield self._cast(label, rows)

    def _inputs(self) -> Iterator[Any]:
        """INPUT_OF: of the edges that come from an output the graph describes."""
        owners = self.table("PRODUCES")
        if owners is None:
            return
        ops, tensors = integers(owners["from"]), integers(owners["to"])
        # tensors are numbered by op and port
        order = np.argsort(tensors)
        ops, tensors = ops[order], tensors[order]
        for where in self._ranges("Op", of="a"):
            edges = self._edges("FEEDS", where)
            sources, outputs = integers(edges["from"]), integers(edges["out"])
            low, high = np.searchsorted(ops, sources), np.searchsorted(ops, sources, "right")
            is_output = (outputs >= 0) & (outputs < high - low)
            inputs = edges.select(["to", "in", "kind"]).rename_columns(["to", "port", "kind"])
            at = np.minimum(low + outputs, len(tensors) - 1)
            yield inputs.add_column(0, "from", [tensors[at]]).filter(is_output)


def _always(value: object, _: str | None) -> object:
    return value


def _slices(column: str, key: str, size: int) -> Iterator[str]:
    """Conditions that split the *size* ids that belong to a graph or run."""
    first = first_id(key)
    for begin in range(first, first + size, _SLICE):
        yield f"{column} >= {begin} AND {column} < {min(begin + _SLICE, first + size)}"
