"""Divergraph: where a model's error starts and how it spreads.

The public Python API. Everything here gives the same answers as the command line.

>>> import divergraph
>>> divergraph.__version__
'0.1.0'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from divergraph.version import __version__

if TYPE_CHECKING:
    from divergraph.comparison import CompareRequest, compare
    from divergraph.present.networkx_graph import to_networkx
    from graphstore.open_store import open_store
    from importers import read_graph
    from importers.dumps import DumpChoice, list_dumps

__all__ = [
    "CompareRequest",
    "DumpChoice",
    "__version__",
    "compare",
    "list_dumps",
    "open_store",
    "read_graph",
    "to_networkx",
]

_WHERE = {
    "CompareRequest": "divergraph.comparison",
    "DumpChoice": "importers.dumps",
    "compare": "divergraph.comparison",
    "list_dumps": "importers.dumps",
    "open_store": "graphstore.open_store",
    "read_graph": "importers",
    "to_networkx": "divergraph.present.networkx_graph",
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: `divergraph --help` must not pay for onnx or the database.
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
