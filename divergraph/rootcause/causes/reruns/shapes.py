"""An output of another shape: the op is run with one thing changed, to see what gives the device's
shape and values.
"""

from __future__ import annotations

import numpy as np

from divergraph.rootcause.causes.evidence import Array, Cause
from divergraph.rootcause.causes.limits import SURE
from divergraph.rootcause.causes.reruns.shape_relations import relations_of
from divergraph.rootcause.causes.reruns.shape_trials import (
    NEAR,
    Shape,
    ShapeFault,
    ShapeTrial,
    trials_of,
)
from divergraph.rootcause.shape_metrics import without_ones
from divergraph.rootcause.values import relative
from graphstore.model import Op

LABEL = "wrong_shape"
MOST_TRIES = 160
"""Trials for an op. Bounds cost: each runs it once more."""
_FAR_LESS = 0.5
"""The share of what one trial leaves that a later one may leave to be said instead: all axes and
all but the batch are the same where the batch is one item, but for rounding."""
LARGEST = 1 << 24
"""Elements of the largest output for which ops are run many times. Bounds cost."""


def wrong_shape(fault: ShapeFault) -> Cause | None:
    """What was done otherwise, so that it gives the device's shape and values; None if nothing that
    is tried does."""
    if max(fault.device.size, fault.reference.size) > LARGEST:
        return None
    nearest: tuple[float, ShapeTrial, Op] | None = None
    for op in fault.ops:
        for number, trial in enumerate(trials_of(op, fault)):
            if number >= MOST_TRIES:
                break
            distance = _apart(fault, fault.again(op, trial.attrs, trial.values))
            if distance is not None and (nearest is None or distance < _FAR_LESS * nearest[0]):
                nearest = distance, trial, op
            if nearest is not None and nearest[0] <= NEAR**3:
                return _rerun_cause(*nearest)
    if nearest is not None and nearest[0] <= NEAR:
        return _rerun_cause(*nearest)
    relations = relations_of(fault) if fault.fed_alike else ()
    return next((_plain_cause(words) for words in relations), None)


def shapes_text(fault: ShapeFault) -> str:
    """Both shapes in words."""
    return f"its shape is {_text(fault.device.shape)} where {_text(fault.reference.shape)} is right"


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "that of a scalar"


def _apart(fault: ShapeFault, output: Array | None) -> float | None:
    """The relative distance of the device's values from *output*, or, as indices have no sizes, the
    share of whole numbers that are others; None for another shape."""
    if output is None or without_ones(output.shape) != without_ones(fault.device.shape):
        return None
    if output.dtype.kind not in "biuf" or fault.device.dtype.kind not in "biuf":
        return None
    if output.dtype.kind != "f":
        return float(np.mean(fault.device != output.reshape(fault.device.shape)))
    return relative(fault.device, output)


def _rerun_cause(distance: float, trial: ShapeTrial, op: Op) -> Cause:
    how = "exactly" if distance <= NEAR**2 else "nearly"
    changed = {name: _listed(value) for name, value in trial.values.items()}
    return Cause(
        LABEL,
        f"the device has {how} what {op.type} {op.name or op.id} gives {trial.words}",
        SURE,
        {"op": op.id, "attributes": dict(trial.attrs), "operands": list(changed), "left": distance},
    )


def _plain_cause(words: str) -> Cause:
    return Cause(LABEL, f"the device has {words}", SURE, {})


def _listed(value: Array) -> list[object]:
    return list(value.reshape(-1).tolist())
