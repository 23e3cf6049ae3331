"""Numbers as people read them, the same in every front end."""

from __future__ import annotations

import math

_THOUSAND, _IN_FULL = 999.5, 99999.5
_LEAST_SHOWN = 0.001
"""Means and deviations smaller than this are written as 0."""


def odd_word(value: float) -> str:
    """``NaN``, ``Inf`` or ``-Inf``; empty for a finite number."""
    if math.isnan(value):
        return "NaN"
    return "" if math.isfinite(value) else ("Inf" if value > 0 else "-Inf")


def short(value: float | None, form: str = ".3g") -> str:
    """A number in a few digits, NaN and Inf by name, ``-`` for none."""
    return "-" if value is None else odd_word(value) or format(value, form)


def small_number(value: float) -> str:
    """Three digits, thousands in full; NaN and Inf by name."""
    return short(value, ".0f" if _THOUSAND <= value < _IN_FULL else ".3g")


def signed_percent(share: float) -> str:
    """``+92.6 %``; what rounds to nothing has no sign."""
    text = f"{100 * share:+.1f}"
    return f"{text[1:] if float(text) == 0 else text} %"


def deviation_text(values: tuple[float, float, float, float]) -> str:
    """``(mean;std),(mean;std)`` of device and golden with 3 decimals, tiny values as 0."""
    texts = [short(0.0 if abs(value) < _LEAST_SHOWN else value, ".3f") for value in values]
    return f"({texts[0]};{texts[1]}),({texts[2]};{texts[3]})"
