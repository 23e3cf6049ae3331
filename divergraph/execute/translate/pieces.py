"""What follows from the shapes and constants a piece is given: its outputs' shapes and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from divergraph.execute.onnx.session import open_session, plain_options, run_session
from divergraph.execute.translate.contract import KnownTensor
from divergraph.execute.translate.piece import Piece
from divergraph.values.array_types import Array
from graphstore.errors import ExecutionError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, ValueInfoProto

OPSET, IR_VERSION = 21, 10
"""What pieces are written in: the newest every supported ONNX Runtime and onnx knows."""
MICROSOFT = "com.microsoft"
"""The domain of ops that ONNX Runtime has beside those of the standard."""
_FOLDED = 1 << 12
"""Elements up to which what follows from constants is computed at once: shapes, axes, indices."""


def new_model(nodes: Sequence[NodeProto]) -> ModelProto:
    """A model of *nodes*, as yet without inputs and outputs."""
    from onnx import helper

    graph = helper.make_graph(list(nodes), "pieces", [], [])
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def tensor_info(name: str, known_tensor: KnownTensor) -> ValueInfoProto:
    """The declaration of a tensor as far as it is known."""
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(known_tensor.dtype)
    return helper.make_tensor_value_info(name, kind, known_tensor.shape)


def made_by(piece: Piece, outputs: Sequence[str]) -> dict[str, KnownTensor]:
    """What is known of the *outputs* of a piece: shapes where they follow from those of the inputs,
    values where they are few and follow from constants.

    Tensors nothing is known of are missing.
    """
    known_tensors = {
        name: known_tensor
        for name, known_tensor in zip(piece.names, piece.known, strict=True)
        if name and known_tensor
    }
    used = {name for node in piece.nodes for name in node.input} - {""}
    for name in used - known_tensors.keys():
        if (known_tensor := piece.known_of(name)) is not None:  # an element of a list
            known_tensors[name] = known_tensor
    inferred = _inferred(
        piece, {name: known_tensors[name] for name in used if name in known_tensors}, outputs
    )
    values = {name: known_tensors[name].value for name in used & known_tensors.keys()}
    fixed = {name: value for name, value in values.items() if value is not None}
    if used & known_tensors.keys() <= fixed.keys() and _is_small(fixed, inferred, outputs):
        return _folded(piece, fixed, outputs)
    return inferred


def _is_small(
    fixed: Mapping[str, Array], known_tensors: Mapping[str, KnownTensor], outputs: Sequence[str]
) -> bool:
    sizes = [value.size for value in fixed.values()]
    for name in outputs:
        shape = known_tensors[name].shape if name in known_tensors else None
        sizes.append(_FOLDED if shape is None else int(np.prod(shape, dtype=np.int64)))
        # Numbers that are no shapes and indices are computed with all others, in one session.
        if name in known_tensors and known_tensors[name].dtype.kind == "f":
            return False
    return max(sizes, default=0) <= _FOLDED


def _folded(
    piece: Piece, fixed: Mapping[str, Array], outputs: Sequence[str]
) -> dict[str, KnownTensor]:
    from onnx import ValueInfoProto, numpy_helper

    model = new_model(piece.nodes)
    for name, value in {**fixed, **piece.constants}.items():
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    model.graph.output.extend(ValueInfoProto(name=name) for name in outputs)
    session = open_session(model, Path(), plain_options())
    results = run_session(session, outputs, {})
    return {
        name: KnownTensor.of(np.asarray(value))
        for name, value in zip(outputs, results, strict=True)
    }


def _inferred(
    piece: Piece, known_tensors: Mapping[str, KnownTensor], outputs: Sequence[str]
) -> dict[str, KnownTensor]:
    from onnx import ValueInfoProto, helper, numpy_helper, shape_inference
    from onnx.shape_inference import InferenceError

    model = new_model(piece.nodes)
    graph = model.graph
    for name, known_tensor in known_tensors.items():
        if known_tensor.value is not None and known_tensor.value.size <= _FOLDED:
            graph.initializer.append(numpy_helper.from_array(known_tensor.value, name))
        else:
            graph.input.append(tensor_info(name, known_tensor))
    for name, value in piece.constants.items():
        if value.size <= _FOLDED:
            graph.initializer.append(numpy_helper.from_array(value, name))
        else:
            graph.input.append(tensor_info(name, KnownTensor.of(value)))
    graph.output.extend(ValueInfoProto(name=name) for name in outputs)
    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True)
    except (InferenceError, RuntimeError, ValueError) as error:
        raise ExecutionError(
            f"{piece.op.id!r} of type {piece.op.type} cannot be as it is: {_error_text(error)}"
        ) from error
    tensors: dict[str, KnownTensor] = {}
    for info in inferred.graph.output:
        declared = info.type.tensor_type
        if not declared.elem_type:
            continue
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in declared.shape.dim]
        static = [size for size in sizes if size is not None]
        known_shape = declared.HasField("shape") and len(static) == len(sizes)
        tensors[info.name] = KnownTensor(
            np.dtype(helper.tensor_dtype_to_np_dtype(declared.elem_type)),
            tuple(static) if known_shape else None,
        )
    return tensors


def _error_text(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
