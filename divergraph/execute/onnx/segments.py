"""A model in consecutive parts, so that running it holds a bounded amount of tensors.

Each part gives all its tensors; what later parts need is fed back to them. So every op
runs once, however small the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from divergraph.execute.contract import Array, RunnableSubgraph
from divergraph.execute.onnx.files import captured_names
from divergraph.execute.onnx.subgraphs import Explodable, slice_of

if TYPE_CHECKING:
    from onnx import ModelProto

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
