"""Where a part of the model starts and ends, as the user marked it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from graphstore.model import Side

KEPT = 100


@dataclass(frozen=True, slots=True)
class Marks:
    """Starts and ends: ids of ops of the graph of ``side``, in the order they were marked."""

    side: Side = Side.DEVICE
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.starts or self.ends)

    def toggled(self, what: str, op: str) -> Marks:
        """The same with *op* as a ``start`` or ``end``, or without it if it is one."""
        if what == "start":
            return replace(self, starts=_toggled(self.starts, op))
        return replace(self, ends=_toggled(self.ends, op))

    def without(self, op: str) -> Marks:
        """The same without any mark on *op*."""
        starts = tuple(one for one in self.starts if one != op)
        return replace(self, starts=starts, ends=tuple(one for one in self.ends if one != op))


def _toggled(marked: tuple[str, ...], op: str) -> tuple[str, ...]:
    return tuple(one for one in marked if one != op) if op in marked else (*marked, op)


@dataclass
class MarkHistory:
    """The marks of one run and those before them."""

    now: Marks = field(default_factory=Marks)
    before: list[Marks] = field(default_factory=list)

    def set(self, marks: Marks) -> None:
        """Change to *marks*; :meth:`undo` goes back."""
        if marks != self.now:
            self.before = [*self.before, self.now][-KEPT:]
            self.now = marks

    def undo(self) -> None:
        """Go back to the marks before, if there were any."""
        if self.before:
            self.now = self.before.pop()
