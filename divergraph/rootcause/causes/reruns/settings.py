"""Other values of attributes: the op is run with each, to see which gives what the device has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from divergraph.execute.translate.torch.arguments import arguments_of
from divergraph.rootcause.causes.evidence import Cause, SampledTensors, Trial
from divergraph.rootcause.causes.reruns.number_search import epsilons_left_out, searched_numbers
from divergraph.rootcause.causes.reruns.other_attributes import trials, trials_of_arguments
from graphstore.model import AttrValue, Op
from importers.msprobe.graph import ARGUMENTS

_MOST_TRIES = 40
"""Trials for a group. Bounds cost: each runs it once more."""
_LARGEST = 1 << 24
"""Elements of the largest output for which ops are run many times. Bounds cost."""


def wrong_setting(view: SampledTensors, *, numbers: bool = True) -> Cause | None:
    """The op was computed with another attribute: axis, pads, epsilon, mode.

    Without *numbers*, such as epsilon, only choices are tried.
    """
    case = view.case
    if case.rerun is None or case.device.size > _LARGEST:
        return None
    tries = 0
    for op in case.ops:
        for trial in _tried(op, view, numbers=numbers and not _multiple(view)):
            tries += 1
            if tries > _MOST_TRIES:
                return None
            output = case.rerun(op, trial.values)
            if view.explained_by(output):
                settings = dict(trial.values)
                return view.cause_of_rerun(
                    op, trial.label, trial.words, output, attributes=settings
                )
    return None


def _tried(op: Op, view: SampledTensors, *, numbers: bool) -> Iterator[Trial[AttrValue]]:
    """Other choices for *op*, then the *numbers* that are nearest to the device."""
    arguments = arguments_of(op, view.case.inputs) if ARGUMENTS in op.attrs else {}
    axes = _rank(op, view)
    choices = chain(trials(op, axes), trials_of_arguments(arguments, axes))
    searched = (
        searched_numbers(view, op, arguments) if numbers else epsilons_left_out(op, arguments)
    )
    return chain(choices, searched)


def _multiple(view: SampledTensors) -> bool:
    """Whether the device has exactly a multiple of what is expected, which says more than an
    attribute."""
    power = float(np.sum(view.r * view.r))
    gain = float(np.sum(view.r * view.d)) / power if power else 1.0
    return view.exact(gain * view.r, view.finite)


def _rank(op: Op, view: SampledTensors) -> int:
    """How many axes the op's output has, which inside a group need not be the group's."""
    shape = op.outputs[0].shape if op.outputs else None
    if shape is not None:
        return len(shape)
    arrays = view.case.inputs.values() if len(view.case.ops) > 1 else ()
    return max(view.case.reference.ndim, *(value.ndim for value in arrays), 0)
