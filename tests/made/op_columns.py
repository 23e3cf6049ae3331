"""Rows of ops as columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphstore.columns.coded import Coded, Lists, starts
from graphstore.columns.op_attributes import keep_attributes
from graphstore.columns.op_columns import OpColumns, places_of
from graphstore.columns.parts import (
    COUNTS,
    FIGURES,
    SPREAD,
    MetricColumns,
    OptionalNumbers,
    SplitColumns,
)
from graphstore.model import SPLIT_NUMBERS, ErrorSplit, MetricSet, Side
from graphstore.op_row import OpRow


def columns_of(rows: Sequence[OpRow]) -> OpColumns:
    """The columns of these *rows*, which are all ops of their graph; with their attributes."""
    sets = [row.metrics for row in rows if row.metrics is not None]
    splits = [row.split for row in rows if row.split is not None]
    ops = OpColumns(
        rows[0].side if rows else Side.DEVICE,
        tuple(row.id for row in rows),
        {row.id: at for at, row in enumerate(rows)},
        Coded.of(None if row.name == row.id else row.name for row in rows),
        Coded.of(row.type for row in rows),
        Coded.of(row.subgraph for row in rows),
        Coded.of(row.dtype for row in rows),
        Coded.of(row.shape for row in rows),
        Coded.of(row.layout for row in rows),
        np.array([row.fused for row in rows], dtype=np.int32),
        _lists([row.originals for row in rows]),
        Coded.of(row.state for row in rows),
        Coded.of(row.level for row in rows),
        np.array([-1 if row.output is None else row.output for row in rows], dtype=np.int32),
        Coded.of(row.failed for row in rows),
        Coded.of(row.reason for row in rows),
        Coded.of(row.detail for row in rows),
        np.array([np.nan if row.gain is None else row.gain for row in rows], dtype=np.float64),
        Coded.of(row.origins for row in rows),
        places_of([row.metrics is not None for row in rows]),
        _metrics(sets),
        places_of([row.split is not None for row in rows]),
        _splits(splits),
        np.zeros(len(rows), dtype=np.bool_),
    )
    keep_attributes(ops, Coded.of(row.attributes for row in rows))
    return ops


def _metrics(sets: Sequence[MetricSet]) -> MetricColumns:
    spread = np.array([one.standard_deviation for one in sets]).reshape(-1, len(SPREAD))
    numbers = {
        name: spread[:, SPREAD.index(name)]
        if name in SPREAD
        else np.array([getattr(one, name) for one in sets], dtype=np.float64)
        for name in FIGURES
    }
    counts = {
        name: np.array([getattr(one, name) for one in sets], dtype=np.int64) for name in COUNTS
    }
    return MetricColumns(numbers, counts, Coded.of(tuple(one.notes.items()) for one in sets))


def _splits(splits: Sequence[ErrorSplit]) -> SplitColumns:
    numbers = {}
    for name in SPLIT_NUMBERS:
        parts = [getattr(one, name) for one in splits]
        values = np.array([np.nan if number is None else number for number in parts], np.float64)
        is_set = np.array([number is not None for number in parts], np.bool_)
        numbers[name] = OptionalNumbers(values, is_set)
    return SplitColumns(
        Coded.of(one.role for one in splits),
        Coded.of(one.guilt for one in splits),
        numbers,
        Coded.of(one.failure for one in splits),
    )


def _lists(rows: Sequence[Sequence[str]]) -> Lists:
    names: dict[str, int] = {}
    numbers = [names.setdefault(name, len(names)) for row in rows for name in row]
    return Lists(starts(list(map(len, rows))), np.asarray(numbers, dtype=np.int32), tuple(names))
