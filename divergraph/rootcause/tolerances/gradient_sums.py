"""Gradients of scales and biases, which a kernel may add up in the type of its values.

PyTorch's layer norm on CPUs adds the rows of a batch in turn to one number of 16 bits: over a
thousand rows its gradients are off by several per cent. What that costs follows from the sums on
the way, as each is rounded. They are the gradients of the first part of the batch, so golden's call
is run with nothing coming in behind that part.
"""

from __future__ import annotations

import math

import numpy as np

from divergraph.execute.translate.torch.alone import GRADIENT, input_name
from divergraph.rootcause.tolerances.contract import (
    Action,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
    Widen,
    outputs_on,
)

_PARTS = 8
"""Sums on the way that are looked at. Bounds cost: a random walk is known well enough by them."""


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    precision, reference = context.arithmetic.precision, estimate.reference
    name = input_name(context.group.golden.op, f"{GRADIENT}0")
    if (
        not precision.rounds
        or name not in context.given
        or reference.ndim > 1
        or not estimate.are_floats
    ):
        return None
    incoming = context.given[name]
    steps = incoming.size / reference.size / _PARTS
    size = float(np.linalg.norm(reference))
    if steps * _PARTS < 2 or not 0.0 < size < math.inf:
        return None
    places = np.arange(incoming.size).reshape(incoming.shape)
    fed = [
        {**context.given, name: np.where(places < incoming.size * part // _PARTS, incoming, 0.0)}
        for part in range(1, _PARTS)
    ]
    sums = outputs_on(context, fed, reference.shape)
    if len(sums) < len(fed):
        return None
    # Each step rounds the sum so far by up to the unit roundoff, evenly spread.
    squares = sum(float(np.square(array, dtype=np.float64).sum()) for array in (*sums, reference))
    error = precision.unit * math.sqrt(steps * squares / 3) / size
    return Widen(floor=math.hypot(error, estimate.floor), numbers={"sums": error})


TOLERANCE = Tolerance(
    "gradient sums",
    Stage.SUSPICIOUS,
    6,
    "a kernel may add up the gradients of scales and biases in 16 bits, one after another",
    _apply,
)
