"""Shapes in filters: ``1,12,128,128``, ``1x3x224x224``, ``*,128``, ``scalar``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from graphstore.model import Shape

_Item: TypeAlias = "int | str | None"

_SEPARATOR = re.compile(r"\s*[,x]\s*")


def shape_test(text: str) -> Callable[[Shape], bool] | None:
    """A test for shapes that fit *text*; None if it is no shape.

    ``*`` stands for one or more dimensions (alone: for any), ``?`` or ``-1`` for an
    unknown one, ``scalar`` or ``[]`` for none.
    """
    body = text.strip().lower()
    if body == "scalar":
        return lambda shape: not shape
    if body[:1] + body[-1:] in ("[]", "()"):
        body = body[1:-1].strip().removesuffix(",")
        if not body:
            return lambda shape: not shape
    if body == "*":
        return lambda _: True
    items: list[_Item] = []
    for part in _SEPARATOR.split(body):
        if part == "*":
            items.append("*")
        elif part in ("?", "-1"):
            items.append(None)
        elif part.isascii() and part.isdigit():
            items.append(int(part))
        else:
            return None
    return lambda shape: _fits(items, shape)


def _fits(items: list[_Item], shape: Shape) -> bool:
    """Which prefixes of the shape the items so far can take, item by item."""
    reached = {0}
    for item in items:
        if item == "*":
            first = min(reached) + 1
            reached = set(range(first, len(shape) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(shape) and shape[at] == item}
        if not reached:
            return False
    return len(shape) in reached
