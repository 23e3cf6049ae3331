"""Which one more dump would tell most about a group of ops of which one is guilty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphstore.model import LineageLink
from graphstore.traverse.arrays import GraphArrays
from graphstore.traverse.reach import reached


@dataclass(frozen=True, slots=True)
class NextDump:
    """Dump the output of device op ``op``, and the group falls into two.

    ``golden`` is the original its output is held against; ``before`` and ``after`` are how
    many ops would be left to choose from if the error is there already, or not yet.
    """

    op: str
    golden: str
    before: int
    after: int


def best_dump(
    group: Sequence[str], origin: str, golden: GraphArrays, links: Iterable[LineageLink]
) -> NextDump | None:
    """The device op whose output splits *group* (golden op ids) most evenly, if any does.

    *origin* is the device op in whose output the group ends; what it holds itself no dump
    can tell apart. *links* are those of the group's ops.
    """
    members = {golden.number[op] for op in group if op in golden.number}
    held: dict[str, set[int]] = {}
    for link in links:
        number = golden.number.get(link.original, -1)
        if number in members:
            held.setdefault(link.device, set()).add(number)
    held.pop(origin, None)
    if not members:
        return None
    end = max(members)
    found = []
    for device, originals in held.items():
        last = max(originals)
        before = _upstream(golden, last, members, frozenset())
        after = _upstream(golden, end, members, frozenset(originals))
        if last != end and max(len(before), len(after)) < len(members):
            found.append(NextDump(device, golden.ids[last], len(before), len(after)))
    return min(found, key=lambda one: (max(one.before, one.after), one.op), default=None)


def _upstream(golden: GraphArrays, op: int, members: set[int], without: frozenset[int]) -> set[int]:
    """*op* and the members that lead to it through members, those *without* left out."""
    allowed = members - without
    return set(reached([op], lambda each: allowed & set(golden.predecessors(each).tolist())))
