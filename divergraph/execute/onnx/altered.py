"""ONNX models changed on purpose: something added to tensors inside, other attributes, or another
op in a body."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from divergraph.execute.contract import Array, BodyChange
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
        said = {name + EXACT: np.array(name in exact) for name in self.makers}
        feeds = {**self._feeds, **self._nothing, **said}
        with np.errstate(over="ignore", invalid="ignore"):
            for name, value in additions.items():
                if name in self._fed:
                    feeds[name] = self._feeds[name] + np.asarray(value, self._feeds[name].dtype)
                else:
                    feeds[name + _ADDED] = np.asarray(value, self._types[name])
        made = run_session(self._session, self._outputs, feeds)
        return dict(zip(self._outputs, made, strict=True))


def change_body(graph: GraphProto, change: BodyChange) -> bool:
    """Change the one op of any body in *graph* that makes the tensor of *change*, a float32.

    False if there is no such op, or more than one.
    """
    found = [
        (body, node)
        for body in _all_bodies(graph)
        for node in body.node
        if change.tensor in node.output
    ]
    if len(found) != 1:
        return False
    ((body, node),) = found
    nodes = [each for old in body.node for each in _with(old, node, change)]
    del body.node[:]
    body.node.extend(nodes)
    return True


def _all_bodies(graph: GraphProto) -> Iterator[GraphProto]:
    for node in graph.node:
        for body in bodies(node):
            yield body
            yield from _all_bodies(body)


def _with(node: NodeProto, changed: NodeProto, change: BodyChange) -> Iterator[NodeProto]:
    """Copies of *node* and, if it is the *changed* one, of what makes its tensor of its output."""
    from onnx import NodeProto, helper

    copy = NodeProto()
    copy.CopyFrom(node)
    yield copy
    if node is not changed:
        return
    place = list(node.output).index(change.tensor)
    before = copy.output[place] = change.tensor + _BEFORE
    if change.kind:
        copy.op_type = change.kind
        del copy.attribute[:]
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
    yield helper.make_node("Sum", [*terms, more], [change.tensor])


def _number(name: str, value: float) -> NodeProto:
    from onnx import helper, numpy_helper

    tensor = numpy_helper.from_array(np.array(value, np.float32))
    return helper.make_node("Constant", [], [name], value=tensor)


def alter(graph: GraphProto, tensor: str, attrs: Mapping[str, AttrValue]) -> bool:
    """Give the node that makes *tensor* in an exploded model of one piece other attributes.

    False if there is no such node.
    """
    from onnx import helper

    called = tensor_name(0, tensor)
    for node in graph.node:
        if called not in node.output:
            continue
        kept = [each for each in node.attribute if each.name not in attrs]
        del node.attribute[:]
        node.attribute.extend(kept)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attrs.items())
        return True
    return False
