"""Which tensors one run fetches: as many as fit into memory, none that a branch left dead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from divergraph.execute.tensorflow.branches import MERGES, SWITCHES
from divergraph.execute.tensorflow.step import before, in_order
from graphstore.traverse.reach import reached

_UNKNOWN_SHARE = 8
"""A tensor of unknown size is taken for this part of the memory allowed."""

Fetch = Callable[[Sequence[Any]], Sequence[Any]]
"""Runs the step for some tensors and gives their values."""


def dead_tensors(
    graph: Any, in_loops: Mapping[str, str], ops_asked: set[Any], fed: frozenset[str], fetch: Fetch
) -> frozenset[str]:
    """The tensors without a value: those of branches of the old kind that are not taken.

    Only *ops_asked* count. *fetch* is called for what decides the branches.
    """
    ordered = [op for op in in_order(graph) if op in ops_asked]
    switches = [op for op in ordered if op.type in SWITCHES and op.name not in in_loops]
    taken_branch: dict[Any, bool] = {}
    while True:
        dead = _dead(ordered, in_loops, taken_branch, fed)
        open_ones = [
            op for op in switches if op not in taken_branch and op.inputs[1].name not in dead
        ]
        # Whether an inner branch is dead is only known once the outer ones are decided.
        ready = [op for op in open_ones if not _hangs_on(op, open_ones)]
        if not ready:
            return frozenset(dead)
        decided = fetch([op.inputs[1] for op in ready])
        taken_branch.update(zip(ready, map(bool, decided), strict=True))


def chunks(tensors: Sequence[Any], sizes: Mapping[str, int], memory: int) -> Iterator[list[Any]]:
    """*tensors* in groups of about *memory* bytes, at least one in each."""
    group: list[Any] = []
    group_bytes = 0
    for tensor in tensors:
        size = sizes.get(tensor.name, memory // _UNKNOWN_SHARE)
        if group and group_bytes + size > memory:
            yield group
            group, group_bytes = [], 0
        group.append(tensor)
        group_bytes += size
    if group:
        yield group


def known_size(tensor: Any) -> int | None:
    """The bytes of a tensor whose shape the graph says; None of others."""
    elements = tensor.shape.num_elements()
    return None if elements is None else int(elements) * item_size(tensor)


def item_size(tensor: Any) -> int:
    """Bytes of one element as it is given out (narrow floats are widened)."""
    return max(int(tensor.dtype.base_dtype.size), 4)


def _dead(
    ordered: Sequence[Any],
    in_loops: Mapping[str, str],
    taken_branch: Mapping[Any, bool],
    fed: frozenset[str],
) -> set[str]:
    dead: set[str] = set()
    dead_ops: set[Any] = set()
    for op in ordered:
        inputs = [op_input.name in dead for op_input in op.inputs if op_input.name not in fed]
        controls = [control_input in dead_ops for control_input in op.control_inputs]
        # A merge lives on whichever branch is taken; a loop's merge has a second input that is
        # dead only after the last turn.
        if op.type in MERGES and op.name not in in_loops:
            gone = bool(inputs) and all(inputs)
        else:
            gone = any(inputs) or any(controls)
        if gone:
            dead_ops.add(op)
            dead.update(output.name for output in op.outputs if output.name not in fed)
        elif op in taken_branch:
            dead.add(op.outputs[0 if taken_branch[op] else 1].name)
    return dead


def _hangs_on(op: Any, others: Sequence[Any]) -> bool:
    """Whether a switch of *others* stands before *op*."""
    undecided = set(others) - {op}
    # What stands before an undecided switch need not be looked at.
    ops_before = reached([op], lambda other: () if other in undecided else before(other))
    return not undecided.isdisjoint(ops_before)
