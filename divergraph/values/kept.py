"""A cache of arrays, up to a number of bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from divergraph.values.array_types import Array
from divergraph.values.unread import Unread


@dataclass
class KeptArrays:
    """The arrays used last, up to *memory* bytes in all; always at least one."""

    memory: int
    _arrays: OrderedDict[Hashable, Array] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def get(self, key: Hashable, read: Callable[[], Array | Unread]) -> Array | Unread:
        """The array of *key*, by calling *read* if it is not in the cache."""
        if key in self._arrays:
            self._arrays.move_to_end(key)
            return self._arrays[key]
        value = read()
        if isinstance(value, Unread):
            return value
        self._arrays[key] = value
        self._bytes += value.nbytes
        while self._bytes > self.memory and len(self._arrays) > 1:
            _, old = self._arrays.popitem(last=False)
            self._bytes -= old.nbytes
        return value
