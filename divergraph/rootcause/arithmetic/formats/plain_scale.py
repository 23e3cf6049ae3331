"""No scale, or one of 1: the values themselves are rounded."""

from __future__ import annotations

from divergraph.execute.contract import Array
from divergraph.rootcause.arithmetic.contract import Grid, Layout


class NoScale(Layout):
    """For types of a wide range; integers would all be 0."""

    name = ""
    words = ""

    def fits(self, grid: Grid) -> bool:
        """All but integers, and floats that end at a few."""
        return not grid.integers and (grid.largest is None or grid.largest > 100.0)

    def rounded(self, value: Array, axis: int, grid: Grid) -> Array:
        """*value* rounded to *grid*."""
        return grid.rounded(value)


ARITHMETIC = NoScale()
