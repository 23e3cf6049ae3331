"""How columns share a width."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tui.widgets.columns import ListColumn, place

columns = st.lists(
    st.builds(
        ListColumn,
        id=st.text("abc", min_size=1),
        title=st.text("abc", max_size=8),
        width=st.integers(1, 12),
        natural=st.integers(0, 60),
        priority=st.integers(1, 9),
    ),
    min_size=1,
    max_size=8,
)


@given(columns, st.integers(12, 200))
def test_placed_columns_stay_in_the_room_in_order_and_apart(given_columns, room):
    placed = place(given_columns, room)
    assert placed
    assert placed[-1].x + placed[-1].width <= room
    for left, right in pairwise(placed):
        assert left.index < right.index
        assert right.x >= left.x + left.width + 1


@given(columns)
def test_wide_shows_every_column_in_full(given_columns):
    placed = place(given_columns, 10, wide=True)
    assert [p.width for p in placed] == [column.full for column in given_columns]


def test_the_least_important_column_leaves_first():
    row = [
        ListColumn("a", "a", 10),
        ListColumn("b", "b", 10, priority=1),
        ListColumn("c", "c", 10, priority=2),
    ]
    assert [p.column.id for p in place(row, 32)] == ["a", "b", "c"]
    assert [p.column.id for p in place(row, 25)] == ["a", "b"]
    assert [p.column.id for p in place(row, 5)] == ["a"]


def test_an_optional_column_leaves_before_names_are_cut():
    row = [ListColumn("name", "name", 10, 20), ListColumn("layout", "layout", 6, priority=8)]
    assert [p.column.id for p in place(row, 24)] == ["name"]
    assert [p.column.id for p in place(row, 30)] == ["name", "layout"]
