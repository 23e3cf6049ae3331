"""The tables of several entries in one: read from their databases column by column.

Ids are shifted and keys exchanged where an entry has another name now, or a graph has the
key of another one; nothing becomes a value of the model on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphstore.cypher.statements import load_statements
from graphstore.embedded.database import ReadDatabase
from graphstore.embedded.entry_facts import entry_info, entry_place
from graphstore.embedded.folders import Entry
from graphstore.embedded.table_writing import arrow_types
from graphstore.schema.codec import plain_text
from graphstore.schema.stored_graph import first_id
from graphstore.schema.tables import NODES, RELS, Column, ColumnType, NodeTable, RelTable

_STATEMENTS = load_statements("entries.embedded")

_SLICE = 200_000
"""Rows asked for at once: the engine keeps an answer in its buffer."""
_NODES = {node.label: node for node in NODES}
_OF_RUNS = ("Metric", "Finding")
"""Nodes that belong to a run; all others belong to graphs."""
_TO_GOLDEN = ("FUSES", "AGAINST")
"""Relationships that end at ops of the golden graph; others of a run, at those of the device."""


@dataclass(frozen=True, slots=True)
class _Moved:
    """A key in a database and in the merged one, and how far the ids of what has it move."""

    old: str
    new: str

    @property
    def first(self) -> int:
        return first_id(self.old)

    @property
    def shift(self) -> int:
        return first_id(self.new) - self.first


@dataclass(frozen=True, slots=True)
class _Graph:
    """A graph that is taken from *database*."""

    database: ReadDatabase
    key: _Moved
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Run:
    """A run, the keys of its graphs, how many ops it has, and how many nodes of its own."""

    database: ReadDatabase
    key: _Moved
    device: _Moved
    golden: _Moved
    ops: int
    counts: Mapping[str, int]
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MergedTables:
    """What the merged database is made of."""

    graphs: Sequence[_Graph]
    runs: Sequence[_Run]
    models: Sequence[Mapping[str, Any]]
    imports: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, entries: Iterable[tuple[Entry, ReadDatabase]]) -> MergedTables:
        """Those of *entries* under their names of now; equal graphs once."""
        keys: dict[str, str] = {}
        contents: dict[str, str] = {}
        graphs, runs, imports = list[_Graph](), list[_Run](), list[Mapping[str, Any]]()
        models: dict[str, Mapping[str, Any]] = {}
        for entry, database in entries:
            moved: dict[str, _Moved] = {}
            ops: dict[str, int] = {}
            for row in _rows(database, _NODES["Graph"]):
                old, content = row["id"], row["content"]
                if content not in keys:
                    is_taken = contents.get(old, content) != content
                    keys[content] = f"{old}+{content[:12]}" if is_taken else old
                    contents[keys[content]] = content
                    key = _Moved(old, keys[content])
                    graphs.append(_Graph(database, key, {**row, "id": key.new}))
                moved[old] = _Moved(old, keys[content])
                ops[old] = row["ops"]
            models.update((row["id"], row) for row in _rows(database, _NODES["Model"]))
            if entry.kind == "runs":
                runs.append(_run(entry, database, moved, ops))
            else:
                imports.append(_import(entry, moved))
        return cls(graphs, runs, list(models.values()), imports)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """(name, Arrow table or None) of each table, nodes first."""
        few = {
            "Model": self.models,
            "Graph": [graph.row for graph in self.graphs],
            "Run": [run.row for run in self.runs],
            "Import": self.imports,
        }
        for node in NODES:
            if node.label in few:
                yield node.label, _of_rows(node, few[node.label])
            else:
                yield node.label, _joined(self._nodes(node))
        for rel in RELS:
            yield rel.type, _joined(self._rels(rel))

    def _nodes(self, node: NodeTable) -> Iterator[Any]:
        if node.label in _OF_RUNS:
            for run in self.runs:
                shifts = {"id": run.key.shift, "op": run.device.shift, "tensor": run.device.shift}
                for where in _ranges("n.id", run.key.first, run.counts[node.label]):
                    yield _read_nodes(run.database, node, where, shifts, {"run": run.key.new})
            return
        by = "op" if node.label == "Tensor" else "id"
        for graph in self.graphs:
            shifts = {"id": graph.key.shift, "op": graph.key.shift}
            for where in _ranges(f"n.{by}", graph.key.first, graph.row["ops"]):
                yield _read_nodes(graph.database, node, where, shifts, {"graph": graph.key.new})

    def _rels(self, rel: RelTable) -> Iterator[Any]:
        if rel.type in ("FEEDS", "CONTROLS"):
            for graph in self.graphs:
                for where in _ranges("a.id", graph.key.first, graph.row["ops"]):
                    yield _read_rels(graph.database, rel, where, (graph.key, graph.key), {})
            return
        for run in self.runs:
            if rel.source == "Run":
                yield _of_run(run, run.counts[rel.target])
                continue
            start = run.key if rel.source in _OF_RUNS else run.device
            end = run.golden if rel.type in _TO_GOLDEN else run.device
            count = run.counts.get(rel.source, run.ops)
            of_run = "" if rel.source in _OF_RUNS else f" AND r.run = {_quoted(run.key.old)}"
            for where in _ranges("a.id", start.first, count):
                same = {"run": run.key.new}
                yield _read_rels(run.database, rel, where + of_run, (start, end), same)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _run(
    entry: Entry, database: ReadDatabase, moved: Mapping[str, _Moved], ops: Mapping[str, int]
) -> _Run:
    key = entry_place(entry).run
    (row,) = (row for row in _rows(database, _NODES["Run"]) if row["id"] == key)
    name = plain_text(entry.name)
    device, golden = moved[row["device"]], moved[row["golden"]]
    changed = {"id": name, "name": name, "device": device.new, "golden": golden.new}
    asked = {"run": key}
    counts = {
        label: int(str(database.ask(_STATEMENTS.filled("count", label=label), asked).rows[0][0]))
        for label in _OF_RUNS
    }
    return _Run(
        database,
        _Moved(row["id"], name),
        device,
        golden,
        ops[device.old],
        counts,
        {**row, **changed},
    )


def _import(entry: Entry, moved: Mapping[str, _Moved]) -> Mapping[str, Any]:
    (key,) = moved.values()
    name = plain_text(entry.name)
    return {"id": name, "name": name, "graph": key.new, "created": entry_info(entry).created}


def _rows(database: ReadDatabase, node: NodeTable) -> list[dict[str, Any]]:
    columns = ", ".join(f"n.`{column.name}` AS `{column.name}`" for column in node.columns)
    answer = database.ask(_STATEMENTS.filled("nodes", label=node.label, columns=columns), {})
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def _of_rows(node: NodeTable, rows: Sequence[Mapping[str, Any]]) -> Any:
    import pyarrow as pa

    types = arrow_types()
    made = {
        column.name: pa.array([row[column.name] for row in rows], types[column.type])
        for column in node.columns
    }
    return pa.table(made) if rows else None


def _ranges(id_of: str, first: int, count: int) -> Iterator[str]:
    """Conditions that split *count* ids from *first* on."""
    for begin in range(first, first + count, _SLICE):
        yield f"{id_of} >= {begin} AND {id_of} < {min(begin + _SLICE, first + count)}"


def _read_nodes(
    database: ReadDatabase,
    node: NodeTable,
    where: str,
    shifts: Mapping[str, int],
    same: Mapping[str, str],
) -> Any:
    asked = [
        f"n.`{column.name}`{_plus(shifts.get(column.name, 0))} AS `{column.name}`"
        for column in node.columns
        if column.name not in same
    ]
    columns = ", ".join(asked)
    text = _STATEMENTS.filled("node_slice", label=node.label, range=where, columns=columns)
    return _with_same(database.table(text), node.columns, same)


def _read_rels(
    database: ReadDatabase,
    rel: RelTable,
    where: str,
    ends: tuple[_Moved, _Moved],
    same: Mapping[str, str],
) -> Any:
    asked = [f"a.id{_plus(ends[0].shift)} AS `from`", f"b.id{_plus(ends[1].shift)} AS `to`"]
    asked += [
        f"r.`{column.name}` AS `{column.name}`" for column in rel.columns if column.name not in same
    ]
    text = _STATEMENTS.filled(
        "relationship_slice",
        source=rel.source,
        type=rel.type,
        target=rel.target,
        range=where,
        columns=", ".join(asked),
    )
    columns = (Column("from", ColumnType.INT64), Column("to", ColumnType.INT64), *rel.columns)
    return _with_same(database.table(text), columns, same)


def _plus(shift: int) -> str:
    return f" + {shift}" if shift > 0 else f" - {-shift}" if shift else ""


def _with_same(table: Any, columns: Iterable[Column], same: Mapping[str, str]) -> Any:
    """*table* with its *columns* in order; those in *same* have one value everywhere."""
    import pyarrow as pa

    types = arrow_types()
    made = {}
    for column in columns:
        if column.name in same:
            made[column.name] = _repeated(same[column.name], len(table))
        else:
            made[column.name] = table[column.name].cast(types[column.type])
    return pa.table(made)


def _repeated(text: str, count: int) -> Any:
    import numpy as np
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(np.zeros(count, dtype=np.int32), [text])


def _of_run(run: _Run, count: int) -> Any:
    """Relationships from a run to *count* nodes that belong to it."""
    import numpy as np
    import pyarrow as pa

    ids = first_id(run.key.new) + np.arange(count, dtype=np.int64)
    return pa.table({"from": _repeated(run.key.new, len(ids)), "to": ids})


def _joined(parts: Iterable[Any]) -> Any:
    import pyarrow as pa

    kept = [part for part in parts if len(part)]
    return pa.concat_tables(kept) if kept else None
