"""Ops that stand far out among all ops of their run, though their error is below the limits.

Limits must hold for every device there is, however coarsely it computes what is not emulated. The
ops of one run tell more: where the errors of all are within twice their floors, the device computes
as it is taken to, and one that is off by five times its own has a reason of its own. What is past
the limit of suspects, as no tolerance explains it, is then guilty, if the run has others of its
type to be held against: the only op of a type may have a kernel of its own.

Products add up so many terms that those of one family err alike, by a few percent: a few of them
tell what all ops of a run together do not, however few these are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from divergraph.rootcause import calibration
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.tolerances.contract import (
    Action,
    Narrow,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
)
from divergraph.rootcause.values import norms, relative, robust_spread
from graphstore.model import TensorRef


def limit_of(suspicions: Iterable[float]) -> float:
    """The suspicion that none of so many healthy ops reaches by chance; infinite where they are too
    few to tell.

    Above the upper quartile their logarithms are taken to fall off exponentially, as slowly as any
    op of this run but the furthest shows: ops are of many kinds, and a run in which some err more
    than others has a heavier tail than any kind by itself.
    """
    logs = np.log([suspicion for suspicion in suspicions if 0.0 < suspicion < math.inf])
    if logs.size < calibration.STANDING_OUT_OPS:
        return math.inf
    logs = np.sort(logs)[::-1]
    start, above = float(np.quantile(logs, 0.75)), 0.25 * logs.size
    ranks = np.arange(2, logs.size // 8 + 1)
    slowest = float(np.max((logs[ranks - 1] - start) / np.log(above / ranks)))
    reached = start + slowest * math.log(above / calibration.FALSE_ALARMS)
    return max(math.exp(reached), calibration.healthy_limit())


def limit_of_alike(suspicions: Iterable[float]) -> float:
    """The suspicion that no product reaches among those of its family; infinite where they are too
    few to tell. However alike most are, they spread no less than to the third furthest of them, as
    kernels for several sizes do: one fault is seen in a call and in its module."""
    logs = np.log([suspicion for suspicion in suspicions if 0.0 < suspicion < math.inf])
    if logs.size < 2 * calibration.ENOUGH_OPS:
        return math.inf
    middle = float(np.median(logs))
    spread = max(robust_spread(logs), float(np.sort(logs)[-3]) - middle)
    reached = middle + calibration.LONE_SIGMA * spread
    with np.errstate(over="ignore"):
        return max(float(np.exp(reached)), calibration.healthy_limit())


def unlike_their_family(
    worst: Mapping[TensorRef, float],
    options: RootCauseOptions,
    family_of: Callable[[TensorRef], object],
) -> dict[TensorRef, float]:
    """The products that err more than all others of their family, and are not guilty by themselves,
    with the suspicion they get for it; of those in no family *family_of* gives None."""
    families: dict[object, dict[TensorRef, float]] = {}
    for output, own in worst.items():
        if (family := family_of(output)) is not None:
            families.setdefault(family, {})[output] = own
    limits = {family: limit_of_alike(alike.values()) for family, alike in families.items()}
    return {
        output: options.guilty * own / limits[family]
        for family, alike in families.items()
        for output, own in alike.items()
        if limits[family] < own <= options.guilty
    }


def standing_out(
    worst: Mapping[TensorRef, float],
    options: RootCauseOptions,
    type_of: Callable[[TensorRef], str],
) -> dict[TensorRef, float]:
    """Those outputs of one kind that stand out and are not guilty by themselves, with the suspicion
    they get for it: over the limit of suspects, and over that of guilt only where they are suspect
    already and others of their type are not. *worst* is the suspicion of the worst part of each."""
    limit = limit_of(worst.values())
    alike = Counter(type_of(output) for output, own in worst.items() if own <= limit)
    return {
        output: suspicion
        if own > options.suspect and alike[type_of(output)] >= calibration.STANDING_OUT_PEERS
        else min(suspicion, options.guilty)
        for output, own in worst.items()
        if limit < own <= options.guilty and (suspicion := options.suspect * own / limit) > own
    }


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    if not context.stands_out:
        return None
    floor = relative(estimate.device, estimate.reference) / context.stands_out
    return Narrow(floor, floor * norms(estimate.reference, estimate.reference)[1])


TOLERANCE = Tolerance(
    "standing out",
    Stage.HIDDEN,
    90,
    "the other ops of this run are off by far less of their floors",
    _apply,
)
