"""The values asked for last, kept by how many and how large they are."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from graphstore.gc_paused import gc_paused

_T = TypeVar("_T")
_ITEM_BYTES = 200
"""About what an item of a list takes: a name, a row, an op."""
_BYTES = 128 << 20


def about_bytes(value: Any) -> int:
    """About the memory *value* takes: arrays exactly, the items of lists by their number."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, Mapping):
        return sum(map(about_bytes, value.values())) if len(value) < 1000 else _listed(value)
    if isinstance(value, tuple | list):
        return _listed(value)
    if is_dataclass(value):
        return sum(about_bytes(getattr(value, field.name)) for field in fields(value))
    return 0


def _listed(value: Any) -> int:
    return len(value) * _ITEM_BYTES


class Recent(Generic[_T]):
    """The ``few`` values asked for last, and of others as many as ``most`` bytes hold.

    Safe for threads: of those that ask for one at once, one makes it and the others wait.
    """

    def __init__(
        self, few: int, most: int = _BYTES, size: Callable[[_T], int] = about_bytes
    ) -> None:
        self._few = few
        self._most = most
        self._size = size
        self._values: OrderedDict[str, tuple[_T, int]] = OrderedDict()
        self._total = 0
        self._making: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def known(self, key: str) -> _T | None:
        """The value, if it is here."""
        with self._lock:
            entry = self._values.get(key)
            return None if entry is None else entry[0]

    def get(
        self, key: str, make: Callable[[], _T], fits: Callable[[_T], bool] = lambda _: True
    ) -> _T:
        """The value; made if it is not here, or is one that does not fit any more."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            with self._lock:
                entry = self._values.get(key)
                if entry is not None and fits(entry[0]):
                    self._values.move_to_end(key)
                    return entry[0]
            try:
                with gc_paused():
                    value = make()
                self._keep(key, value)
            finally:
                with self._lock:
                    self._making.pop(key, None)
        return value

    def _keep(self, key: str, value: _T) -> None:
        with self._lock:
            size = self._size(value)
            _, before = self._values.pop(key, (None, 0))
            self._values[key] = (value, size)
            self._total += size - before
            while len(self._values) > self._few and self._total > self._most:
                _, (_, size) = self._values.popitem(last=False)
                self._total -= size

    def clear(self) -> None:
        """Keep none of them any more."""
        with self._lock:
            self._values.clear()
            self._total = 0
