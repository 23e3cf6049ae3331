"""A model graph as plain frozen values: ops, tensors, edges and sub-graphs.

What an importer returns and a store keeps. Nothing here knows a file format, a
database or a front end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from graphstore.model.dtypes import DType

AttrValue: TypeAlias = "bool | int | float | str | tuple[AttrValue, ...]"
"""An attribute as kept: JSON-able. Weights and binary blobs are dropped by importers."""

COMPUTE_TYPE = "computes_in"
"""The attribute in which importers keep what an op computes in, as the name of a ``DType``."""

Shape: TypeAlias = tuple[int | None, ...]
"""Dimensions; None is an unknown dimension. A shape that is None has an unknown rank."""


class GraphKind(StrEnum):
    """Which side of a comparison a graph can stand on."""

    ORIGINAL = "original"
    DEVICE = "device"


class Framework(StrEnum):
    """Where a graph comes from."""

    ASCEND = "ascend"
    TENSORFLOW = "tensorflow"
    ONNX = "onnx"
    CAFFE = "caffe"
    PYTORCH = "pytorch"
    MINDSPORE = "mindspore"
    OPENVINO = "openvino"
    TFLITE = "tflite"
    TENSORRT = "tensorrt"


@dataclass(frozen=True, slots=True, order=True)
class TensorRef:
    """Output *port* of the op with id *op*."""

    op: str
    port: int

    def __str__(self) -> str:
        return f"{self.op}:{self.port}"


@dataclass(frozen=True, slots=True)
class TensorOrigin:
    """The original tensor a device tensor stands for, as its graph says.

    ``op`` is empty where the graph names none (an inserted op, an inner node of a
    split). Source: output_desc attributes ``_datadump_origin_*`` and ``origin_*``.
    """

    op: str
    port: int
    layout: str | None = None
    dtype: DType | None = None
    shape: Shape | None = None


@dataclass(frozen=True, slots=True)
class Tensor:
    """What the graph says about one tensor; None where it does not say."""

    name: str
    dtype: DType | None = None
    shape: Shape | None = None
    layout: str | None = None
    origin: TensorOrigin | None = None


@dataclass(frozen=True, slots=True)
class InputRef:
    """One connected data input of an op.

    ``producer`` is None for a graph input or a constant without an op of its own (an
    ONNX initializer): then ``tensor`` names it.
    """

    tensor: str
    producer: TensorRef | None = None


@dataclass(frozen=True, slots=True)
class Op:
    """One operator.

    ``id`` is unique in the whole model graph: the name itself in the root graph,
    ``<sub-graph>/<name>`` inside a sub-graph (see :func:`graphstore.model.op_id`).
    ``name`` is exactly what the file says. ``inputs`` keeps positions: None is an
    optional input that is not connected. ``original_names`` is None where the graph
    says nothing (the op is itself original), empty where the op was inserted.
    ``sequence`` orders ops that do not depend on each other: the device's execution
    id, else the position in the file.
    """

    id: str
    name: str
    type: str
    inputs: tuple[InputRef | None, ...] = ()
    control_inputs: tuple[str, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    subgraph: str = ""
    owns: tuple[str, ...] = ()
    original_names: tuple[str, ...] | None = None
    sequence: int = 0

    @property
    def computes_in(self) -> DType | None:
        """The type its arithmetic is in, where the graph says so besides the types of outputs."""
        attr = self.attrs.get(COMPUTE_TYPE)
        return next((kind for kind in DType if kind.value == attr), None)

    @property
    def scope(self) -> str:
        """The name space the op's name puts it in: all but the last ``/`` part."""
        return self.name.rpartition("/")[0]

    @property
    def is_fused(self) -> bool:
        """True for one op made of several originals."""
        return self.original_names is not None and len(self.original_names) > 1

    @property
    def is_inserted(self) -> bool:
        """True for an op the compiler added: it has no original."""
        return self.original_names is not None and not self.original_names

    @property
    def makes(self) -> tuple[TensorRef, ...]:
        """Its outputs."""
        return tuple([TensorRef(self.id, port) for port in range(len(self.outputs))])

    @property
    def takes(self) -> tuple[TensorRef, ...]:
        """The outputs of other ops it takes, in the order of its inputs."""
        return tuple([ref.producer for ref in self.inputs if ref is not None and ref.producer])

    def source(self, position: int = 0) -> TensorRef | None:
        """The output of another op at an input; None if there is none."""
        ref = self.inputs[position] if position < len(self.inputs) else None
        return None if ref is None else ref.producer


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A body owned by an op (If, Loop, While, PartitionedCall, ...).

    ``inputs`` pairs (owner's input position, id of the body op that mirrors it);
    ``outputs`` pairs (owner's output position, tensor of the body that feeds it).
    ``owner`` is empty for a body no op claims (said in the graph's warnings).
    """

    name: str
    owner: str
    role: str = ""
    inputs: tuple[tuple[int, str], ...] = ()
    outputs: tuple[tuple[int, TensorRef], ...] = ()


class EdgeKind(StrEnum):
    """DATA carries a tensor, CONTROL only order; CALL enters or leaves a sub-graph."""

    DATA = "data"
    CONTROL = "control"
    CALL = "call"


@dataclass(frozen=True, slots=True)
class Edge:
    """``source`` feeds ``target``; ports are -1 on control edges.

    The target port is -1, too, where a body takes a tensor from around it by name: its
    owner depends on the tensor without having an input for it.
    """

    source: str
    target: str
    source_port: int
    target_port: int
    kind: EdgeKind
    tensor: str = ""


@dataclass(frozen=True, slots=True)
class Constant:
    """A named constant that is no op (an ONNX initializer); its bytes stay in the file."""

    tensor: Tensor
    location: str = ""
    offset: int = 0
    nbytes: int | None = None


@dataclass(frozen=True, slots=True)
class ModelGraph:
    """One model as read from a file.

    ``ops`` come in file order, root graph first, then the sub-graphs. ``sha256`` is of
    the source's bytes and identifies the content. ``warnings`` says what was left out
    or repaired; nothing is dropped without a line there.
    """

    name: str
    kind: GraphKind
    framework: Framework
    format: str
    ops: tuple[Op, ...]
    subgraphs: tuple[Subgraph, ...] = ()
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[TensorRef, ...] = ()
    constants: tuple[Constant, ...] = ()
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    source: str = ""
    sha256: str = ""

    @property
    def id(self) -> str:
        """Identity of the graph in a store: name and content."""
        return f"{self.name}@{self.sha256[:12]}"

    @property
    def has_guessed_edges(self) -> bool:
        """Whether equal statistics had to say which tensor went where, as the file does not."""
        return self.format == "msprobe"

    def op_index(self) -> dict[str, Op]:
        """Ops by id; build it once and keep it."""
        return {op.id: op for op in self.ops}

    def readers(self) -> dict[TensorRef, list[Op]]:
        """The ops that take each output, as often as they take it; build it once and keep it."""
        readers: dict[TensorRef, list[Op]] = {}
        for op in self.ops:
            for ref in op.takes:
                readers.setdefault(ref, []).append(op)
        return readers

    def edges(self) -> Iterator[Edge]:
        """All edges in op order: data, control, then the calls into and out of bodies."""
        for op in self.ops:
            yield from _incoming(op)
        yield from self.calls()

    def calls(self) -> Iterator[Edge]:
        """The edges into and out of bodies alone."""
        if not self.subgraphs:
            return
        ops = self.op_index()
        fed_from: dict[TensorRef, list[TensorRef]] = {}
        owned: list[tuple[Op, Subgraph]] = []
        for body in self.subgraphs:
            owner = ops.get(body.owner)
            if owner is None:
                continue
            owned.append((owner, body))
            for port, inner in body.outputs:
                fed_from.setdefault(TensorRef(owner.id, port), []).append(inner)
        for owner, body in owned:
            yield from _entries(owner, body, fed_from)
        yield from self._captured(ops)
        if not fed_from:
            return
        for op in self.ops:
            for position, ref in enumerate(op.inputs):
                if ref is None or ref.producer is None:
                    continue
                for inner in _feeding(ref.producer, fed_from):
                    yield Edge(
                        inner.op, op.id, inner.port, position, EdgeKind.CALL, str(ref.producer)
                    )

    def _captured(self, ops: Mapping[str, Op]) -> Iterator[Edge]:
        """What bodies take from around them feeds their owner too: its value depends on it."""
        owners = {body.name: body.owner for body in self.subgraphs}
        seen: set[tuple[TensorRef, str]] = set()
        for op in self.ops:
            for ref in op.inputs if op.subgraph else ():
                source = ops.get(ref.producer.op) if ref is not None and ref.producer else None
                if ref is None or ref.producer is None or source is None:
                    continue
                inside = op.subgraph
                while inside and inside != source.subgraph:
                    owner = ops.get(owners.get(inside, ""))
                    if owner is None:
                        break
                    if (ref.producer, owner.id) not in seen:
                        seen.add((ref.producer, owner.id))
                        tensor, port = ref.tensor, ref.producer.port
                        yield Edge(source.id, owner.id, port, -1, EdgeKind.CALL, tensor)
                    inside = owner.subgraph


def _incoming(op: Op) -> Iterator[Edge]:
    for position, ref in enumerate(op.inputs):
        if ref is not None and ref.producer is not None:
            source = ref.producer
            yield Edge(source.op, op.id, source.port, position, EdgeKind.DATA, ref.tensor)
    for source_id in op.control_inputs:
        yield Edge(source_id, op.id, -1, -1, EdgeKind.CONTROL)


def _entries(
    owner: Op, body: Subgraph, fed_from: Mapping[TensorRef, list[TensorRef]]
) -> Iterator[Edge]:
    for position, inner in body.inputs:
        ref = owner.inputs[position] if 0 <= position < len(owner.inputs) else None
        if ref is not None and ref.producer is not None:
            # What comes out of one body may go straight into the next.
            for source in (ref.producer, *_feeding(ref.producer, fed_from)):
                yield Edge(source.op, inner, source.port, 0, EdgeKind.CALL, ref.tensor)


def _feeding(ref: TensorRef, fed_from: Mapping[TensorRef, list[TensorRef]]) -> list[TensorRef]:
    """The tensors of bodies that feed *ref*, those of bodies inside of bodies as well."""
    feeding: dict[TensorRef, None] = {}
    waiting = list(fed_from.get(ref, ()))
    while waiting:
        inner = waiting.pop(0)
        if inner not in feeding:
            feeding[inner] = None
            waiting.extend(fed_from.get(inner, ()))
    return list(feeding)


def op_id(name: str, subgraph: str = "") -> str:
    """The id of the op *name* in the body *subgraph* (empty: the root graph)."""
    return f"{subgraph}/{name}" if subgraph else name
