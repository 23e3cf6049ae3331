"""The tables of several entries in one: filtered and numbered anew column by column.

Ids are shifted and keys exchanged where an entry has another name now, or a graph has the
key of another one; nothing becomes a value of the model on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore.cypher.arrow_columns import integers, known
from graphstore.embedded.arrow_rows import arrow_types, table_columns
from graphstore.embedded.entry_facts import entry_info, entry_place, is_as_written
from graphstore.embedded.folders import Entry
from graphstore.embedded.table_files import TABLE_NAMES, TableFiles
from graphstore.schema.codec import plain_text
from graphstore.schema.stored_graph import NUMBER_BITS, first_id
from graphstore.schema.tables import RELS, ColumnType

_IDS = ("id", "op", "tensor", "from", "to")
"""Columns with ids of ops, tensors, metrics and the like, where they are numbers."""
_KEYS = {"graph": "graph", "golden": "graph", "device": "graph", "run": "run"}
"""Columns with keys, and of what."""
_KEYS_OF_ENDS = {
    ("HAS_GRAPH", "to"): "graph",
    ("HAS_OP", "from"): "graph",
    ("COMPARED", "from"): "run",
    ("FOUND", "from"): "run",
}
"""The same of the ends of relationships."""
_SOURCES = {rel.type: rel.source for rel in RELS}


@dataclass
class _Source:
    """The *tables* that some entries have together, and what becomes of their graphs and runs.

    ``graphs`` and ``runs`` say the key that each one has in the merged tables; ``own_graphs`` are
    those taken from here, others are there from another source.
    """

    tables: TableFiles
    graphs: dict[str, str] = field(default_factory=dict)
    own_graphs: set[str] = field(default_factory=set)
    runs: dict[str, str] = field(default_factory=dict)
    is_whole: bool = False
    """True if all of it is taken as it is."""

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a small table."""
        table = self.tables.table(name)
        columns = [column.name for column in table_columns(name)]
        rows: list[dict[str, Any]] = [] if table is None else table.to_pylist()
        return [{column: row.get(column) for column in columns} for row in rows]

    def part(self, name: str) -> Any:
        """What is taken of a large table; None if there is nothing."""
        table = self.tables.table(name)
        if table is None or self.is_whole:
            return table
        table = table.filter(self._is_taken(name, table))
        for column in table_columns(name):
            if column.name not in table.column_names:
                continue
            values = table[column.name]
            if column.type is ColumnType.INT64 and column.name in _IDS:
                table = _with(table, column.name, self._moved(values))
            elif (of := _key_of(name, column.name)) is not None:
                table = _with(table, column.name, _exchanged(values, self._keys(of)))
        return table

    def _is_taken(self, name: str, table: Any) -> NDArray[np.bool_]:
        """The rows that belong to graphs and runs that are taken from here."""
        for column in table.column_names:
            if (of := _key_of(name, column)) is not None:
                own = self.runs if of == "run" else self.own_graphs
                keys = _coded(table[column])
                is_own = np.array([key in own for key in keys.dictionary.to_pylist()], np.bool_)
                return is_own[integers(keys.indices)]
        of_run = _SOURCES.get(name) in ("Metric", "Finding")
        firsts = np.array([first_id(key) for key in (self.runs if of_run else self.own_graphs)])
        return np.isin(_starts(integers(table["op" if name == "Tensor" else "from"])), firsts)

    def _keys(self, of: str) -> Mapping[str, str]:
        return self.runs if of == "run" else self.graphs

    def _moved(self, column: Any) -> Any:
        """Ids as they are in the merged tables; null stays null."""
        import pyarrow as pa

        ids = integers(column)
        exchanged = [*self.graphs.items(), *self.runs.items()]
        keys = {first_id(old): first_id(new) for old, new in exchanged}
        starts, places = np.unique(_starts(ids), return_inverse=True)
        shifts = [keys.get(start, start) - start for start in starts.tolist()]
        moved = ids + np.array(shifts, np.int64)[places.reshape(-1)]
        return pa.array(moved, mask=~known(column))


def _key_of(table: str, column: str) -> str | None:
    """Of what a column of a large table has the keys: a ``graph`` or ``run``, or nothing."""
    return _KEYS_OF_ENDS.get((table, column), _KEYS.get(column))


def _starts(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first id of the graph or run that each of *ids* belongs to."""
    return ids >> NUMBER_BITS << NUMBER_BITS


@dataclass(frozen=True, slots=True)
class MergedTables:
    """What the merged tables are made of."""

    sources: Sequence[_Source]
    few: Mapping[str, Sequence[Mapping[str, Any]]]
    unchanged: TableFiles | None
    """Tables that say all of it as they are, if there are such."""

    @classmethod
    def of(
        cls, entries: Iterable[tuple[Entry, TableFiles]], *, same_keys: bool = False
    ) -> MergedTables:
        """Those of *entries* under their names of now; equal graphs once.

        Entries that share their tables come with the same ones. With *same_keys*, runs have the
        keys they were written with.
        """
        keys: dict[str, str] = {}
        contents: dict[str, str] = {}
        few: dict[str, list[dict[str, Any]]] = {name: [] for name in ("Graph", "Run", "Import")}
        models: dict[str, dict[str, Any]] = {}
        by_tables: dict[int, tuple[_Source, list[Entry]]] = {}
        is_as_it_was = True
        for entry, tables in entries:
            by_tables.setdefault(id(tables), (_Source(tables), []))[1].append(entry)
            is_as_it_was = is_as_it_was and is_as_written(entry)
        for source, sharers in by_tables.values():
            for row in source.rows("Graph"):
                old, content = row["id"], row["content"]
                if content not in keys:
                    is_taken = contents.get(old, content) != content
                    keys[content] = f"{old}+{content[:12]}" if is_taken else old
                    contents[keys[content]] = content
                    few["Graph"].append({**row, "id": keys[content]})
                    source.own_graphs.add(old)
                source.graphs[old] = keys[content]
            models.update((row["id"], row) for row in source.rows("Model"))
            names = {entry_place(one).run or "": one for one in sharers if one.kind == "runs"}
            rows = source.rows("Run") if names else []
            for row in rows:
                if row["id"] not in names:
                    continue
                name = plain_text(names[row["id"]].name)
                source.runs[row["id"]] = key = row["id"] if same_keys else name
                ends = {side: source.graphs[row[side]] for side in ("golden", "device")}
                few["Run"].append({**row, **ends, "id": key, "name": name})
            few["Import"] += [_import(one, source) for one in sharers if one.kind != "runs"]
            source.is_whole = (
                len(source.own_graphs) == len(source.graphs)
                and len(source.runs) == len(rows)
                and all(old == new for old, new in [*source.graphs.items(), *source.runs.items()])
            )
        sources = [source for source, _ in by_tables.values()]
        is_unchanged = is_as_it_was and len(sources) == 1 and sources[0].is_whole
        return cls(
            sources,
            {**few, "Model": list(models.values())},
            sources[0].tables if is_unchanged else None,
        )

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """(name, Arrow table or None) of each table, nodes first."""
        joins = {
            "OF_DEVICE": [(row["id"], row["device"]) for row in self.few["Run"]],
            "OF_GOLDEN": [(row["id"], row["golden"]) for row in self.few["Run"]],
            "OF_GRAPH": [(row["id"], row["graph"]) for row in self.few["Import"]],
        }
        for name in TABLE_NAMES:
            if name in joins:
                ends = (dict(zip(("from", "to"), pair, strict=True)) for pair in joins[name])
                yield name, _of_rows(name, list(ends))
            elif name in self.few:
                yield name, _of_rows(name, self.few[name])
            else:
                yield name, _joined(name, [source.part(name) for source in self.sources])


def _import(entry: Entry, source: _Source) -> dict[str, Any]:
    (key,) = source.graphs.values()
    name = plain_text(entry.name)
    return {"id": name, "name": name, "graph": key, "created": entry_info(entry).created}


def _of_rows(name: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    import pyarrow as pa

    types = arrow_types()
    columns = {
        column.name: pa.array([row[column.name] for row in rows], types[column.type])
        for column in table_columns(name)
    }
    return pa.table(columns) if rows else None


def _with(table: Any, name: str, values: Any) -> Any:
    return table.set_column(table.column_names.index(name), name, values)


def _coded(column: Any) -> Any:
    import pyarrow as pa

    return column.cast(pa.string()).combine_chunks().dictionary_encode()


def _exchanged(column: Any, keys: Mapping[str, str]) -> Any:
    """A column of keys that are others now."""
    import pyarrow as pa

    coded = _coded(column)
    texts = [keys.get(key, key) for key in coded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(texts, pa.string()))


def _joined(name: str, parts: Sequence[Any]) -> Any:
    """*parts* below each other, in the same types; texts that one has once are there once."""
    import pyarrow as pa

    filled = [part for part in parts if part is not None and len(part)]
    if len(filled) < 2:
        return filled[0] if filled else None
    types, arrays = arrow_types(), {}
    for column in table_columns(name):
        kind = types[column.type]
        chunks, is_coded = [], False
        for part in filled:
            if column.name in part.column_names:
                is_coded |= pa.types.is_dictionary(part.schema.field(column.name).type)
                chunks += part[column.name].cast(kind).chunks
            else:
                chunks.append(pa.nulls(len(part), kind))
        values = pa.chunked_array(chunks, kind)
        arrays[column.name] = values.dictionary_encode() if is_coded else values
    return pa.table(arrays)
