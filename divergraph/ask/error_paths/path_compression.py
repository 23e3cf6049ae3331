"""Compresses the path of an error: consecutive ops that only carry it become one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from divergraph.ask.sentences import step_note
from divergraph.ask.trace_answers import PathStep

CARRIED = (0.8, 1.25)
"""The range of gains at which an op only carries the error."""
FEWEST = 3
"""The fewest consecutive ops that are folded."""


def folded(steps: Sequence[PathStep]) -> Iterable[tuple[int, Sequence[PathStep]]]:
    """(number of the first, steps): single steps, and sequences of ops that only carry."""
    plain: list[PathStep] = []
    last = len(steps) - 1
    for number, step in enumerate(steps):
        if 0 < number < last and _only_carries(step):
            plain.append(step)
            continue
        yield from _together(number - len(plain), plain)
        plain = []
        yield number, (step,)


def _together(first: int, plain: list[PathStep]) -> Iterable[tuple[int, Sequence[PathStep]]]:
    if len(plain) >= FEWEST:
        yield first, plain
    else:
        yield from ((first + at, (step,)) for at, step in enumerate(plain))


def _only_carries(step: PathStep) -> bool:
    gain = step.row.gain
    kept = gain is None or CARRIED[0] <= gain <= CARRIED[1]
    return kept and not step_note(replace(step, joins=()))


def fold_text(steps: Sequence[PathStep]) -> str:
    """``17 ops, gain 0.93 to 1.04``."""
    gains = [step.row.gain for step in steps if step.row.gain is not None]
    if not gains:
        return f"{len(steps)} ops"
    return f"{len(steps)} ops, gain {min(gains):.2f} to {max(gains):.2f}"
