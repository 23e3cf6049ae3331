"""Candidates by re-execution: original ops run on the device's own inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from divergraph.execute.contract import Executor, RunnableSubgraph
from divergraph.graphs.matching.by_value import family_of, lie_alike
from divergraph.graphs.matching.golden_reach import GoldenReach, ReachedPart
from divergraph.graphs.matching.judging import Candidate
from divergraph.values.array_types import Array
from divergraph.values.closeness import AS_IT_LIES, FAR, best_reorder, distance, is_near
from divergraph.values.dumped_values import DumpedValues
from divergraph.values.orders import reordered
from divergraph.values.zero_points import is_8_bit, with_zero_of
from graphstore.model import Reorder, TensorMatch, TensorRef


@dataclass(frozen=True, slots=True)
class Rerun:
    """A golden part to run; *images* give the device tensor for a golden one."""

    part: ReachedPart
    images: Mapping[TensorRef, TensorMatch]


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
        candidates: dict[TensorRef, list[Candidate]] = {}
        values_of_ref: dict[TensorRef, list[Array]] = {}
        runs = {key: Rerun(part, images) for key, (_, part) in jobs.items()}
        for key, value in self.results(executor, runs):
            ref, part = jobs[key]
            device = self.device.of(ref)
            if device is None:
                continue
            off, reorder = apart(device, value)
            if off < FAR:
                family = family_of(values_of_ref.setdefault(ref, []), value)
                candidates.setdefault(ref, []).append(Candidate(part.output, off, reorder, family))
        return candidates

    def results(self, executor: Executor, runs: Mapping[str, Rerun]) -> Iterator[tuple[str, Array]]:
        """What each part gives, by its key; those that do not run are left out."""
        subgraphs = [
            RunnableSubgraph(
                key,
                (
                    *(self.reach.tensor_name(ref) for ref in run.part.needs),
                    *run.part.graph_inputs,
                ),
                (self.reach.tensor_name(run.part.output),),
            )
            for key, run in runs.items()
            if self._fed(run) is not None
        ]
        results = executor.run_subgraphs(
            subgraphs,
            lambda subgraph: self._fed(runs[subgraph.key]) or {},
            memory=self.memory,
        )
        for result in results:
            if result.values:
                yield result.key, next(iter(result.values.values()))

    def _fed(self, run: Rerun) -> dict[str, Array] | None:
        """The device's values of what a part needs, in golden order; None if one is missing."""
        feeds: dict[str, Array] = {}
        for golden in run.part.needs:
            value = self._in_golden_order(run.images[golden])
            if value is None:
                return None
            feeds[self.reach.tensor_name(golden)] = value
        for name in run.part.graph_inputs:
            input_value = self.golden.of_input(name)
            if input_value is None:
                return None
            feeds[name] = input_value
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


def apart(device: Array, golden: Array) -> tuple[float, Reorder | None]:
    """The distance of *device* from *golden*, and the order of axes if it is another one."""
    if is_8_bit(device) and golden.dtype.kind == "f":
        return FAR, None  # the scale is not known
    comparable = 0 < device.size == golden.size and is_near(device, golden)
    as_it_lies = distance(device, golden) if comparable else FAR
    if as_it_lies <= AS_IT_LIES and lie_alike(device, golden):
        return as_it_lies, None
    best = best_reorder(device, golden)
    if best is None or best[1] >= as_it_lies:
        return (as_it_lies, None) if lie_alike(device, golden) else (FAR, None)
    return best[1], best[0]
