"""Elements of tensors and the sizes of their errors, as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from divergraph.cli.say import say
from divergraph.text.numbers import short
from graphstore.model import Figures

if TYPE_CHECKING:
    from divergraph.api.answers import Element, ErrorHistogram

_BAR = 30


def show_figures(figures: Figures) -> None:
    """Both sides in numbers."""
    say()
    say(f"  {'':8}{'min':>14}{'max':>14}{'mean':>14}{'std':>14}{'zeros':>10}  NaN/Inf")
    for name, side in (("device", figures.device), ("golden", figures.golden)):
        numbers = "".join(
            f"{exact_number(x):>14}" for x in (side.low, side.high, side.mean, side.std)
        )
        say(f"  {name:8}{numbers}{side.zeros:>10}  {side.nans}/{side.infinities}")


def show_histogram(histogram: ErrorHistogram) -> None:
    """How many elements are off by how much, as bars."""
    rows = [("equal", histogram.equal)]
    rows += [(f"1e{power:+03}", count) for power, count in sorted(histogram.decades.items())]
    if histogram.nonfinite:
        rows.append(("NaN/Inf", histogram.nonfinite))
    if len(rows) == 1:
        return
    say()
    say("|device - golden|, from")
    largest = max(count for _, count in rows)
    for name, count in rows:
        say(f"  {name:>8} {'#' * math.ceil(_BAR * count / largest):{_BAR}} {count:>12}")


def show_elements(title: str, elements: Sequence[Element]) -> None:
    """A table of *elements* with both values and the errors."""
    if not elements:
        return
    rows = [
        (
            f"[{','.join(map(str, element.index))}]",
            exact_number(element.device),
            exact_number(element.golden),
            exact_number(element.absolute),
            "-" if element.relative is None else exact_number(element.relative),
        )
        for element in elements
    ]
    head = ("index", "device", "golden", "absolute", "relative")
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(5)]
    say()
    say(title)
    for row in (head, *rows):
        first = f"{row[0]:<{widths[0]}}"
        rest = "  ".join(
            f"{text:>{width}}" for text, width in zip(row[1:], widths[1:], strict=True)
        )
        say(f"  {first}  {rest}")


def exact_number(value: float) -> str:
    """An integer as it is, else six digits; NaN and Inf by name."""
    return str(value) if isinstance(value, int) else short(value, ".6g")
