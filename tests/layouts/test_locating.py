"""Where the values of one rank's tensor lie in golden's."""

from __future__ import annotations

import numpy as np
import pytest

from divergraph.layouts.locating import cut, located
from divergraph.layouts.rule import rules
from divergraph.layouts.shares import AxisShare, runs_of, within

WEIGHT = np.random.default_rng(1).standard_normal((12, 8)).astype(np.float32)


@pytest.mark.parametrize(
    ("part", "runs"),
    [
        (WEIGHT, {}),
        (WEIGHT[6:], {0: ((6, 12),)}),
        (WEIGHT[:, :4], {1: ((0, 4),)}),
        (WEIGHT[[0, 1, 4, 5, 8, 9]], {0: ((0, 2), (4, 6), (8, 10))}),  # heads of a fused weight
        (WEIGHT[6:, 4:], {0: ((6, 12),), 1: ((4, 8),)}),
    ],
)
def test_a_part_is_found_by_its_values(part, runs):
    assert located(part, WEIGHT) == runs
    assert np.array_equal(cut(WEIGHT, runs), part)


def test_golden_may_be_rounded_on_the_rank():
    half = WEIGHT[6:].astype(np.float16).astype(np.float32)
    assert located(half, WEIGHT) == {0: ((6, 12),)}


def test_other_values_are_nowhere():
    assert located(WEIGHT[6:] * 1.5, WEIGHT) is None
    assert located(WEIGHT * 1.5, WEIGHT) is None


def test_words_are_found_by_chunks_where_single_ones_repeat():
    words = np.array([3, 1, 3, 2, 1, 1, 3, 0])
    assert located(words[4:], words) == {0: ((4, 8),)}
    zigzag = np.concatenate([words[2:4], words[4:6]])
    assert located(zigzag, words) == {0: ((2, 6),)}
    outer = np.concatenate([words[:2], words[6:]])
    assert located(outer, words) == {0: ((0, 2), (6, 8))}


def test_rows_all_alike_are_the_share_that_is_known():
    zeros = np.zeros((8, 4), np.float32)
    assert located(zeros[:4], zeros, (AxisShare("", ((1, 2),), 2),)) == {0: ((4, 8),)}


def test_the_ways_to_have_a_part_of_an_axis():
    parts = {rule.name: list(rule.parts(8, 4)) for rule in rules()}
    assert parts["batch"] == [((0, 4),), ((4, 8),)]
    assert parts["zigzag"] == [((0, 2), (6, 8)), ((2, 6),)]
    assert not any(list(rule.parts(8, 3)) for rule in rules())


def test_a_share_of_an_axis_of_another_length():
    zigzag = AxisShare("sequence", ((0, 1), (3, 4)), 4)
    assert zigzag.of(8) == ((0, 2), (6, 8))
    assert zigzag.of(6) is None
    assert zigzag.words == "places 0 to 0, 3 to 3"
    assert AxisShare("rows", ((2, 4),), 4).words == "half 2 of 2"


def test_runs_of_two_axes_flattened_into_one():
    assert within(((1, 3),), 4, ((0, 2),)) == ((4, 6), (8, 10))
    assert within(((1, 3),), 4, ((0, 4),)) == ((4, 12),)
    assert runs_of([0, 1, 4, 5]) == ((0, 2), (4, 6))
