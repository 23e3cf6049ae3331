"""Read graphs and dumps of every supported framework into :mod:`graphstore.model` values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importers.ge_proto.folder import GraphChoice, choose_graph
    from importers.registry import read_graph

__all__ = ["GraphChoice", "choose_graph", "read_graph"]

_HOMES = {
    "GraphChoice": "importers.ge_proto.folder",
    "choose_graph": "importers.ge_proto.folder",
    "read_graph": "importers.registry",
}


def __getattr__(name: str) -> Any:
    # Loaded at first use: the command line imports this package just to print its help.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
