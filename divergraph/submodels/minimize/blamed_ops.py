"""The golden ops a wrong device tensor may be the fault of, constants seen as their users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from divergraph.matching.constants import constant_ops
from divergraph.submodels.run_parts import RunParts
from graphstore.model import Comparison


class BlamedOps:
    """Asked for one comparison after the other."""

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts
        self._known = parts.selector.ops.keys()
        self._constants = constant_ops(parts.golden)

    def of(self, item: Comparison) -> Iterator[tuple[str, ...]]:
        """The groups of ops to blame for a device output, the measured op first.

        One group, but for a weight that is wrong: then each op that takes it is one, as a
        part always takes its weights along.
        """
        group = item.split.group if item.split is not None else ()
        group = group or self._parts.originals.get(item.op, ())
        first = () if item.golden is None else (item.golden.op,)
        ops = [op for op in dict.fromkeys((*first, *reversed(group))) if op in self._known]
        living = tuple(op for op in ops if op not in self._constants)
        if living:
            yield living
        else:
            for user in self._users(ops):
                yield (user,)

    def _users(self, constants: Iterable[str]) -> list[str]:
        """The ops that are no constants and take these, in execution order."""
        arrays = self._parts.selector.arrays
        waiting = [arrays.number[op] for op in constants]
        seen = set(waiting)
        found = []
        while waiting:
            for other in arrays.successors(waiting.pop()).tolist():
                if other not in seen:
                    seen.add(other)
                    if arrays.ids[other] in self._constants:
                        waiting.append(other)
                    else:
                        found.append(other)
        return [arrays.ids[number] for number in sorted(found)]
