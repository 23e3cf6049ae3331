"""What a file repeats and nests: unique names, bodies level by level, functions at each call."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from graphstore.model import op_id
from importers.kept import told_of

Body = TypeVar("Body")

MODULE_OUTPUTS = "module_outputs"
"""The attribute of an op with the modules (PyTorch) whose output its first one is: dumps that hooks
of modules wrote call it by their paths."""


class UniqueIds:
    """Hands out op ids; a repeated one gets ``#2``, ``#3``, ... at its end."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}
        self._repeated: list[str] = []

    def take(self, name: str, subgraph: str = "") -> str:
        """A free id for the op *name* of *subgraph*."""
        wanted = op_id(name, subgraph)
        unique = wanted
        if unique in self._taken:
            number = self._next.get(wanted, 2)
            while f"{wanted}#{number}" in self._taken:
                number += 1
            self._next[wanted] = number + 1
            unique = f"{wanted}#{number}"
            self._repeated.append(unique)
        self._taken.add(unique)
        return unique

    def warnings(self) -> list[str]:
        """What was repaired, as lines for the user."""
        return told_of(self._repeated, "repeated op {name was|names were} numbered")


class Bodies(Generic[Body]):
    """The root of a model, then the bodies found in it, level by level, each once."""

    def __init__(self, root: Body) -> None:
        self._names = UniqueIds()
        self._waiting = deque([root])

    def __iter__(self) -> Iterator[Body]:
        while self._waiting:
            yield self._waiting.popleft()

    def enter(self, op: str, role: str, body: Callable[[str], Body]) -> str:
        """The name of a body of *op*, which *body* makes of that name; it is walked later."""
        name = self._names.take(f"{op}/{role}")
        self._waiting.append(body(name))
        return name


MAX_BODY_OPS = 100_000
"""Ops that bodies of functions may hold in all; functions past that stay single ops."""

MAX_DEPTH = 32
"""How deep functions may call functions before the inner ones stay single ops."""


class Expansion:
    """How far calls of functions are followed: into none inside itself, nor into too many."""

    def __init__(self) -> None:
        self.called: set[str] = set()
        self._recursive: dict[str, None] = {}
        self._too_many: dict[str, None] = {}
        self._room = MAX_BODY_OPS

    def enters(self, function: str, ops: int, chain: tuple[str, ...], op: str) -> bool:
        """Whether *function*, of so many *ops*, is read at the call *op* inside of *chain*."""
        self.called.add(function)
        if function in chain:
            self._recursive[f"{function} in {op}"] = None
        elif ops > self._room or len(chain) >= MAX_DEPTH:
            self._too_many[f"{function} in {op}"] = None
        else:
            self._room -= ops + 1
            return True
        return False

    def warnings(self) -> list[str]:
        """What was not expanded, as lines for the user."""
        return [
            *told_of(
                list(self._recursive),
                "{call of a function inside itself was|calls of a function inside itself were} "
                "not expanded",
            ),
            *told_of(
                list(self._too_many), "{call was|calls were} not expanded, there are too many"
            ),
        ]
