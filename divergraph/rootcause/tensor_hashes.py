"""Dumped tensors found by their values."""

from __future__ import annotations

import hashlib

import numpy as np

from divergraph.values.array_types import Array

_BEGINNING = 256
"""The shortest beginning of a tensor that is hashed."""
_TELLING = 8
"""Different values a tensor needs to be recognised: masks and counters look alike."""


class TensorHashes:
    """Finds dumped tensors by their values, whatever their shape; about 1 kB for each."""

    def __init__(self) -> None:
        self._names: dict[bytes, list[str]] = {}

    def add(self, name: str, values: Array) -> None:
        """Remember a tensor, unless its values are too few or too alike to recognise it."""
        for key in _contents(values):
            self._names.setdefault(key, []).append(name)

    def holding(self, values: Array, besides: str = "") -> tuple[str, ...]:
        """The names of tensors with these values, else of those that begin alike, in the order
        added: at least the first half of *values* is compared then."""
        for key in _contents(values)[:2]:
            names = [name for name in self._names.get(key, []) if name != besides]
            if names:
                return tuple(names)
        return ()


def _contents(values: Array) -> list[bytes]:
    """Hashes of all values as float32, then of the first 2^k, 2^(k-1), ..., 256 of them; none of a
    range whose values would look like many others by chance."""
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    keys = [b"whole" + _digest(flat)] if flat.size >= _TELLING and _tells(flat) else []
    size = 1 << max(0, flat.size.bit_length() - 1)
    while size >= _BEGINNING:
        if _tells(flat[:size]):
            keys.append(_digest(flat[:size]))
        size //= 2
    return keys


def _tells(flat: Array) -> bool:
    looked_at = flat[:: max(1, flat.size // (1 << 14))]
    return np.unique(looked_at).size >= min(_TELLING, flat.size // 2)


def _digest(flat: Array) -> bytes:
    return hashlib.blake2b(flat.view(np.uint8).data, digest_size=16).digest()
