"""Run TensorFlow graphs as they were written: one step, nothing optimised, no oneDNN."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from divergraph.execute.contract import (
    DEFAULT_MEMORY,
    AdditiveRun,
    Array,
    Executor,
    RunnableSubgraph,
    SubgraphResult,
    SubgraphValues,
    Unavailable,
    checked_feeds,
    chosen_tensors,
)
from graphstore.errors import ExecutionError
from graphstore.model import Framework, ModelGraph, Tensor

_MOST_PIECES = 400


class TensorFlowFactory:
    """Opens TensorFlow models; TensorFlow itself is loaded when the first one is opened."""

    name = "tensorflow"
    extra = "tensorflow"
    options: Mapping[str, str] = {
        "checkpoint": "prefix of the checkpoint with the variables' values",
        "variables": "folder of a dump that holds the variables' values before the step",
        "train_op": "names of the ops that end the step, with commas between",
        "signature": "which signature of a SavedModel to run (default: serving_default)",
        "feed": "names of tensors that a run is fed in place of computing them, with commas",
    }

    def accepts(self, graph: ModelGraph) -> bool:
        """Whether *graph* was read from a TensorFlow model."""
        return graph.framework is Framework.TENSORFLOW

    def open(self, path: Path, graph: ModelGraph) -> Executor:
        """The model in *path*, its variables as a checkpoint beside it or its own ops say."""
        return self.open_with(path, graph, {})

    def open_with(self, path: Path, graph: ModelGraph, options: Mapping[str, str]) -> Executor:
        """The model in *path* with some of :attr:`options`."""
        return TensorFlowExecutor(graph, options)


class TensorFlowExecutor:
    """One TensorFlow model: inference, or one step of training.

    ``unavailable`` grows in a run by what that run could not give: tensors of branches
    that were not taken, ops that failed.
    """

    def __init__(self, graph: ModelGraph, options: Mapping[str, str]) -> None:
        from divergraph.execute.tensorflow.model import open_model

        self._model = open_model(graph, options)
        self.name = self._model.name
        self.tensors: tuple[str, ...] = self._model.step.tensors
        tensors = {tensor.name: tensor for op in graph.ops for tensor in op.outputs}
        self.inputs: tuple[Tensor, ...] = tuple(tensors[name] for name in self._model.inputs)
        left_out = self._model.step.left_out
        self.unavailable: tuple[Unavailable, ...] = tuple(
            Unavailable(name, reason) for name, reason in left_out.items()
        )

    def run(
        self,
        feeds: Mapping[str, Array],
        wanted: Sequence[str] | None = None,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[tuple[str, Array]]:
        """The values of *wanted*; what an untaken branch would have made is left out."""
        from divergraph.execute.tensorflow.run import TensorFlowRun

        names = chosen_tensors(self.tensors, wanted)
        run = TensorFlowRun(self._model, checked_feeds(self.inputs, feeds), names, memory)
        for tensor, value in run.values():
            if isinstance(value, str):
                self._lose(tensor, value)
            else:
                yield tensor, value

    def run_subgraphs(
        self,
        pieces: Iterable[RunnableSubgraph],
        values: SubgraphValues,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[SubgraphResult]:
        """Run pieces side by side in one session a batch; halved where one does not run."""
        cutter = self._model.pieces()
        batch: list[tuple[Any, Mapping[str, Array]]] = []
        held = 0
        for piece in pieces:
            try:
                part = cutter.slice_of(piece)
            except ExecutionError as error:
                yield SubgraphResult(piece.key, {}, str(error))
                continue
            given = values(piece)
            size = sum(value.nbytes for value in given.values())
            if batch and (held + size > memory // 2 or len(batch) >= _MOST_PIECES):
                yield from self._side_by_side(batch)
                batch, held = [], 0
            batch.append((part, given))
            held += size
        if batch:
            yield from self._side_by_side(batch)

    def with_additions(
        self, feeds: Mapping[str, Array], tensors: Sequence[str], outputs: Sequence[str]
    ) -> AdditiveRun:
        """One session of what the outputs need, a placeholder added to each of *tensors*."""
        from divergraph.execute.tensorflow.additions import TensorFlowAdditiveRun

        inside = set(self.tensors)
        fed = {name: value for name, value in feeds.items() if name not in inside}
        chosen_tensors(self.tensors, (*tensors, *outputs))
        # What the outputs do not need has not to be fed.
        taken = [tensor for tensor in self.inputs if tensor.name in fed]
        given = {**feeds, **checked_feeds(taken, fed)}
        return TensorFlowAdditiveRun(self._model.pieces(), given, tensors, outputs)

    def close(self) -> None:
        """Let go of the model."""
        self._model.close()

    def _side_by_side(
        self, batch: Sequence[tuple[Any, Mapping[str, Array]]]
    ) -> Iterator[SubgraphResult]:
        slices = [part for part, _ in batch]
        try:
            found = self._model.pieces().run(slices, [given for _, given in batch])
        except ExecutionError as error:
            if len(batch) == 1:
                yield SubgraphResult(slices[0].piece.key, {}, str(error))
                return
            middle = len(batch) // 2
            yield from self._side_by_side(batch[:middle])
            yield from self._side_by_side(batch[middle:])
            return
        for part, made in zip(slices, found, strict=True):
            yield SubgraphResult(part.piece.key, dict(zip(part.made, made, strict=True)))

    def _lose(self, tensor: str, reason: str) -> None:
        if all(each.tensor != tensor for each in self.unavailable):
            self.unavailable = (*self.unavailable, Unavailable(tensor, reason))
