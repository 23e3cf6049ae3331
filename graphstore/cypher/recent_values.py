"""The few values asked for last, kept in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from graphstore.gc_paused import gc_paused

_T = TypeVar("_T")


class Recent(Generic[_T]):
    """The few values asked for last, safe for threads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[str, _T] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, key: str) -> _T | None:
        """The value, if it is here."""
        with self._lock:
            return self._values.get(key)

    def get(self, key: str, make: Callable[[], _T]) -> _T:
        """The value; made if it is not here."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        with gc_paused():
            value = make()
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._size:
                self._values.popitem(last=False)
        return value
