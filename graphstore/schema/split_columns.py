"""How errors split, as columns of the table Metric, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import compress, repeat
from typing import Any

from graphstore.model import Comparison, ErrorSplit, Guilt, Role
from graphstore.schema.codec import plain_texts
from graphstore.schema.double_columns import DoubleColumns, others, places
from graphstore.schema.row_slices import Columns, ColumnValues
from graphstore.schema.tables import SPLIT_COLUMNS, ColumnType

_ENUMS: dict[str, dict[str, Any]] = {
    "role": {role.value: role for role in Role},
    "guilt": {guilt.value: guilt for guilt in Guilt},
}
_TEXTS = {field.name for field in fields(ErrorSplit) if field.default == ""}


def split_columns(items: Sequence[Comparison], doubles: DoubleColumns) -> Columns:
    """The columns SPLIT_COLUMNS of a slice of the comparisons."""
    where, known = places(item.split for item in items)
    size = len(items)
    columns: list[ColumnValues] = []
    for column in SPLIT_COLUMNS:
        if column.type is ColumnType.DOUBLE:
            numbers = [getattr(split, column.name) for split in known]
            columns.append(doubles.column(column.name, where, numbers))
            continue
        values: Sequence[Any]
        if column.type is ColumnType.STRINGS:
            rows = zip(where.tolist(), known, strict=True)
            values = [_group_of(items[row], split.group) for row, split in rows]
        elif column.name in _ENUMS:
            values = [getattr(split, column.name).value for split in known]
        else:
            values = plain_texts([getattr(split, column.name) or None for split in known])
        columns.append(others(size, where, values))
    return columns


def split_values(columns: Mapping[str, Sequence[Any]]) -> list[ErrorSplit | None]:
    """The splits of many Metric rows, given column by column (NaN in place).

    ``golden_op`` is the golden op a tensor is held against. Columns that were not asked for
    leave their field at its default.
    """
    there = [role is not None for role in columns["role"]]
    if not any(there):
        return [None] * len(there)

    def values(name: str, default: object) -> Iterable[Any]:
        column = "split_group" if name == "group" else name
        if column not in columns:
            return repeat(default)
        known = compress(columns[column], there)
        if name == "group":
            ops = compress(columns["golden_op"], there)
            return (
                (op,) if group is None else tuple(group)
                for op, group in zip(ops, known, strict=True)
            )
        if name in _ENUMS:
            return map(_ENUMS[name].__getitem__, known)
        return (text or "" for text in known) if name in _TEXTS else known

    made = map(ErrorSplit, *(values(field.name, field.default) for field in fields(ErrorSplit)))
    return [next(made) if one else None for one in there]


def _group_of(item: Comparison, group: tuple[str, ...]) -> list[str | None] | None:
    if item.golden is not None and group == (item.golden.op,):
        return None
    return list(plain_texts(group))
