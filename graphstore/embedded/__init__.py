"""The default store: a folder with one immutable database file a run, no server."""

from graphstore.embedded.store import EmbeddedStore

__all__ = ["EmbeddedStore"]
