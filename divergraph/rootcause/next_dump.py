"""The one further dump that narrows a guilty group of several ops down the most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphstore.model import LineageLink
from graphstore.traverse.arrays import GraphArrays
from graphstore.traverse.reach import reached


@dataclass(frozen=True, slots=True)
class NextDump:
    """A dump of the output of device op ``op`` would split the group in two.

    ``golden`` is the original its output is compared with. ``before`` ops remain if the error shows
    in that dump, ``after`` ops if it does not.
    """

    op: str
    golden: str
    before: int
    after: int


def best_dump(
    group: Sequence[str], origin: str, golden: GraphArrays, links: Iterable[LineageLink]
) -> NextDump | None:
    """The device op whose output splits *group* (golden op ids) most evenly; None if none does.

    *origin* is the device op in whose output the group ends: no dump can separate the ops fused
    into it. *links* are the lineage links of the group's ops.
    """
    members = {golden.number[op] for op in group if op in golden.number}
    numbers_of: dict[str, set[int]] = {}
    for link in links:
        number = golden.number.get(link.original, -1)
        if number in members:
            numbers_of.setdefault(link.device, set()).add(number)
    numbers_of.pop(origin, None)
    if not members:
        return None
    end = max(members)
    candidates = []
    for device, originals in numbers_of.items():
        last = max(originals)
        before = _upstream(golden, last, members, frozenset())
        after = _upstream(golden, end, members, frozenset(originals))
        if last != end and max(len(before), len(after)) < len(members):
            candidates.append(NextDump(device, golden.ids[last], len(before), len(after)))
    return min(candidates, key=lambda one: (max(one.before, one.after), one.op), default=None)


def _upstream(golden: GraphArrays, op: int, members: set[int], without: frozenset[int]) -> set[int]:
    """*op* and the members upstream of it, reached through members other than *without*."""
    allowed = members - without
    return set(reached([op], lambda number: allowed & set(golden.predecessors(number).tolist())))
