"""Make ids unique where a file repeats a name, and say so."""

from __future__ import annotations

from graphstore.model import op_id
from importers.kept import told_of


class UniqueIds:
    """Hands out op ids; a repeated one gets ``#2``, ``#3``, ... at its end."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}
        self._repeated: list[str] = []

    def take(self, name: str, subgraph: str = "") -> str:
        """A free id for the op *name* of *subgraph*."""
        wanted = op_id(name, subgraph)
        found = wanted
        if found in self._taken:
            number = self._next.get(wanted, 2)
            while f"{wanted}#{number}" in self._taken:
                number += 1
            self._next[wanted] = number + 1
            found = f"{wanted}#{number}"
            self._repeated.append(found)
        self._taken.add(found)
        return found

    def warnings(self) -> list[str]:
        """What was repaired, as lines for the user."""
        if not self._repeated:
            return []
        one, many = "repeated op name was numbered", "repeated op names were numbered"
        return [told_of(self._repeated, one, many)]
