"""How an op's suspicion was reckoned, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphstore.model import Adjustment, Reckoning, Run

NOT_KEPT = (
    "its reckoning is not kept: it is far below the limit of suspects, its original op could not "
    "be run, or the run is older; `divergraph analyse` makes it again from the dumps"
)
"""Shown for an output without a kept reckoning."""


def reckonings_of(run: Run) -> Mapping[tuple[str, int], Reckoning]:
    """The kept reckonings by op and output: of all outputs over half the limit of suspects."""
    return {(reckoning.op, reckoning.port): reckoning for reckoning in run.analysis.reckonings}


def near_the_limit(run: Run) -> tuple[Reckoning, ...]:
    """The reckonings of outputs that are neither guilty nor suspect, the most suspicious first."""
    limit = run.analysis.suspect
    return tuple(reckoning for reckoning in run.analysis.reckonings if reckoning.suspicion <= limit)


def reckoning_lines(reckoning: Reckoning) -> Iterator[str]:
    """One line for each step, from the reference to the guilt."""
    yield (
        f"reference r: the original op on the device's own inputs, by {reckoning.reference}; "
        f"|d - r| = {reckoning.error:.3g}, |r| = {reckoning.size:.3g}: "
        f"an error of {reckoning.introduced:.3g}"
    )
    if reckoning.emulated is None:
        yield f"emulation e in {reckoning.arithmetic}: could not be run"
    else:
        yield f"emulation e in {reckoning.arithmetic}: |e - r| / |r| = {reckoning.emulated:.3g}"
    yield f"least floor of {reckoning.arithmetic} for a tensor of this size: {reckoning.least:.3g}"
    for adjustment in reckoning.adjustments:
        yield _adjustment_line(adjustment)
    yield f"floor: {reckoning.floor:.3g}"
    yield f"suspicion = error / floor = {reckoning.suspicion:.3g}: {reckoning.guilt.value}"


def _adjustment_line(adjustment: Adjustment) -> str:
    numbers = ", ".join(f"{name} {value:.3g}" for name, value in adjustment.numbers.items())
    change = (
        f"floor {adjustment.before:.3g} -> {adjustment.after:.3g}"
        if adjustment.before != adjustment.after
        else ""
    )
    parts = "; ".join(part for part in (change, numbers) if part)
    effect = f"{adjustment.effect.value}{f' ({parts})' if parts else ''}"
    return f"{adjustment.tolerance} {effect}: {adjustment.reason}"
