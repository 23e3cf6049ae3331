"""Candidates by re-execution: original ops run on the device's own inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from divergraph.execute.contract import Executor, RunnableSubgraph
from divergraph.graphs.matching.by_value import family_of, lie_alike
from divergraph.graphs.matching.golden_reach import GoldenReach, ReachedPart
from divergraph.graphs.matching.judging import Candidate
from divergraph.values.array_types import Array
from divergraph.values.closeness import AS_IT_LIES, FAR, best_reorder, distance, is_near
from divergraph.values.dumped_values import DumpedValues
from divergraph.values.orders import reordered
from divergraph.values.zero_points import with_zero_of
from graphstore.model import Reorder, TensorMatch, TensorRef


@dataclass(frozen=True, slots=True)
class ReExecution:
    """Runs parts of the golden graph on values the device dumped."""

    reach: GoldenReach
    device: DumpedValues
    golden: DumpedValues
    memory: int

    def candidates(
        self,
        executor: Executor,
        jobs: Mapping[str, tuple[TensorRef, ReachedPart]],
        images: Mapping[TensorRef, TensorMatch],
    ) -> dict[TensorRef, list[Candidate]]:
        """By device tensor the outputs of golden parts that come near it. *jobs* hold, under any
        key, a device tensor and a part that may compute it; *images* give the device tensor for a
        golden one."""
        subgraphs = [
            RunnableSubgraph(
                key,
                (*(self.reach.tensor_name(each) for each in part.needs), *part.graph_inputs),
                (self.reach.tensor_name(part.output),),
            )
            for key, (_, part) in jobs.items()
            if self._fed(part, images) is not None
        ]
        found: dict[TensorRef, list[Candidate]] = {}
        made: dict[TensorRef, list[Array]] = {}
        results = executor.run_subgraphs(
            subgraphs,
            lambda subgraph: self._fed(jobs[subgraph.key][1], images) or {},
            memory=self.memory,
        )
        for result in results:
            ref, part = jobs[result.key]
            device = self.device.of(ref)
            if device is None or not result.values:
                continue
            value = next(iter(result.values.values()))
            apart, reorder = _apart(device, value)
            if apart < FAR:
                family = family_of(made.setdefault(ref, []), value)
                found.setdefault(ref, []).append(Candidate(part.output, apart, reorder, family))
        return found

    def _fed(
        self, part: ReachedPart, images: Mapping[TensorRef, TensorMatch]
    ) -> dict[str, Array] | None:
        """The device's values of what a part needs, in golden order; None if one is missing."""
        feeds: dict[str, Array] = {}
        for golden in part.needs:
            value = self._in_golden_order(images[golden])
            if value is None:
                return None
            feeds[self.reach.tensor_name(golden)] = value
        for name in part.graph_inputs:
            given = self.golden.of_input(name)
            if given is None:
                return None
            feeds[name] = given
        return feeds

    def _in_golden_order(self, match: TensorMatch) -> Array | None:
        value = self.device.of(match.device)
        reference = self.golden.of(match.golden)
        if value is None or reference is None:
            return value
        if match.reorder is not None:
            moved = reordered(value, match.reorder, reference.shape)
        else:
            moved = value.reshape(reference.shape) if value.size == reference.size else None
        return None if moved is None else with_zero_of(moved, reference)


def _apart(device: Array, golden: Array) -> tuple[float, Reorder | None]:
    """The distance of *device* from *golden*, and the order of axes if it is another one."""
    comparable = 0 < device.size == golden.size and is_near(device, golden)
    apart = distance(device, golden) if comparable else FAR
    if apart <= AS_IT_LIES and lie_alike(device, golden):
        return apart, None
    best = best_reorder(device, golden)
    if best is None or best[1] >= apart:
        return (apart, None) if lie_alike(device, golden) else (FAR, None)
    return best[1], best[0]
