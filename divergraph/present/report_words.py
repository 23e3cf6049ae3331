"""The words and numbers reports have in common."""

from __future__ import annotations

import math

from divergraph.text.words import REASON_WORDS
from graphstore.model import Comparison, TensorIO


def short(value: float | None, form: str = ".3g") -> str:
    """A number in a few digits, NaN and Inf by name, ``-`` for none."""
    if value is None:
        return "-"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return format(value, form)


def tensor_text(item: Comparison) -> str:
    """``conv1:0``; ``conv1:input:0`` for a dumped input."""
    if item.port < 0:
        return item.op
    inner = "input:" if item.io is TensorIO.INPUT else ""
    return f"{item.op}:{inner}{item.port}"


def reason_text(item: Comparison) -> str:
    """Why *item* was not compared; empty if it was."""
    if item.reason is None:
        return ""
    words = REASON_WORDS[item.reason]
    return f"{words}: {item.detail}" if item.detail else words
