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
    return {(each.op, each.port): each for each in run.analysis.reckonings}


def near_the_limit(run: Run) -> tuple[Reckoning, ...]:
    """The reckonings of outputs that are neither guilty nor suspect, the most suspicious first."""
    limit = run.analysis.suspect
    return tuple(each for each in run.analysis.reckonings if each.suspicion <= limit)


def reckoning_lines(found: Reckoning) -> Iterator[str]:
    """One line for each step, from the reference to the guilt."""
    yield (
        f"reference r: the original op on the device's own inputs, by {found.reference}; "
        f"|d - r| = {found.error:.3g}, |r| = {found.size:.3g}: "
        f"an error of {found.introduced:.3g}"
    )
    if found.emulated is None:
        yield f"emulation e in {found.arithmetic}: could not be run"
    else:
        yield f"emulation e in {found.arithmetic}: |e - r| / |r| = {found.emulated:.3g}"
    yield f"least floor of {found.arithmetic} for a tensor of this size: {found.least:.3g}"
    for each in found.adjustments:
        yield _adjustment_line(each)
    yield f"floor: {found.floor:.3g}"
    yield f"suspicion = error / floor = {found.suspicion:.3g}: {found.guilt.value}"


def _adjustment_line(each: Adjustment) -> str:
    numbers = ", ".join(f"{name} {value:.3g}" for name, value in each.numbers.items())
    change = f"floor {each.before:.3g} -> {each.after:.3g}" if each.before != each.after else ""
    said = "; ".join(part for part in (change, numbers) if part)
    return f"{each.tolerance} {each.effect.value}{f' ({said})' if said else ''}: {each.reason}"
