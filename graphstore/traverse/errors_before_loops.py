"""The worst error just before each op where ops feed each other in loops.

Between loops ways lead on to later ops only, so there one number is carried along. Inside a
loop a way may lead back: there it counts whether an error is of an earlier op than the one
that asks. Kept are only errors larger than those of all ops before, a handful as a rule.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from graphstore.traverse.arrays import Bool, GraphArrays, Int32
from graphstore.traverse.components import condense


@dataclass(slots=True)
class _Carried:
    """Errors that reach unmeasured ops: from earlier loops, and from ops of the same loop.

    ``inner`` are (op number, error), both ascending.
    """

    outer: float = -math.inf
    inner: list[tuple[int, float]] = field(default_factory=list)

    def add(self, op: int, error: float) -> None:
        """An error of an op of the same loop."""
        place = bisect_left(self.inner, (op, -math.inf))
        if place and self.inner[place - 1][1] >= error:
            return
        last = place
        while last < len(self.inner) and self.inner[last][1] <= error:
            last += 1
        self.inner[place:last] = [(op, error)]

    def join(self, other: _Carried, *, same_loop: bool) -> None:
        """What reaches a part of the graph before this one."""
        if not same_loop:
            self.outer = max(self.outer, other.worst())
            return
        self.outer = max(self.outer, other.outer)
        fewer, more = sorted((self.inner, other.inner), key=len)
        self.inner = more.copy()
        for op, value in fewer:
            self.add(op, value)

    def worst(self) -> float:
        """The largest of all."""
        return max(self.outer, self.inner[-1][1]) if self.inner else self.outer

    def worst_before(self, op: int) -> float:
        """The largest of those from before an op of the same loop."""
        place = bisect_left(self.inner, (op, -math.inf))
        return max(self.outer, self.inner[place - 1][1]) if place else self.outer


def worst_before_with_loops(
    arrays: GraphArrays, sources: Int32, measured: Bool, error: NDArray[np.float64]
) -> NDArray[np.float64]:
    """As :func:`.algorithms.worst_before`; *sources* are those of the successors."""
    size, targets = len(arrays.ids), arrays.successor_ops
    loop = _loops(size, sources, targets).tolist()
    between = ~measured[sources] & ~measured[targets]
    part, _, _ = condense(size, sources[between], targets[between])
    parts: list[int] = part.tolist()
    carried: dict[int, _Carried] = {}
    known = np.where(measured, error, np.nan).tolist()
    is_measured = measured.tolist()
    found = [-math.inf] * size
    # measured ops first, then unmeasured ones part by part, so that each has all it gets
    order = np.lexsort((part[sources], ~measured[sources]))
    before, its_part = _Carried(), -1
    for source, target in zip(sources[order].tolist(), targets[order].tolist(), strict=True):
        same = loop[source] == loop[target]
        if is_measured[source]:
            value = known[source]
            if value != value or (is_measured[target] and source >= target):
                continue
            if is_measured[target]:
                found[target] = max(found[target], value)
            elif same:
                carried.setdefault(parts[target], _Carried()).add(source, value)
            else:
                into = carried.setdefault(parts[target], _Carried())
                into.outer = max(into.outer, value)
            continue
        if its_part != parts[source]:
            its_part = parts[source]
            before = carried.pop(its_part, _Carried())
        if is_measured[target]:
            value = before.worst_before(target) if same else before.worst()
            found[target] = max(found[target], value)
        elif its_part != parts[target]:
            carried.setdefault(parts[target], _Carried()).join(before, same_loop=same)
    answer = np.asarray(found)
    answer[np.isneginf(answer)] = np.nan
    return answer


def _loops(size: int, sources: Int32, targets: Int32) -> Int32:
    """Stretches of ops in topo order that no edge leads back out of, by number."""
    back = sources > targets
    inside = np.zeros(size + 1, dtype=np.int64)
    np.add.at(inside, targets[back] + 1, 1)
    np.add.at(inside, sources[back] + 1, -1)
    return np.cumsum(np.cumsum(inside[:size]) == 0).astype(np.int32)
