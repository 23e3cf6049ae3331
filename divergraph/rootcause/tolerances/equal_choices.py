"""The gradient of a maximum where several elements are the largest.

It may go to the first of them, to another one or to each: of TensorFlow's two kernels of
``MaxPool3DGrad`` for CPUs one takes the first, one all of them. Behind a Relu, whole windows are 0.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from divergraph.execute.contract import Alterable, Array, RunnableSubgraph
from divergraph.rootcause.tolerances.contract import (
    Action,
    Exclude,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
)
from divergraph.rootcause.tolerances.masks import Mask

_CHOOSING = frozenset({"MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad"})
EQUAL_ELEMENTS = "equal_elements"
"""The attribute by which rows of these ops give "all" of equal elements the gradient, or "none"."""


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    if not estimate.are_floats:
        return None
    choosing = [op for op in context.group.ops if context.golden.ops[op].type in _CHOOSING]
    if len(choosing) != 1:
        return None
    tensor = context.golden.ops[choosing[0]].outputs[0].name
    to_all, none = (_with_equal_ones(context, tensor, which) for which in ("all", "none"))
    shape = estimate.reference.shape
    if to_all is None or none is None or {to_all.size, none.size} != {estimate.reference.size}:
        return None
    tied = _tied(estimate, to_all.reshape(shape), none.reshape(shape))
    if not tied.any():
        return None
    masked = estimate.masked or Mask(np.zeros_like(tied), np.zeros_like(tied), 0.0)
    mask = replace(masked, held=tied | masked.held, missed=masked.missed & ~tied)
    return Exclude(mask=mask, numbers={"places": int(tied.sum())})


def _with_equal_ones(context: OpContext, tensor: str, which: str) -> Array | None:
    """The output of the group with the gradient given to these of equal elements."""
    if not isinstance(context.executor, Alterable):
        return None
    name = context.golden.name(context.group.golden)
    feeds = tuple(feed.tensor for feed in context.group.feeds)
    piece = RunnableSubgraph(which, feeds, (name,))
    attrs = {EQUAL_ELEMENTS: which}
    outputs = context.executor.run_altered(piece, context.given, tensor, attrs)
    return None if outputs is None else outputs.get(name)


def _tied(estimate: ToleranceEstimate, to_all: Array, none: Array) -> Array:
    """Where elements of which others are the equals get something, if the device has no more there
    than they can get."""
    largest = float(np.abs(to_all).max(initial=0.0))
    device = np.abs(estimate.device.reshape(to_all.shape))
    with np.errstate(invalid="ignore"):
        return np.asarray((to_all != none) & (device <= largest))


TOLERANCE = Tolerance(
    "equal choices",
    Stage.SUSPICIOUS,
    4,
    "of several largest elements, any may be given the gradient",
    _apply,
)
