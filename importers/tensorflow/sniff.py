"""Tell GraphDef, MetaGraphDef and SavedModel apart by their first bytes.

All three end in ``.pb`` as often as not, and their field numbers overlap; sources are
graph.proto, meta_graph.proto and saved_model.proto of TensorFlow.
"""

from __future__ import annotations

import re
from enum import Enum

from importers.proto.wire import BLOCK, VARINT, WireField, outer_fields

_OP_TYPE = re.compile(rb"[A-Za-z_>][\w>./-]*")


class TensorFlowMessage(Enum):
    """Which message a TensorFlow file holds."""

    GRAPH = "graphdef"
    META = "meta"
    SAVED = "saved_model"


def binary_kind(head: bytes) -> TensorFlowMessage | None:
    """The kind of a binary file that starts with *head*."""
    fields = outer_fields(head)
    kinds = {field.kind for field in fields}
    if not fields:
        return None
    if kinds <= {(1, VARINT), (2, BLOCK)} and _holds_meta(fields):
        return TensorFlowMessage.SAVED
    if not kinds <= {(n, BLOCK) for n in range(1, 8)} | {(3, VARINT)}:
        return None
    if _is_graph(fields):
        return TensorFlowMessage.GRAPH
    return TensorFlowMessage.META if _is_meta_fields(fields) else None


def text_kind(names: set[tuple[bytes, ...]]) -> TensorFlowMessage | None:
    """The kind of a text with the field *names* (see ``prototext.outline``)."""
    if (b"meta_graphs",) in names:
        return TensorFlowMessage.SAVED
    if (b"meta_info_def",) in names or (b"graph_def",) in names:
        return TensorFlowMessage.META
    return TensorFlowMessage.GRAPH if (b"node", b"op") in names else None


def _holds_meta(fields: list[WireField]) -> bool:
    graphs = [field.content for field in fields if field.number == 2]
    return bool(graphs) and _is_meta_fields(outer_fields(graphs[0]))


def _is_meta_fields(fields: list[WireField]) -> bool:
    """A MetaGraphDef: meta_info_def, graph_def, then collections and signatures."""
    if not fields or any(field.wire_type != BLOCK for field in fields):
        return False
    for field in fields:
        if field.number == 2 and _is_graph(outer_fields(field.content)):
            return True
        if field.number == 1 and _is_info(field.content):
            return True
    return False


def _is_info(content: bytes) -> bool:
    """MetaInfoDef: its own texts, or the list of the ops used."""
    fields = outer_fields(content)
    if not fields or any(field.number > 8 for field in fields):
        return False
    return any(
        (field.number == 5 and field.content[:1].isdigit())
        or (field.number == 2 and field.content[:1] == b"\x0a")
        or field.number == 4
        for field in fields
    )


def _is_graph(fields: list[WireField]) -> bool:
    """A GraphDef: its nodes come first, each with a name and an op."""
    if not fields or fields[0].kind != (1, BLOCK):
        return False
    node = {field.number: field for field in outer_fields(fields[0].content)}
    named = 1 in node and node[1].wire_type == BLOCK
    op = node.get(2)
    return named and op is not None and _OP_TYPE.fullmatch(op.content) is not None
