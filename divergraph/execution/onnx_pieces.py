"""The exploded model: every piece of a model by itself, side by side in one model.

Each piece gets its own copies of its nodes and tensors (their names start with the
piece's number) and shares the weights, so one session runs all of them, each on its own
inputs. Source of the idea and its measurements: the project's study of root causes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from divergraph.execution.contract import Array, Piece
from divergraph.execution.onnx_files import bodies, captured_names
from graphstore.errors import ExecutionError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto


@dataclass(frozen=True)
class Explodable:
    """A model looked up by tensor: which node makes it, which tensors are weights."""

    model: ModelProto
    makers: Mapping[str, int] = field(init=False)
    weights: Mapping[str, int] = field(init=False)
    sparse_weights: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        graph = self.model.graph
        makers = {name: k for k, node in enumerate(graph.node) for name in node.output if name}
        weights = {tensor.name: k for k, tensor in enumerate(graph.initializer)}
        sparse = {tensor.values.name: k for k, tensor in enumerate(graph.sparse_initializer)}
        object.__setattr__(self, "makers", makers)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "sparse_weights", sparse)


@dataclass(frozen=True, slots=True)
class Slice:
    """The nodes (by position) and weights that make a piece's outputs from its inputs."""

    piece: Piece
    nodes: tuple[int, ...]
    weights: tuple[str, ...]


def slice_of(source: Explodable, piece: Piece) -> Slice:
    """What *piece* consists of.

    Raises:
        ExecutionError: its outputs need more than its inputs, or are no tensors of it.
    """
    given = set(piece.inputs)
    wanted = [name for name in piece.outputs if name not in given]
    nodes: set[int] = set()
    weights: dict[str, None] = {}
    while wanted:
        name = wanted.pop()
        if name in given:
            continue
        if name in source.weights or name in source.sparse_weights:
            weights[name] = None
        elif name not in source.makers:
            raise ExecutionError(f"the piece needs {name!r}, which is not among its inputs")
        elif source.makers[name] not in nodes:
            place = source.makers[name]
            nodes.add(place)
            node = source.model.graph.node[place]
            wanted += [each for each in node.input if each]
            wanted += captured_names(node)
    return Slice(piece, tuple(sorted(nodes)), tuple(weights))


def explode(
    source: Explodable, slices: Sequence[Slice], values: Sequence[Mapping[str, Array]]
) -> tuple[ModelProto, dict[str, Array]]:
    """The model of *slices* side by side, and what to feed it.

    Input and output *name* of the k-th slice is called as :func:`tensor_name` says.
    """
    from onnx import ModelProto, ValueInfoProto, helper

    exploded = ModelProto()
    exploded.ir_version = max(source.model.ir_version, 4)  # weights need not be inputs from 4 on
    exploded.opset_import.extend(source.model.opset_import)
    exploded.functions.extend(source.model.functions)
    graph = exploded.graph
    graph.name = "pieces"
    feeds: dict[str, Array] = {}
    weights: dict[str, None] = {}
    for number, (part, given) in enumerate(zip(slices, values, strict=True)):
        renamed = _renamed(source, part, number)
        for name in part.piece.inputs:
            value = given[name]
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            called = renamed[name]
            graph.input.append(helper.make_tensor_value_info(called, kind, value.shape))
            feeds[called] = value
        for place in part.nodes:
            graph.node.append(_copy(source.model.graph.node[place], renamed, number))
        for name in part.piece.outputs:
            if name not in part.piece.inputs:
                graph.output.append(ValueInfoProto(name=renamed[name]))
        weights.update(dict.fromkeys(part.weights))
    _copy_weights(source, weights, graph)
    return exploded, feeds


def tensor_name(number: int, name: str) -> str:
    """What tensor *name* of the slice at place *number* is called in the exploded model."""
    return f"{number}/{name}"


def _renamed(source: Explodable, part: Slice, number: int) -> dict[str, str]:
    """New names of all tensors of a slice but its weights."""
    names = set(part.piece.inputs)
    for place in part.nodes:
        names.update(name for name in source.model.graph.node[place].output if name)
    return {name: tensor_name(number, name) for name in names}


def _copy(node: NodeProto, renamed: Mapping[str, str], number: int) -> NodeProto:
    from onnx import NodeProto

    copy = NodeProto()
    copy.CopyFrom(node)
    copy.name = tensor_name(number, node.name)
    _rename(copy.input, renamed)
    _rename(copy.output, renamed)
    for body in bodies(copy):
        _rename_captured(body, renamed)
    return copy


def _rename(names: _Names, renamed: Mapping[str, str]) -> None:
    for place, name in enumerate(names):
        if name in renamed:
            names[place] = renamed[name]


def _rename_captured(body: GraphProto, renamed: Mapping[str, str]) -> None:
    """Rename what a body takes from around it; its own tensors of such a name hide those."""
    own = {value.name for value in body.input}
    own |= {tensor.name for tensor in body.initializer}
    own |= {name for node in body.node for name in node.output}
    outer = {name: new for name, new in renamed.items() if name not in own}
    if not outer:
        return
    for node in body.node:
        _rename(node.input, outer)
        for inner in bodies(node):
            _rename_captured(inner, outer)
    for value in body.output:
        value.name = outer.get(value.name, value.name)


def _copy_weights(source: Explodable, names: Iterable[str], graph: GraphProto) -> None:
    old = source.model.graph
    for name in names:
        if name in source.weights:
            graph.initializer.append(old.initializer[source.weights[name]])
        else:
            graph.sparse_initializer.append(old.sparse_initializer[source.sparse_weights[name]])


if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedScalarFieldContainer

    _Names = RepeatedScalarFieldContainer[str]
