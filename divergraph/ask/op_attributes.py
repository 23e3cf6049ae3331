"""The attributes of all ops of a list, read where a filter asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphstore.columns.coded import Coded
from graphstore.columns.op_attributes import (
    attribute_texts,
    attributes_of,
    has_attributes,
    keep_attributes,
)
from graphstore.columns.op_columns import OpColumns
from graphstore.contract import GraphStore
from graphstore.filter import OpFilter
from graphstore.gc_paused import gc_paused

_SLICE = 4096
"""Ops that are read at once."""


def read_attributes(
    store: GraphStore, target: str, ops: OpColumns, wanted: Iterable[OpFilter]
) -> None:
    """Read the attributes of *ops*, all of one side of *target*, if a filter *wanted* asks for
    them and nobody has yet."""
    if any(condition.asks_attributes for condition in wanted):
        all_attributes(store, target, ops)


def all_attributes(store: GraphStore, target: str, ops: OpColumns) -> Coded[tuple[str, ...]]:
    """The attributes of each of *ops*, all of one side of *target*, as ``name=value``."""
    if not has_attributes(ops):
        with gc_paused():
            keep_attributes(ops, Coded.of(_texts(store, target, ops)))
    return attributes_of(ops)


def _texts(store: GraphStore, target: str, ops: OpColumns) -> Iterator[tuple[str, ...]]:
    for first in range(0, len(ops), _SLICE):
        ids = ops.ids[first : first + _SLICE]
        ops_by_id = store.ops(target, ids, ops.side)
        yield from (attribute_texts(ops_by_id[op].attrs) for op in ids)
