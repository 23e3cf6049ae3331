"""Longest common subsequences of long sequences that differ in few places."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

_MOST_EDITS = 1000
"""Edits that are searched for: their number squared is the time and the memory it takes."""


def aligned(one: Sequence[Hashable], other: Sequence[Hashable]) -> Iterator[tuple[int, int]]:
    """Places of equal items in both sequences, in order, as many as there can be.

    Takes time in proportion to the length and the square of the differences (Myers 1986). Of
    sequences with thousands of differences only the equal ends are aligned.
    """
    start, stop = 0, 0
    shortest = min(len(one), len(other))
    while start < shortest and one[start] == other[start]:
        start += 1
    while stop < shortest - start and one[-1 - stop] == other[-1 - stop]:
        stop += 1
    yield from ((at, at) for at in range(start))
    middle = _middle(one[start : len(one) - stop], other[start : len(other) - stop])
    yield from ((start + x, start + y) for x, y in middle)
    yield from ((len(one) - at, len(other) - at) for at in range(stop, 0, -1))


def _middle(one: Sequence[Hashable], other: Sequence[Hashable]) -> list[tuple[int, int]]:
    if not one or not other:
        return []
    reached: dict[int, int] = {1: 0}
    steps: list[dict[int, int]] = []
    for edits in range(min(len(one) + len(other), _MOST_EDITS) + 1):
        steps.append(dict(reached))
        for diagonal in range(-edits, edits + 1, 2):
            x = _next(reached, diagonal, edits)
            y = x - diagonal
            while x < len(one) and y < len(other) and one[x] == other[y]:
                x, y = x + 1, y + 1
            reached[diagonal] = x
            if x >= len(one) and y >= len(other):
                return _walked_back(steps, len(one), len(other))
    return []


def _next(reached: dict[int, int], diagonal: int, edits: int) -> int:
    down = diagonal == -edits or (
        diagonal != edits and reached[diagonal - 1] < reached[diagonal + 1]
    )
    return reached[diagonal + 1] if down else reached[diagonal - 1] + 1


def _walked_back(steps: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for edits in range(len(steps) - 1, -1, -1):
        reached, diagonal = steps[edits], x - y
        down = diagonal == -edits or (
            diagonal != edits and reached[diagonal - 1] < reached[diagonal + 1]
        )
        before = diagonal + 1 if down else diagonal - 1
        from_x = reached.get(before, 0)
        from_y = from_x - before
        while x > from_x and y > from_y and x > 0 and y > 0:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = from_x, from_y
    pairs.reverse()
    return pairs
