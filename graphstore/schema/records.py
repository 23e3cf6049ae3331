"""Rows by the table they belong to, as both stores write them.

A row has one value per column of its table in :mod:`graphstore.schema.tables`, in order; a
relationship row starts with the ids of its two ends. Rows are made slice by slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from graphstore.schema.row_slices import Row, Table


@dataclass
class Records:
    """Rows by node label and by relationship type."""

    nodes: dict[str, Sequence[Row]] = field(default_factory=dict)
    rels: dict[str, Sequence[Row]] = field(default_factory=dict)


def as_table(rows: Sequence[Row]) -> Table:
    """*rows* as a table, which they may be already."""
    return rows if isinstance(rows, Table) else Table.of(rows)
