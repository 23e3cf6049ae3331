"""Find ops by a part of their name or type: exact, then prefix, part, fuzzy."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_FUZZY_AT_LEAST = 0.6
_FUZZY_CANDIDATES = 200


@dataclass(frozen=True)
class OpIndex:
    """Ids, names and types of the ops of a graph in topo order, as they are written.

    Names are the very ids where they are equal: a million lower-case ones take 100 MB.
    """

    ids: Sequence[str]
    names: Sequence[str]
    kinds: Sequence[str]

    @classmethod
    def of_columns(cls, ids: Sequence[str], names: Sequence[str], kinds: Sequence[str]) -> OpIndex:
        """The index of ids, names and types in topo order."""
        own = tuple(names)
        return cls(ids, ids if own == ids else own, tuple(map(sys.intern, kinds)))

    def find(self, text: str, limit: int) -> list[str]:
        """At most *limit* ids that fit *text*, best first, ties in topo order.

        Case does not matter. An exact id or name is best, then an exact type, a name or
        its last part that starts so, a type that starts so, a part of a name, a part of a
        type; only if nothing fits at all, names that are alike.
        """
        wanted = text.strip().lower()
        if not wanted or limit <= 0:
            return []
        ranked = [
            (rank, number)
            for number in range(len(self.ids))
            if (rank := self._rank(wanted, number)) is not None
        ]
        if not ranked:
            return self._alike(wanted, limit)
        return [self.ids[number] for _, number in sorted(ranked)[:limit]]

    def _rank(self, wanted: str, number: int) -> int | None:
        name, kind = self.names[number].lower(), self.kinds[number].lower()
        if wanted in name or wanted in self.ids[number].lower():
            if wanted in (name, self.ids[number].lower()):
                return 0
            last = name.rpartition("/")[2]
            if wanted == last:
                return 1
            if kind == wanted:
                return 2
            return 3 if name.startswith(wanted) or last.startswith(wanted) else 5
        if wanted in kind:
            return 2 if kind == wanted else 4 if kind.startswith(wanted) else 6
        return None

    def _alike(self, wanted: str, limit: int) -> list[str]:
        grams = {wanted[at : at + 3] for at in range(max(1, len(wanted) - 2))}
        shared = sorted(
            (-sum(gram in name.lower() for gram in grams), number)
            for number, name in enumerate(self.names)
        )
        scored: list[tuple[float, int]] = []
        for _, number in shared[:_FUZZY_CANDIDATES]:
            name = self.names[number].lower()
            texts = (name, name.rpartition("/")[2], self.kinds[number].lower())
            score = max(SequenceMatcher(None, wanted, other).ratio() for other in texts)
            if score >= _FUZZY_AT_LEAST:
                scored.append((-score, number))
        return [self.ids[number] for _, number in sorted(scored)[:limit]]
