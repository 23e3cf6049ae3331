"""Op ids a database cannot hold, given back to what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from graphstore.contract import RunData
from graphstore.model import Comparison, LineageLink, ModelGraph, TensorRef
from graphstore.records import plain_text


def with_original_ids(data: RunData) -> RunData:
    """*data* as a database answers it, with the op ids its graphs have.

    Half surrogate pairs are in a database as backslash escapes; the graphs, which it keeps
    as JSON, have them as they were.
    """
    device, golden = _escaped(data.device), _escaped(data.golden)
    if not device and not golden:
        return data
    return replace(
        data,
        links=tuple(_link(link, device, golden) for link in data.links),
        comparisons=tuple(_comparison(item, device, golden) for item in data.comparisons),
        states={device.get(op, op): state for op, state in data.states.items()},
    )


def _escaped(graph: ModelGraph) -> dict[str, str]:
    ids = ((plain_text(op.id), op.id) for op in graph.ops if not op.id.isascii())
    return {plain: own for plain, own in ids if plain != own}


def _link(link: LineageLink, device: Mapping[str, str], golden: Mapping[str, str]) -> LineageLink:
    return replace(
        link,
        device=device.get(link.device, link.device),
        original=golden.get(link.original, link.original),
    )


def _comparison(
    item: Comparison, device: Mapping[str, str], golden: Mapping[str, str]
) -> Comparison:
    ref = item.golden
    if ref is not None:
        ref = TensorRef(golden.get(ref.op, ref.op), ref.port)
    return replace(item, op=device.get(item.op, item.op), golden=ref)
