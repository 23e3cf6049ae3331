"""The default store: a folder with one immutable database file a run, no server.

:class:`EmbeddedStore` is loaded when it is asked for: the program that writes needs none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphstore.embedded.store import EmbeddedStore

__all__ = ["EmbeddedStore"]


def __getattr__(name: str) -> object:
    if name == "EmbeddedStore":
        from graphstore.embedded.store import EmbeddedStore

        return EmbeddedStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
