"""What the operating system refuses, said as our error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from graphstore.errors import DivergraphError, InputError


class _Kind(Protocol):
    def __call__(self, what: str, *, where: str, hint: str) -> DivergraphError: ...


@contextmanager
def os_errors_told(
    what: str, where: object = "", hint: str = "", kind: _Kind = InputError
) -> Iterator[None]:
    """An OSError in the block becomes an error of this *kind*: *what*, and the system's reason."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise kind(f"{what}: {why}" if what else why, where=str(where), hint=hint) from error
