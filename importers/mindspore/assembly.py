"""Join the nodes of MindSpore's graphs, from whichever of its files, into one model graph.

A node is called by its full name with scope (``Default/conv-Conv2d/Conv2D-op0``): so dumps of
kernels and tables of statistics call it. Names like ``CNode_261`` are told by no dump.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from graphstore.model import (
    AttrValue,
    Constant,
    DType,
    Framework,
    GraphKind,
    InputRef,
    ModelGraph,
    Op,
    Shape,
    Subgraph,
    Tensor,
    TensorRef,
)
from importers.kept import told_of
from importers.names import UniqueIds

_PICKS = ("TupleGetItem", "tuple_getitem")
_TUPLES = ("MakeTuple", "make_tuple")
_RETURNS = ("Return", "return")
"""Names before and since MindSpore 1.2."""

_READS_WEIGHT = "Load"
_STATE = frozenset({"UpdateState"})
"""Ops whose output is only an order: what takes it waits for them."""

_ORIGINAL_NAMES = "_datadump_original_names"


@dataclass(frozen=True, slots=True)
class Value:
    """Type and shape of one value; both None for a value that is no tensor."""

    dtype: DType | None = None
    shape: Shape | None = None


@dataclass(slots=True)
class AnfNode:
    """One node as its file says. ``key`` is what other nodes of the body call it."""

    key: str
    name: str
    type: str
    inputs: list[str]
    outputs: list[Value]
    attrs: dict[str, AttrValue] = field(default_factory=dict)
    calls: tuple[str, ...] = ()
    """Other bodies that it runs, by name."""


@dataclass(slots=True)
class FunctionBody:
    """One function of the file; the first one is the root."""

    name: str = ""
    nodes: list[AnfNode] = field(default_factory=list)
    inputs: dict[str, Value] = field(default_factory=dict)
    weights: dict[str, Value] = field(default_factory=dict)
    literals: dict[str, AttrValue] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    attrs: dict[str, AttrValue] = field(default_factory=dict)


def assemble(
    bodies: Sequence[FunctionBody],
    path: Path,
    sha256: str,
    *,
    form: str,
    attrs: Mapping[str, AttrValue],
    warnings: Sequence[str] = (),
) -> ModelGraph:
    """The model graph of a file whose functions are *bodies*."""
    return _Assembly(bodies).joined(path, sha256, form, attrs, warnings)


class _Assembly:
    def __init__(self, bodies: Sequence[FunctionBody]) -> None:
        self._bodies = bodies
        self._ids = UniqueIds()
        self._owners: dict[str, str] = {}
        self._unknown: list[str] = []
        self._places = [self._named(number, body) for number, body in enumerate(bodies)]
        for place, body in zip(self._places, bodies, strict=True):
            for node in body.nodes:
                for called in node.calls:
                    self._owners.setdefault(called, place[node.key].op)
        self._owned: dict[str, list[str]] = {}
        for name, owner in self._owners.items():
            self._owned.setdefault(owner, []).append(name)

    def _named(self, number: int, body: FunctionBody) -> dict[str, TensorRef]:
        """The output of each node of *body* by its key."""
        inside = body.name if number else ""
        refs: dict[str, TensorRef] = {}
        for node in body.nodes:
            refs[node.key] = TensorRef(self._ids.take(node.name, inside), 0)
        return refs

    def joined(
        self,
        path: Path,
        sha256: str,
        form: str,
        attrs: Mapping[str, AttrValue],
        warnings: Sequence[str],
    ) -> ModelGraph:
        root = self._bodies[0]
        ops = [op for number, body in enumerate(self._bodies) for op in self._ops(number, body)]
        notes = told_of(self._unknown, "{input names nothing|inputs name nothing} in the file")
        weights = {
            name: value for body in self._bodies for name, value in _weights_of(body).items()
        }
        return ModelGraph(
            name=root.name or path.stem,
            kind=GraphKind.ORIGINAL,
            framework=Framework.MINDSPORE,
            format=form,
            ops=tuple(ops),
            subgraphs=tuple(self._subgraphs()),
            inputs=tuple(
                _tensor(name, value)
                for name, value in root.inputs.items()
                if value.dtype is not None and name not in weights
            ),
            outputs=tuple(self._outputs(0)),
            constants=tuple(Constant(_tensor(name, value)) for name, value in weights.items()),
            attrs={**attrs, **root.attrs},
            warnings=(*warnings, *notes, *self._ids.warnings()),
            source=str(path),
            sha256=sha256,
        )

    def _ops(self, number: int, body: FunctionBody) -> list[Op]:
        places = self._places[number]
        states = {node.key for node in body.nodes if node.type in _STATE}
        return [
            self._op(at, node, body, places, states, body.name if number else "")
            for at, node in enumerate(body.nodes)
            if node.type not in _RETURNS
        ]

    def _op(
        self,
        at: int,
        node: AnfNode,
        body: FunctionBody,
        places: Mapping[str, TensorRef],
        states: set[str],
        inside: str,
    ) -> Op:
        op_id = places[node.key].op
        attrs = dict(node.attrs)
        inputs: list[InputRef | None] = []
        for position, key in enumerate(node.inputs):
            if key in states:
                continue
            if key in body.literals:
                attrs[f"input {position}"] = body.literals[key]
                inputs.append(None)
            else:
                inputs.append(self._input(key, node, body, places))
        while inputs and inputs[-1] is None:
            inputs.pop()
        return Op(
            id=op_id,
            name=node.name,
            type=node.type,
            inputs=tuple(inputs),
            control_inputs=tuple(places[key].op for key in node.inputs if key in states),
            outputs=tuple(
                Tensor(f"{node.name}:{port}", value.dtype, value.shape)
                for port, value in enumerate(node.outputs)
            ),
            attrs=attrs,
            original_names=_originals(node),
            subgraph=inside,
            owns=tuple(self._owned.get(op_id, ())),
            sequence=at,
        )

    def _input(
        self, key: str, node: AnfNode, body: FunctionBody, places: Mapping[str, TensorRef]
    ) -> InputRef:
        producer = places.get(key)
        if producer is None:
            if key not in body.inputs and key not in body.weights:
                self._unknown.append(f"{key} of {node.name}")
            return InputRef(key)
        port = _picked(node, body) if key == node.inputs[0] else 0
        return InputRef(f"{producer.op}:{port}", TensorRef(producer.op, port))

    def _outputs(self, number: int) -> list[TensorRef]:
        """What the body gives: a returned tuple as its members."""
        body, places = self._bodies[number], self._places[number]
        nodes = {node.key: node for node in body.nodes}
        waiting = list(body.outputs)
        outputs: dict[TensorRef, None] = {}
        seen: set[str] = set()
        while waiting:
            key = waiting.pop(0)
            node = nodes.get(key)
            if node is None or key in seen:
                continue
            seen.add(key)
            if node.type in _TUPLES + _RETURNS:
                waiting[:0] = node.inputs
            else:
                for port in range(max(1, len(node.outputs))):
                    outputs[TensorRef(places[key].op, port)] = None
        return list(outputs)

    def _subgraphs(self) -> list[Subgraph]:
        return [
            Subgraph(
                body.name,
                self._owners.get(body.name, ""),
                role="call",
                outputs=tuple(enumerate(self._outputs(number))),
            )
            for number, body in enumerate(self._bodies)
            if number
        ]


def _originals(node: AnfNode) -> tuple[str, ...] | None:
    """The ops the backend made it of, where it says so: empty for one that it inserted."""
    attr = node.attrs.get(_ORIGINAL_NAMES)
    return tuple(map(str, attr)) if isinstance(attr, tuple) else None


def _weights_of(body: FunctionBody) -> dict[str, Value]:
    """Its parameters with a value of their own: those called so, and those that are loaded."""
    loaded = {key for node in body.nodes if node.type == _READS_WEIGHT for key in node.inputs[:1]}
    return body.weights | {name: v for name, v in body.inputs.items() if name in loaded}


def _picked(node: AnfNode, body: FunctionBody) -> int:
    """Which member of a tuple *node* takes: 0 for all ops that take no tuple apart."""
    if node.type not in _PICKS or len(node.inputs) < 2:
        return 0
    index = body.literals.get(node.inputs[1], 0)
    return index if type(index) is int and 0 <= index < 1 << 16 else 0


def _tensor(name: str, value: Value) -> Tensor:
    return Tensor(name, value.dtype, value.shape)
