"""The rows of a graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from graphstore.model import DType
from graphstore.schema import codec
from graphstore.schema.codec import plain_text, plain_texts
from graphstore.schema.op_blocks import BLOCK, attrs_of
from graphstore.schema.row_slices import (
    Absent,
    Columns,
    Records,
    Repeated,
    Row,
    Table,
    columns_table,
)
from graphstore.schema.stored_graph import StoredGraph, graph_info, node_ids
from graphstore.traverse.edge_columns import edge_kinds

_INT64_MAX = 2**63 - 1
_WORDS: dict[object, str | None] = {None: None} | {word: word.value for word in DType}
"""Looking a member up takes a fifth of the time its ``value`` takes."""


def graph_records(stored: StoredGraph) -> Records:
    """The rows of one graph."""
    return Records(
        {
            "Model": [model_row(stored)],
            "Graph": [graph_row(stored)],
            "Op": op_table(stored),
            "OpBlock": block_rows(stored),
            "Tensor": tensor_table(stored),
        },
        {"FEEDS": feeds_table(stored), "CONTROLS": controls_table(stored)},
    )


def import_records(stored: StoredGraph, name: str, created: str) -> Records:
    """The row that gives a stored graph its name."""
    return Records({"Import": [(name, name, stored.key, created)]})


def model_row(stored: StoredGraph) -> Row:
    """The row of the table Model."""
    graph = stored.graph
    return _model_id(stored), plain_text(graph.name), graph.framework.value


def graph_row(stored: StoredGraph) -> Row:
    """The row of the table Graph."""
    graph = stored.graph
    info = graph_info(graph, graph.name, "", stored.edges)
    return (
        stored.key,
        _model_id(stored),
        plain_text(graph.name),
        info.kind,
        info.framework,
        plain_text(info.format),
        plain_text(graph.sha256),
        stored.content,
        info.ops,
        info.edges,
        info.subgraphs,
        info.fused_ops,
        plain_text(graph.source),
        stored.packed.header,
    )


def _model_id(stored: StoredGraph) -> str:
    return plain_text(f"{stored.graph.framework.value}:{stored.graph.name}")


def block_rows(stored: StoredGraph) -> Sequence[Row]:
    """The rows of the table OpBlock."""
    return [
        (stored.first_id + number, stored.key, number * BLOCK, data)
        for number, data in enumerate(stored.packed.blocks)
    ]


def op_table(stored: StoredGraph) -> Table:
    """The rows of the table Op."""
    # only what the rows need, so that the rest can go before they are made
    ops, order, key = stored.graph.ops, stored.order, stored.key
    first_node = stored.first_id

    def columns(first: int, until: int) -> Columns:
        places = order[first:until]
        part = [ops[place] for place in places.tolist()]
        names = [op.original_names for op in part]
        return (
            np.arange(first_node + first, first_node + until),
            Repeated(key, len(part)),
            plain_texts([op.id for op in part]),
            plain_texts([None if op.name == op.id else op.name for op in part]),
            plain_texts([op.type for op in part]),
            np.arange(first, until),
            places,
            _int64([op.sequence for op in part]),
            plain_texts([op.subgraph for op in part]),
            [None if one is None else len(one) for one in names],
            [None if one is None else plain_texts(one) for one in names],
            attrs_of(part),
        )

    return Table(len(ops), columns)


def _int64(values: Sequence[int]) -> NDArray[np.int64]:
    """*values*, those beyond what both stores can hold as the last they can."""
    try:
        numbers = np.asarray(values, dtype=np.int64)
    except OverflowError:
        numbers = np.asarray([max(-_INT64_MAX, min(_INT64_MAX, one)) for one in values])
    return np.maximum(numbers, -_INT64_MAX)


def tensor_table(stored: StoredGraph) -> Table:
    """The rows of the table Tensor."""
    ops, order = stored.graph.ops, stored.order
    counts = np.fromiter((len(ops[place].outputs) for place in order.tolist()), np.int32, len(ops))
    start = np.zeros(len(ops) + 1, dtype=np.int32)
    np.cumsum(counts, out=start[1:])
    first_node = stored.first_id

    def columns(first: int, until: int) -> Columns:
        low = int(np.searchsorted(start, first, "right")) - 1
        high = int(np.searchsorted(start, until, "left"))
        part = [ops[place] for place in order[low:high].tolist()]
        cut = slice(first - int(start[low]), until - int(start[low]))
        tensors = [tensor for op in part for tensor in op.outputs][cut]
        ports = [port for op in part for port in range(len(op.outputs))][cut]
        owners = [op.id for op in part for _ in op.outputs][cut]
        origins = [tensor.origin for tensor in tensors]
        return (
            np.arange(first_node + first, first_node + until),
            np.repeat(np.arange(first_node + low, first_node + high), counts[low:high])[cut],
            ports,
            plain_texts(
                [
                    None if tensor.name == f"{op}:{port}" else tensor.name
                    for tensor, op, port in zip(tensors, owners, ports, strict=True)
                ]
            ),
            [codec.shape_text(tensor.shape) for tensor in tensors],
            [_WORDS[tensor.dtype] for tensor in tensors],
            plain_texts([tensor.layout for tensor in tensors]),
            plain_texts([None if origin is None else origin.op for origin in origins]),
            [None if origin is None else origin.port for origin in origins],
        )

    return Table(int(start[-1]), columns)


def feeds_table(stored: StoredGraph) -> Table:
    """The rows of FEEDS."""
    # only what the rows need, as for the ops
    edges, numbers, first_node = stored.edges, stored.numbers(), stored.first_id
    names = edges.own_names

    def columns(first: int, until: int) -> Columns:
        return (
            node_ids(numbers[edges.sources[first:until]], first_node),
            node_ids(numbers[edges.targets[first:until]], first_node),
            edges.outputs[first:until],
            edges.inputs[first:until],
            [plain_text(names[edge]) if edge in names else None for edge in range(first, until)]
            if names
            else Absent(until - first),
            edge_kinds(edges, first, until),
        )

    return Table(len(edges.sources), columns)


def controls_table(stored: StoredGraph) -> Table:
    """The rows of CONTROLS."""
    edges, nodes = stored.edges, stored.nodes(stored.numbers())
    return columns_table((nodes[edges.control_sources], nodes[edges.control_targets]))
