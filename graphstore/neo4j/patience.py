"""How long a server that is away is waited for by those who cannot wait long."""

from __future__ import annotations

import math
import time

_SHAKE_SECONDS = 3.0
"""So much longer may a handshake take, on a busy machine."""
_AWAY_SECONDS = 10.0
"""So long nobody waits again for a server that was waited for in vain."""


class Patience:
    """Of *seconds*; None: as long as is usual."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds, self._away_until = seconds, -math.inf

    @property
    def is_little(self) -> bool:
        """Whether it is less than is usual."""
        return self._seconds is not None

    def connecting(self, usual: float) -> float:
        """How long a connection may take to come."""
        return usual if self._seconds is None else min(usual, self._seconds + _SHAKE_SECONDS)

    def asking(self, usual: float) -> float:
        """How long what is lost is asked again."""
        if self._seconds is None:
            return usual
        return 0.0 if time.monotonic() < self._away_until else self._seconds

    def in_vain(self) -> None:
        """Take note that the server is away."""
        self._away_until = time.monotonic() + _AWAY_SECONDS
