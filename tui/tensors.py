"""The values of a run's tensors, looked at one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphstore.model import TensorIO

if TYPE_CHECKING:
    from divergraph.api.answers import ErrorMap, ErrorPicture, TensorValues
    from divergraph.ask.tensor_values import RunTensors, ServedTensors


@dataclass(frozen=True)
class TensorLook:
    """One tensor of both sides, and what its errors look like."""

    values: TensorValues
    picture: ErrorPicture

    def map(self, axes: Sequence[int], cells: Sequence[int]) -> ErrorMap:
        """The errors along *axes* in at most so many *cells*."""
        if len(axes) == 1:
            return next(
                error_map for error_map in self.picture.by_axis if error_map.axes == tuple(axes)
            )
        return self.values.error_map(axes, cells)


class OpenedTensors:
    """The dumps of one run, which *opened* opens at the first question. Its methods block."""

    def __init__(self, opened: Callable[[], RunTensors | ServedTensors]) -> None:
        self._open = opened
        self._lock = threading.Lock()
        self._opened: RunTensors | ServedTensors | None = None
        self._last: tuple[tuple[str, TensorIO, int], TensorLook] | None = None

    def look(self, op: str, io: TensorIO, port: int) -> TensorLook:
        """What one tensor looks like; the last one is kept.

        Raises:
            InputError: it has no counterpart, no dump or no numbers, or files are gone.
            ImportFormatError: a dump is damaged.
        """
        with self._lock:
            key = (op, io, port)
            if self._last is not None and self._last[0] == key:
                return self._last[1]
            if self._opened is None:
                self._opened = self._open()
            values = self._opened.values(op, port, io is TensorIO.OUTPUT)
            self._last = key, TensorLook(values, values.picture())
            return self._last[1]
