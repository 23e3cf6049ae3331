"""The golden ops a wrong device tensor may be the fault of, constants seen as their users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from divergraph.rootcause.groups.op_graph import OpGraph, Source, source_of
from divergraph.submodel.run_parts import RunParts
from graphstore.model import Comparison, ModelGraph


def living_ops(graph: ModelGraph) -> frozenset[str]:
    """The ops that compute something from the model's inputs: no constants, no variables, no
    inputs themselves."""
    found = OpGraph(graph)
    return frozenset(op for op in found.fed if source_of(found.ops[op]) is not Source.ENTRY)


class BlamedOps:
    """Asked for one comparison after the other."""

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts
        self._known = parts.selector.ops.keys()
        self._living = living_ops(parts.golden)

    def of(self, item: Comparison) -> Iterator[tuple[str, ...]]:
        """The groups of ops to blame for a device output, the measured op first.

        One group, but for a weight that is wrong: then each op that takes it is one, as a
        part always takes its weights along.
        """
        group = item.split.group if item.split is not None else ()
        group = group or self._parts.originals.get(item.op, ())
        first = () if item.golden is None else (item.golden.op,)
        ops = [op for op in dict.fromkeys((*first, *reversed(group))) if op in self._known]
        living = tuple(op for op in ops if op in self._living)
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
                    if arrays.ids[other] in self._living:
                        found.append(other)
                    else:
                        waiting.append(other)
        return [arrays.ids[number] for number in sorted(found)]
