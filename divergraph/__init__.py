"""Divergraph: where a model's error starts and how it spreads.

Everything the command line does, with the same answers. ``dir(divergraph)`` is all there is.

>>> import divergraph as dg
>>> dg.__version__
'0.1.0'
>>> dg.demo().origins[0].origin.op
'LeNet/conv2/Conv2DRelu'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from divergraph.version import __version__

if TYPE_CHECKING:
    from divergraph.api import answers
    from divergraph.api.capture import capture
    from divergraph.api.compare import compare, compare_many
    from divergraph.api.consistency import consistency as check_consistency
    from divergraph.api.convert import convert
    from divergraph.api.demo import demo, demo_data
    from divergraph.api.detect import detect, list_dumps
    from divergraph.api.diff import diff
    from divergraph.api.files.tensor_file import tensor_file
    from divergraph.api.graph import Graph, read_graph
    from divergraph.api.plugins import plugins
    from divergraph.api.query_packs import check_queries
    from divergraph.api.replay import replay
    from divergraph.api.rows import Rows
    from divergraph.api.runs.compared_run import ComparedRun as Run
    from divergraph.api.store import Store, open_store, to_networkx
    from divergraph.api.verify import verify
    from divergraph.api.watch import watch
    from graphstore import errors

__all__ = [
    "Graph",
    "Rows",
    "Run",
    "Store",
    "__version__",
    "answers",
    "capture",
    "check_consistency",
    "check_queries",
    "compare",
    "compare_many",
    "convert",
    "demo",
    "demo_data",
    "detect",
    "diff",
    "errors",
    "list_dumps",
    "open_store",
    "plugins",
    "read_graph",
    "replay",
    "tensor_file",
    "to_networkx",
    "verify",
    "watch",
]

_WHERE = {
    "Graph": ("divergraph.api.graph", "Graph"),
    "Rows": ("divergraph.api.rows", "Rows"),
    "Run": ("divergraph.api.runs.compared_run", "ComparedRun"),
    "Store": ("divergraph.api.store", "Store"),
    "capture": ("divergraph.api.capture", "capture"),
    "check_consistency": ("divergraph.api.consistency", "consistency"),
    "check_queries": ("divergraph.api.query_packs", "check_queries"),
    "compare": ("divergraph.api.compare", "compare"),
    "compare_many": ("divergraph.api.compare", "compare_many"),
    "convert": ("divergraph.api.convert", "convert"),
    "demo": ("divergraph.api.demo", "demo"),
    "demo_data": ("divergraph.api.demo", "demo_data"),
    "detect": ("divergraph.api.detect", "detect"),
    "diff": ("divergraph.api.diff", "diff"),
    "list_dumps": ("divergraph.api.detect", "list_dumps"),
    "open_store": ("divergraph.api.store", "open_store"),
    "plugins": ("divergraph.api.plugins", "plugins"),
    "read_graph": ("divergraph.api.graph", "read_graph"),
    "replay": ("divergraph.api.replay", "replay"),
    "tensor_file": ("divergraph.api.files.tensor_file", "tensor_file"),
    "to_networkx": ("divergraph.api.store", "to_networkx"),
    "verify": ("divergraph.api.verify", "verify"),
    "watch": ("divergraph.api.watch", "watch"),
}
_MODULES = {"answers": "divergraph.api.answers", "errors": "graphstore.errors"}


def __getattr__(name: str) -> Any:
    # Loaded on first use: `divergraph --help` must not pay for onnx or the database.
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _WHERE:
        module, there = _WHERE[name]
        return getattr(import_module(module), there)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
