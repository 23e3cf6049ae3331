"""Which golden ops to suspect, from the run's results: by suspicion, else by gain."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from divergraph.rootcause.groups.op_graph import OpGraph, Source, source_of
from divergraph.submodel.minimize.search import SuspectUnits
from divergraph.submodel.minimize.space import Space
from divergraph.submodel.run_parts import RunParts
from graphstore.model import Comparison, Guilt, ModelGraph, TensorIO
from graphstore.traverse.reach import reached


def space_of(parts: RunParts) -> Space:
    """The golden graph of a run as the search sees it."""
    graph = parts.golden
    bodies: dict[str, list[str]] = {}
    for op in graph.ops:
        if op.subgraph:
            bodies.setdefault(op.subgraph, []).append(op.id)
    owned = [[body.owner, *bodies.get(body.name, ())] for body in graph.subgraphs if body.owner]
    living = living_ops(graph)
    left_out = [op.id for op in graph.ops if op.id not in living and not op.subgraph]
    together = [*parts.fused.values(), *owned]
    return Space(parts.selector.arrays, together, left_out)


def candidates(parts: RunParts, space: Space) -> list[SuspectUnits]:
    """The groups of golden ops, most suspicious first, each once."""
    data = parts.data
    outputs = [item for item in data.comparisons if item.io is TensorIO.OUTPUT and item.compared]
    guilty = {item.op for item in data.origins}
    suspects = {item.op for item in data.suspects} if not guilty else set()
    order = {op: place for place, op in enumerate(parts.device_selector.arrays.ids)}
    gains = _gains(parts, outputs)
    rows = []
    for item in outputs:
        split = item.split
        is_split = split is not None and split.suspicion is not None
        score = split.suspicion if split is not None and is_split else gains.get(item.op, 0.0)
        over = item.op in guilty | suspects
        if is_split and split is not None and over:
            over = split.guilt is not Guilt.NONE
        measure = "suspicion" if is_split else "gain"
        rows.append((not over, not is_split, -(score or 0.0), order[item.op], item, over, measure))
    rows.sort(key=lambda row: row[:4])
    return list(_distinct(parts, space, ((row[4], -row[2], *row[5:]) for row in rows)))


def _distinct(
    parts: RunParts, space: Space, rows: Iterable[tuple[Comparison, float, bool, str]]
) -> Iterator[SuspectUnits]:
    seen: set[frozenset[int]] = set()
    blamed = BlamedOps(parts)
    for item, score, over, measure in rows:
        for group in blamed.of(item):
            units = tuple(dict.fromkeys(unit for op in group for unit in space.units([op])))
            key = frozenset(units)
            if units and key not in seen:
                seen.add(key)
                measured = item.golden is not None and item.golden.op in group
                name = item.op if measured else f"{group[0]} (for {item.op})"
                yield SuspectUnits(units, name, score, over, measure)


def _gains(parts: RunParts, outputs: Iterable[Comparison]) -> dict[str, float]:
    """By device op the ratio of its error to the largest error that came in."""
    errors: dict[str, float] = {}
    for item in outputs:
        assert item.metrics is not None
        error = item.metrics.relative_euclidean_distance
        errors[item.op] = max(errors.get(item.op, 0.0), math.inf if math.isnan(error) else error)
    arrays = parts.device_selector.arrays
    coming: dict[int, float] = {}
    gains: dict[str, float] = {}
    for number, op in enumerate(arrays.ids):
        before = [coming.get(other, 0.0) for other in arrays.predecessors(number).tolist()]
        largest = max(before, default=0.0)
        coming[number] = errors.get(op, largest)  # an op that was not measured passes its error on
        if op in errors and errors[op] > 0.0:
            gains[op] = 1.0 if math.isinf(largest) else errors[op] / max(largest, 1e-9)
    return gains


def living_ops(graph: ModelGraph) -> frozenset[str]:
    """The ops that compute something from the model's inputs: no constants, no variables, no
    inputs themselves."""
    op_graph = OpGraph(graph)
    return frozenset(op for op in op_graph.fed if source_of(op_graph.ops[op]) is not Source.ENTRY)


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
        arrays, living = self._parts.selector.arrays, self._living

        def users(number: int) -> list[int]:
            return [] if arrays.ids[number] in living else arrays.successors(number).tolist()

        numbers = sorted(reached((arrays.number[op] for op in constants), users))
        return [arrays.ids[number] for number in numbers if arrays.ids[number] in living]
