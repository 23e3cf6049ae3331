"""The ways in which converters hold weights in fewer bits, the likely ones first."""

from __future__ import annotations

from dataclasses import dataclass

from divergraph.rootcause.devices.dynamic_scales import DynamicScale, SharedBy
from divergraph.rootcause.devices.held_weights.weight_grids import GRIDS, ScaleSharing, WeightGrid


@dataclass(frozen=True, slots=True)
class Holding:
    """How a weight is held: on a ``grid``, or in float16 (None) with its last digits ``cut`` off or
    rounded, with what is behind it ``folded`` in or not and its ``biases`` held alike or not; and
    how what it is multiplied with is rounded by a ``scale`` of its values."""

    grid: WeightGrid | None
    folded: bool = True
    cut: bool = False
    biases: bool = False
    scale: DynamicScale | None = None
    inverse: bool = False

    def __str__(self) -> str:
        return "float16" if self.grid is None else str(self.grid)


_HALVES = tuple(
    Holding(None, folded, cut, biases)
    for biases in (False, True)
    for folded in (True, False)
    for cut in (False, True)
)
STATIC = (
    *(Holding(grid) for grid in GRIDS if grid.bits == 8),
    *_HALVES,
    *(
        Holding(grid, folded=False)
        for grid in GRIDS
        if grid.bits == 8 and grid.shared is not ScaleSharing.CHANNEL
    ),
)
MORE = tuple(Holding(grid) for grid in GRIDS if grid.bits < 8)
SCALES = (
    *(DynamicScale(SharedBy.PATCH, symmetric) for symmetric in (True, False)),
    DynamicScale(SharedBy.PATCH, symmetric=False, from_least=True),
    *(DynamicScale(SharedBy.TENSOR, symmetric) for symmetric in (True, False)),
    *(DynamicScale(SharedBy.BATCH, symmetric) for symmetric in (True, False)),
)
USUAL = tuple(
    grid
    for grid in GRIDS
    if grid.bits == 8 and grid.shared in (ScaleSharing.CHANNEL, ScaleSharing.TENSOR)
)
