"""Which of some starts reach some ops, found backward from these."""

from __future__ import annotations

from collections.abc import Sequence

from graphstore.traverse.arrays import GraphArrays

_CHUNK = 2**16
"""Ops whose edges are made Python numbers at once: those of a million would take 100 MB."""


def starts_before(
    arrays: GraphArrays, ops: Sequence[int], starts: Sequence[int]
) -> list[tuple[int, ...]] | None:
    """For each of a few *ops* the places in *starts* of the ops it can be reached from.

    None where an edge leads back, as in a loop: one pass would not do.
    """
    place_of = {number: place for place, number in enumerate(starts)}
    places: list[list[int]] = [[] for _ in ops]
    if not starts or not ops:
        return [() for _ in ops]
    lowest, top = min(starts), max(ops) + 1
    # Bit i of reaches[n] is set if op n feeds ops[i]; complete once all later ops were passed.
    reaches = [0] * top
    own: dict[int, int] = {}
    for bit, number in enumerate(ops):
        own[number] = own.get(number, 0) | 1 << bit
    for until in range(top, lowest, -_CHUNK):
        first = max(lowest, until - _CHUNK)
        begin = arrays.predecessor_start[first : until + 1].tolist()
        sources = arrays.predecessor_ops[begin[0] : begin[-1]].tolist()
        for number in range(until - 1, first - 1, -1):
            mask = reaches[number]
            if mask and number in place_of:
                for bit in range(mask.bit_length()):
                    if mask >> bit & 1:
                        places[bit].append(place_of[number])
            mask |= own.get(number, 0)
            if mask:
                at = number - first
                for source in sources[begin[at] - begin[0] : begin[at + 1] - begin[0]]:
                    if source >= number:
                        return None
                    reaches[source] |= mask
                reaches[number] = 0
    return [tuple(sorted(listed)) for listed in places]
