"""Restores op ids that a database cannot hold in its answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from graphstore.model import Comparison, LineageLink, ModelGraph, TensorRef
from graphstore.schema.codec import plain_text

_ESCAPE = "\\ud"
"""How a half surrogate pair starts that was written as an escape."""


def may_be_escaped(ops: Iterable[str]) -> bool:
    """True if one of *ops*, as a database says them, may have another id in its graph."""
    return any(_ESCAPE in op for op in ops)


def original_ids(graph: ModelGraph) -> dict[str, str]:
    """The ids of *graph* that a database cannot hold, by what it has instead.

    Half surrogate pairs are in a database as backslash escapes; the graphs, which it keeps
    as JSON, have them as they were.
    """
    ids = ((plain_text(op.id), op.id) for op in graph.ops if not op.id.isascii())
    return {plain: own for plain, own in ids if plain != own}


def original_link(
    link: LineageLink, device: Mapping[str, str], golden: Mapping[str, str]
) -> LineageLink:
    """*link* with the ids of :func:`original_ids` of both graphs."""
    return replace(
        link,
        device=device.get(link.device, link.device),
        original=golden.get(link.original, link.original),
    )


def original_comparison(
    item: Comparison, device: Mapping[str, str], golden: Mapping[str, str]
) -> Comparison:
    """*item* with the ids of :func:`original_ids` of both graphs."""
    ref = item.golden
    if ref is not None:
        ref = TensorRef(golden.get(ref.op, ref.op), ref.port)
    split = item.split
    if split is not None:
        split = replace(split, group=tuple(golden.get(op, op) for op in split.group))
    return replace(item, op=device.get(item.op, item.op), golden=ref, split=split)


def golden_ops(item: Comparison) -> tuple[str, ...]:
    """The golden ops that *item* names."""
    group = () if item.split is None else item.split.group
    return group if item.golden is None else (item.golden.op, *group)
