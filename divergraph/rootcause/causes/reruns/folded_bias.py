"""The one bias that a compiler makes of all that a group of ops adds, lost or added twice.

A convolution's bias, the mean and the shift of a normalisation behind it: on a device they are one
vector. It is what the group gives for inputs of zero, so that nothing has to be known of its ops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Array, Cause, Floats, InsideStep, SampledTensors
from divergraph.rootcause.causes.reruns.operands import LARGEST
from graphstore.model import Op

_WAYS: Mapping[float, tuple[str, str]] = {
    -1.0: ("lost_bias", "missing"),
    1.0: ("doubled_bias", "added twice"),
}


@dataclass(frozen=True)
class _Guess:
    """The group's output where all that is added up to ``op`` is missing, or there twice."""

    op: Op
    made: Floats
    way: float


def folded_bias(view: SampledTensors) -> Cause | None:
    """All that a group adds to what it makes of its inputs is missing, or there twice."""
    case = view.case
    if case.reweigh is None or case.device.size > LARGEST or not view.visible:
        return None
    if len(case.ops) < 2 or any(op.owns for op in case.ops):
        return None
    fitting = [guess for guess in _guesses(view) if view.fits(guess.made)]
    if not fitting:
        return None
    best = min(fitting, key=lambda guess: view.left(guess.made))
    sure, how = view.told(best.made, view.sure)
    label, what = _WAYS[best.way]
    called = f"{best.op.type} {best.op.name or best.op.id}"
    return Cause(
        label,
        f"the device has {how} what comes out if all that is added up to {called} is {what}: the "
        "bias of ops that were made one",
        sure,
        {"op": best.op.id, "factor": best.way, "left": view.left(best.made)},
    )


def _guesses(view: SampledTensors) -> Iterator[_Guess]:
    case, inside = view.case, view.case.inside
    zeros = {name: np.zeros_like(x) for name, x in case.inputs.items() if x.dtype.kind == "f"}
    if not zeros or case.reweigh is None:
        return
    (output,) = case.reweigh([zeros])
    if (
        output is not None
        and output.shape == case.reference.shape
        and _adds(added := view.made(output))
    ):
        yield from (_Guess(case.ops[-1], view.r + sign * added, sign) for sign in _WAYS)
    steps = [] if inside is None else list(inside.steps)
    tried: list[tuple[InsideStep, Array, float]] = []
    for step in steps:
        (value,) = inside.remade(step, [zeros]) if inside is not None else (None,)
        if value is not None and value.shape == step.value.shape and _adds(value):
            tried += [(step, step.value + sign * value, sign) for sign in _WAYS]
    outcomes = [] if inside is None else inside.replaced([trial[:2] for trial in tried])
    for (step, _, sign), outcome in zip(tried, outcomes, strict=True):
        if outcome is not None and outcome.shape == case.reference.shape:
            yield _Guess(step.op, view.made(outcome), sign)


def _adds(value: Array) -> bool:
    return bool(np.isfinite(value).all() and np.any(value))


CAUSES = (CauseRule(folded_bias, CauseStage.LINE, 12),)
