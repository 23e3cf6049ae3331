"""The errors users can meet. One class per kind of trouble; front ends map them once.

A message says what is wrong, where, and what to do: ``where`` is a file with a line or
byte offset if there is one, ``hint`` the next step.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class DivergraphError(Exception):
    """Anything reported to the user as one sentence instead of a traceback."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text} ({self.hint})" if self.hint else text


class InputError(DivergraphError):
    """What the user gave cannot be used: a missing file, an unusable option."""


class ImportFormatError(InputError):
    """A graph or dump file is not what it should be.

    ``line`` and ``column`` are 1-based; ``offset`` is in bytes from the file's start.
    """

    def __init__(
        self,
        path: Path | str,
        what: str,
        *,
        line: int | None = None,
        column: int | None = None,
        offset: int | None = None,
        hint: str = "",
    ) -> None:
        where = str(path)
        if line is not None:
            where += f":{line}" + (f":{column}" if column is not None else "")
        elif offset is not None:
            where += f" at byte {offset}"
        super().__init__(what, where=where, hint=hint)
        self.path = Path(path)
        self.line = line
        self.column = column
        self.offset = offset


class ExecutionError(InputError):
    """A model cannot be run on this machine."""


class ConfigError(InputError):
    """A setting or thresholds file has a wrong key or value."""


class FilterError(InputError):
    """A filter text cannot be understood; ``start``/``end`` span the wrong part of it."""

    def __init__(self, text: str, what: str, *, start: int, end: int, hint: str = "") -> None:
        super().__init__(what, where=f"filter column {start + 1}", hint=hint)
        self.text = text
        self.start = start
        self.end = end


class QueryError(InputError):
    """A query is wrong, not allowed, or took too long; ``position`` is in its text."""

    def __init__(self, what: str, *, position: int | None = None, hint: str = "") -> None:
        where = "" if position is None else f"query position {position}"
        super().__init__(what, where=where, hint=hint)
        self.position = position


class UnknownNameError(InputError):
    """No run, graph or op of this name; ``near`` holds close ones."""

    def __init__(self, kind: str, name: str, *, near: Sequence[str] = (), hint: str = "") -> None:
        if near and not hint:
            hint = f"did you mean {', '.join(near)}?"
        super().__init__(f"no {kind} named {name!r}", hint=hint)
        self.kind, self.name = kind, name
        self.near = tuple(near)


class NotDoneError(InputError):
    """An answer that takes long was not worked out yet."""


class NameTakenError(InputError):
    """There is a run or graph of this name already."""

    @classmethod
    def by(cls, what: str, name: str, *, or_replace: bool = False) -> NameTakenError:
        """The error about a *name* that a ``run`` or ``graph`` (*what*) has."""
        hint = "use --replace to write over it, or another name"
        message = f"there is a {what} named {name!r} already"
        return cls(message, hint=hint if or_replace else "use another name")


class ClusterError(DivergraphError):
    """The machines that should do the work cannot: none is there, or they went away."""


class StoreError(DivergraphError):
    """The store cannot be read or written; ``retryable`` if trying again may help."""

    def __init__(
        self, what: str, *, where: str = "", hint: str = "", retryable: bool = False
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.retryable = retryable
