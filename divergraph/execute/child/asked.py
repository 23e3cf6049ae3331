"""The subgraphs a process is to run, told as it asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count, islice
from typing import Any

from divergraph.execute.contract import Array, RunnableSubgraph, SubgraphValues

_TOGETHER, _TOGETHER_BYTES = 64, 1 << 18
"""So many subgraphs, or so many bytes of their inputs, in one answer."""


class AskedSubgraphs:
    """*subgraphs* and their inputs by *values_of*; and which of them have no result so far."""

    def __init__(self, subgraphs: Iterable[RunnableSubgraph], values_of: SubgraphValues) -> None:
        self.values_of = values_of
        # What is only made while it is asked for must not be asked for before.
        self._at_once = _TOGETHER if isinstance(subgraphs, list | tuple) else 1
        self._left = iter(subgraphs)
        self._numbers = count()
        self._open: dict[int, RunnableSubgraph] = {}
        self._without_values: dict[int, RunnableSubgraph] = {}

    def answer(self, request: Mapping[str, Any]) -> object:
        """The next subgraphs with their numbers, or the inputs of one, and of some after it."""
        if request["what"] == "pieces":
            pieces_sent = dict(zip(self._numbers, islice(self._left, self._at_once), strict=False))
            self._open |= pieces_sent
            self._without_values |= pieces_sent
            return list(pieces_sent.items())
        return self._values(int(request["of"]))

    def settle(self, key: str) -> None:
        """There is a result of the subgraph *key*."""
        number = next(number for number, piece in self._open.items() if piece.key == key)
        del self._open[number]
        self._without_values.pop(number, None)

    def taken_again(self) -> list[RunnableSubgraph]:
        """Those that were taken and have no result, which do not count as taken any more."""
        open_pieces = list(self._open.values())
        self._open.clear()
        self._without_values.clear()
        return open_pieces

    def rest(self) -> list[RunnableSubgraph]:
        """Those that were never taken."""
        return list(self._left)

    def _values(self, first: int) -> dict[int, Mapping[str, Array]]:
        values: dict[int, Mapping[str, Array]] = {first: dict(self.values_of(self._open[first]))}
        self._without_values.pop(first, None)
        size = _bytes(values[first])
        for number in [number for number in self._without_values if number > first]:
            if len(values) >= self._at_once or size >= _TOGETHER_BYTES:
                break
            values[number] = dict(self.values_of(self._without_values.pop(number)))
            size += _bytes(values[number])
        return values


def _bytes(values: Mapping[str, Array]) -> int:
    return sum(value.nbytes for value in values.values())
