"""Refuse models whose names are no text, or whose values lie outside of their folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from graphstore.errors import ImportFormatError
from graphstore.model import Constant
from importers.kept import told_of

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
    if "\0" in place or PurePosixPath(place).is_absolute() or PureWindowsPath(place).anchor:
        raise ImportFormatError(path, f"{what}, an absolute path", hint=_HINT)
    if ".." in PureWindowsPath(place).parts:  # parts at both kinds of slashes
        raise ImportFormatError(path, f"{what}, outside of the model's folder", hint=_HINT)
    inside = os.path.realpath(folder)
    found = os.path.realpath(folder / place)
    if os.path.commonpath([inside, found]) != inside:
        what += ", which is a link out of the model's folder"
        raise ImportFormatError(path, what, hint=_HINT)
