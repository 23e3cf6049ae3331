"""Parts of a run's device graph, chosen directly or as the counterpart of a golden part."""

from __future__ import annotations

from collections.abc import Sequence

from divergraph.submodel.export.ge_export import is_inserted
from divergraph.submodel.run_graphs import LinkedGraphs
from divergraph.submodel.select import JUST_SO, Selector
from divergraph.submodel.selection import Selection, SelectionRequest
from graphstore.errors import InputError


def select_device(
    graphs: LinkedGraphs,
    starts: Sequence[str],
    ends: Sequence[str],
    wish: SelectionRequest = JUST_SO,
) -> Selection:
    """The part of the device graph between ops of it, or those that stand for golden ops.

    Casts and changes of layout at its boundary go inside.

    Raises:
        InputError: an op neither graph has, or one the device does not run.
    """
    selector = graphs.device_selector
    first = [op for name in starts for op in _device_ops(graphs, name, last=False)]
    last = [op for name in ends for op in _device_ops(graphs, name, last=True)]
    alone = SelectionRequest({}, wish.whole, wish.all_outputs, wish.data)
    selection = selector.between(first, last, alone)
    return _with_inserted(selector, selection, alone) if selection.chosen else selection


def standing_for(graphs: LinkedGraphs, part: Selection) -> Selection | None:
    """The part of the device graph that stands for a golden *part*; None if there is none.

    Where these ops are in several bodies, it is of the ops of the root graph that own them.
    """
    ops = graphs.device_ops(part.chosen)
    selector = graphs.device_selector
    if not ops:
        return None
    if is_in_bodies(graphs, part):
        ops = tuple(dict.fromkeys(selector.at_root(op) for op in ops))
    wish = SelectionRequest(data=False)
    return _with_inserted(selector, selector.hull(ops, wish), wish)


def is_in_bodies(graphs: LinkedGraphs, part: Selection) -> bool:
    """Whether the device has the ops of a golden *part* in several bodies."""
    ops = graphs.device_selector.ops
    return len({ops[op].subgraph for op in graphs.device_ops(part.chosen)}) > 1


def _device_ops(graphs: LinkedGraphs, name: str, *, last: bool) -> tuple[str, ...]:
    """The device op *name*, or of the golden op of that name what stands for it, at its
    *last* or first end."""
    if name in graphs.device_ids or name not in graphs.selector.ops:
        return (name,)  # the selector says what is wrong with it
    group = graphs.device_ops((name,))
    if not group:
        raise InputError(
            f"no op of the device stands for {name!r}", hint="choose the op before or after it"
        )
    part = graphs.device_selector.hull(group, SelectionRequest(data=False))
    return part.ends if last else part.starts


def _with_inserted(selector: Selector, part: Selection, wish: SelectionRequest) -> Selection:
    """*part* with the adjacent ops that a compiler inserted."""
    chosen = set(part.chosen)
    body = selector.ops[part.chosen[0]].subgraph
    arrays = selector.arrays
    waiting = list(chosen)
    while waiting:
        number = arrays.number[waiting.pop()]
        before = [arrays.ids[at] for at in arrays.predecessors(number).tolist()]
        followers = [
            arrays.ids[at]
            for at in arrays.successors(number).tolist()
            if all(arrays.ids[one] in chosen for one in arrays.predecessors(at).tolist())
        ]
        for op in (*before, *followers):
            follower = selector.ops[op]
            if op not in chosen and is_inserted(follower) and follower.subgraph == body:
                chosen.add(op)
                waiting.append(op)
    if chosen == set(part.chosen):
        return part
    return selector.hull(chosen, wish)
