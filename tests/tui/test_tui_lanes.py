"""Lanes of edges beside the rows of a list."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tui.render.lanes import MOST, NEAR, draw_lanes, near_edges
from tui.style.glyphs import ASCII, UNICODE


def lanes_of(*feeds, glyphs=UNICODE):
    return list(draw_lanes(feeds, glyphs).beside)


def test_a_chain_is_one_straight_line():
    assert lanes_of((), (0,), (1,), (2,)) == ["●"] * 4


def test_a_branch_and_its_join():
    assert lanes_of((), (0,), (0,), (1, 2)) == ["●", "├─●", "● │", "●─╯"]


def test_an_edge_behind_another_crosses_it():
    picture = lanes_of((), (), (), (0, 2), (1,))
    assert picture == ["●", "│ ●", "│ │ ●", "●─┼─╯", "  ●"]


def test_the_same_in_ascii():
    assert lanes_of((), (), (), (0, 2), (1,), glyphs=ASCII)[3] == "*-+-'"


def test_an_op_that_neither_reads_nor_feeds_stands_alone():
    assert lanes_of((), ()) == ["●", "●"]


def test_what_stands_below_a_row_shows_the_lanes_that_go_on():
    lanes = draw_lanes([(), (), (0, 1)], UNICODE)
    assert list(lanes.below) == ["│", "│ │", ""]


def test_edges_that_are_long_lead_back_or_stay_inside_are_not_drawn():
    sources = np.array([0, 0, 3, 2, 0], dtype=np.int32)
    targets = np.array([1, NEAR + 1, 2, 2, 1], dtype=np.int32)
    near = near_edges(sources, targets, NEAR + 2)
    assert near[1] == (0,)
    assert not any(near[2:])


@st.composite
def feeding(draw):
    """For each row the rows above it that feed it."""
    rows = draw(st.integers(1, 25))
    return [
        tuple(sorted(draw(st.sets(st.integers(max(0, row - NEAR), row - 1), max_size=3))))
        if row
        else ()
        for row in range(rows)
    ]


@given(feeding())
def test_every_row_has_one_dot_and_every_drawn_edge_two_ends(feeds):
    """Followed from a dot down its lane, a line ends where something reads it, never in the air."""
    lanes = draw_lanes(feeds, UNICODE)
    assert len(lanes.beside) == len(feeds)
    for row, text in enumerate(lanes.beside):
        assert text.count("●") == 1
        lane = text.index("●") // 2
        if lane == MOST:
            continue  # more edges side by side than are drawn
        below = lanes.below[row].ljust(2 * MOST)[2 * lane]
        readers = [at for at, sources in enumerate(feeds) if row in sources]
        assert (below == "│") == bool(readers)
        for later in range(row + 1, max(readers, default=row) + 1):
            mark = lanes.beside[later].ljust(2 * MOST + 2)[2 * lane]
            if later not in readers:
                assert mark in "│┼"
            elif later == readers[-1]:
                assert mark in "●╯"
            else:
                assert mark in "├┤"
