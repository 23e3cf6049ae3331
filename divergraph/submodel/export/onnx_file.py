"""An ONNX file by its places: nodes and weights are found without being read.

Field numbers: onnx.proto (ModelProto.graph 7, functions 25; GraphProto.node 1, name 2,
initializer 5, doc_string 10, value_info 13, quantization_annotation 14,
sparse_initializer 15; TensorProto.name 8).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from graphstore.errors import ImportFormatError
from importers.proto.wire import BLOCK, FieldSpan, spans
from importers.source import mapped

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto, ValueInfoProto

Buffer: TypeAlias = "bytes | mmap.mmap"

GRAPH, FUNCTIONS = 7, 25
NODE, NAME, INITIALIZER, VALUE_INFO, QUANTIZATION, SPARSE = 1, 2, 5, 13, 14, 15
INPUT, OUTPUT = 11, 12
_IR_VERSION, _WEIGHTS_ALONE = 1, 4
_TENSOR_NAME = 8
_SPARSE_VALUES = 1
_INFO_NAME = 1


@dataclass(frozen=True)
class OnnxFile:
    """The fields of a model, as places in *buffer*."""

    path: Path
    buffer: Buffer
    outer: tuple[FieldSpan, ...]
    inner: tuple[FieldSpan, ...]

    @cached_property
    def nodes(self) -> tuple[FieldSpan, ...]:
        """The nodes of the root graph, in file order."""
        return tuple(span for span in self.inner if span.number == NODE)

    @cached_property
    def initializers(self) -> Mapping[str, FieldSpan]:
        """Dense weights by name."""
        return self._named(INITIALIZER, _TENSOR_NAME)

    @cached_property
    def sparse(self) -> Mapping[str, FieldSpan]:
        """Sparse weights by name."""
        sparse = {}
        for span in self.inner:
            if span.number == SPARSE:
                for values in self._fields(span):
                    if values.number == _SPARSE_VALUES:
                        sparse[self._text(values, _TENSOR_NAME)] = span
        return sparse

    @cached_property
    def constants_are_inputs(self) -> bool:
        """Whether weights have to be inputs of the graph, too, as before IR version 4."""
        versions = [span.value for span in self.outer if span.number == _IR_VERSION]
        return bool(versions) and versions[-1] < _WEIGHTS_ALONE

    @cached_property
    def inputs(self) -> Mapping[str, FieldSpan]:
        """The declared inputs of the graph by name."""
        return self._named(INPUT, _INFO_NAME)

    @cached_property
    def infos(self) -> Mapping[str, FieldSpan]:
        """What the file says of inner tensors, by name."""
        return self._named(VALUE_INFO, _INFO_NAME)

    def node(self, place: int) -> NodeProto:
        """One node of the root graph."""
        from onnx import NodeProto

        return NodeProto.FromString(self.bytes_of(self.nodes[place]))

    def declared(self) -> Iterator[ValueInfoProto]:
        """Inputs, outputs and inner tensors as the file declares them."""
        from onnx import ValueInfoProto

        for span in self.inner:
            if span.number in (INPUT, OUTPUT, VALUE_INFO):
                yield ValueInfoProto.FromString(self.bytes_of(span))

    def tensor(self, span: FieldSpan) -> TensorProto:
        """One weight with its values."""
        from onnx import TensorProto

        return TensorProto.FromString(self.bytes_of(span))

    def bytes_of(self, span: FieldSpan) -> bytes:
        """The content of a field."""
        return bytes(self.buffer[span.start : span.end])

    def has_external(self, span: FieldSpan) -> bool:
        """Whether a weight's values lie in another file."""
        return any(
            field.number == 14 and field.value == 1  # data_location EXTERNAL
            for field in self._fields(span)
        )

    def _named(self, number: int, name: int) -> dict[str, FieldSpan]:
        """The fields of the graph of this number by their own field *name*."""
        return {self._text(span, name): span for span in self.inner if span.number == number}

    def _fields(self, span: FieldSpan) -> Iterator[FieldSpan]:
        return spans(self.buffer, span.start, span.end)

    def _text(self, span: FieldSpan, number: int) -> str:
        for field in self._fields(span):
            if field.number == number:
                return self.bytes_of(field).decode("utf-8", "surrogateescape")
        return ""


@contextmanager
def opened(path: Path) -> Iterator[OnnxFile]:
    """The model in *path*, in whatever form of ONNX it is written.

    Raises:
        ImportFormatError: damaged, or no ONNX model.
    """
    from importers.onnx_model.importer import Form, form_of
    from importers.onnx_model.reading import load_model

    form = form_of(path)
    if form is not Form.BINARY:
        model, _ = load_model(path, form)
        yield _placed(path, model.SerializeToString())
        return
    with mapped(path) as buffer:
        yield _placed(path, buffer)


def _placed(path: Path, buffer: Buffer) -> OnnxFile:
    try:
        outer = tuple(spans(buffer))
        graph = next(
            (span for span in outer if span.number == GRAPH and span.wire_type == BLOCK), None
        )
        if graph is None:
            raise ImportFormatError(path, "the file holds no ONNX graph", hint="give the .onnx")
        return OnnxFile(path, buffer, outer, tuple(spans(buffer, graph.start, graph.end)))
    except ValueError as error:
        raise ImportFormatError(
            path, f"damaged ONNX model: {error}", hint="export or copy it again"
        ) from error
