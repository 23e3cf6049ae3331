"""Ops whose reference cannot be run are judged by their gain: error out over error in."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from divergraph.rootcause import calibration
from graphstore.model import Comparison, ErrorSplit, Guilt, TensorIO, TensorRef
from graphstore.traverse.algorithms import worst_before
from graphstore.traverse.arrays import GraphArrays
from graphstore.traverse.measured_ops import measured_ops


def with_fallback(
    arrays: GraphArrays,
    comparisons: Sequence[Comparison],
    splits: Mapping[TensorRef, ErrorSplit],
    sources: Collection[TensorRef] = (),
) -> dict[TensorRef, ErrorSplit]:
    """*splits*, those without a reference judged by their gain.

    An output over a limit is guilty if its error is more than 10 times that of the worst measured
    tensor before it, suspect above 3 times. The gain is kept as the split's ``amplification``.
    *sources* (random, fed from outside) are skipped: no op makes them.
    """
    completed = dict(splits)
    if not any(split.failure for split in splits.values()):
        return completed
    before = worst_before(arrays, measured_ops(arrays, comparisons), _errors(arrays, comparisons))
    for item in comparisons:
        ref = TensorRef(item.op, item.port)
        split = completed.get(ref)
        if item.io is not TensorIO.OUTPUT or split is None or not split.failure or ref in sources:
            continue
        gain = _gain(_error(item), float(before[arrays.number[item.op]]))
        guilt = _guilt(gain) if item.over else Guilt.NONE
        completed[ref] = replace(split, guilt=guilt, amplification=gain)
    return completed


def _guilt(gain: float | None) -> Guilt:
    if gain is None or gain > calibration.GUILTY:
        return Guilt.GUILTY
    return Guilt.SUSPECT if gain > calibration.healthy_limit() else Guilt.NONE


def _gain(error: float, before: float) -> float | None:
    """Error out over error in; None where nothing wrong came in, so all of it starts here."""
    if math.isnan(before) or before == 0.0:
        return None
    return error / before if math.isfinite(before) else 0.0


def _error(item: Comparison) -> float:
    if item.metrics is None:
        return math.nan
    error = item.metrics.relative_euclidean_distance
    return math.inf if math.isnan(error) and item.metrics.device_nonfinite else error


def _errors(arrays: GraphArrays, comparisons: Sequence[Comparison]) -> np.ndarray:
    errors = np.full(len(arrays.ids), np.nan)
    for item in comparisons:
        if item.io is TensorIO.OUTPUT and item.compared:
            number = arrays.number[item.op]
            errors[number] = np.fmax(errors[number], _error(item))
    return errors
