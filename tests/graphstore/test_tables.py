"""Tables of rows that are made when they are asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphstore.schema.row_slices import Table, absent

ROWS = st.lists(st.tuples(st.integers(), st.text()), max_size=12)


@given(st.lists(ROWS, max_size=4), st.slices(30))
def test_a_joined_table_is_the_list_of_all_rows(parts, cut):
    rows = [row for part in parts for row in part]
    table = Table.joined([Table.of(part) for part in parts])
    assert list(table) == rows
    assert len(table) == len(rows)
    assert table[cut] == rows[cut]
    assert [table[place] for place in range(-len(rows), len(rows))] == rows + rows


def test_only_the_slice_asked_for_is_made():
    asked = []

    def columns(first, until):
        asked.append((first, until))
        return np.arange(first, until), [str(number) for number in range(first, until)]

    table = Table(1_000_000, columns)
    assert table[5:7] == [(5, "5"), (6, "6")]
    assert table[-1] == (999_999, "999999")
    assert asked == [(5, 7), (999_999, 1_000_000)]
    assert type(table[5][0]) is int


def test_there_are_no_rows_past_the_end():
    table = Table.of([(1,), (2,)])
    assert table[1:9] == [(2,)]
    assert list(table.columns(2, 9)) == []
    with pytest.raises(IndexError):
        table[2]


def test_rows_of_one_table_have_one_width():
    with pytest.raises(ValueError, match="shorter"):
        list(Table.of([(1, 2), (3,)]))


def test_a_column_without_values_is_one_of_nones() -> None:
    assert list(Table(3, lambda first, until: (range(first, until), absent(until - first)))) == [
        (0, None),
        (1, None),
        (2, None),
    ]
