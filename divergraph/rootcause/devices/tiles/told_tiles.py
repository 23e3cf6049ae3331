"""Whether a convolution was computed over transformed tiles: its errors tell.

Compilers choose that op by op, by the sizes, and say so nowhere. The errors are up to a thousand
times those of sums, and a limit for all convolutions that wide would hide faults; but they are the
errors that the transforms make, and these can be made again. Where a device adds up in the same
order they are the very same, value by value. In another order they still grow over each tile as
the powers of its points do: by a place's number in the tile, the same at all tiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.tiles.winograd import (
    CANDIDATES,
    Tiles,
    can_be_tiled,
    has_channels_last,
    kernel_of,
)
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.tolerances.masks import Mask, without
from divergraph.rootcause.tolerances.noise_floor import Emulation
from graphstore.model import Op

_FEWEST_PLACES = 4
"""Places of a tile in which errors can be seen to grow."""
_GROWN = 0.35
"""The least spread of the logarithms that is called growth: from 0.7 to 1.4 times the usual."""
_NEAR = 2.0
"""By how many times errors, and their growth, may be larger or smaller."""


@dataclass(frozen=True, slots=True)
class ToldTiles:
    """The tiles a convolution was computed over: what it ``made`` over them, in the shape of the
    reference, and the ``cosine`` between its errors and the device's, or between how these grow
    over the tiles (``by_place``)."""

    tiles: Tiles
    made: Array
    cosine: float
    by_place: bool = False


def told_tiles(
    arithmetic: Emulation,
    group: Group,
    feeds: Mapping[str, Array],
    device: Array,
    reference: Array,
    masked: Mask | None = None,
) -> ToldTiles | None:
    """The tiles that *group* was computed over in float32, None where its errors show none.

    *feeds* are its feeds by name, *device* and *reference* its outputs, of one shape; where the
    device holds weights in fewer bits, the reference is what those give.
    """
    quantisers = arithmetic.quantisers
    if arithmetic.precision.rounds or device.dtype.kind != "f":
        return None
    if any(quantisers.met_by(op) is not None for op in group.ops):
        return None
    tiled = [op for op_id in group.ops if can_be_tiled(op := arithmetic.golden.ops[op_id])]
    if not tiled:
        return None
    for tiles in CANDIDATES:
        (computed,) = replace(arithmetic, tiles=tiles, plain=True).emulated([group], [feeds])
        if computed is None or computed.shape != reference.shape:
            return None
        computed = without(masked, computed)
        cosine = _alike(device, computed, reference)
        if cosine is not None:
            return ToldTiles(tiles, computed, cosine)
        places = _alike_by_place(
            device, computed, reference, _steps(tiles, tiled[0], reference.ndim)
        )
        if places is not None:
            return ToldTiles(tiles, computed, places, by_place=True)
    return None


def _steps(tiles: Tiles, op: Op, ndim: int) -> Mapping[int, int]:
    """By axis of the output how many of its places are in a tile."""
    first = 1 if has_channels_last(op) else 2
    kernel = kernel_of(op)
    if ndim != len(kernel) + 2:
        return {}
    steps = {first + n: tiles.reach - size + 1 for n, size in enumerate(kernel) if size > 1}
    return steps if all(step > 1 for step in steps.values()) else {}


def _alike_by_place(
    device: Array, tiled: Array, reference: Array, steps: Mapping[int, int]
) -> float | None:
    """The correlation between how the errors of both grow over a tile, as logarithms; None where
    they do not grow alike, or are not of one size."""
    if not steps:
        return None
    right = np.asarray(reference, np.float64)
    with np.errstate(all="ignore"):
        one, other = (_by_place(np.asarray(array) - right, steps) for array in (device, tiled))
    is_usable = np.isfinite(one) & np.isfinite(other)
    one, other = one[is_usable], other[is_usable]
    if one.size < _FEWEST_PLACES or abs(float(np.mean(one - other))) > math.log(_NEAR):
        return None
    grown = float(np.std(one)), float(np.std(other))
    if grown[1] < _GROWN or not 1 / _NEAR <= grown[0] / grown[1] <= _NEAR:
        return None
    correlation = float(np.corrcoef(one, other)[0, 1])
    return correlation if correlation >= calibration.TILES_GROW_ALIKE else None


def _by_place(errors: Array, steps: Mapping[int, int]) -> Array:
    """The logarithm of the usual size of *errors* at each place of a tile: the median of the
    channels, which a fault in a few of them does not move."""
    channels = next(axis for axis in (1, errors.ndim - 1) if axis not in steps)
    errors_by_place = []
    for place in np.ndindex(*steps.values()):
        at = dict(zip(steps, place, strict=True))
        cut = tuple(slice(at.get(axis), None, steps.get(axis)) for axis in range(errors.ndim))
        sizes = np.moveaxis(errors[cut], channels, 0).reshape(errors.shape[channels], -1)
        errors_by_place.append(
            float(np.median(np.sqrt(np.mean(np.square(sizes), 1)))) if sizes.size else 0.0
        )
    logarithms: Array = np.log(np.array(errors_by_place))
    return logarithms


def _alike(device: Array, tiled: Array, reference: Array) -> float | None:
    """The cosine between the errors of *device* and those of the *tiled* convolution: the median
    of its channels, which a fault in a few of them does not move. None where they are not the
    same, or not of one size."""
    axis = 1 if reference.ndim > 2 else -1
    rows = [
        np.moveaxis(np.asarray(array, np.float64), axis, 0).reshape(reference.shape[axis], -1)
        for array in (device, tiled, reference)
    ]
    with np.errstate(all="ignore"):
        one, other = rows[0] - rows[2], rows[1] - rows[2]
        sizes = np.linalg.norm(one, axis=1), np.linalg.norm(other, axis=1)
        cosines = np.sum(one * other, axis=1) / (sizes[0] * sizes[1])
    is_usable = np.isfinite(cosines)
    if not is_usable.any():
        return None
    cosine = float(np.median(cosines[is_usable]))
    ratio = float(np.median(sizes[0][is_usable] / sizes[1][is_usable]))
    by_chance = calibration.TILES_BY_CHANCE / math.sqrt(is_usable.sum() * one.shape[1])
    if cosine < max(calibration.TILES_ALIKE, by_chance) or not 1 / _NEAR <= ratio <= _NEAR:
        return None
    return cosine
