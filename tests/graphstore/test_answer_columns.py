"""Columns of the embedded engine's answers as Python's own values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from graphstore.embedded.database import _values


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([["a", None], None, [], ["ü", "b"]], pa.list_(pa.string())),
        ([[1], [2, 3], None], pa.list_(pa.int64())),
        ([[["x"]], None], pa.list_(pa.list_(pa.string()))),
        ([True, None, False], pa.bool_()),
        ([True, False], pa.bool_()),
        ([1, None, 2**62], pa.int64()),
        ([1.5, float("inf")], pa.float64()),
        (["a", None, "ü"], pa.string()),
        ([b"x", None], pa.binary()),
        ([None, None], pa.int64()),
    ],
)
def test_values_and_their_types_are_those_arrow_gives(values, kind) -> None:
    whole = pa.array(values * 2, kind)
    column = pa.chunked_array([whole.slice(1), whole])
    assert _values(column) == column.to_pylist()
    assert list(map(type, _values(column))) == list(map(type, column.to_pylist()))
