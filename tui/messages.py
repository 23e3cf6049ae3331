"""Messages from views and widgets to the app. They carry names; widgets never refer to each
other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from graphstore.errors import DivergraphError


class OpenOp(Message):
    """The user wants to see one op in the list of ops."""

    def __init__(self, op: str) -> None:
        super().__init__()
        self.op = op


class OpenFilter(Message):
    """The user wants the list of ops with this filter."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where


class OpenTarget(Message):
    """The user chose a run or an imported graph."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__()
        self.name = name
        self.kind = kind


class Failed(Message):
    """A question could not be answered."""

    def __init__(self, error: DivergraphError) -> None:
        super().__init__()
        self.error = error
