"""The words reports have in common."""

from __future__ import annotations

from divergraph.text.words import REASON_WORDS
from graphstore.model import Comparison, TensorIO


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
