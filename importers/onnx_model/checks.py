"""Refuse models whose names are no text: protobuf lets them through as raw bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto


def check_names(model: ModelProto) -> None:
    """Raise ValueError if a name that will be used is not UTF-8."""
    for name in _names(model):
        if not isinstance(name, str):
            raise ValueError(f"a name is no text: {name!r}")  # noqa: TRY004 - file, not call


def _names(model: ModelProto) -> Iterator[object]:
    yield from (model.producer_name, model.producer_version)
    yield from (opset.domain for opset in model.opset_import)
    for entry in model.metadata_props:
        yield from (entry.key, entry.value)
    for function in model.functions:
        yield from (function.name, function.domain, getattr(function, "overload", ""))
        yield from (*function.input, *function.output, *function.attribute)
        yield from (attr.name for attr in function.attribute_proto)
        yield from _node_names(function.node)
    yield from _graph_names(model.graph)


def _graph_names(graph: GraphProto) -> Iterator[object]:
    yield graph.name
    for values in (graph.input, graph.output, graph.value_info):
        yield from (value.name for value in values)
    sparse = (tensor.values for tensor in graph.sparse_initializer)
    for tensors in (graph.initializer, sparse):
        for tensor in tensors:
            yield tensor.name
            for entry in tensor.external_data:
                yield from (entry.key, entry.value)
    yield from _node_names(graph.node)


def _node_names(nodes: Iterable[NodeProto]) -> Iterator[object]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain)
        yield from node.input
        yield from node.output
        for attr in node.attribute:
            yield from (attr.name, attr.ref_attr_name)
            if attr.HasField("g"):
                yield from _graph_names(attr.g)
            for body in attr.graphs:
                yield from _graph_names(body)
