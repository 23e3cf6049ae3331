"""One metric of the ops of a run along the execution order: what every face draws of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.ask.facts import Facts, load_facts, op_numbers
from divergraph.ask.sentences import SPLIT_LABELS
from divergraph.metrics.limits.thresholds import NO_LIMIT
from divergraph.present.pictures.scales import beyond, less_is_worse
from divergraph.text.known_figures import known_figures, undefined_figures
from graphstore.columns.coded import Bool, Coded, Float, Numbers
from graphstore.columns.parts import OptionalNumbers
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.filter import OpFilter
from graphstore.model import METRIC_NUMBERS, TELLING_METRICS, Metric, OpState, Run, RunAnalysis

TOLD_METRICS = (
    *TELLING_METRICS,
    *(metric for metric in METRIC_NUMBERS if metric not in TELLING_METRICS),
)
"""The metrics of one number, the most telling first."""
PLOTTED: Mapping[str, str] = {
    **{metric.value: metric.label for metric in TOLD_METRICS},
    Metric.STANDARD_DEVIATION.value: "std, device",  # what filters mean by this name
    **SPLIT_LABELS,
}
"""What can be drawn along the execution order, with its name."""
USUAL = Metric.RELATIVE_EUCLIDEAN_DISTANCE.value


@dataclass(frozen=True, slots=True, eq=False)
class MetricCurve:
    """``values[i]`` is *metric* of the op ``ids[numbers[i]]``, of those only that have one; it is
    NaN or infinite where something on one side is.

    ``ranks`` are those of origins by the op's number, ``limits`` the run's (``fail`` and ``warn``,
    if it has them), ``ops`` all ops of the graph.
    """

    metric: str
    label: str
    ids: Sequence[str]
    numbers: Numbers
    values: Float
    states: Coded[OpState | None]
    ranks: Mapping[int, int]
    limits: Mapping[str, float]
    ops: int

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def is_cosine(self) -> bool:
        """Whether less is worse, and 1 the best; else 0 is, and the axis one of logarithms."""
        return less_is_worse(self.metric)

    def beyond(self, limit: float) -> Bool:
        """Which of the ops are worse than *limit*; those without a finite number are."""
        return beyond(self.metric, self.values, limit)


def metric_curve(
    store: GraphStore, run: str, metric: str = USUAL, wanted: Sequence[OpFilter] = ()
) -> MetricCurve:
    """*metric*, one of ``PLOTTED``, of the device ops of a run that all filters *wanted* take.

    Raises:
        InputError: nothing of this name is drawn.
        UnknownNameError: no such run.
    """
    if metric not in PLOTTED:
        hint = f"one of {', '.join(PLOTTED)}"
        raise InputError("nothing of this name is drawn", where=metric, hint=hint)
    facts = load_facts(store, run)
    known = _numbers_of(facts, metric)
    drawn = np.flatnonzero(known.known)
    for where in wanted:
        drawn = drawn[np.isin(drawn, op_numbers(store, run, where=where)[1])]
    return MetricCurve(
        metric,
        PLOTTED[metric],
        facts.rows.ids,
        drawn,
        known.values[drawn],
        facts.rows.states.take(drawn),
        {facts.arrays.number[one.op]: one.rank for one in facts.origins},
        {} if facts.run is None else plot_limits(facts.run, metric),
        len(facts.rows),
    )


def _numbers_of(facts: Facts, metric: str) -> OptionalNumbers:
    if metric in SPLIT_LABELS:
        return facts.rows.split_number(metric)
    if metric == Metric.STANDARD_DEVIATION:
        spread = facts.rows.figure("device_std")
        return OptionalNumbers(spread, ~np.isnan(spread))
    known = known_figures(facts.rows, Metric(metric))
    # The relative error of zeros is no trouble: it has no place beside NaN of a device.
    undefined = undefined_figures(facts.rows, Metric(metric))
    return OptionalNumbers(known.values, known.known & ~undefined)


def plot_limits(run: Run, name: str) -> dict[str, float]:
    """Where *name* warns and fails, for all tensors of the run; what does not is left out."""
    limits = dict(run.thresholds) | _suspicion_limits(run.analysis)
    bounds = {"fail": _bound(limits, name), "warn": _bound(limits, f"warn.{name}")}
    return {level: bound for level, bound in bounds.items() if bound is not None}


def _suspicion_limits(analysis: RunAnalysis) -> dict[str, float]:
    return {"suspicion": analysis.guilty, "warn.suspicion": analysis.suspect}


def _bound(limits: Mapping[str, float], name: str) -> float | None:
    bound = limits.get(name)
    return None if bound is None or abs(bound) >= NO_LIMIT else bound
