"""Dump against dump without any graph: two files or folders, paired by name."""

from divergraph.diff.diff_dumps import DiffRequest, DiffResult, PairDiff, diff_dumps
from divergraph.diff.elements import Element, ElementTable, element_table

__all__ = [
    "DiffRequest",
    "DiffResult",
    "Element",
    "ElementTable",
    "PairDiff",
    "diff_dumps",
    "element_table",
]
