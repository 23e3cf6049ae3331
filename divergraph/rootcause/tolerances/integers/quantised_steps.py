"""Devices that quantise as their graphs say are compared with the quantised ops themselves.

The loss of quantising, a per cent or so, is not random where the scales are known: the same
scales give the same integers, and only values halfway between two steps may go either way.
"""

from __future__ import annotations

import math

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.floors import floor_of, least_floor
from divergraph.rootcause.devices.quantised_ops import QuantisedKind, healthy_ratio
from divergraph.rootcause.devices.tiles.told_tiles import told_tiles
from divergraph.rootcause.tolerances.contract import (
    Action,
    Narrow,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
    input_quantisers,
)
from divergraph.rootcause.values import relative


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    device, emulation, ops = estimate.device, estimate.emulation, context.quantised
    if emulation is None or estimate.unseen or estimate.masked is not None:
        return None
    introduced = relative(device, estimate.reference)
    if not 0.0 < introduced < math.inf or ops.kind(context.group) not in ops.kinds:
        return None
    # A device as near to the emulation as rounding can bring it is right: nothing more to run.
    least_error = least_floor(ops.floors.precision, emulation.size)
    if relative(device, emulation) <= healthy_ratio() * least_error:
        return None
    (expected,) = ops.expected([context.group], [context.given], [device])
    if expected is None or expected.ratio <= ops.suspect:
        return None
    otherwise = _over_tiles, _over_integers
    ratio = min(
        expected.ratio, *(compute(context, estimate, expected.value) for compute in otherwise)
    )
    if ratio <= ops.suspect:
        return None
    floor = max(introduced / ratio, 1.0 / calibration.MOST_SUSPICION)
    return (
        None
        if floor >= estimate.floor
        else Narrow(floor, expected=expected.value, numbers={"over_exact": ratio})
    )


def _over_tiles(context: OpContext, estimate: ToleranceEstimate, expected: Array) -> float:
    """The device's error against what is *expected* over that of a convolution over tiles, where
    it was computed so; infinite where it was not."""
    quantised = context.quantised
    if quantised.kind(context.group) is not QuantisedKind.WEIGHTS:
        return math.inf
    floors, expected = quantised.floors, expected.reshape(estimate.reference.shape)
    tiles = told_tiles(floors, context.group, context.given, estimate.device, expected)
    if tiles is None:
        return math.inf
    floor = floor_of(expected, tiles.made, floors.precision, context.ops)
    return relative(estimate.device, expected) / floor


def _over_integers(context: OpContext, estimate: ToleranceEstimate, expected: Array) -> float:
    """The device's error over what arithmetic explains if it ran the op on the integers it was
    given; infinite where that is another op. Compilers move a scale behind what does not change
    with it, such as a normalisation: its epsilon then counts in steps."""
    feeds = dict(context.given)
    for name, quantiser in input_quantisers(context):
        if quantiser.scale.size != 1:
            return math.inf
        feeds[name] = feeds[name] / quantiser.scale.astype(feeds[name].dtype).reshape(())
    (moved,) = context.quantised.expected([context.group], [feeds], [estimate.device])
    if moved is None or relative(moved.value, expected) > estimate.floor:
        return math.inf
    return moved.ratio


TOLERANCE = Tolerance(
    "known scales",
    Stage.HIDDEN,
    10,
    "the graph gives all scales and the device keeps to them, so the quantised op is the reference",
    _apply,
    handed_on=True,
)
