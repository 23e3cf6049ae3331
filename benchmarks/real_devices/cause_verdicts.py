"""Whether what is said of a fault in a device's own model is right, weak but true, or wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from model_faults import ModelFault

SURE = 0.8
_CHANNEL = frozenset(("gain", "channel_gain", "channel_offset", "gain_and_offset"))
_CONSTANTS = frozenset(("wrong_constant", "wrong_setting", "wrong_epsilon"))
_WHOLE = frozenset(("gain", "global_offset", "gain_and_offset", "saturation", "wrong_activation"))
RIGHT: Mapping[ModelFault, frozenset[str]] = {
    ModelFault.ONE_WEIGHT: frozenset(("wrong_weights",)),
    ModelFault.CHANNEL_SCALED: _CHANNEL | {"wrong_weights", "wrong_constant"},
    ModelFault.CHANNEL_DEAD: frozenset(("dead_channels", "all_zero", "constant_output")),
    ModelFault.CHANNEL_SHIFTED: frozenset(("channel_offset", "global_offset", "wrong_constant")),
    ModelFault.CHANNELS_SWAPPED: frozenset(("reordered", "wrong_weights")),
    ModelFault.LOST_BIAS: frozenset(("lost_bias", "missing_op")),
    ModelFault.EPSILON: frozenset(("wrong_epsilon",)),
    ModelFault.ATTRIBUTE: frozenset(("wrong_setting", "wrong_axis", "wrong_operation")),
    ModelFault.INPUT_LOST: frozenset(("wrong_weights", "sum_cut_short")),
    ModelFault.TRANSPOSED: frozenset(("wrong_weights", "wrong_operation")),
    ModelFault.GAIN: _CHANNEL | {"wrong_constant"},
    ModelFault.NUMBER: _CONSTANTS | _WHOLE,
    ModelFault.PADS: frozenset(("wrong_pads", "reordered")),
    ModelFault.TABLE_ROW: frozenset(("wrong_weights",)),
}
"""By kind the labels that say what was done."""
_TRUE = frozenset(
    ("wrong_channels", "few_values", "wrong_region", "wrong_border", "unclassified", "nan_origin")
)
"""Labels that only say where, which is true of any fault."""
_ALIKE = frozenset((ModelFault.ONE_WEIGHT, ModelFault.CHANNEL_SCALED, ModelFault.CHANNEL_SHIFTED))
"""Kinds that make the same output where a channel has a single value: some amount of each does.
There the channel and the choice between them are all that can be told, and elsewhere too little."""


def verdict(kind: ModelFault, channel: int | None, cause: Sequence[Any] | None, values: int) -> str:
    """``right``, ``weak`` or ``wrong`` of a *cause*: its label, confidence and evidence. A cause
    of one channel that names others as well is wrong. The output has *values* for each channel."""
    if cause is None:
        return "weak"
    label, _confidence, evidence = cause
    named = _channels(evidence)
    elsewhere = channel is not None and bool(named) and named != [channel]
    if label == "wrong_parameters" and (not elsewhere or channel in named):
        # Other weights of more channels are true of an exchange, which would be more exact.
        return "right" if kind in _ALIKE and values == 1 and not elsewhere else "weak"
    if label in RIGHT[kind]:
        pair = kind is ModelFault.CHANNELS_SWAPPED
        return "wrong" if elsewhere and not pair else "right"
    return "weak" if label in _TRUE and (not elsewhere or channel in named) else "wrong"


def verdict_in_a_loop(name: str, turn: int, cause: Sequence[Any] | None) -> str:
    """``right`` if the cause names the op of the body that makes *name*, alone or as one of some
    that give the same, and the only *turn* in which it fails; ``weak`` if it says no turns or only
    the first wrong one."""
    if cause is None:
        return "weak"
    _label, _confidence, evidence = cause
    turns = evidence.get("turns")
    if turns is None:
        said = evidence.get("first_turn", turn) == turn and "explanations" not in evidence
        return "weak" if said else "wrong"
    parts = [each for each in name.split(";") if each]
    op = any(part in each for part in parts for each in evidence["ops"])
    return "right" if op and turns == [turn, turn] else "wrong"


def _channels(evidence: Mapping[str, Any]) -> Sequence[int] | None:
    """The channels a cause names: slices, or places in a constant of several axes, which are one
    axis of channels on the device."""
    if "shape" in evidence and evidence.get("places"):
        places = np.transpose(evidence["places"])
        return [int(each) for each in np.ravel_multi_index(tuple(places), evidence["shape"])]
    named: Sequence[int] | None = evidence.get("slices")
    return named
