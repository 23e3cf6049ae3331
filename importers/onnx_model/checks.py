"""What is done with a model before it is walked: names that are no text and values outside of its
folder are refused, types and shapes it leaves out are filled in as far as they can be inferred.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from graphstore.errors import ImportFormatError
from graphstore.model import Constant
from importers.kept import told_of
from importers.onnx_model.reading import Functions

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto


def check_names(model: ModelProto) -> None:
    """Raise ValueError if a name that will be used is not UTF-8."""
    for name in _names(model):
        if not isinstance(name, str):
            raise ValueError(f"a name is not text: {name!r}")  # noqa: TRY004 - file, not call


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


_HINT = "values may lie only in the model's folder or below it; save the model again"


def check_external(path: Path, constants: Iterable[Constant]) -> list[str]:
    """What is missing of the files with values that the model *path* names, as lines.

    Raises:
        ImportFormatError: a value lies outside of the model's folder, by an absolute path, by
            ``..`` or through a link.
    """
    folder = path.absolute().parent
    sizes: dict[str, int | None] = {}
    short: list[str] = []
    for constant in constants:
        place = constant.location
        if not place:
            continue
        if place not in sizes:
            _check_place(path, folder, constant.tensor.name, place)
            sizes[place] = _size(folder / place)
        size = sizes[place]
        if size is not None and constant.offset + (constant.nbytes or 0) > size:
            short.append(constant.tensor.name)
    missing = sorted(place for place, size in sizes.items() if size is None)
    past = "{value reaches past the end of its|values reach past the end of their} file"
    return [
        *told_of(missing, "{file with values is|files with values are} not there"),
        *told_of(short, past),
    ]


def _size(file: Path) -> int | None:
    try:
        return file.stat().st_size if file.is_file() else None
    except OSError:  # a name no file can have is as good as missing
        return None


def _check_place(path: Path, folder: Path, tensor: str, place: str) -> None:
    what = f"the values of {tensor!r} lie at {place!r}"
    if "\0" in place:
        raise ImportFormatError(path, f"{what}, which no file can be called", hint=_HINT)
    if PurePosixPath(place).is_absolute() or PureWindowsPath(place).anchor:
        raise ImportFormatError(path, f"{what}, an absolute path", hint=_HINT)
    if ".." in PureWindowsPath(place).parts:  # parts at both kinds of slashes
        raise ImportFormatError(path, f"{what}, outside of the model's folder", hint=_HINT)
    inside = os.path.realpath(folder)
    real_path = os.path.realpath(folder / place)
    if os.path.commonpath([inside, real_path]) != inside:
        what += ", which is a link out of the model's folder"
        raise ImportFormatError(path, what, hint=_HINT)


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
    names = {value.name for value in graph.value_info}
    names.update(value.name for value in graph.output)
    return all(name in names for node in graph.node for name in node.output if name)


def all_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """The tensors with values: initializers and attributes, those of bodies and functions too."""
    waiting: list[GraphProto | NodeProto] = [model.graph]
    waiting.extend(node for function in model.functions for node in function.node)
    while waiting:
        message: Any = waiting.pop()
        if hasattr(message, "attribute"):
            for attr in message.attribute:
                yield from [attr.t] if attr.HasField("t") else attr.tensors
                waiting.extend([attr.g] if attr.HasField("g") else attr.graphs)
            continue
        yield from message.initializer
        for sparse in message.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        waiting.extend(message.node)


def _drop_values(tensor: TensorProto) -> None:
    if math.prod(tensor.dims) > _SMALL:
        for kind in ("raw", "float", "int32", "int64", "double", "uint64"):
            tensor.ClearField(f"{kind}_data")
