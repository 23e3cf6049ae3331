"""The tables of several entries in one: read from their databases column by column.

Ids are shifted and keys exchanged where an entry has another name now, or a graph has the
key of another one; nothing becomes a value of the model on the way.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore.columns.op_attributes import RANKS
from graphstore.cypher.arrow_columns import integers
from graphstore.cypher.statements import load_statements
from graphstore.embedded.database import ReadDatabase
from graphstore.embedded.entry_facts import entry_info, entry_place
from graphstore.embedded.folders import Entry
from graphstore.embedded.table_writing import arrow_types
from graphstore.model import ModelGraph
from graphstore.schema import codec
from graphstore.schema.codec import plain_text
from graphstore.schema.stored_graph import first_id
from graphstore.schema.tables import NODES, RELS, Column, ColumnType, NodeTable, RelTable
from graphstore.schema.version_2 import MADE

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
    """A graph that is taken from *database*, which may be ``older`` than the tables of now."""

    database: ReadDatabase
    key: _Moved
    row: Mapping[str, Any]
    older: bool

    @property
    def ops(self) -> int:
        """How many it has."""
        return int(self.row["ops"])

    def made(self) -> Mapping[str, tuple[str, Callable[[str | None], object]]]:
        """Columns that are made of others."""
        if not self.older:
            return {}
        header = codec.record_of(ModelGraph, self.row["header_json"])
        ranks = () if RANKS in header.attrs else ("rank", "ranks")
        return {**MADE, **dict.fromkeys(ranks, ("graph", lambda _: None))}

    def tensor_starts(self) -> NDArray[np.int64]:
        """The number of the first output of each op, and at the end how many tensors there are."""
        owners = [
            integers(
                self.database.table(
                    _STATEMENTS.filled(
                        "node_slice", label="Tensor", range=where, columns="n.op AS op"
                    )
                )["op"]
            )
            for where in _ranges("n.op", self.key.first, self.ops)
        ]
        ops = np.concatenate([*owners, np.zeros(0, dtype=np.int64)]) - self.key.first
        counts = np.bincount(ops, minlength=self.ops)
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs of a database, the keys of their graphs, how many ops the device has, and how many
    nodes each run has of its own.

    Several have the keys they were written with, and are read together: of a thousand, each by
    itself, 10,000 questions would be asked. ``others`` are runs there that are not among them.
    """

    database: ReadDatabase
    keys: Sequence[_Moved]
    device: _Moved
    golden: _Moved
    ops: int
    counts: Mapping[str, Sequence[int]]
    rows: Sequence[Mapping[str, Any]]
    others: Collection[str]

    @property
    def shift(self) -> int:
        """How far the ids of their nodes move."""
        return self.keys[0].shift

    @property
    def same(self) -> Mapping[str, str]:
        """What is said of all their rows, if it is one run."""
        return {"run": self.keys[0].new} if len(self.keys) == 1 else {}

    @property
    def of_these(self) -> str:
        """The condition of relationships ``r`` that they are of these runs."""
        if len(self.keys) == 1:
            return f" AND r.run = {_quoted(self.keys[0].old)}"
        others = ", ".join(map(_quoted, sorted(self.others)))
        return f" AND NOT r.run IN [{others}]" if others else ""

    def ranges(self, id_of: str, label: str) -> Iterator[str]:
        """Conditions that split the ids of their nodes of a label."""
        pairs = zip(self.keys, self.counts[label], strict=True)
        spans = sorted((key.first, count) for key, count in pairs)
        if len(spans) == 1:
            yield from _ranges(id_of, *spans[0])
            return
        strange = sorted(map(first_id, self.others))
        first, rows, end = spans[0][0], 0, spans[0][0]
        for begin, count in spans:
            if rows + count > _SLICE or bisect(strange, end) != bisect(strange, begin):
                yield f"{id_of} >= {first} AND {id_of} < {end}"
                first, rows = begin, 0
            rows, end = rows + count, begin + count
        yield f"{id_of} >= {first} AND {id_of} < {end}"


@dataclass(frozen=True, slots=True)
class MergedTables:
    """What the merged database is made of."""

    graphs: Sequence[_Graph]
    runs: Sequence[_Runs]
    models: Sequence[Mapping[str, Any]]
    imports: Sequence[Mapping[str, Any]]

    @classmethod
    def of(
        cls, entries: Iterable[tuple[Entry, ReadDatabase]], *, same_keys: bool = False
    ) -> MergedTables:
        """Those of *entries* under their names of now; equal graphs once.

        With *same_keys*, runs have the keys they were written with.
        """
        keys: dict[str, str] = {}
        contents: dict[str, str] = {}
        graphs, runs, imports = list[_Graph](), list[_Runs](), list[Mapping[str, Any]]()
        models: dict[str, Mapping[str, Any]] = {}
        by_database: dict[ReadDatabase, list[Entry]] = {}
        for entry, database in entries:
            by_database.setdefault(database, []).append(entry)
        for database, sharers in by_database.items():
            moved: dict[str, _Moved] = {}
            ops: dict[str, int] = {}
            for row in _rows(database, _NODES["Graph"]):
                old, content = row["id"], row["content"]
                if content not in keys:
                    is_taken = contents.get(old, content) != content
                    keys[content] = f"{old}+{content[:12]}" if is_taken else old
                    contents[keys[content]] = content
                    key = _Moved(old, keys[content])
                    older = sharers[0].is_older
                    graphs.append(_Graph(database, key, {**row, "id": key.new}, older))
                moved[old] = _Moved(old, keys[content])
                ops[old] = row["ops"]
            models.update((row["id"], row) for row in _rows(database, _NODES["Model"]))
            names = [
                (entry_place(one).run or "", one.name) for one in sharers if one.kind == "runs"
            ]
            runs += _runs(database, names, moved, ops, same_keys=same_keys)
            imports += [_import(entry, moved) for entry in sharers if entry.kind != "runs"]
        return cls(graphs, runs, list(models.values()), imports)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """(name, Arrow table or None) of each table, nodes first."""
        few = {
            "Model": self.models,
            "Graph": [graph.row for graph in self.graphs],
            "Run": [row for run in self.runs for row in run.rows],
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
                shifts = {"id": run.shift, "op": run.device.shift, "tensor": run.device.shift}
                for where in run.ranges("n.id", node.label):
                    yield _read_nodes(run.database, node, where, shifts, run.same)
            return
        by = "op" if node.label == "Tensor" else "id"
        for graph in self.graphs:
            shifts = {"id": graph.key.shift, "op": graph.key.shift}
            same, made = {"graph": graph.key.new, "kind": graph.row["kind"]}, graph.made()
            for where in _ranges(f"n.{by}", graph.key.first, graph.ops):
                yield _read_nodes(graph.database, node, where, shifts, same, made)

    def _rels(self, rel: RelTable) -> Iterator[Any]:
        if rel.type in ("FEEDS", "CONTROLS"):
            for graph in self.graphs:
                for where in _ranges("a.id", graph.key.first, graph.ops):
                    shifts = graph.key.shift, graph.key.shift
                    yield _read_rels(graph.database, rel, where, shifts, {})
            return
        if rel.type in self._joins():
            yield from self._joins()[rel.type]
            return
        for run in self.runs:
            if rel.source == "Run":
                yield _of_runs(run, rel.target)
                continue
            end = run.golden if rel.type in _TO_GOLDEN else run.device
            if rel.source in _OF_RUNS:
                shift, conditions = run.shift, run.ranges("a.id", rel.source)
            else:
                shift = run.device.shift
                step = max(_SLICE // len(run.keys), 1)
                ranges = _ranges("a.id", run.device.first, run.ops, step)
                conditions = (f"{where}{run.of_these}" for where in ranges)
            for where in conditions:
                yield _read_rels(run.database, rel, where, (shift, end.shift), run.same)

    # Those that an older database lacks are made of keys, and of all databases alike.

    def _joins(self) -> Mapping[str, Iterable[Any]]:
        """Relationships that say what keys among the columns say, by type."""
        runs = [row for run in self.runs for row in run.rows]
        return {
            "HAS_GRAPH": [_pairs((graph.row["model"], graph.key.new) for graph in self.graphs)],
            "OF_DEVICE": [_pairs((row["id"], row["device"]) for row in runs)],
            "OF_GOLDEN": [_pairs((row["id"], row["golden"]) for row in runs)],
            "OF_GRAPH": [_pairs((row["id"], row["graph"]) for row in self.imports)],
            "HAS_OP": map(_ops_of, self.graphs),
            "PRODUCES": chain.from_iterable(map(_outputs_of, self.graphs)),
            "INPUT_OF": chain.from_iterable(map(_inputs_of, self.graphs)),
            "OF_TENSOR": chain.from_iterable(map(_tensors_of, self.runs)),
        }


def _pairs(pairs: Iterable[tuple[str, str]]) -> Any:
    import pyarrow as pa

    columns = list(zip(*pairs, strict=True)) or [(), ()]
    ends = zip(("from", "to"), columns, strict=True)
    return pa.table({name: pa.array(ids, pa.string()) for name, ids in ends})


def _ops_of(graph: _Graph) -> Any:
    import pyarrow as pa

    first = first_id(graph.key.new)
    ids = np.arange(first, first + graph.ops)
    return pa.table({"from": _repeated(graph.key.new, graph.ops), "to": ids})


def _outputs_of(graph: _Graph) -> Iterator[Any]:
    by = _plus(graph.key.shift)
    columns = f"n.op{by} AS `from`, n.id{by} AS `to`"
    for where in _ranges("n.op", graph.key.first, graph.ops):
        text = _STATEMENTS.filled("node_slice", label="Tensor", range=where, columns=columns)
        yield graph.database.table(text)


def _inputs_of(graph: _Graph) -> Iterator[Any]:
    starts, first = graph.tensor_starts(), first_id(graph.key.new)
    feeds = next(rel for rel in RELS if rel.type == "FEEDS")
    for where in _ranges("a.id", graph.key.first, graph.ops):
        edges = _read_rels(graph.database, feeds, where, (-graph.key.first, graph.key.shift), {})
        sources, outputs = integers(edges["from"]), integers(edges["out"])
        is_output = (outputs >= 0) & (outputs < np.diff(starts)[sources])
        inputs = edges.select(["to", "in", "kind"]).rename_columns(["to", "port", "kind"])
        tensors = starts[sources] + outputs + first
        yield inputs.add_column(0, "from", [tensors]).filter(is_output)


def _tensors_of(run: _Runs) -> Iterator[Any]:
    ends = f"n.id{_plus(run.shift)} AS `from`, n.tensor{_plus(run.device.shift)} AS `to`"
    for where in run.ranges("n.id", "Metric"):
        there = f"{where} AND n.tensor IS NOT NULL"
        text = _STATEMENTS.filled("node_slice", label="Metric", range=there, columns=ends)
        yield run.database.table(text)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _runs(
    database: ReadDatabase,
    names: Sequence[tuple[str, str]],
    moved: Mapping[str, _Moved],
    ops: Mapping[str, int],
    *,
    same_keys: bool,
) -> Iterator[_Runs]:
    """Those of these *names* (in the database, and now): those that kept it together, each other
    one by itself."""
    rows = {row["id"]: row for row in _rows(database, _NODES["Run"])} if names else {}
    counts = {label: _counts(database, label) for label in _OF_RUNS} if names else {}
    now: dict[_Moved, str] = {}
    by_graphs: dict[tuple[str, ...], list[_Moved]] = {}
    for old, name in names:
        key = _Moved(old, old if same_keys else plain_text(name))
        now[key] = plain_text(name)
        graphs = rows[key.old]["device"], rows[key.old]["golden"]
        alone = () if key.old == key.new else (key.new,)
        by_graphs.setdefault((*graphs, *alone), []).append(key)
    for (of_device, of_golden, *_), together in by_graphs.items():
        device, golden = moved[of_device], moved[of_golden]
        ends = {"device": device.new, "golden": golden.new}
        yield _Runs(
            database,
            together,
            device,
            golden,
            ops[of_device],
            {
                label: [count_of.get(key.old, 0) for key in together]
                for label, count_of in counts.items()
            },
            [rows[key.old] | ends | {"id": key.new, "name": now[key]} for key in together],
            rows.keys() - {key.old for key in together},
        )


def _counts(database: ReadDatabase, label: str) -> dict[str, int]:
    """How many nodes of a label each run has."""
    answer = database.ask(_STATEMENTS.filled("count", label=label), {})
    return {str(run): int(str(count)) for run, count in answer.rows}


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
    columns = {
        column.name: pa.array([row[column.name] for row in rows], types[column.type])
        for column in node.columns
    }
    return pa.table(columns) if rows else None


def _ranges(id_of: str, first: int, count: int, step: int = _SLICE) -> Iterator[str]:
    """Conditions that split *count* ids from *first* on."""
    for begin in range(first, first + count, step):
        yield f"{id_of} >= {begin} AND {id_of} < {min(begin + step, first + count)}"


def _read_nodes(
    database: ReadDatabase,
    node: NodeTable,
    where: str,
    shifts: Mapping[str, int],
    same: Mapping[str, str],
    made: Mapping[str, tuple[str, Callable[[str | None], object]]] = MappingProxyType({}),
) -> Any:
    """Nodes with shifted ids; columns in *same* have one value, those in *made* are made of
    another one."""
    import pyarrow as pa

    read = {name: source for name, (source, _) in made.items()}
    returned = [
        f"n.`{read.get(column.name, column.name)}`{_plus(shifts.get(column.name, 0))} "
        f"AS `{column.name}`"
        for column in node.columns
        if column.name not in same
    ]
    columns = ", ".join(returned)
    text = _STATEMENTS.filled("node_slice", label=node.label, range=where, columns=columns)
    table, types = database.table(text), arrow_types()
    for column in node.columns:
        if column.name in made:
            _, way = made[column.name]
            values = [way(value) for value in table[column.name].to_pylist()]
            place = table.column_names.index(column.name)
            table = table.set_column(place, column.name, [pa.array(values, types[column.type])])
    return _with_same(table, node.columns, same)


def _read_rels(
    database: ReadDatabase,
    rel: RelTable,
    where: str,
    shifts: tuple[int, int],
    same: Mapping[str, str],
) -> Any:
    returned = [f"a.id{_plus(shifts[0])} AS `from`", f"b.id{_plus(shifts[1])} AS `to`"]
    returned += [
        f"r.`{column.name}` AS `{column.name}`" for column in rel.columns if column.name not in same
    ]
    text = _STATEMENTS.filled(
        "relationship_slice",
        source=rel.source,
        type=rel.type,
        target=rel.target,
        range=where,
        columns=", ".join(returned),
    )
    columns = (Column("from", ColumnType.INT64), Column("to", ColumnType.INT64), *rel.columns)
    return _with_same(database.table(text), columns, same)


def _plus(shift: int) -> str:
    return f" + {shift}" if shift > 0 else f" - {-shift}" if shift else ""


def _with_same(table: Any, columns: Iterable[Column], same: Mapping[str, str]) -> Any:
    """*table* with its *columns* in order; those in *same* have one value everywhere."""
    import pyarrow as pa

    types = arrow_types()
    arrays = {}
    for column in columns:
        if column.name in same:
            arrays[column.name] = _repeated(same[column.name], len(table))
        else:
            values = table[column.name].cast(types[column.type])
            arrays[column.name] = values.dictionary_encode() if column.name == "run" else values
    return pa.table(arrays)


def _repeated(text: str, count: int) -> Any:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(np.zeros(count, dtype=np.int32), [text])


def _of_runs(runs: _Runs, label: str) -> Any:
    """Relationships from runs to the nodes of a label that belong to them."""
    import pyarrow as pa

    counts = runs.counts[label]
    names = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    starts = np.repeat([first_id(key.new) for key in runs.keys], counts)
    ids = starts + np.concatenate([np.arange(count, dtype=np.int64) for count in counts])
    keys = pa.DictionaryArray.from_arrays(names, [key.new for key in runs.keys])
    return pa.table({"from": keys, "to": ids})


def _joined(parts: Iterable[Any]) -> Any:
    import pyarrow as pa

    filled = [part for part in parts if len(part)]
    return pa.concat_tables(filled) if filled else None
