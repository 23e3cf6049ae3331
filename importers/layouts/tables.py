"""The layouts we know, described by the axes they store.

One label for each axis of a stored array: ``C+`` is the block number along C, ``C`` the
place inside the block. K and M are the columns and rows of a matrix. Block sizes are
always taken from the stored array's last axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any, TypeAlias

from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Dims: TypeAlias = tuple[int, ...]

N0 = 16
"""Block size along N, and along the rows of a matrix."""

ND = "ND"
PLAIN = {name: name for name in "NCHW NHWC HWCN CHWN NCDHW NDHWC DHWCN DHWNC NC CN NCL".split()}
BLOCKED: dict[str, tuple[str, ...]] = {
    "NC1HWC0": ("N", "C+", "H", "W", "C"),
    "NC1HWC0_C04": ("N", "C+", "H", "W", "C"),
    "NDC1HWC0": ("N", "D", "C+", "H", "W", "C"),
    "C1HWC0": ("C+", "H", "W", "C"),
    "FRACTAL_Z": ("C+", "H", "W", "N+", "N", "C"),
    "FRACTAL_Z_3D": ("D", "C+", "H", "W", "N+", "N", "C"),
}
MATRIX: dict[str, tuple[str, ...]] = {
    "FRACTAL_NZ": ("K+", "M+", "M", "K"),
    "FRACTAL_ZZ": ("M+", "K+", "M", "K"),
}
C04 = 4
SWAPPED = {"NCHW": "NHWC", "NHWC": "NCHW", "NCDHW": "NDHWC", "NDHWC": "NCDHW"}


class LayoutError(ValueError):
    """An array cannot be brought from one layout to another; the text says why."""


class UnsupportedLayoutError(LayoutError):
    """A layout nobody here knows how to undo or make, whatever the shape."""


def show(shape: Sequence[int]) -> str:
    """A shape as messages print it."""
    return "[" + ",".join(map(str, shape)) + "]"


@dataclass(frozen=True, slots=True)
class WeightGrouping:
    """How FRACTAL_Z packs the weights of a grouped convolution.

    ``together`` groups share one diagonal block; ``channels`` and ``filters`` are those
    of one group; a packed block has ``c_blocks`` by ``n_blocks`` blocks.
    """

    together: int
    channels: int
    filters: int
    packs: int
    c_blocks: int
    n_blocks: int


def grouping(channels: int, all_filters: int, block: int, groups: int) -> WeightGrouping:
    """How the weights of *groups* groups, *channels* each, are packed.

    Raises:
        LayoutError: the filters cannot be split so.
    """
    if channels < 1 or all_filters < 1 or all_filters % groups:
        raise LayoutError(f"{all_filters} filters cannot be split into {groups} groups")
    filters = all_filters // groups
    together = min(
        lcm(lcm(channels, block) // channels, lcm(filters, N0) // filters),
        groups,
    )
    return WeightGrouping(
        together,
        channels,
        filters,
        -(-groups // together),
        -(-together * channels // block),
        -(-together * filters // N0),
    )


def pack_slices(grouping: WeightGrouping, group: int) -> tuple[int, slice, slice, slice]:
    """Where one group lies: its pack, rows C and N in the pack, rows N in the whole."""
    pack, place = divmod(group, grouping.together)
    c_from, n_from = place * grouping.channels, place * grouping.filters
    return (
        pack,
        slice(c_from, c_from + grouping.channels),
        slice(n_from, n_from + grouping.filters),
        slice(group * grouping.filters, (group + 1) * grouping.filters),
    )
