"""The search alone, against oracles that are told what fails."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divergraph.submodel.minimize.prober import Prober, SearchLimits
from divergraph.submodel.minimize.search import PartSearch, SuspectUnits
from divergraph.submodel.minimize.space import Space
from divergraph.submodel.minimize.verdicts import Variant
from graphstore.model import OracleAnswer, PartVerdict
from graphstore.traverse.arrays import arrays_from_edges

FAIL, PASS, UNKNOWN = (OracleAnswer(verdict) for verdict in PartVerdict)


def space(size, edges, together=()):
    sources, targets = zip(*edges, strict=True) if edges else ((), ())
    arrays = arrays_from_edges([str(n) for n in range(size)], (list(sources), list(targets)))
    return Space(arrays, [[str(n) for n in group] for group in together])


def suspects(*units, over=True):
    return [
        SuspectUnits((unit,), f"op{unit}", 100.0 - place, over) for place, unit in enumerate(units)
    ]


class Asked:
    """A search that was run; *fails* says of a set of units (and a variant) if it fails."""

    def __init__(self, where, fails, ranking=(), variants=(Variant.GOLDEN,), **limits):
        self.prober = Prober(where, lambda units, variant: self.said(fails, units, variant))
        self.prober.limits = SearchLimits(**limits)
        self.prober.__post_init__()
        self.outcome = PartSearch(where, self.prober, list(ranking), variants).run()

    @staticmethod
    def said(fails, units, variant):
        found = fails(units, variant) if fails.__code__.co_argcount == 2 else fails(units)
        return found if isinstance(found, OracleAnswer) else FAIL if found else PASS

    @property
    def parts(self):
        return [set(found.units) for found in self.outcome.found]

    @property
    def calls(self):
        return self.prober.calls


@st.composite
def graphs(draw, most=40):
    size = draw(st.integers(1, most))
    chance = random.Random(draw(st.integers(0, 10_000)))
    edges = [
        (source, target)
        for target in range(size)
        for source in range(max(0, target - 6), target)
        if chance.random() < 0.35
    ]
    return size, edges


@pytest.mark.slow
@given(graphs(), st.data())
@settings(max_examples=150, deadline=None)
def test_ops_that_fail_only_together_are_found_with_nothing_else(graph, data):
    where = space(*graph)
    unit = st.integers(0, graph[0] - 1)
    needed = data.draw(st.sets(unit, min_size=1, max_size=3))
    ranking = suspects(*data.draw(st.lists(unit, unique=True, max_size=4)), over=False)
    jobs = data.draw(st.sampled_from([1, 3]))
    asked = Asked(where, lambda part: needed <= part, ranking, jobs=jobs)
    assert asked.parts == [set(where.hull(needed))]
    assert asked.outcome.found[0].minimal


@given(graphs(), st.data())
@settings(max_examples=150, deadline=None)
def test_whatever_fails_the_result_is_convex_fails_and_is_minimal(graph, data):
    """Any of several sets may be the reason."""
    where = space(*graph)
    unit = st.integers(0, graph[0] - 1)
    reasons = data.draw(st.lists(st.sets(unit, min_size=1, max_size=3), min_size=1, max_size=3))

    def fails(part):
        return any(reason <= part for reason in reasons)

    ranking = suspects(*data.draw(st.lists(unit, unique=True, max_size=4)))
    asked = Asked(where, fails, ranking)
    assert asked.parts
    for found in asked.outcome.found:
        assert fails(found.units)
        assert where.hull(found.units) == found.units
        if found.minimal and len(found.units) > 1:
            smaller = [found.units - {unit} for unit in where.edges(found.units)]
            assert not any(map(fails, smaller))


def branches(count, length):
    """Op 0, *count* chains of *length* ops, and the op that joins them."""
    edges, number = [], 1
    for _ in range(count):
        last = 0
        for _ in range(length):
            edges.append((last, number))
            last, number = number, number + 1
        edges.append((last, count * length + 1))
    return space(count * length + 2, edges)


@pytest.mark.parametrize("length", [12, 125, 625])
def test_one_op_in_one_of_eight_branches(length):
    where = branches(8, length)
    bad = 3 * length + length // 3
    blind = Asked(where, lambda part: bad in part)
    assert blind.parts == [{bad}]
    assert blind.calls < 30
    guided = Asked(where, lambda part: bad in part, suspects(bad))
    assert (guided.parts, guided.calls) == ([{bad}], 1)


def test_two_branches_that_fail_where_they_meet():
    where = branches(2, 50)
    needed = {50, 100, 101}
    for ranking in ((), suspects(101), suspects(50)):
        assert Asked(where, lambda part: needed <= part, ranking).parts == [needed]


def test_the_op_behind_the_suspect_is_taken_along_when_it_is_needed():
    where = space(20, [(n, n + 1) for n in range(19)])
    asked = Asked(where, lambda part: {4, 9} <= part, suspects(4))
    assert asked.parts == [set(range(4, 10))]


def test_several_culprits_are_found_one_by_one():
    where = space(30, [(n, n + 1) for n in range(29)])
    asked = Asked(where, lambda part: bool(part & {3, 11, 25}), suspects(11, 3, 7, 25))
    assert asked.parts == [{11}, {3}, {25}]
    assert asked.calls == 4


def test_the_sweep_ends_after_three_passes_in_a_row():
    where = space(30, [(n, n + 1) for n in range(29)])
    asked = Asked(where, lambda part: 3 in part, suspects(3, *range(10, 25)))
    assert (asked.parts, asked.calls) == ([{3}], 4)


def test_a_fault_of_the_devices_own_values_is_found_on_them():
    where = space(9, [(n, n + 1) for n in range(8)])
    asked = Asked(
        where,
        lambda part, variant: 4 in part and variant is Variant.DEVICE,
        suspects(4),
        (Variant.GOLDEN, Variant.DEVICE),
    )
    assert asked.parts == [{4}]
    assert asked.outcome.found[0].variant is Variant.DEVICE


def test_what_goes_only_together_is_never_cut():
    where = space(12, [(n, n + 1) for n in range(11)], together=[[4, 5, 6]])
    asked = Asked(where, lambda part: set(where.units(["5"])) <= part)
    assert where.ops(asked.outcome.found[0].units) == ("4", "5", "6")


def test_when_even_the_whole_passes_that_is_said():
    where = space(12, [(n, n + 1) for n in range(11)])
    asked = Asked(where, lambda _: False, suspects(5))
    assert not asked.parts
    assert "whole passes" in asked.outcome.note


def test_a_part_that_cannot_be_built_alone_is_no_failure():
    """It grows until it builds, and then until it fails."""
    where = space(20, [(n, n + 1) for n in range(19)])

    def says(part):
        if len(part) < 3:
            return UNKNOWN
        return FAIL if {8, 10} <= part else PASS

    assert Asked(where, says, suspects(10)).parts == [{8, 9, 10}]
    nothing = Asked(where, lambda _: OracleAnswer(PartVerdict.UNKNOWN, "no compiler"), suspects(10))
    assert nothing.outcome.note == "no part could be judged: no compiler"


def test_a_budget_keeps_the_smallest_failing_part_so_far():
    where = space(200, [(n, n + 1) for n in range(199)])
    asked = Asked(where, lambda part: {60, 90} <= part, suspects(90), calls=8)
    (found,) = asked.outcome.found
    assert asked.calls == 8
    assert {60, 90} <= found.units < set(range(200))
    assert not found.minimal
    assert "budget" in asked.outcome.stopped


def test_control_c_keeps_what_is_known():
    where = space(200, [(n, n + 1) for n in range(199)])
    left = iter(range(9))

    def says(part):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return {60, 90} <= part

    asked = Asked(where, says, suspects(90))
    assert asked.outcome.stopped == "stopped by the user"
    assert {60, 90} <= asked.outcome.found[0].units


@pytest.mark.parametrize("seed", range(25))
def test_a_failure_that_shows_now_and_then(seed):
    chance = random.Random(seed)
    where = space(60, [(n, n + 1) for n in range(59)])
    asked = Asked(
        where, lambda part: 23 in part and chance.random() < 0.6, suspects(23), flaky=True
    )
    assert 23 in asked.parts[0]
    assert asked.prober.rate is not None


def test_parallel_probes_give_the_same_part():
    where = branches(8, 40)
    needed = {30, 37}
    for jobs in (1, 4):
        asked = Asked(where, lambda part: needed <= part, suspects(37), jobs=jobs)
        assert asked.parts == [set(range(30, 38))]


def test_nothing_is_asked_twice():
    where = branches(4, 30)
    seen = []
    Asked(where, lambda part: seen.append(part) or {20, 28, 121} <= part, suspects(28))
    assert len(seen) == len(set(seen))


def test_the_probes_make_a_tree():
    where = branches(4, 30)
    asked = Asked(where, lambda part: {20, 28} <= part, suspects(28))
    for probe in asked.prober.probes:
        assert probe.parent is None or probe.parent < probe.number
    assert any(probe.parent is not None for probe in asked.prober.probes)
