"""What is said of a golden dump that was made here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divergraph.cli.say import say_doubt, say_note
from divergraph.text.words import counted

if TYPE_CHECKING:
    from divergraph.api.answers import CaptureResult

_SHOWN = 3
"""Names listed of tensors that are left out for one reason; all are in ``capture.json``."""


def say_left_out(result: CaptureResult) -> None:
    """Say which tensors are missing, and why."""
    by_reason: dict[str, list[str]] = {}
    for left_out in result.left_out:
        by_reason.setdefault(left_out.reason, []).append(left_out.tensor)
    for reason, names in by_reason.items():
        first = ", ".join(names[:_SHOWN])
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        say_note(f"not captured: {first}{more}: {reason}")


def say_doubts(result: CaptureResult) -> None:
    """Say what makes the dump a poor golden side."""
    if result.nonfinite:
        many = f"{len(result.nonfinite)} of {counted(result.tensors, 'tensor')}"
        say_doubt(
            f"{many} have NaN or infinities, the first is {result.nonfinite[0]}: give other "
            "--inputs, or a --range"
        )
    for note in result.notes:
        say_note(note)
    if result.guessed:
        listed = ", ".join(result.guessed)
        say_note(f"the unknown sizes of {listed} were taken as 1: --shape NAME=SIZES gives others")
