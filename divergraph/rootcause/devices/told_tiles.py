"""Whether a convolution was computed over transformed tiles: its errors tell.

Compilers choose that op by op, by the sizes, and say so nowhere. The errors are up to a thousand
times those of sums, and a limit for all convolutions that wide would hide faults; but they are the
very errors that the transforms make, and these can be made again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.winograd import CANDIDATES, Tiles, can_be_tiled
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.tolerances.masks import Mask, without
from divergraph.rootcause.tolerances.noise_floor import Emulation


@dataclass(frozen=True, slots=True)
class ToldTiles:
    """The tiles a convolution was computed over: what it ``made`` over them, in the shape of the
    reference, and the ``cosine`` between its errors and the device's."""

    tiles: Tiles
    made: Array
    cosine: float


def told_tiles(
    arithmetic: Emulation,
    group: Group,
    given: Mapping[str, Array],
    device: Array,
    reference: Array,
    masked: Mask | None = None,
) -> ToldTiles | None:
    """The tiles that *group* was computed over in float32, None where its errors show none.

    *given* are its feeds by name, *device* and *reference* its outputs, of one shape.
    """
    if arithmetic.precision.rounds or arithmetic.quantisers.by_tensor or device.dtype.kind != "f":
        return None
    if not any(can_be_tiled(arithmetic.golden.ops[op]) for op in group.ops):
        return None
    for tiles in CANDIDATES:
        (made,) = replace(arithmetic, tiles=tiles, plain=True).emulated([group], [given])
        if made is None or made.shape != reference.shape:
            return None
        made = without(masked, made)
        cosine = _alike(device, made, reference)
        if cosine is not None:
            return ToldTiles(tiles, made, cosine)
    return None


def _alike(device: Array, tiled: Array, reference: Array) -> float | None:
    """The cosine between the errors of *device* and those of the *tiled* convolution: the median
    of its channels, which a fault in a few of them does not move. None where they are not the
    same, or not of one size."""
    axis = 1 if reference.ndim > 2 else -1
    rows = [
        np.moveaxis(np.asarray(each, np.float64), axis, 0).reshape(reference.shape[axis], -1)
        for each in (device, tiled, reference)
    ]
    with np.errstate(all="ignore"):
        one, other = rows[0] - rows[2], rows[1] - rows[2]
        sizes = np.linalg.norm(one, axis=1), np.linalg.norm(other, axis=1)
        cosines = np.sum(one * other, axis=1) / (sizes[0] * sizes[1])
    told = np.isfinite(cosines)
    if not told.any():
        return None
    found = float(np.median(cosines[told]))
    ratio = float(np.median(sizes[0][told] / sizes[1][told]))
    most = calibration.OPERANDS_LIKELY_FEW
    by_chance = calibration.TILES_BY_CHANCE / math.sqrt(told.sum() * one.shape[1])
    if found < max(calibration.TILES_ALIKE, by_chance) or not 1 / most <= ratio <= most:
        return None
    return found
