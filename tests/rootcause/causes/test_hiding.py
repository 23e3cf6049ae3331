"""Where values that are not finite vanish again."""

from __future__ import annotations

from divergraph.rootcause.hiding import hidden, where_hidden
from graphstore.model import Finding, FindingKind, Op
from graphstore.traverse.arrays import arrays_from_edges

#     sum -> sqrt -> inverse -> scaled -> end
#        \-> copy (not measured) -> other
ARRAYS = arrays_from_edges(
    ("sum", "copy", "sqrt", "inverse", "other", "scaled", "end"),
    ([0, 0, 1, 2, 3, 5], [2, 1, 4, 3, 5, 6]),
)
FOUND = Finding(FindingKind.CAUSE, "overflow", "overflow here", op="sum")


def test_the_ops_whose_output_is_finite_again() -> None:
    broken = {"sum": True, "sqrt": True, "inverse": False, "other": False, "scaled": False}
    assert where_hidden(ARRAYS, "sum", broken) == ("inverse", "other")


def test_what_reaches_the_end_is_not_hidden() -> None:
    everywhere = dict.fromkeys(ARRAYS.ids, True)
    assert where_hidden(ARRAYS, "sum", everywhere) == ()
    assert where_hidden(ARRAYS, "sum", {"sum": False}) == ()
    assert where_hidden(ARRAYS, "unknown", everywhere) == ()


def test_the_sentence_names_them() -> None:
    told = hidden(FOUND, [Op("inverse", "inverse", "Reciprocal")])
    assert told.sentence == (
        "overflow here; hidden by inverse (Reciprocal), whose output is finite again"
    )
    assert told.evidence["hidden_by"] == ["inverse"]
    several = [Op(name, name, "Add") for name in "abc"]
    assert "a (Add), b (Add) and 1 more" in hidden(FOUND, several).sentence
    assert hidden(FOUND, []) is FOUND
