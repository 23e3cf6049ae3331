"""What traversals need of a graph or run, packed: a few big values in place of many rows.

Arrays and op names of 100,000 ops take seconds as rows, milliseconds as bytes. They are
written beside the rows they are made from, and only the program reads them; where there
are none, as in what older programs wrote, the rows are read.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphstore.cypher.op_search import OpIndex
from graphstore.schema.codec import plain_texts
from graphstore.schema.records import as_table
from graphstore.schema.row_slices import Columns, Row, Table
from graphstore.schema.stored_graph import StoredGraph
from graphstore.schema.tables import NODES
from graphstore.traverse.arrays import Bool, GraphArrays
from graphstore.traverse.run_outputs import RunOutputs

PART = 1_000_000
"""Most bytes in one node; a value of several parts is one after the other."""
_LEVEL = 1
_EDGES = (
    "successor_start",
    "successor_ops",
    "predecessor_start",
    "predecessor_ops",
    "control_successor_start",
    "control_successor_ops",
    "control_predecessor_start",
    "control_predecessor_ops",
)
_METRIC = next(node.columns for node in NODES if node.label == "Metric")
_PLACES = {column.name: place for place, column in enumerate(_METRIC)}
_WHOLE = ("device_nonfinite", "golden_nonfinite", "elements", "different")
_DOUBLE = ("cosine_similarity", "relative_euclidean_distance")
_OUTPUT = ("op", "io", "port", "compared", "level", "nan", *_DOUBLE, *_WHOLE)

Packed: TypeAlias = Mapping[str, "Sequence[Any] | NDArray[Any]"]


class Watched:
    """A table some of whose columns are kept while its rows are made, slice by slice."""

    def __init__(self, rows: Sequence[Row], wanted: Mapping[str, int]) -> None:
        whole = as_table(rows)
        self._wanted = wanted
        self._seen: list[list[Any]] = []
        self.table = Table(len(whole), lambda first, until: self._see(whole.columns(first, until)))

    def column(self, name: str) -> list[Any]:
        """The values of a column, of all slices made so far."""
        place = list(self._wanted).index(name)
        return [value for slice_of in self._seen for value in slice_of[place]]

    def _see(self, columns: Columns) -> Columns:
        kept = [columns[place] for place in self._wanted.values()]
        self._seen.append([one.tolist() if isinstance(one, np.ndarray) else one for one in kept])
        return columns


def watched_metrics(rows: Sequence[Row]) -> Watched:
    """The table Metric, for :func:`packed_outputs`."""
    return Watched(rows, {name: _PLACES[name] for name in _OUTPUT})


def watched_links(rows: Sequence[Row]) -> Watched:
    """The table FUSES, for :func:`packed_links`."""
    return Watched(rows, {"device": 0, "original": 1})


def packed_ops(stored: StoredGraph) -> bytes:
    """Names and types of the ops of a graph, for :func:`op_index`."""
    ops = [stored.graph.ops[place] for place in stored.order.tolist()]
    types = plain_texts([op.type for op in ops])
    codes = {kind: code for code, kind in enumerate(dict.fromkeys(types))}
    originals = [-1 if op.original_names is None else len(op.original_names) for op in ops]
    return packed(
        {
            "name": plain_texts([op.id for op in ops]),
            "own_name": plain_texts([None if op.name == op.id else op.name for op in ops]),
            "kinds": list(codes),
            "type": np.asarray([codes[kind] for kind in types], "<i4"),
            "originals": np.asarray(originals, "<i4"),
        }
    )


def packed_edges(stored: StoredGraph) -> bytes:
    """The edges of a graph, for :func:`graph_arrays`."""
    return packed({name: getattr(stored.arrays, name).astype("<i4") for name in _EDGES})


def packed_outputs(metrics: Watched, device: StoredGraph) -> bytes:
    """The compared outputs of a run, for :func:`run_outputs`."""
    kept = [
        place
        for place, (io, compared) in enumerate(
            zip(metrics.column("io"), metrics.column("compared"), strict=True)
        )
        if io == "output" and compared
    ]
    whole = {name: metrics.column(name) for name in _OUTPUT}
    columns = {name: [values[at] for at in kept] for name, values in whole.items()}
    topo = np.asarray(columns["op"], np.int64) - device.first_id
    port = np.asarray(columns["port"], np.int64)
    order = np.lexsort((port, topo))  # stable: by place in the run where both are equal
    places = order.tolist()
    return packed(
        {
            "topo": topo[order].astype("<i4"),
            "port": port[order].astype("<i4"),
            **{name: [columns[name][at] for at in places] for name in ("level", "nan")},
            **{name: np.asarray(columns[name], "<f8")[order] for name in _DOUBLE},
            **{name: np.asarray(columns[name], "<i8")[order] for name in _WHOLE},
        }
    )


def packed_links(links: Watched, device: StoredGraph, golden: StoredGraph) -> bytes:
    """Which ops of either graph are linked, for :func:`linked_ops`."""
    found = {}
    for name, graph in (("device", device), ("original", golden)):
        mask = np.zeros(len(graph.order), np.uint8)
        mask[np.asarray(links.column(name), np.int64) - graph.first_id] = 1
        found[name] = mask
    return packed(found)


def op_index(columns: Mapping[str, Any]) -> OpIndex:
    """The index behind :func:`packed_ops`."""
    names, kinds = columns["name"], columns["kinds"]
    own = [
        name if own is None else own for name, own in zip(names, columns["own_name"], strict=True)
    ]
    types = [kinds[code] for code in columns["type"].tolist()]
    return OpIndex.of(zip(names, own, types, strict=True))


def originals(columns: Mapping[str, Any]) -> list[int | None]:
    """Of how many originals each op of :func:`packed_ops` is made; None if that is not said."""
    return [None if count < 0 else count for count in columns["originals"].tolist()]


def graph_arrays(ids: tuple[str, ...], columns: Mapping[str, Any]) -> GraphArrays:
    """The arrays behind :func:`packed_edges`, of the ops *ids*."""
    number = {op: place for place, op in enumerate(ids)}
    return GraphArrays(ids, number, *(columns[name].astype(np.int32) for name in _EDGES))


def run_outputs(columns: Mapping[str, Any]) -> RunOutputs:
    """The outputs behind :func:`packed_outputs`."""
    doubles = [
        [None if value != value else value for value in columns[name].tolist()] for name in _DOUBLE
    ]
    values = (columns["topo"], columns["port"], columns["level"], *doubles, columns["nan"])
    rest = (columns[name].tolist() for name in _WHOLE)
    return RunOutputs.of(list(zip(*values, *rest, strict=True)))


def linked_ops(columns: Mapping[str, Any]) -> tuple[Bool, Bool]:
    """The masks behind :func:`packed_links`: device ops, originals."""
    return columns["device"].astype(np.bool_), columns["original"].astype(np.bool_)


def packed(columns: Packed) -> bytes:
    """*columns* as bytes: arrays of numbers, or lists of JSON values."""
    arrays = {name: values for name, values in columns.items() if isinstance(values, np.ndarray)}
    subgraphs = {
        name: arrays[name].tobytes() if name in arrays else json.dumps(list(values)).encode("ascii")
        for name, values in columns.items()
    }
    head = [
        [name, arrays[name].dtype.str if name in arrays else None, len(subgraph)]
        for name, subgraph in subgraphs.items()
    ]
    text = b"\n".join([json.dumps(head).encode("ascii"), b"".join(subgraphs.values())])
    return zlib.compress(text, _LEVEL)


def unpacked(data: bytes) -> dict[str, Any]:
    """The columns behind :func:`packed`."""
    text = memoryview(zlib.decompress(data))
    start = bytes(text).index(b"\n") + 1
    columns: dict[str, Any] = {}
    for name, kind, size in json.loads(bytes(text[:start])):
        subgraph = text[start : start + size]
        start += size
        columns[name] = (
            json.loads(bytes(subgraph)) if kind is None else np.frombuffer(subgraph, kind)
        )
    return columns


def parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, bytes) of each part of *data*; joined in this order they are *data*."""
    for number, first in enumerate(range(0, len(data), PART)):
        yield number, data[first : first + PART]
