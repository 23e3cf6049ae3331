"""What two graphs share if one is the other written and read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from graphstore.model import ModelGraph


def links(graph: ModelGraph) -> Counter[tuple[object, ...]]:
    """The edges of *graph*, whatever their order."""
    return Counter(
        (edge.source, edge.target, edge.source_port, edge.target_port, edge.kind)
        for edge in graph.edges()
    )


def same(graph: ModelGraph, again: ModelGraph, *, without: set[str] = frozenset()) -> None:
    """*again* has the ops, tensors, edges, bodies and originals of *graph*."""
    assert [op.id for op in again.ops] == [op.id for op in graph.ops]
    for was, is_now in zip(graph.ops, again.ops, strict=True):
        kept = {key: value for key, value in was.attrs.items() if key not in without}
        assert {k: v for k, v in is_now.attrs.items() if k not in without} == kept, was.id
        for field in (
            *("name", "type", "inputs", "control_inputs", "outputs", "subgraph", "owns"),
            *("original_names", "sequence"),
        ):
            assert getattr(is_now, field) == getattr(was, field), (was.id, field)
    assert again.subgraphs == graph.subgraphs
    assert (again.inputs, again.outputs) == (graph.inputs, graph.outputs)
    assert list(again.edges()) == list(graph.edges())


def float32s(attrs: Mapping[str, object]) -> dict[str, object]:
    """Attributes with floats as GE keeps them: in 32 bits."""
    return {k: float(np.float32(v)) if isinstance(v, float) else v for k, v in attrs.items()}
