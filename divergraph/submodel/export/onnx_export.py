"""A part of an ONNX model as a model of its own.

Nodes and weights are copied byte by byte from the file, so the opset, attributes and names
stay what they were, and a few nodes of a model of gigabytes take no longer than those nodes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from divergraph.execute.contract import Array
from divergraph.execute.onnx.files import captured_names, in_makers_order
from divergraph.files.os_errors import os_errors_told
from divergraph.submodel.export.contract import PartSource, WrittenPart, another_model
from divergraph.submodel.export.onnx_file import (
    FUNCTIONS,
    GRAPH,
    INITIALIZER,
    INPUT,
    NAME,
    NODE,
    OUTPUT,
    QUANTIZATION,
    SPARSE,
    VALUE_INFO,
    OnnxFile,
    opened,
)
from divergraph.submodel.selection import BoundaryTensor, Selection
from graphstore.errors import InputError
from graphstore.model import ModelGraph
from importers.proto.wire import BLOCK, FieldSpan, varint_bytes

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

_LARGEST_MESSAGE = (1 << 31) - (1 << 20)
"""Protobuf's limit, with room for what surrounds the weights; above it they go beside."""
_COPIED_AT_ONCE = 1 << 24


def export_onnx(
    graph: ModelGraph,
    model: Path,
    part: Selection,
    target: Path,
    frozen: Mapping[str, Array] | None = None,
) -> WrittenPart:
    """Write *part* of *graph*, which was read from *model*, to the new file *target*.

    *frozen* gives the values of inputs that become constants, by name. Weights of other
    files, or more than a message can hold, go to ``<target>.data``.

    Raises:
        InputError: the part lies in a body, or the file is no longer that graph.
        ImportFormatError: the model is damaged.
    """
    with opened(model) as file:
        return _Part(graph, file, part, frozen or {}).written(target)


def write_onnx_part(source: PartSource, part: Selection, folder: Path) -> WrittenPart:
    """Write ``dump.onnx``, and ``dump.onnx.data`` where the weights need it."""
    frozen = {t.name: source.values[t.name] for t in part.inputs if t.name in source.values}
    return export_onnx(source.graph, source.model, part, folder / "dump.onnx", frozen)


class _Part:
    def __init__(
        self, graph: ModelGraph, file: OnnxFile, part: Selection, frozen: Mapping[str, Array]
    ) -> None:
        self._file = file
        self._part = part
        self._frozen = frozen
        self._places = sorted(_places(graph, file, part))
        self._nodes = [file.node(place) for place in self._places]
        _check_same(graph, self._places, self._nodes)

    def written(self, target: Path) -> WrittenPart:
        produced = {name for node in self._nodes for name in node.output if name}
        used = {name for node in self._nodes for name in (*node.input, *captured_names(node))}
        weights = [self._file.initializers[n] for n in sorted(used) if n in self._file.initializers]
        data_path = target.with_name(target.name + ".data")
        inline = sum(span.end - span.start for span in weights) < _LARGEST_MESSAGE
        outside = {span for span in weights if not inline or self._file.has_external(span)}
        fields: list[tuple[int, bytes | FieldSpan]] = [(NAME, self._name())]
        order = [self._places[at] for at in in_makers_order(self._nodes)]
        fields += [(NODE, self._file.nodes[place]) for place in order]
        fields += [(INITIALIZER, span) for span in weights if span not in outside]
        fields += [(INITIALIZER, tensor) for tensor in self._moved(outside, data_path)]
        fields += [(SPARSE, self._file.sparse[n]) for n in sorted(used & self._file.sparse.keys())]
        fields += [(INITIALIZER, tensor) for tensor in self._constants()]
        fields += [(INPUT, info) for info in self._inputs(used)]
        fields += [(OUTPUT, _info(tensor)) for tensor in self._part.outputs]
        fields += [(number, span) for number, span in self._facts(produced, used)]
        with target.open("wb") as out:
            self._write(out, fields)
        return WrittenPart((target, data_path) if outside else (target,), {})

    def _name(self) -> bytes:
        for span in self._file.inner:
            if span.number == NAME:
                return self._file.bytes_of(span)
        return b"part"

    def _inputs(self, used: Iterable[str]) -> Iterator[bytes | FieldSpan]:
        listed = self._file.constants_are_inputs
        for tensor in self._part.inputs:
            if listed or tensor.name not in self._frozen:
                yield _info(tensor)
        for name in sorted(set(used) & self._file.initializers.keys()) if listed else ():
            if name in self._file.inputs:
                yield self._file.inputs[name]
            else:
                yield self._declared(self._file.tensor(self._file.initializers[name]))

    def _declared(self, tensor: TensorProto) -> bytes:
        from onnx import helper

        info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        return info.SerializeToString()

    def _constants(self) -> Iterator[bytes]:
        from onnx import numpy_helper

        for name, value in sorted(self._frozen.items()):
            yield numpy_helper.from_array(value, name).SerializeToString()

    def _facts(self, produced: set[str], used: set[str]) -> Iterator[tuple[int, FieldSpan]]:
        """What the file says of the tensors inside: types, shapes, quantisation."""
        outside = {tensor.name for tensor in (*self._part.inputs, *self._part.outputs)}
        for name in sorted(produced - outside):
            if name in self._file.infos:
                yield VALUE_INFO, self._file.infos[name]
        for span in self._file.inner:
            if span.number == QUANTIZATION:
                from onnx import TensorAnnotation

                annotation = TensorAnnotation.FromString(self._file.bytes_of(span))
                if annotation.tensor_name in produced | used:
                    yield QUANTIZATION, span

    def _moved(self, outside: Iterable[FieldSpan], data_path: Path) -> Iterator[bytes]:
        """Weights whose values go to *data_path*, told where."""
        spans = sorted(outside, key=lambda span: span.start)
        if not spans:
            return
        with data_path.open("wb") as out:
            for span in spans:
                tensor = self._file.tensor(span)
                yield self._put(tensor, out, data_path.name)

    def _put(self, tensor: TensorProto, out: BinaryIO, name: str) -> bytes:
        from importers.onnx_model.checks import check_external
        from importers.onnx_model.values import constant

        out.seek((out.tell() + 63) // 64 * 64)  # aligned, so that it can be mapped
        start = out.tell()
        facts = {entry.key: entry.value for entry in tensor.external_data}
        if tensor.data_location == tensor.EXTERNAL:
            check_external(self._file.path, [constant(tensor, tensor.name)])
            source = self._file.path.parent / facts.get("location", "")
            length = facts.get("length")
            what = f"the values of {tensor.name!r} cannot be read"
            with os_errors_told(what, source), source.open("rb") as values:
                values.seek(int(facts.get("offset", "0")))
                _copy(values, out, None if length is None else int(length))
        else:
            from onnx import numpy_helper

            if not tensor.HasField("raw_data"):
                tensor = numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name)
            out.write(tensor.raw_data)
        length_written = out.tell() - start
        tensor.ClearField("raw_data")
        tensor.data_location = tensor.EXTERNAL
        del tensor.external_data[:]
        for key, value in (("location", name), ("offset", start), ("length", length_written)):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
        return tensor.SerializeToString()

    def _write(self, out: BinaryIO, fields: list[tuple[int, bytes | FieldSpan]]) -> None:
        for span in self._file.outer:
            if span.number != GRAPH and not (span.number == FUNCTIONS and not self._calls()):
                out.write(self._file.buffer[span.key : span.end])
        lengths = [len(f) if isinstance(f, bytes) else f.end - f.start for _, f in fields]
        heads = [
            varint_bytes(number << 3 | BLOCK) + varint_bytes(length)
            for (number, _), length in zip(fields, lengths, strict=True)
        ]
        out.write(varint_bytes(GRAPH << 3 | BLOCK))
        out.write(varint_bytes(sum(lengths) + sum(map(len, heads))))
        for head, (_, field) in zip(heads, fields, strict=True):
            out.write(head)
            if isinstance(field, bytes):
                out.write(field)
            else:
                for start in range(field.start, field.end, _COPIED_AT_ONCE):
                    out.write(self._file.buffer[start : min(field.end, start + _COPIED_AT_ONCE)])

    def _calls(self) -> bool:
        """Whether a node may call one of the model's own functions."""
        from onnx import FunctionProto

        functions = set()
        for span in self._file.outer:
            if span.number == FUNCTIONS:
                function = FunctionProto.FromString(self._file.bytes_of(span))
                functions.add((function.domain, function.name))
        return any((node.domain, node.op_type) in functions for node in _all_nodes(self._nodes))


def _all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    from divergraph.execute.onnx.files import bodies

    for node in nodes:
        yield node
        for body in bodies(node):
            yield from _all_nodes(body.node)


def _places(graph: ModelGraph, file: OnnxFile, part: Selection) -> Iterator[int]:
    """Where the chosen ops stand among the nodes of the file."""
    root = [op.id for op in graph.ops if not op.subgraph]
    if len(root) != len(file.nodes):
        raise another_model(file.path)
    place_of = {op: place for place, op in enumerate(root)}
    for op in part.ops:
        if op not in place_of:
            raise InputError(
                f"{op} lies in a body: a part of a body cannot run alone",
                hint="choose the op that owns the body",
            )
        yield place_of[op]


def _check_same(graph: ModelGraph, places: list[int], nodes: list[NodeProto]) -> None:
    root = [op for op in graph.ops if not op.subgraph]
    for place, node in zip(places, nodes, strict=True):
        op = root[place]
        names = [tensor.name for tensor in op.outputs if tensor.name]
        if op.type.rpartition(".")[2] != node.op_type.rpartition(".")[2] or not set(names) <= {
            *node.output
        }:
            raise another_model(Path(graph.source))


def _info(tensor: BoundaryTensor) -> bytes:
    from onnx import helper

    from importers.onnx_model.values import DTYPES

    kind = next((number for number, dtype in DTYPES.items() if dtype is tensor.dtype), None)
    if kind is None:
        raise InputError(f"ONNX has no tensors of type {tensor.dtype} ({tensor.name})")
    return helper.make_tensor_value_info(tensor.name, kind, tensor.shape).SerializeToString()


def _copy(source: BinaryIO, out: BinaryIO, length: int | None) -> None:
    if length is None:
        shutil.copyfileobj(source, out, _COPIED_AT_ONCE)
        return
    while length > 0:
        piece = source.read(min(length, _COPIED_AT_ONCE))
        if not piece:
            raise OSError(5, "it ends too early")
        out.write(piece)
        length -= len(piece)
