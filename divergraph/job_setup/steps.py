"""Steps as dump configurations name them."""

from __future__ import annotations

import re

from graphstore.errors import InputError

_STEPS = re.compile(r"\d{1,9}(?:-\d{1,9})?(?:\|\d{1,9}(?:-\d{1,9})?)*")
MOST_PARTS = 100
"""The device takes no more."""


def checked_steps(text: str) -> str:
    """*text*, steps such as ``0|3-5|10``.

    Raises:
        InputError: it names none, or too many.
    """
    if _STEPS.fullmatch(text) is None:
        raise InputError(f"{text!r} names no steps", hint="as 0, 0|5|10 or 0|3-5")
    for part in text.split("|"):
        first, _, last = part.partition("-")
        if last and int(last) < int(first):
            raise InputError(f"the steps {part} end before they begin", hint=f"as {last}-{first}")
    if text.count("|") >= MOST_PARTS:
        raise InputError(f"these are more than {MOST_PARTS} steps and ranges of steps")
    return text
