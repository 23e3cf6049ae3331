"""What a run says of each output that was compared: the error of its op, and how guilty that is."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from divergraph.ask.output_errors import OutputError, output_errors
from divergraph.ask.rows import split_weight
from graphstore.contract import GraphStore
from graphstore.model import ErrorSplit, Guilt, Level, Run, TensorRef


@dataclass(frozen=True, slots=True)
class JudgedOutput:
    """An output of a run: its op, what it makes (or shows), and of which originals.

    ``error`` is the introduced error where the run was split (``by_split``), else the relative
    error. ``weight`` orders them, worse ones above. ``split`` is None where only this is known.
    """

    op: str
    type: str
    golden: TensorRef
    guilt: Guilt
    error: float | None
    weight: tuple[int, float]
    group: frozenset[str]
    by_split: bool
    split: ErrorSplit | None = None


class JudgedOutputs:
    """The outputs of a run by golden tensor and by original op."""

    def __init__(self, outputs: Iterable[JudgedOutput]) -> None:
        self.all = tuple(outputs)

    @cached_property
    def by_tensor(self) -> Mapping[TensorRef, Sequence[JudgedOutput]]:
        """Those held against each golden tensor."""
        by_tensor: dict[TensorRef, list[JudgedOutput]] = {}
        for output in self.all:
            by_tensor.setdefault(output.golden, []).append(output)
        return by_tensor

    @cached_property
    def _by_original(self) -> Mapping[str, Sequence[JudgedOutput]]:
        by_original: dict[str, list[JudgedOutput]] = {}
        for output in self.all:
            for original in output.group:
                by_original.setdefault(original, []).append(output)
        return by_original

    @property
    def golden(self) -> Set[TensorRef]:
        """The golden tensors that outputs were held against."""
        return self.by_tensor.keys()

    def counterpart(self, other: JudgedOutput) -> tuple[JudgedOutput | None, bool]:
        """(the output here that corresponds to *other*, whether it ends a different group)."""
        same = [one for one in self.by_tensor.get(other.golden, ()) if one.group == other.group]
        if same:
            return next((one for one in same if one.op == other.op), _worst(same)), False
        neighbours = [one for name in other.group for one in self._by_original.get(name, ())]
        return _worst(neighbours), bool(neighbours)


def judged_outputs(store: GraphStore, run: Run, *, by_split: bool) -> list[JudgedOutput]:
    """The outputs of *run* that were compared; with *by_split* those whose errors were split."""
    origins = frozenset() if by_split else {origin.op for origin in store.origins(run.name)}
    judged = (_judged(item, origins, by_split=by_split) for item in output_errors(store, run))
    return [one for one in judged if one is not None]


def _worst(outputs: Sequence[JudgedOutput]) -> JudgedOutput | None:
    return max(outputs, key=lambda one: one.weight, default=None)


def _judged(item: OutputError, origins: Collection[str], *, by_split: bool) -> JudgedOutput | None:
    golden, split = item.golden, item.split
    if not item.compared or golden is None or (by_split and split is None):
        return None
    if by_split and split is not None:
        group = frozenset(split.group or (golden.op,))
        weight, error = split_weight(split), split.introduced
        return JudgedOutput(
            item.op, item.type, golden, split.guilt, error, weight, group, True, split
        )
    distance = item.distance
    if math.isnan(distance):
        distance = math.inf if item.broken else 0.0
    over = item.level is Level.FAIL
    guilt = Guilt.GUILTY if over and item.op in origins else Guilt.NONE
    weight = int(over) + int(guilt is Guilt.GUILTY), distance
    group = frozenset({golden.op})
    return JudgedOutput(item.op, item.type, golden, guilt, distance, weight, group, False)
