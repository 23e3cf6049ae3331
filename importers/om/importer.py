"""Read an offline model (``.om``): the device graph it runs, and where its weights lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from graphstore.errors import ImportFormatError
from graphstore.model import AttrValue, ModelGraph, Tensor
from importers.contract import Confidence, Detection
from importers.ge_proto.assembly import RawGraph, assemble
from importers.ge_proto.binary import BinaryReader
from importers.ge_proto.messages import Node, read_attr, read_desc, read_node
from importers.om.container import (
    MAGIC,
    MODEL_DEF,
    WEIGHTS,
    Container,
    Partition,
    Tables,
    read_container,
    read_tables,
)
from importers.proto.text_reader import Buffer
from importers.proto.values import BinarySpan, Fields, Value, message, text, whole
from importers.source import mapped, sha256

_CONSTANTS = ("Const", "Constant")
_VALUE = "value"


class Weight(NamedTuple):
    """A constant's value in the file: *span* holds it as *tensor* says, whose origin is the
    framework's."""

    span: BinarySpan
    tensor: Tensor


@dataclass(slots=True)
class OfflineModel:
    """An offline model as read: its graphs, the root first, and the weights by node."""

    container: Container
    graphs: list[RawGraph]
    attrs: RawGraph
    weights: list[tuple[Node, Weight]] = field(default_factory=list)


def read_model(buffer: Buffer, path: Path) -> OfflineModel:
    """The graphs of all models in *buffer*, the bytes of *path*.

    A later model of the file is the compiled form of a sub-graph of the first one and
    takes its place.

    Raises:
        ImportFormatError: with the byte offset, where the file is damaged.
    """
    container = read_container(buffer, path)
    model = OfflineModel(container, [], RawGraph())
    by_name: dict[str, int] = {}
    root: Tables | None = None
    for partitions in container.models:
        definition = _only(partitions, MODEL_DEF)
        if definition is None:
            continue
        block = _Block(
            BinaryReader(buffer, path), path, definition.span, _only(partitions, WEIGHTS)
        )
        tables = block.read_attrs(model.attrs if root is None else RawGraph(), root)
        root = root or tables
        for graph in block.graphs(tables):
            place = by_name.setdefault(graph.name, len(model.graphs))
            if place < len(model.graphs):
                model.graphs[place] = graph
            else:
                model.graphs.append(graph)
        model.weights.extend(block.weights)
    if not model.graphs or not model.graphs[0].nodes:
        model_defs = (_only(partitions, MODEL_DEF) for partitions in container.models)
        at = next(part.span.offset for part in model_defs if part is not None)
        raise ImportFormatError(path, "no op in its first graph", offset=at)
    return model


def read_definition(
    buffer: Buffer, path: Path, span: BinarySpan
) -> tuple[list[RawGraph], RawGraph]:
    """The graphs of the model definition at *span*, and what surrounds them.

    Raises:
        ImportFormatError: with the byte offset, where it is damaged.
    """
    model = RawGraph()
    block = _Block(BinaryReader(buffer, path), path, span, None)
    return block.graphs(block.read_attrs(model, None)), model


def _only(partitions: tuple[Partition, ...], kind: int) -> Partition | None:
    return next((part for part in partitions if part.type == kind), None)


class _Block:
    """One model of the file: its definition and its weights."""

    def __init__(
        self, reader: BinaryReader, path: Path, definition: BinarySpan, weights: Partition | None
    ) -> None:
        self._reader = reader
        self._path = path
        self._definition = definition
        self._weights = weights.span if weights else None
        self._graphs: list[BinarySpan] = []
        self.weights: list[tuple[Node, Weight]] = []

    def read_attrs(self, into: RawGraph, root: Tables | None) -> Tables:
        """Keep the model's attributes in *into*; gives what its codes stand for."""
        entries: list[Fields] = []
        for name, value, at in self._reader.top("ModelDef", self._definition):
            if name == b"graph" and isinstance(value, BinarySpan):
                self._graphs.append(value)
            elif name == b"attr":
                entries.append(message(value))
                with self._reader.told(at):
                    read_attr(value, into.attrs)
            elif name == b"name":
                into.name = text(value)
        with self._reader.told(self._definition.offset):
            return read_tables(entries, root)

    def graphs(self, tables: Tables) -> list[RawGraph]:
        """The model's graphs, its weights noted."""
        return [self._graph(span, tables) for span in self._graphs]

    def _graph(self, span: BinarySpan, tables: Tables) -> RawGraph:
        graph = RawGraph()
        for name, value, at in self._reader.top("GraphDef", span):
            with self._reader.told(at):
                if name == b"op":
                    graph.nodes.append(self._node(tables.op(message(value)), at))
                else:
                    graph.take(name, value)
        return graph

    def _node(self, fields: Fields, at: int) -> Node:
        node = read_node(fields)
        if node.type in _CONSTANTS:
            weight = self._weight(fields, at)
            if weight is not None:
                self.weights.append((node, weight))
                node.attrs["weight_offset"] = weight.span.offset
                node.attrs["weight_bytes"] = weight.span.size
        return node

    def _weight(self, fields: Fields, at: int) -> Weight | None:
        tensor = _tensor(fields)
        if tensor is None:
            return None
        desc: Fields = next((message(v) for name, v in tensor if name == b"desc"), [])
        inline = next(
            (v for name, v in tensor if name == b"data" and isinstance(v, BinarySpan)), None
        )
        span = inline if inline is not None and inline.size else self._stored(desc, at)
        if span is None:
            return None
        return Weight(span, read_desc(desc))

    def _stored(self, desc: Fields, at: int) -> BinarySpan | None:
        """Where the weights partition holds a tensor; None where the model has none.

        The first model of several describes the ops of the others without their weights.
        """
        if self._weights is None:
            return None
        place = {name: whole(value) for name, value in desc if name in _PLACE}
        offset, size = place.get(b"data_offset", 0), place.get(b"weight_size", 0)
        if offset < 0 or size < 0 or offset + size > self._weights.size:
            what = f"weights of {size} bytes at {offset} in a partition of {self._weights.size}"
            raise self._reader.error(at, what)
        return BinarySpan(self._weights.offset + offset, size)


_PLACE = (b"data_offset", b"weight_size")


def _tensor(fields: Fields) -> Fields | None:
    """The tensor in the attribute ``value`` of an op."""
    for name, value in fields:
        if name != b"attr":
            continue
        entry: dict[bytes, Value] = dict(message(value))
        if entry.get(b"key") == _VALUE and b"value" in entry:
            for kind, content in message(entry[b"value"]):
                if kind == b"t":
                    return message(content)
    return None


class OfflineModelImporter:
    """Importer of offline models of either header version, with one or several models."""

    name = "om"
    reads = "Ascend offline models .om"

    def detect(self, path: Path, head: bytes) -> Detection:
        """By the first four bytes."""
        if head[:4] == MAGIC:
            return Detection(Confidence.SURE, "it starts with IMOD, as offline models do")
        return Detection(Confidence.NO, "")

    def read(self, path: Path) -> ModelGraph:
        """The graph the model runs; the sub-graphs of all its models are bodies in it."""
        with mapped(path) as buffer:
            return assembled(read_model(buffer, path), path, sha256(buffer))


def assembled(model: OfflineModel, path: Path, digest: str) -> ModelGraph:
    """The model as one graph."""
    for key, value in _facts(model.container).items():
        model.attrs.attrs.setdefault(key, value)
    return assemble(
        model.graphs, model.attrs, path, digest, form="om", warnings=model.container.warnings
    )


def _facts(container: Container) -> dict[str, AttrValue]:
    several = len(container.models) > 1
    parts = tuple(
        f"{f'model {number}, ' if several else ''}{part.name}: {part.span.size} bytes"
        f" at {part.span.offset}"
        for number, partitions in enumerate(container.models, 1)
        for part in partitions
    )
    return {
        "om_header_version": f"{container.version:#x}",
        "om_platform_version": container.platform,
        "om_partitions": parts,
    }
