"""Run TensorFlow graphs as they were written: one step, nothing optimised, no oneDNN."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
from divergraph.execute.side_by_side import run_in_batches
from divergraph.execute.tensorflow.files import (
    as_typed,
    new_session,
    plain,
    tensorflow,
    tensorflow_told,
)
from divergraph.execute.tensorflow.model import TensorFlowRun, open_model
from divergraph.execute.tensorflow.subgraphs import RunnableSubgraphs
from graphstore.model import Framework, ModelGraph, Tensor

_MOST_PIECES = 400


class TensorFlowFactory:
    """Opens TensorFlow models; TensorFlow itself is loaded when the first one is opened."""

    name = "tensorflow"
    extra = "tensorflow"
    packages = ("tensorflow",)
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

    def load(self) -> None:
        """Import TensorFlow."""
        tensorflow()

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
        return run_in_batches(
            pieces, values, cutter.slice_of, cutter.run, memory // 2, limit=_MOST_PIECES
        )

    def with_additions(
        self, feeds: Mapping[str, Array], tensors: Sequence[str], outputs: Sequence[str]
    ) -> AdditiveRun:
        """One session of what the outputs need, a placeholder added to each of *tensors*."""
        inside = set(self.tensors)
        fed = {name: value for name, value in feeds.items() if name not in inside}
        chosen_tensors(self.tensors, (*tensors, *outputs))
        # What the outputs do not need has not to be fed.
        inputs_fed = [tensor for tensor in self.inputs if tensor.name in fed]
        all_feeds = {**feeds, **checked_feeds(inputs_fed, fed)}
        return TensorFlowAdditiveRun(self._model.pieces(), all_feeds, tensors, outputs)

    def close(self) -> None:
        """Let go of the model."""
        self._model.close()

    def _lose(self, tensor: str, reason: str) -> None:
        if all(unavailable.tensor != tensor for unavailable in self.unavailable):
            self.unavailable = (*self.unavailable, Unavailable(tensor, reason))


_FLOATS = frozenset(("float16", "bfloat16", "float32", "float64"))


class TensorFlowAdditiveRun:
    """A session of what lies between *feeds* and *outputs*, open for additions.

    Each open tensor becomes the sum of itself and a placeholder; what is fed is fed the sum. A
    single zero adds nothing.

    Raises:
        ExecutionError: TensorFlow refuses it, or the outputs need more than is fed.
    """

    def __init__(
        self,
        subgraphs: RunnableSubgraphs,
        feeds: Mapping[str, Array],
        tensors: Sequence[str],
        outputs: Sequence[str],
    ) -> None:
        part = subgraphs.slice_of(RunnableSubgraph("", tuple(feeds), tuple(outputs)))
        definition, self._feeds, _ = subgraphs.definition([part], [feeds])
        self._outputs = list(outputs)
        self._fed = {name: (f"0/given_{at}_:0", feeds[name]) for at, name in enumerate(feeds)}
        tensors_by_name = {
            tensor.name: tensor
            for op in part.ops
            if op.name not in subgraphs.in_loops
            for tensor in op.outputs
            if tensor.dtype.name in _FLOATS and tensor.name not in feeds  # _ref types are none
        }
        self._kinds = {
            name: tensors_by_name[name].dtype for name in tensors if name in tensors_by_name
        }
        self._sums = {f"0/{name}": _sum_of(name) for name in self._kinds}
        floats = (name for name, value in feeds.items() if value.dtype.kind == "f")
        self.tensors = (*self._kinds, *(name for name in floats if name in set(tensors)))
        _open(definition, self._sums, self._kinds)
        with tensorflow_told("TensorFlow refuses it"):
            self._session = new_session(subgraphs.imported(definition))

    def run(self, additions: Mapping[str, Array]) -> Mapping[str, Array]:
        """The outputs with *additions* added."""
        with np.errstate(over="ignore", invalid="ignore"):
            added = {
                f"{_added(name)}:0": as_typed(additions.get(name, np.zeros(())), kind)
                for name, kind in self._kinds.items()
            }
            new_values = {
                name: value + np.asarray(additions[name], value.dtype)
                for name, (_, value) in self._fed.items()
                if name in additions
            }
        changed = {self._fed[name][0]: value for name, value in new_values.items()}
        wanted = {
            name: self._sums.get(f"0/{name}", f"0/{name}")
            for name in self._outputs
            if name not in self._fed
        }
        with tensorflow_told("fails in TensorFlow"):
            results = self._session.run(wanted, {**self._feeds, **changed, **added})
        values = {name: plain(value) for name, value in results.items()}
        return {
            name: values[name] if name in values else new_values.get(name, self._fed[name][1])
            for name in self._outputs
        }


def _added(name: str) -> str:
    op, _, port = name.rpartition(":")
    return f"0/{op}/added_{port}_"


def _sum_of(name: str) -> str:
    op, _, port = name.rpartition(":")
    return f"0/{op}/sum_{port}_:0"


def _open(definition: Any, sums: Mapping[str, str], kinds: Mapping[str, Any]) -> None:
    """Put the sums in the place of the tensors in all nodes of *definition*."""
    for node in definition.node:
        inputs = [sums.get(entry, entry) for entry in node.input]
        del node.input[:]
        node.input.extend(inputs)
    for name, kind in kinds.items():
        placeholder, total = definition.node.add(), definition.node.add()
        placeholder.name, placeholder.op = _added(name), "Placeholder"
        placeholder.attr["dtype"].type = kind.as_datatype_enum
        placeholder.attr["shape"].shape.unknown_rank = True
        total.name, total.op = _sum_of(name).removesuffix(":0"), "Add"
        total.input.extend([f"0/{name}", placeholder.name])
        total.attr["T"].type = kind.as_datatype_enum
