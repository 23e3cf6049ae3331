"""What choosing parts of a graph needs of all its ops at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphstore.columns.coded import Lists
from graphstore.model import ModelGraph
from graphstore.traverse.arrays import GraphArrays


@dataclass(frozen=True, slots=True, eq=False)
class GraphColumns:
    """A graph without its ops (``header``), and by their numbers what they are called, their types,
    the edges between them, and the names of inputs that are ``given``: made by no op.

    Unless ``exact``, ids or names are not quite those of the file.
    """

    header: ModelGraph
    names: Sequence[str]
    types: Sequence[str]
    arrays: GraphArrays
    given: Lists
    exact: bool
