"""What the products of a device lose alike where no format of their operands explains it.

The run is its own control group: what all ops of a family have in common is the device's
arithmetic, whatever it is, and one op that loses far more is wrong.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

import numpy as np

from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.families import Loss
from divergraph.rootcause.groups.group_runs import GroupSample
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.values import cosine, relative, robust_spread, same_shape

_MOSTLY_GAIN = 0.9
"""The share of an error that is a gain from which on it is one. Changes the verdict of three
products that are all 1.2 times too large."""


def common_loss(golden: OpGraph, samples: Iterable[GroupSample]) -> Loss | None:
    """What ops of a family lose alike; None where they are too few, or are not alike, as faults
    are not. One of them is wrong that loses so many times as much, and is so many spreads away, as
    a channel of a tensor would be."""
    losses: dict[Group, float] = {}
    gains = []
    for sample in samples:
        device = same_shape(sample.device, sample.reference.shape)
        lost = math.inf if device is None else relative(device, sample.reference)
        if device is not None and 0.0 < lost < math.inf:
            losses[sample.group] = math.log(lost)
            right = np.asarray(sample.reference, np.float64)
            gains.append(abs(cosine(device - right, right)))
    # Arithmetic loses this way and that; what makes all outputs larger is a fault of each.
    if not losses or statistics.median(gains) > _MOSTLY_GAIN:
        return None
    middle = statistics.median(losses.values())
    spread = robust_spread(np.fromiter(losses.values(), np.float64))
    furthest = max(math.log(calibration.LONE_RATIO), calibration.LONE_SIGMA * spread)
    if furthest > math.log(calibration.GUILTY) or middle > math.log(calibration.MOST_LOST):
        return None
    # Ops of the same weights are one witness: these may be wrong.
    alike = (group for group, lost in losses.items() if abs(lost - middle) <= furthest)
    witnesses = {golden.constants_read(group.ops) or group for group in alike}
    if len(witnesses) < calibration.ENOUGH_OPS:
        return None
    usual = math.exp(middle)
    return Loss(usual, usual * math.exp(furthest) / calibration.GUILTY)
