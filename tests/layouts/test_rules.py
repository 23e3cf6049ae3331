"""What is said of a rank's part of a tensor, by the rule that gives it."""

from __future__ import annotations

import pytest

from divergraph.layouts.placements import PlacedAs, Placement
from divergraph.layouts.rule import rules

WEIGHT, DATA = PlacedAs.WEIGHT, PlacedAs.DATA


def placed(kind, runs, *, golden="q weight", reader="linear", shape=(12, 8)) -> Placement:
    return Placement(kind, "q weight", golden, runs, shape, reader, proved=True)


@pytest.mark.parametrize(
    ("placement", "rule", "words"),
    [
        (placed(WEIGHT, ()), "replicated", "all of it"),
        (placed(WEIGHT, ((0, ((6, 12),)),)), "column", "half 2 of 2 of its rows (column parallel)"),
        (placed(WEIGHT, ((1, ((0, 2),)),)), "row", "quarter 1 of 4 of its columns (row parallel)"),
        (
            placed(WEIGHT, ((0, ((0, 2), (6, 8))),)),
            "heads",
            "places 0 to 1, 6 to 7 of its rows (heads of a fused weight)",
        ),
        (
            placed(WEIGHT, ((0, ((4, 8),)),), reader="embedding"),
            "vocabulary",
            "third 2 of 3 of its words",
        ),
        (placed(WEIGHT, (), golden="k weight"), "pipeline", "all of it, by another name"),
        (placed(DATA, ((0, ((0, 6),)),)), "batch", "half 1 of 2 of the batch"),
        (placed(DATA, ((1, ((4, 8),)),)), "sequence", "half 2 of 2 of the sequence"),
        (
            placed(DATA, ((1, ((0, 2), (6, 8))),)),
            "zigzag",
            "places 0 to 1, 6 to 7 of the sequence (zigzag)",
        ),
        (
            placed(PlacedAs.MICRO_BATCH, ((0, ((0, 6),)),)),
            "micro_batch",
            "half 1 of 2 of the batch",
        ),
    ],
)
def test_one_rule_says_what_a_rank_has(placement, rule, words):
    said = {each.name: each.words(placement) for each in rules()}
    assert {name: text for name, text in said.items() if text} == {rule: words}
