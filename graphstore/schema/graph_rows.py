"""The rows of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from graphstore.columns.coded import Coded
from graphstore.columns.op_attributes import RANKS, attribute_texts, job_ranks
from graphstore.model import DType, EdgeKind, Op, Shape
from graphstore.schema import codec
from graphstore.schema.codec import plain_text, plain_texts
from graphstore.schema.op_blocks import BLOCK
from graphstore.schema.row_slices import Columns, Records, Row, Table, absent, columns_table
from graphstore.schema.stored_graph import StoredGraph, graph_info, node_ids

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
        edge_tables(stored),
    )


def edge_tables(stored: StoredGraph) -> dict[str, Sequence[Row]]:
    """The rows of the relationships between the ops and tensors of one graph, by type."""
    return {
        "FEEDS": feeds_table(stored),
        "CONTROLS": controls_table(stored),
        "PRODUCES": outputs_table(stored),
        "INPUT_OF": inputs_table(stored),
    }


def import_records(stored: StoredGraph, name: str, created: str) -> Records:
    """The row that gives a stored graph its name, which is there."""
    return Records(
        {"Import": [(name, name, stored.key, created)]},
        {"OF_GRAPH": Table.of([(name, stored.key)])},
    )


def graph_rels(stored: StoredGraph) -> dict[str, Sequence[Row]]:
    """The rows of the relationships from a model to its graph and from that to its ops."""
    key, first, ops = stored.key, stored.first_id, len(stored.graph.ops)
    return {
        "HAS_GRAPH": Table.of([(_model_id(stored), key)]),
        "HAS_OP": Table(
            ops,
            lambda begin, end: (
                Coded.same(key, end - begin),
                np.arange(first + begin, first + end),
            ),
        ),
    }


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
    first_node, kind = stored.first_id, stored.graph.kind.value
    is_job = RANKS in stored.graph.attrs

    def columns(first: int, until: int) -> Columns:
        places = order[first:until]
        part = [ops[place] for place in places.tolist()]
        names = [op.original_names for op in part]
        ranks = [job_ranks(op.attrs) for op in part] if is_job else []
        return (
            np.arange(first_node + first, first_node + until),
            Coded.same(key, len(part)),
            plain_texts([op.id for op in part]),
            plain_texts([None if op.name == op.id else op.name for op in part]),
            plain_texts([op.type for op in part]),
            np.arange(first, until),
            places,
            _int64([op.sequence for op in part]),
            plain_texts([op.subgraph for op in part]),
            [None if one is None else len(one) for one in names],
            [None if one is None else plain_texts(one) for one in names],
            _attributes_of(part),
            Coded.same(kind, len(part)),
            [own_rank(one) for one in ranks] or absent(len(part)),
            [list(one) for one in ranks] or absent(len(part)),
        )

    return Table(len(ops), columns)


def own_rank(ranks: Sequence[int]) -> int | None:
    """The rank of an op that only one of a job calls."""
    return ranks[0] if len(ranks) == 1 else None


def _attributes_of(ops: Sequence[Op]) -> Coded[list[str]]:
    """The texts of the attributes of each of *ops*; those that several share are made once."""
    attrs = [op.attrs for op in ops]
    attrs_of = dict(zip(keys := list(map(id, attrs)), attrs, strict=True))
    return Coded.of(keys).mapped(lambda key: list(plain_texts(attribute_texts(attrs_of[key]))))


def _int64(values: Sequence[int]) -> NDArray[np.int64]:
    """*values*, those beyond what both stores can hold as the last they can."""
    try:
        numbers = np.asarray(values, dtype=np.int64)
    except OverflowError:
        numbers = np.asarray([max(-_INT64_MAX, min(_INT64_MAX, one)) for one in values])
    return np.maximum(numbers, -_INT64_MAX)


def tensor_table(stored: StoredGraph) -> Table:
    """The rows of the table Tensor."""
    outputs, start, first_node = stored.outputs, stored.tensor_starts, stored.first_id
    places = outputs.in_order(stored.order)
    owners = np.repeat(np.arange(len(start) - 1, dtype=np.int32), np.diff(start))
    specs = outputs.specs
    by_spec = (
        specs.mapped(lambda spec: codec.shape_text(spec[1])),
        specs.mapped(lambda spec: _WORDS[spec[0]]),
        specs.mapped(lambda spec: None if spec[2] is None else plain_text(spec[2])),
        specs.mapped(lambda spec: dims(spec[1])),
    )
    any_name, any_origin = any(outputs.names), any(outputs.origins)

    def columns(first: int, until: int) -> Columns:
        part, ops = places[first:until], owners[first:until]
        numbers = part.tolist()
        names = [outputs.names[number] for number in numbers] if any_name else []
        origins = [outputs.origins[number] for number in numbers] if any_origin else []
        shapes, dtypes, layouts, sizes = [column.take(part) for column in by_spec]
        return (
            np.arange(first_node + first, first_node + until),
            node_ids(ops, first_node),
            np.arange(first, until) - start[ops],
            plain_texts(names) or absent(len(part)),
            shapes,
            dtypes,
            layouts,
            plain_texts([None if origin is None else origin.op for origin in origins])
            or absent(len(part)),
            [None if origin is None else origin.port for origin in origins] or absent(len(part)),
            sizes,
        )

    return Table(len(outputs), columns)


@lru_cache(4096)
def dims(shape: Shape | None) -> list[int] | None:
    """A shape as a list both stores can hold: an unknown size is -1."""
    return None if shape is None else [-1 if size is None else size for size in shape]


def outputs_table(stored: StoredGraph) -> Table:
    """The rows of PRODUCES."""
    start, first = stored.tensor_starts, stored.first_id
    owners = np.repeat(np.arange(len(start) - 1, dtype=np.int32), np.diff(start))

    def columns(begin: int, end: int) -> Columns:
        return node_ids(owners[begin:end], first), np.arange(first + begin, first + end)

    return Table(len(owners), columns)


def inputs_table(stored: StoredGraph) -> Table:
    """The rows of INPUT_OF: of the edges that come from an output the graph describes."""
    edges, numbers, start = stored.edges, stored.numbers(), stored.tensor_starts
    sources, outputs = numbers[edges.sources], edges.outputs
    rows = np.flatnonzero((outputs >= 0) & (outputs < np.diff(start)[sources])).astype(np.int32)
    data = int(np.searchsorted(rows, edges.data))
    tensors = start[sources[rows]] + outputs[rows]
    targets, first_node = numbers[edges.targets[rows]], stored.first_id
    ports = edges.inputs[rows]

    def columns(first: int, until: int) -> Columns:
        part = slice(first, until)
        return (
            node_ids(tensors[part], first_node),
            node_ids(targets[part], first_node),
            ports[part],
            _edge_kinds(data, first, until),
        )

    return Table(len(rows), columns)


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
            else absent(until - first),
            _edge_kinds(edges.data, first, until),
        )

    return Table(len(edges.sources), columns)


def _edge_kinds(data: int, first: int, until: int) -> Coded[str]:
    """The kinds of the edges from *first* to before *until*, the first *data* of data."""
    kinds = (EdgeKind.DATA.value, EdgeKind.CALL.value)
    return Coded((np.arange(first, until) >= data).astype(np.int8), kinds)


def controls_table(stored: StoredGraph) -> Table:
    """The rows of CONTROLS."""
    edges, nodes = stored.edges, stored.nodes(stored.numbers())
    return columns_table((nodes[edges.control_sources], nodes[edges.control_targets]))
