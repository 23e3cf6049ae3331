"""The closer look at one pair: its elements, and what their errors are like."""

from __future__ import annotations

from dataclasses import dataclass

from divergraph.comparison.inspection import Inspection, inspect
from divergraph.comparison.measure import Wanted
from divergraph.comparison.tensor_pairs import read_pair
from divergraph.diff.diff_dumps import PairDiff
from divergraph.diff.elements import ElementTable, element_table


@dataclass(frozen=True, slots=True)
class CloseLook:
    """The elements of a pair, its histogram of errors, and the limits of one element."""

    table: ElementTable
    inspection: Inspection
    atol: float
    rtol: float


def look_closely(pair: PairDiff, want: Wanted, *, first: int, top: int) -> CloseLook | None:
    """The elements of *pair*; None where it has no values to show (statistics, damage).

    Raises:
        ImportFormatError: a file has changed since it was measured.
    """
    figures = pair.found.figures
    if pair.pair is None or figures is None:
        return None
    device, golden = read_pair(pair.pair)
    table = element_table(device, golden, want, figures.atol, first=first, top=top)
    inspection = inspect(
        device,
        golden,
        atol=figures.atol,
        rtol=figures.rtol,
        types=(pair.found.device_dtype, pair.found.golden_dtype),
        layout=pair.pair.golden_layout,
    )
    return CloseLook(table, inspection, figures.atol, figures.rtol)
