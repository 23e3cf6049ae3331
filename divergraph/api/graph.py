"""A graph by itself, read from a file or opened from a store."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from divergraph.api.arguments import AnyPath, filter_of
from divergraph.api.private_store import private_store
from divergraph.api.rows import Rows
from divergraph.text.printable import printable
from divergraph.text.words import counted
from graphstore.filter import OpFilter
from graphstore.model import ModelGraph
from graphstore.op_row import OpRow

if TYPE_CHECKING:
    import networkx

    from graphstore.contract import GraphStore

_NAME = "graph"


class Graph:
    """A model's graph; ``model`` is all of it as frozen values.

    >>> import divergraph as dg
    >>> graph = dg.read_graph(dg.demo_data().golden)
    >>> graph
    <Graph 'model.ckpt': tensorflow, 381 ops>
    >>> len(graph.ops("type:Conv2D"))
    2
    """

    def __init__(
        self, model: ModelGraph, name: str | None = None, store: GraphStore | None = None
    ) -> None:
        self.model = model
        self._name = name or _NAME
        self._store = store

    @property
    def name(self) -> str:
        """What the file calls it."""
        return self.model.name

    @property
    def framework(self) -> str:
        """``onnx``, ``tensorflow``, ``caffe``, ``ascend``, ..."""
        return self.model.framework.value

    @property
    def warnings(self) -> tuple[str, ...]:
        """What could not be read as it was meant."""
        return self.model.warnings

    def ops(self, where: OpFilter | str | None = None) -> Rows[OpRow]:
        """The ops in execution order, those *where* lets pass.

        Raises:
            FilterError: the filter cannot be understood.
        """
        from divergraph.ask.facts import op_rows

        return Rows(OpRow, op_rows(self._asked(), self._name, where=filter_of(where)))

    def between(self, start: str, end: str) -> Rows[OpRow]:
        """The ops on any way from *start* to *end*, both included."""
        from divergraph.ask.traces import ops_between

        return Rows(OpRow, ops_between(self._asked(), self._name, start, end))

    def to_networkx(self) -> networkx.MultiDiGraph[str]:
        """The graph as a networkx graph: ops as nodes, tensors as edges."""
        from divergraph.present.networkx_graph import to_networkx

        return to_networkx(self._asked(), self._name)

    def _asked(self) -> GraphStore:
        if self._store is None:
            self._store = private_store(self)
            self._store.save_graph(self.model, self._name)
        return self._store

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}: {self.framework}, {counted(len(self.model.ops), 'op')}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(printable(repr(self)))}</p>"


def read_graph(path: AnyPath, options: Mapping[str, str] | None = None) -> Graph:
    """The graph in a file, or in a SavedModel or GE dump folder, whatever its format.

    *options* go to the format's importer, such as ``weights`` of a Caffe net.

    Raises:
        ImportFormatError: missing, of no known format, or damaged; it says where.
        InputError: the format has no such option.

    >>> import divergraph as dg
    >>> dg.read_graph(dg.demo_data().golden).framework
    'tensorflow'
    """
    from importers.registry import read_graph as read

    return Graph(read(Path(path), options))
