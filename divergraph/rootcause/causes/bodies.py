"""The bodies of an op that is looked at, as rules see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from divergraph.execute.contract import Array, BodyChange
from graphstore.model import Op


class Bodies(Protocol):
    """The ops in the bodies of a group's op, and the group's output if one of them is changed."""

    @property
    def ops(self) -> Sequence[Op]:
        """The ops of all bodies."""
        ...

    def changed(self, change: BodyChange) -> Array | None:
        """The group's output after a change; None if it fails."""
        ...
