"""Fill in types and shapes a model leaves out, as far as they can be inferred."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from importers.onnx_model.functions import Functions

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto

MAX_BYTES = 1_500_000_000
"""Larger models are not inferred: a protobuf ends at 2 GiB and inference copies it."""

_SMALL = 1024
"""Elements a tensor may have and keep its values: shapes are computed from such ones."""


def with_shapes(model: ModelProto) -> tuple[ModelProto, str]:
    """*model* with inferred shapes, or itself, and a warning if inference failed.

    Values of large tensors are dropped from *model* first: inference needs only their
    types, and would copy the values several times.
    """
    if _complete(model.graph):
        return model, ""
    if not Functions(model).can_be_expanded():
        return model, "shapes were not inferred: calls of functions have no end, or one far away"
    for tensor in all_tensors(model):
        _drop_values(tensor)
    if model.ByteSize() > MAX_BYTES:
        return model, "shapes were not inferred: the model is too large for it"
    from google.protobuf.message import DecodeError, EncodeError
    from onnx import checker, shape_inference

    try:
        return shape_inference.infer_shapes(model, data_prop=False), ""
    except (
        shape_inference.InferenceError,
        checker.ValidationError,
        DecodeError,
        EncodeError,
        RuntimeError,
        ValueError,
    ) as error:
        reason = str(error).strip().split("\n", 1)[0]
        return model, f"shapes could not be inferred: {reason}"


def _complete(graph: GraphProto) -> bool:
    known = {value.name for value in graph.value_info}
    known.update(value.name for value in graph.output)
    return all(name in known for node in graph.node for name in node.output if name)


def all_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """The tensors with values: initializers and attributes, those of bodies and functions too."""
    graphs = [model.graph]
    nodes = [node for function in model.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
            nodes.extend(graph.node)
        for node in nodes:
            for attr in node.attribute:
                if attr.HasField("t"):
                    yield attr.t
                yield from attr.tensors
                if attr.HasField("g"):
                    graphs.append(attr.g)
                graphs.extend(attr.graphs)
        nodes = []


def _drop_values(tensor: TensorProto) -> None:
    if math.prod(tensor.dims) > _SMALL:
        for field in (
            "raw_data",
            "float_data",
            "int32_data",
            "int64_data",
            "double_data",
            "uint64_data",
        ):
            tensor.ClearField(field)
