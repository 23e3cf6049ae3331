"""How errors split, as columns of the table Metric, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

from graphstore.model import Comparison, ErrorSplit, Guilt, Role
from graphstore.schema.codec import plain_texts
from graphstore.schema.double_columns import DoubleColumns, others, places
from graphstore.schema.row_slices import Columns

_DOUBLES = ("introduced", "propagated", "floor", "amplification")
_ROLES = {role.value: role for role in Role}
_GUILTS = {guilt.value: guilt for guilt in Guilt}


def split_columns(items: Sequence[Comparison], doubles: DoubleColumns) -> Columns:
    """The columns SPLIT_COLUMNS of a slice of the comparisons."""
    where, known = places(item.split for item in items)
    size = len(items)
    groups = [
        _group_of(items[row], split.group) for row, split in zip(where.tolist(), known, strict=True)
    ]
    return [
        others(size, where, [split.role.value for split in known]),
        others(size, where, [split.guilt.value for split in known]),
        *(
            doubles.column(name, where, [getattr(split, name) for split in known])
            for name in _DOUBLES
        ),
        others(size, where, groups),
        others(size, where, plain_texts([split.reference or None for split in known])),
        others(size, where, plain_texts([split.failure or None for split in known])),
    ]


def split_value(row: Mapping[str, Any]) -> ErrorSplit | None:
    """The split of a Metric row (NaN already in place), None if it has none.

    ``golden_op`` in the row is the golden op the tensor is held against.
    """
    if row["role"] is None:
        return None
    group = row["split_group"]
    return ErrorSplit(
        role=_ROLES[row["role"]],
        guilt=_GUILTS[row["guilt"]],
        introduced=row["introduced"],
        propagated=row["propagated"],
        floor=row["floor"],
        suspicion=row["suspicion"],
        amplification=row["amplification"],
        group=(row["golden_op"],) if group is None else tuple(group),
        reference=row["reference"] or "",
        failure=row["failure"] or "",
    )


def split_values(columns: Mapping[str, Sequence[Any]]) -> list[ErrorSplit | None]:
    """The splits of many Metric rows, given column by column; none of them is NaN."""
    there = [role is not None for role in columns["role"]]
    if not any(there):
        return [None] * len(there)

    def known(name: str) -> list[Any]:
        return list(compress(columns[name], there))

    groups = zip(known("golden_op"), known("split_group"), strict=True)
    made = map(
        ErrorSplit,
        map(_ROLES.__getitem__, known("role")),
        map(_GUILTS.__getitem__, known("guilt")),
        *(known(name) for name in ("introduced", "propagated", "floor", "suspicion")),
        known("amplification"),
        [(op,) if group is None else tuple(group) for op, group in groups],
        [text or "" for text in known("reference")],
        [text or "" for text in known("failure")],
    )
    return [next(made) if one else None for one in there]


def _group_of(item: Comparison, group: tuple[str, ...]) -> list[str | None] | None:
    if item.golden is not None and group == (item.golden.op,):
        return None
    return list(plain_texts(group))
