"""The exploded model: every piece of a model by itself, side by side in one model.

Each piece gets its own copies of its nodes and tensors (their names start with the
piece's number) and shares the weights, so one session runs all of them, each on its own
inputs. Source of the idea and its measurements: the project's study of root causes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divergraph.execute.contract import Array, RunnableSubgraph
from divergraph.execute.onnx.files import bodies, captured_names, in_makers_order
from divergraph.execute.side_by_side import Slice
from graphstore.errors import ExecutionError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto


class Explodable:
    """A model looked up by tensor: which node makes it, which tensors are weights.

    ``rank`` is each node's place in an order in which makers come before users.
    """

    def __init__(self, model: ModelProto) -> None:
        graph = self.graph = model.graph
        self.model = model
        self.makers = {name: k for k, node in enumerate(graph.node) for name in node.output if name}
        self.weights = {tensor.name: k for k, tensor in enumerate(graph.initializer)}
        sparse = graph.sparse_initializer
        self.sparse_weights = {tensor.values.name: k for k, tensor in enumerate(sparse)}
        order = in_makers_order(graph.node)
        if len(order) < len(graph.node):
            stuck = graph.node[min(set(range(len(graph.node))).difference(order))].name
            raise ExecutionError(f"the model's nodes wait for each other, {stuck!r} among them")
        self.rank = {place: number for number, place in enumerate(order)}


@dataclass(frozen=True, slots=True)
class OnnxSubgraph(Slice):
    """The nodes (by position) and weights that make a piece's outputs from its inputs."""

    nodes: tuple[int, ...]
    weights: tuple[str, ...]


def slice_of(source: Explodable, piece: RunnableSubgraph) -> OnnxSubgraph:
    """What *piece* consists of.

    Raises:
        ExecutionError: its outputs need more than its inputs, or are no tensors of it.
    """
    names_given = set(piece.inputs)
    wanted = list(piece.outputs)
    nodes: set[int] = set()
    weights: dict[str, None] = {}
    while wanted:
        name = wanted.pop()
        if name in names_given:
            continue
        if name in source.weights or name in source.sparse_weights:
            weights[name] = None
        elif name not in source.makers:
            raise ExecutionError(f"the piece needs {name!r}, which is not among its inputs")
        elif source.makers[name] not in nodes:
            place = source.makers[name]
            nodes.add(place)
            node = source.graph.node[place]
            wanted += [name_read for name_read in node.input if name_read]
            wanted += captured_names(node)
    return OnnxSubgraph(piece, tuple(sorted(nodes, key=source.rank.__getitem__)), tuple(weights))


def explode(
    source: Explodable,
    slices: Sequence[OnnxSubgraph],
    values: Sequence[Mapping[str, Array]],
    narrow: Mapping[str, int],
) -> tuple[ModelProto, dict[str, Array]]:
    """The model of *slices* side by side, and what to feed it.

    Output *name* of the k-th slice is called as :func:`tensor_name` says, and outputs come
    slice by slice. *narrow* gives the ONNX type of tensors numpy has no type for
    (bfloat16, 8-bit floats): they are taken and given as float32, which holds them exactly.
    """
    from onnx import ModelProto, helper

    exploded = ModelProto()
    exploded.ir_version = max(source.model.ir_version, 4)  # weights need not be inputs from 4 on
    exploded.opset_import.extend(source.model.opset_import)
    exploded.functions.extend(source.model.functions)
    graph = exploded.graph
    graph.name = "pieces"
    feeds: dict[str, Array] = {}
    weights: dict[str, None] = {}
    for number, (part, slice_feeds) in enumerate(zip(slices, values, strict=True)):
        renamed = _renamed(source, part, number)
        owns = any(True for place in part.nodes for _ in bodies(source.graph.node[place]))
        for name in part.piece.inputs:
            # A branch that is not taken need not fit the shapes there are.
            shape = [None] * slice_feeds[name].ndim if owns else slice_feeds[name].shape
            called = _add_input(
                graph, renamed[name], slice_feeds[name].dtype, shape, narrow.get(name)
            )
            feeds[called] = slice_feeds[name]
        for name in part.made:
            if name in part.weights:  # asked for as it is
                graph.node.append(helper.make_node("Identity", [name], [renamed[name]]))
        for place in part.nodes:
            node = _copy(source.graph.node[place], renamed, number)
            _set_aside(node, {renamed[name] for name in part.piece.inputs})
            graph.node.append(node)
        for name in part.made:
            _add_output(graph, renamed[name], narrow=name in narrow)
        weights.update(dict.fromkeys(part.weights))
    _copy_weights(source, weights, graph)
    return exploded, feeds


def _add_input(
    graph: GraphProto,
    called: str,
    dtype: np.dtype[Any],
    shape: Sequence[int | None],
    narrow: int | None,
) -> str:
    """Declare an input and return its name; a narrow one is made from float32."""
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(dtype)
    if narrow is None:
        graph.input.append(helper.make_tensor_value_info(called, kind, shape))
        return called
    wide = f"{called}:float32"
    graph.input.append(helper.make_tensor_value_info(wide, kind, shape))
    graph.node.append(helper.make_node("Cast", [wide], [called], to=narrow))
    return wide


def _add_output(graph: GraphProto, called: str, *, narrow: bool) -> None:
    from onnx import TensorProto, ValueInfoProto, helper

    if narrow:
        wide = f"{called}:wide"
        graph.node.append(helper.make_node("Cast", [called], [wide], to=TensorProto.FLOAT))
        called = wide
    graph.output.append(ValueInfoProto(name=called))


def tensor_name(number: int, name: str) -> str:
    """What tensor *name* of the slice at place *number* is called in the exploded model."""
    return f"{number}/{name}"


def _renamed(source: Explodable, part: OnnxSubgraph, number: int) -> dict[str, str]:
    """New names of all tensors of a slice but its weights."""
    names = {*part.piece.inputs, *part.made}
    for place in part.nodes:
        names.update(name for name in source.graph.node[place].output if name)
    return {name: tensor_name(number, name) for name in names}


def _copy(node: NodeProto, renamed: Mapping[str, str], number: int) -> NodeProto:
    from onnx import NodeProto

    copy = NodeProto()
    copy.CopyFrom(node)
    copy.name = tensor_name(number, node.name) if node.name else ""
    _rename(copy.input, renamed)
    _rename(copy.output, renamed)
    for body in bodies(copy):
        _rename_captured(body, renamed)
    return copy


def _set_aside(node: NodeProto, feeds: Collection[str]) -> None:
    """Give outputs of *node* that are given from outside another name: nobody reads them."""
    for place, name in enumerate(node.output):
        if name in feeds:
            node.output[place] = f"{name}:unused"


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
    old = source.graph
    for name in names:
        if name in source.weights:
            graph.initializer.append(old.initializer[source.weights[name]])
        else:
            graph.sparse_initializer.append(old.sparse_initializer[source.sparse_weights[name]])


if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedScalarFieldContainer

    _Names = RepeatedScalarFieldContainer[str]


# A model in consecutive parts, so that running it holds a bounded amount of tensors.
#
# Each part gives all its tensors; what later parts need is fed back to them. So every op
# runs once, however small the memory.


_EIGHT_BYTES = frozenset((7, 11, 13))
"""int64, double and uint64 of onnx.proto, TensorProto.DataType."""
_UNKNOWN_SHARE = 8
"""A tensor of unknown size is taken for this part of the memory allowed."""


def segments(
    source: Explodable,
    feeds: Mapping[str, Array],
    wanted: Sequence[str],
    memory: int,
    unfeedable: frozenset[str],
) -> list[RunnableSubgraph]:
    """Consecutive pieces that make *wanted* from *feeds*, each of about *memory* bytes.

    No tensor of *unfeedable* (sequences and the like) goes from one piece to another.

    Raises:
        ExecutionError: something they need is nowhere.
    """
    full_slice = slice_of(source, RunnableSubgraph("", tuple(feeds), tuple(wanted)))
    graph = source.graph
    sizes = tensor_sizes(source.model, feeds)
    needs = {place: _needs(source, place) for place in full_slice.nodes}
    last_use = {name: place for place in full_slice.nodes for name in needs[place]}
    subgraphs: list[RunnableSubgraph] = []
    made_before: set[str] = set(feeds)
    for group in _groups(full_slice.nodes, source, sizes, memory, last_use, unfeedable):
        outputs = [name for place in group for name in graph.node[place].output if name]
        inputs = dict.fromkeys(
            name for place in group for name in needs[place] if name in made_before
        )
        feedable = tuple(name for name in outputs if name not in unfeedable)
        subgraphs.append(RunnableSubgraph(str(group[0]), tuple(inputs), feedable))
        made_before.update(outputs)
    return subgraphs


def tensor_sizes(model: ModelProto, feeds: Mapping[str, Array]) -> dict[str, int]:
    """Bytes of the tensors whose shape follows from the feeds' shapes."""
    from onnx import ModelProto, helper, shape_inference
    from onnx.shape_inference import InferenceError

    shaped = ModelProto()
    shaped.CopyFrom(model)
    for value in shaped.graph.input:
        if value.name in feeds:
            kind = value.type.tensor_type.elem_type
            value.CopyFrom(helper.make_tensor_value_info(value.name, kind, feeds[value.name].shape))
    try:
        inferred = shape_inference.infer_shapes(shaped, data_prop=True)
    except (InferenceError, RuntimeError, ValueError):
        return {}  # then every tensor counts as one of unknown size
    sizes_of: dict[str, int] = {}
    for info in (*inferred.graph.value_info, *inferred.graph.output):
        declared = info.type.tensor_type
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in declared.shape.dim]
        if declared.HasField("shape") and declared.elem_type and None not in sizes:
            elements = int(np.prod([size or 0 for size in sizes], dtype=np.int64))
            # at least 4 bytes: narrow floats are widened
            sizes_of[info.name] = elements * (8 if declared.elem_type in _EIGHT_BYTES else 4)
    return sizes_of


def _needs(source: Explodable, place: int) -> set[str]:
    """What the node at *place* takes, weights left out."""
    node = source.graph.node[place]
    names = {name for name in node.input if name} | captured_names(node)
    return {
        name for name in names if name not in source.weights and name not in source.sparse_weights
    }


def _groups(
    places: Sequence[int],
    source: Explodable,
    sizes: Mapping[str, int],
    memory: int,
    last_use: Mapping[str, int],
    unfeedable: frozenset[str],
) -> Iterator[list[int]]:
    graph = source.graph
    group: list[int] = []
    size_of_group = 0
    open_until = -1  # a sequence made in the group is used up to here
    for place in places:
        outputs = [name for name in graph.node[place].output if name]
        size = sum(sizes.get(name, memory // _UNKNOWN_SHARE) for name in outputs)
        if group and size_of_group + size > memory and place > open_until:
            yield group
            group, size_of_group = [], 0
        group.append(place)
        size_of_group += size
        for name in outputs:
            if name in unfeedable:
                open_until = max(open_until, last_use.get(name, -1))
    if group:
        yield group
