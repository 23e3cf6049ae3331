"""The jump list and the log of shell commands."""

from hypothesis import given
from hypothesis import strategies as st

from graphstore.errors import StoreError
from tui.address import ScreenAddress
from tui.jumps import JUMPS_KEPT, JumpList
from tui.session import Session

places = st.integers(0, 5).map(lambda number: ScreenAddress("14", op=f"op{number}"))


@given(st.lists(places, min_size=1, max_size=30))
def test_going_back_all_the_way_meets_every_place_in_reverse(visited):
    jumps = JumpList()
    for place in visited:
        jumps.visit(place)
    seen = [jumps.places[jumps.at]]
    while (place := jumps.step(-1)) is not None:
        seen.append(place)
    without_repeats = [p for p, q in zip(visited, [None, *visited], strict=False) if p != q]
    assert seen == without_repeats[::-1]


@given(st.lists(places, min_size=1, max_size=30), st.integers(1, 30))
def test_back_and_forward_return_to_the_same_place(visited, steps):
    jumps = JumpList()
    for place in visited:
        jumps.visit(place)
    here = jumps.places[jumps.at]
    back = [jumps.step(-1) for _ in range(steps)]
    for _ in [place for place in back if place is not None]:
        jumps.step(1)
    assert jumps.places[jumps.at] == here


def test_going_somewhere_new_drops_what_lay_ahead():
    jumps = JumpList()
    for op in "abc":
        jumps.visit(ScreenAddress("14", op=op))
    jumps.step(-1)
    jumps.visit(ScreenAddress("14", op="d"))
    assert [place.op for place in jumps.places] == ["a", "b", "d"]
    assert jumps.step(1) is None


def test_the_list_forgets_the_oldest_places():
    jumps = JumpList()
    for number in range(JUMPS_KEPT + 5):
        jumps.visit(ScreenAddress("14", op=str(number)))
    assert len(jumps.places) == JUMPS_KEPT
    assert jumps.places[0].op == "5"


def test_a_late_word_from_another_view_changes_no_place():
    jumps = JumpList()
    jumps.visit(ScreenAddress("14", view="overview"))
    jumps.update(ScreenAddress("14", view="ops", op="x"))
    assert jumps.places == [ScreenAddress("14", view="overview")]


def test_commands_are_quoted_for_a_shell_and_kept_once():
    def no_store():
        raise StoreError("not asked for here")

    session = Session(no_store, "./my store")
    for _ in range(2):
        session.note("ops", "14", "--where", "cos<0.99 type:MatMul*")
    assert session.commands == [
        "divergraph ops 14 --where 'cos<0.99 type:MatMul*' --store './my store'"
    ]
