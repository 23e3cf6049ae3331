"""Fill in types and shapes a model leaves out, as far as they can be inferred."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from importers.onnx_model.functions import Functions

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

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
        *(shape_inference.InferenceError, checker.ValidationError),
        *(DecodeError, EncodeError, RuntimeError, ValueError),
    ) as error:
        reason = str(error).strip().split("\n", 1)[0]
        return model, f"shapes could not be inferred: {reason}"


def _complete(graph: GraphProto) -> bool:
    known = {value.name for value in graph.value_info}
    known.update(value.name for value in graph.output)
    return all(name in known for node in graph.node for name in node.output if name)


def all_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """The tensors with values: initializers and attributes, those of bodies and functions too."""
    waiting: list[GraphProto | NodeProto] = [model.graph]
    waiting.extend(node for function in model.functions for node in function.node)
    while waiting:
        found: Any = waiting.pop()
        if hasattr(found, "attribute"):
            for attr in found.attribute:
                yield from [attr.t] if attr.HasField("t") else attr.tensors
                waiting.extend([attr.g] if attr.HasField("g") else attr.graphs)
            continue
        yield from found.initializer
        for sparse in found.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        waiting.extend(found.node)


def _drop_values(tensor: TensorProto) -> None:
    if math.prod(tensor.dims) > _SMALL:
        for kind in ("raw", "float", "int32", "int64", "double", "uint64"):
            tensor.ClearField(f"{kind}_data")
