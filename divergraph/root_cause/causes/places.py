"""Errors that sit in few places, of any form."""

from __future__ import annotations

import numpy as np

from divergraph.root_cause.causes.case import Cause, View, rms
from divergraph.root_cause.causes.words import share_text, slices_text

_ALL = 0.98
_FEW = 0.25


def wrong_channels(view: View) -> Cause | None:
    """Nearly all of the error in a few channels or slices."""
    if view.energy == 0.0:
        return None
    for axis in view.axes():
        length = view.d.shape[axis]
        if length < 4 or view.d.size // length < 2:
            continue
        rest = tuple(other for other in range(view.d.ndim) if other != axis)
        energies = np.sum(view.e**2, axis=rest)
        order = np.argsort(energies)[::-1]
        held = np.cumsum(energies[order]) / energies.sum()
        needed = int(np.searchsorted(held, _ALL)) + 1
        if needed > max(1, int(_FEW * length)):
            continue
        if not _others_right(view, axis, order[:needed]):
            continue
        border = _border(np.sort(order[:needed]), length)
        where = slices_text(order[:needed].tolist(), axis, view)
        if border and axis != view.axes()[0]:
            return Cause(
                "wrong_border",
                f"the errors sit at the border only ({where}): wrong pads or window edges",
                0.75,
                {"axis": axis, "slices": np.sort(order[:needed]).tolist(), "of": length},
            )
        return Cause(
            "wrong_channels",
            f"{share_text(round(1000 * float(held[needed - 1])), 1000)} of the error is in "
            f"{where} ({needed} of {length}); the others are right",
            0.85 if view.d.size // length >= 8 else 0.5,
            {
                "axis": axis,
                "slices": (np.sort(order[:needed]) * view.steps[axis]).tolist()[:64],
                "of": length,
                "energy_share": float(held[needed - 1]),
            },
        )
    return None


def _others_right(view: View, axis: int, wrong: np.ndarray) -> bool:
    """Whether the other slices are right for their own size, not only small."""
    error = np.delete(view.e, wrong, axis=axis)
    expected = np.delete(view.r, wrong, axis=axis)
    bad = rms(np.take(view.e, wrong, axis=axis)) / (rms(np.take(view.r, wrong, axis=axis)) or 1.0)
    relative = rms(error) / (rms(expected) or 1.0)
    return relative <= max(3.0 * view.case.floor, 0.03 * bad)


def _border(numbers: np.ndarray, length: int) -> bool:
    near = np.minimum(numbers, length - 1 - numbers)
    return length >= 8 and bool((near < max(2, numbers.size)).all()) and numbers.size <= 4
