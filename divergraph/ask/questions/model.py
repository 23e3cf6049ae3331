"""The runs of one model beside each other: how its ops fare in each, and what changed between."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from divergraph.ask.gate.judged_outputs import JudgedOutput, JudgedOutputs, judged_outputs
from divergraph.ask.gate.passing import worse_changes
from divergraph.ask.memory.baselines import standings
from divergraph.ask.model_runs import model_name, models_of
from divergraph.ask.question import Parameter, Question, RunName
from divergraph.ask.questions.compare_runs import TIMES, ChangeKind, OpChange, changes_between
from divergraph.outcomes import gives_no_answer
from divergraph.thresholds.verdicts import outputs_by_op, worst
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.model import Comparison, Guilt, Method, OpState, Run, Standing, TensorRef, Verdict

RUNS = 10
"""Runs beside each other, unless more are wanted."""


@dataclass(frozen=True, slots=True)
class RunOfModel:
    """A run, and what changed in it."""

    run: Annotated[str, Parameter("its name", is_run=True)]
    created: str
    verdict: Verdict
    standing: Annotated[Standing | None, "against the baseline; null where the model has none"]
    passed: Annotated[
        bool | None, "whether it passes the gate: see gate; null where there is no baseline"
    ]
    worse: Annotated[tuple[str, ...], Parameter("the ops for which it does not", op_of=".run")]
    changes: Annotated[
        Mapping[str, int], "since the run before, by kind as compare-runs says; the first has none"
    ]
    sentence: Annotated[str | None, "the weightiest of them"]


@dataclass(frozen=True, slots=True)
class OpOfRun:
    """An original's output in one of the runs."""

    original: Annotated[str, "the golden tensor"]
    run: Annotated[str, Parameter("its name", is_run=True)]
    op: Annotated[str, Parameter("the device op whose output was held against it", op_of=".run")]
    state: OpState
    error: Annotated[float | None, "introduced; the relative error of runs without root cause"]
    relative: Annotated[float | None, "the relative error of the op"]
    change: Annotated[ChangeKind | None, "since the run before"]


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The runs of a model, oldest first."""

    model: Annotated[str, "the name of its golden graph"]
    baseline: Annotated[str | None, "the run that others are held against"]
    older: Annotated[int, "runs of the model that are not listed"]
    runs: tuple[RunOfModel, ...]
    ops: Annotated[
        tuple[OpOfRun, ...],
        "of originals that changed or were guilty or suspect in some run, in the order in which "
        "the newest run has them",
    ]

    @property
    def originals(self) -> tuple[str, ...]:
        """The golden tensors, in their order."""
        return tuple(dict.fromkeys(op.original for op in self.ops))


@dataclass(frozen=True, slots=True)
class ModelQuestion(Question[ModelAnswer]):
    """How did the runs of a model go: which ops were guilty in each, and what changed?

    RUN is any run of the model. Runs belong together whose golden graph is the same, or has the
    same name and most of its ops.
    """

    name = "model"
    example = "divergraph model RUN --last 5"
    table = "ops"

    run: RunName
    last: Annotated[int, Parameter("How many runs, the newest.", minimum=1, maximum=100)] = RUNS

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> ModelAnswer:
        """Those runs, oldest first.

        Raises:
            UnknownNameError: no such run.
        """
        model, runs = store.run(self.run).golden, store.runs()
        models = models_of(store, [run for run in runs if _are_alike(run.golden, model)])
        runs = [run for run in runs if models.get(run.golden) == models[model]]
        runs.sort(key=lambda run: run.created)
        listed = runs[-self.last :]
        standing_of = standings(store, runs)
        outputs = _Outputs(store)
        changes = _changes(outputs, listed)
        made = {run.name: run.created for run in runs}
        named = (entry.run for entry in store.baselines() if made.get(entry.run) == entry.made)
        baseline = next(named, None)
        gate = _Gate(outputs, next((run for run in runs if run.name == baseline), None))
        rows = (
            RunOfModel(
                run.name,
                run.created,
                run.verdict,
                standing_of[run.name].standing if run.name in standing_of else None,
                *gate.result(run),
                Counter(change.kind.value for change in changes[run.name]),
                next((change.sentence for change in changes[run.name]), None),
            )
            for run in listed
        )
        return ModelAnswer(
            model_name(models[model]),
            baseline,
            len(runs) - len(listed),
            tuple(rows),
            _ops(store, outputs, listed, changes),
        )


QUESTION = ModelQuestion


def _are_alike(one: str, other: str) -> bool:
    return model_name(one) == model_name(other)


class _Outputs:
    """The judged outputs of runs, read once."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store
        self._known: dict[tuple[str, bool], JudgedOutputs] = {}

    def of(self, run: Run, *, by_split: bool) -> JudgedOutputs:
        """Those of *run*."""
        key = run.name, by_split
        if key not in self._known:
            self._known[key] = JudgedOutputs(judged_outputs(self._store, run, by_split=by_split))
        return self._known[key]


@dataclass(frozen=True, slots=True)
class _Gate:
    """The gate of a model, which runs pass that are not worse than its baseline."""

    outputs: _Outputs
    baseline: Run | None

    def result(self, run: Run) -> tuple[bool | None, tuple[str, ...]]:
        """Whether *run* passes, and the ops for which it does not; None if it cannot be told."""
        old = self.baseline
        if old is None or gives_no_answer(old.verdict):
            return None, ()
        by_split = old.method is run.method is Method.ROOT_CAUSE
        if old.method is Method.ROOT_CAUSE and not by_split:
            return None, ()
        before, after = (self.outputs.of(one, by_split=by_split) for one in (old, run))
        if not before.golden & after.golden:
            return None, ()
        suspect = max(old.analysis.suspect, run.analysis.suspect)
        worse = worse_changes(changes_between(before, after, TIMES, suspect))
        ops = (change.op for change in worse if change.op is not None)
        return not worse and not gives_no_answer(run.verdict), tuple(dict.fromkeys(ops))


def _changes(outputs: _Outputs, runs: Sequence[Run]) -> Mapping[str, Sequence[OpChange]]:
    """What changed in each run since the one before it, the weightiest first."""
    changes: dict[str, Sequence[OpChange]] = {run.name: () for run in runs}
    for old, new in pairwise(runs):
        by_split = old.method is new.method is Method.ROOT_CAUSE
        suspect = max(old.analysis.suspect, new.analysis.suspect)
        before, after = (outputs.of(run, by_split=by_split) for run in (old, new))
        changes[new.name] = changes_between(before, after, TIMES, suspect)
    return changes


def _ops(
    store: GraphStore,
    outputs: _Outputs,
    runs: Sequence[Run],
    changes: Mapping[str, Sequence[OpChange]],
) -> tuple[OpOfRun, ...]:
    """The outputs of each run that stand for an original which some run says something of."""
    kinds = {
        (name, change.golden): change.kind
        for name, of_run in changes.items()
        for change in reversed(of_run)  # the weightiest stays
    }
    judged = {
        run.name: outputs.of(run, by_split=run.method is Method.ROOT_CAUSE).all for run in runs
    }
    wanted = {golden for _, golden in kinds} | {
        str(output.golden)
        for of_run in judged.values()
        for output in of_run
        if output.guilt is not Guilt.NONE
    }
    places: dict[str, int] = {}
    rows: list[OpOfRun] = []
    for run in reversed(runs):  # the newest says the order
        chosen = _heaviest(output for output in judged[run.name] if str(output.golden) in wanted)
        number, states = store.arrays(run.name).number, store.op_figures(run.name).states
        ops = list(dict.fromkeys(output.op for output in chosen.values()))
        items = outputs_by_op(store.comparisons(run.name, ops))
        for golden, output in chosen.items():
            place, original = number[output.op], str(golden)
            places.setdefault(original, place)
            rows.append(
                OpOfRun(
                    original,
                    run.name,
                    output.op,
                    states[place] or OpState.NOT_COMPARED,
                    output.error,
                    _relative_error(worst(items.get(output.op, ()))),
                    kinds.get((run.name, original)),
                )
            )
    order = {run.name: number for number, run in enumerate(runs)}
    rows.sort(key=lambda row: (places[row.original], row.original, order[row.run]))
    return tuple(rows)


def _relative_error(item: Comparison | None) -> float | None:
    """That of the output a list of ops shows; infinite where the device has broken values, of
    truth values the share that differs."""
    if item is None or item.metrics is None:
        return None
    metrics = item.metrics
    if not math.isnan(metrics.relative_euclidean_distance):
        return metrics.relative_euclidean_distance
    is_broken = metrics.device_nonfinite > metrics.golden_nonfinite
    return math.inf if is_broken else metrics.different / max(metrics.elements, 1)


def _heaviest(outputs: Iterable[JudgedOutput]) -> Mapping[TensorRef, JudgedOutput]:
    """One output for each golden tensor: several ops may have been held against it."""
    chosen: dict[TensorRef, JudgedOutput] = {}
    for output in outputs:
        before = chosen.get(output.golden)
        if before is None or output.weight > before.weight:
            chosen[output.golden] = output
    return chosen
