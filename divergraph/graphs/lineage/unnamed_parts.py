"""Device ops of whose originals the graph tells no name.

A compiler that makes several ops of one (a GRU for each direction, a quantised LSTM) names one of
them, or none, after the original. What lies between named originals then belongs to what lies
between the ops of these names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphstore.model import LineageLink, LineageRule, ModelGraph, Op


def with_unnamed_parts(
    device: ModelGraph, links: Sequence[LineageLink], listed: Mapping[str, tuple[str, ...]]
) -> list[LineageLink]:
    """*links*, and those of ops without any: to the originals that lie between the named ones, else
    to the first of those that the named op behind them lists (*listed*, by device op).

    An op all of whose originals are known loses the links to what lies between: that is not in it.
    """
    linked = {link.device for link in links}
    between: dict[str, list[LineageLink]] = {}
    for link in links:
        if link.rule is LineageRule.BETWEEN_TENSORS and link.device_port is None:
            between.setdefault(link.device, []).append(link)
    ops, fed = device.op_index(), _fed(device)
    moved: set[str] = set()
    added: dict[tuple[str, str], LineageLink] = {}
    for name, names_listed in listed.items():
        originals = [link.original for link in between.get(name, ())] or list(names_listed[:1])
        parts = [part_op.id for part_op in _unnamed(ops, ops[name], linked) if part_op.id in fed]
        if parts and len(names_listed) == len(ops[name].original_names or ()):
            moved.add(name)
        for part in parts:
            for original in originals:
                link_of_part = LineageLink(part, original, LineageRule.BETWEEN_TENSORS)
                added.setdefault((part, original), link_of_part)
    unmoved = [
        link
        for link in links
        if link.device not in moved or link not in between.get(link.device, ())
    ]
    return [*unmoved, *added.values()]


def _unnamed(ops: Mapping[str, Op], op: Op, linked: set[str]) -> Iterator[Op]:
    """The ops before *op* up to those with links; inserted ones are passed through."""
    waiting = list(op.takes)
    seen: set[str] = set()
    while waiting:
        source = ops[waiting.pop().op]
        if source.id in seen or source.id in linked:
            continue
        seen.add(source.id)
        waiting.extend(source.takes)
        if not source.is_inserted:
            yield source


def _fed(device: ModelGraph) -> set[str]:
    """The ops that depend on an input of the model, not on constants alone."""
    names = {tensor.name for tensor in device.inputs}
    fed: set[str] = set()
    for op in device.ops:  # after what they take
        if any(ref.op in fed for ref in op.takes) or any(
            ref is not None and ref.producer is None and ref.tensor in names for ref in op.inputs
        ):
            fed.add(op.id)
    return fed
