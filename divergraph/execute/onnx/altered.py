"""ONNX models changed on purpose: something added to tensors inside, other attributes, or another
op in a body."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from divergraph.execute.contract import OP_TYPE, Array, BodyChange
from divergraph.execute.onnx.files import bodies, set_outputs
from divergraph.execute.onnx.quantised import EXACT
from divergraph.execute.onnx.session import OnnxSession, run_session
from divergraph.execute.onnx.subgraphs import tensor_name
from graphstore.model import AttrValue

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

_BEFORE = ":before"
_ADDED = ":added"


def open_for_additions(
    model: ModelProto, types: Mapping[str, int], fed: Mapping[str, int], outputs: Sequence[str]
) -> None:
    """Give *model* an input for each tensor of *types* that is added to it, and *outputs*.

    The input is called ``<tensor>:added``, has the given ONNX element type and any shape; a
    single zero adds nothing. Tensors *fed* become inputs under their own names.
    """
    from onnx import NodeProto, ValueInfoProto, helper

    nodes: list[NodeProto] = []
    for node in model.graph.node:
        copy = NodeProto()
        copy.CopyFrom(node)
        nodes.append(copy)
        for place, name in enumerate(node.output):
            if name in fed:
                copy.output[place] = name + _BEFORE
            elif name in types:
                copy.output[place] = name + _BEFORE
                nodes.append(helper.make_node("Add", [name + _BEFORE, name + _ADDED], [name]))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    inputs = {**{name + _ADDED: kind for name, kind in types.items()}, **fed}
    for name, kind in inputs.items():
        info = ValueInfoProto(name=name)
        info.type.tensor_type.elem_type = kind
        model.graph.input.append(info)
    set_outputs(model, outputs)


class OnnxChangedRun:
    """A session of such a model with its feeds, those of *fed* tensors open for additions, too.

    The ops *makers* may read quantised; without a word on them all are exact.
    """

    def __init__(
        self,
        session: OnnxSession,
        feeds: Mapping[str, Array],
        types: Mapping[str, np.dtype],
        fed: Sequence[str],
        outputs: Sequence[str],
        makers: Sequence[str],
    ) -> None:
        self.tensors = (*types, *fed)
        self.makers = tuple(makers)
        self._session = session
        self._outputs = list(outputs)
        self._types = types
        self._fed = frozenset(fed)
        self._feeds = dict(feeds)
        self._nothing = {name + _ADDED: np.zeros((), kind) for name, kind in types.items()}

    def run(self, additions: Mapping[str, Array]) -> Mapping[str, Array]:
        """The outputs with *additions* added."""
        return self.run_quantised(additions, self.makers)

    def run_quantised(
        self, additions: Mapping[str, Array], exact: Collection[str]
    ) -> Mapping[str, Array]:
        """The outputs with *additions* added and all readings quantised but those of *exact*."""
        flags = {name + EXACT: np.array(name in exact) for name in self.makers}
        feeds = {**self._feeds, **self._nothing, **flags}
        with np.errstate(over="ignore", invalid="ignore"):
            for name, value in additions.items():
                if name in self._fed:
                    # The sum of two arrays without axes is no array.
                    feeds[name] = np.asarray(self._feeds[name] + value, self._feeds[name].dtype)
                else:
                    feeds[name + _ADDED] = np.asarray(value, self._types[name])
        values = run_session(self._session, self._outputs, feeds)
        return dict(zip(self._outputs, values, strict=True))


def change_body(graph: GraphProto, change: BodyChange) -> bool:
    """Change the one op of any body in *graph* that makes the tensor of *change*, a float32.

    False if there is no such op, or more than one, or if turns are told of what is no Loop.
    """
    bodies_with_node = [
        (body, node, turn)
        for body, turn in _all_bodies(graph)
        for node in body.node
        if change.tensor in node.output
    ]
    if len(bodies_with_node) != 1:
        return False
    ((body, node, turn),) = bodies_with_node
    if change.turns is not None and not turn:
        return False
    nodes = [
        new_node
        for old in body.node
        for new_node in (_with(node, change, turn) if old is node else (_copied(old),))
    ]
    del body.node[:]
    body.node.extend(nodes)
    return True


def _all_bodies(graph: GraphProto, turn: str = "") -> Iterator[tuple[GraphProto, str]]:
    """All bodies, each with the tensor that holds the turn of the Loop around it; "" without."""
    for node in graph.node:
        inner = turn if node.op_type == "If" else ""
        for body in bodies(node):
            counted = body.input[0].name if node.op_type == "Loop" else inner
            yield body, counted
            yield from _all_bodies(body, counted)


def _copied(node: NodeProto) -> NodeProto:
    from onnx import NodeProto

    copy = NodeProto()
    copy.CopyFrom(node)
    return copy


def _with(node: NodeProto, change: BodyChange, turn: str) -> Iterator[NodeProto]:
    """A copy of *node*, and what makes its tensor of its output."""
    from onnx import helper

    place = list(node.output).index(change.tensor)
    copy, before = _copied(node), change.tensor + _BEFORE
    copy.output[place] = before
    if change.kind:
        copy.op_type = change.kind
        del copy.attribute[:]
    yield copy
    parts = [(before, change.own)]
    if change.position is not None:
        parts.append((node.input[change.position], change.share))
    terms = []
    for number, (name, factor) in enumerate(parts):
        if factor == 0.0:
            continue
        yield _number(by := f"{change.tensor}:by{number}", factor)
        yield helper.make_node("Mul", [name, by], [f"{change.tensor}:part{number}"])
        terms.append(f"{change.tensor}:part{number}")
    yield _number(more := change.tensor + _ADDED, change.offset)
    output_name = change.tensor if change.turns is None else f"{change.tensor}:changed"
    yield helper.make_node("Sum", [*terms, more], [output_name])
    if change.turns is not None:
        usual, name = _copied(node), f"{change.tensor}:usual"
        usual.name, usual.output[place] = f"{node.name}:usual" if node.name else "", name
        for number, output in enumerate(node.output):
            if output and number != place:
                copy.output[number] = f"{output}{_BEFORE}"  # the usual one keeps the others' names
        yield usual
        yield from _in_turns(change.turns, turn, f"{change.tensor}:now")
        yield helper.make_node(
            "Where", [f"{change.tensor}:now", output_name, name], [change.tensor]
        )


def _in_turns(turns: tuple[int, int | None], turn: str, name: str) -> Iterator[NodeProto]:
    """What makes *name*: whether the loop is in one of *turns*."""
    from onnx import helper

    first, last = turns
    yield _number(f"{name}:first", first, np.int64)
    yield helper.make_node("Less", [turn, f"{name}:first"], [f"{name}:early"])
    yield helper.make_node("Not", [f"{name}:early"], [name if last is None else f"{name}:begun"])
    if last is not None:
        yield _number(f"{name}:end", last + 1, np.int64)
        yield helper.make_node("Less", [turn, f"{name}:end"], [f"{name}:going"])
        yield helper.make_node("And", [f"{name}:begun", f"{name}:going"], [name])


def _number(name: str, value: float, kind: type[np.generic] = np.float32) -> NodeProto:
    from onnx import helper, numpy_helper

    tensor = numpy_helper.from_array(np.array(value, kind))
    return helper.make_node("Constant", [], [name], value=tensor)


def alter(model: ModelProto, tensor: str, attrs: Mapping[str, AttrValue]) -> bool:
    """Give the node that makes *tensor* in an exploded model of one piece other attributes.

    False if there is no such node, or the type it is to be of is none.
    """
    from onnx import helper

    called = tensor_name(0, tensor)
    node = next((node for node in model.graph.node if called in node.output), None)
    if node is None:
        return False
    node.op_type = str(attrs.get(OP_TYPE, node.op_type))
    known_attributes = (
        _attributes(model, node)
        if OP_TYPE in attrs
        else {attribute.name for attribute in node.attribute}
    )
    if known_attributes is None:
        return False
    attributes = [
        attribute
        for attribute in node.attribute
        if attribute.name in known_attributes and attribute.name not in attrs
    ]
    new_attrs = {key: value for key, value in attrs.items() if key != OP_TYPE}
    del node.attribute[:]
    node.attribute.extend(attributes)
    node.attribute.extend(helper.make_attribute(key, value) for key, value in new_attrs.items())
    return True


def _attributes(model: ModelProto, node: NodeProto) -> Collection[str] | None:
    """The attributes that a node of its type may have in *model*; None where there is no such
    type."""
    from onnx import defs

    versions = {opset.domain: opset.version for opset in model.opset_import}
    try:
        schema = defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
    except defs.SchemaError:
        return None
    return list(schema.attributes)
