"""Records of parts combine to that of the whole, whatever the parts and their order."""

from __future__ import annotations

import math
import pickle
from dataclasses import astuple
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divergraph.metrics.figures import figures_of
from divergraph.metrics.measure import DEFAULT, Wanted, measure, tolerance
from divergraph.metrics.metrics import scales_for_divergence, ten_metrics
from divergraph.metrics.second_pass import Second, folded_second
from divergraph.metrics.sums import NO_SECOND, combine, combine_second
from divergraph.metrics.sweep import BLOCK, Sweeper, folded, seen_of

SEEDS = st.integers(0, 2**32 - 1)
KINDS = st.sampled_from(["float32", "float64", "float16", "int64", "int8", "bool", "odd", "huge"])


def tensors(kind: str, seed: int, count: int = 240) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    golden = random.standard_normal(count) * 10
    device = golden + random.standard_normal(count) * (random.random(count) < 0.3)
    if kind == "int64":
        golden, device = ((values * 2.0**57).astype(np.int64) for values in (golden, device))
    elif kind == "huge":
        golden, device = golden * 1e290, device * 1e290
    elif kind == "bool":
        golden, device = golden > 0, device > 0
    elif kind == "odd":
        device[random.integers(0, count, 4)] = [math.nan, math.inf, -math.inf, math.nan]
        golden[random.integers(0, count, 2)] = [math.nan, math.inf]
    else:
        golden, device = golden.astype(kind), device.astype(kind)
    return device, golden


def parts_of(count: int, cuts: set[int]) -> list[tuple[int, int]]:
    return list(pairwise([0, *sorted(cuts), count]))


def first_sums(sweeper, device, golden, start):
    return folded(sweeper.first_blocks(device, golden, start), [])


def second_sums(sweeper, device, golden, asked, start):
    seen = [seen_of(sums) for sums in sweeper.first_blocks(device, golden, start)]
    return folded_second(sweeper.second_blocks(device, golden, asked, seen, start))


def swept(device, golden, parts):
    """Metrics and figures from one record a part, each swept by a sweeper of its own."""
    first = [first_sums(Sweeper(32), device[a:b], golden[a:b], a) for a, b in parts]
    # As they come back from another process.
    sums = combine([pickle.loads(pickle.dumps(record)) for record in first])
    atol = tolerance(sums, DEFAULT)
    both_bool = device.dtype == np.bool_
    asked = Second(scales_for_divergence(sums, both_bool), atol, DEFAULT.rtol)
    second = combine_second(
        [second_sums(Sweeper(50), device[a:b], golden[a:b], asked, a) for a, b in parts]
    )
    metrics = ten_metrics(sums, second.divergence, both_bool)
    return metrics, figures_of(sums, second, atol, DEFAULT.rtol)


def assert_close(found, wanted):
    for one, other in zip(flat(found), flat(wanted), strict=True):
        if isinstance(one, float):
            assert one == pytest.approx(other, rel=1e-9, abs=1e-13, nan_ok=True)
        else:
            assert one == other


def flat(value) -> list:
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


@settings(max_examples=60)
@given(KINDS, SEEDS, st.sets(st.integers(1, 239), max_size=6), st.randoms())
def test_parts_in_any_order_give_the_whole(kind, seed, cuts, random):
    device, golden = tensors(kind, seed)
    parts = parts_of(len(golden), cuts)
    random.shuffle(parts)
    whole = measure(device, golden, want=Wanted(places=False))
    metrics, figures = swept(device, golden, parts)
    assert_close(astuple(figures), astuple(whole.figures))
    assert_close(astuple(metrics), astuple(whole.metrics))


@settings(max_examples=40)
@given(KINDS, SEEDS, st.randoms())
def test_the_order_of_parts_changes_no_digit(kind, seed, random):
    device, golden = tensors(kind, seed)
    records = [
        first_sums(Sweeper(), device[a : a + 24], golden[a : a + 24], a) for a in range(0, 240, 24)
    ]
    first = combine(records)
    random.shuffle(records)
    assert repr(combine(records)) == repr(first)


@settings(max_examples=40)
@given(KINDS, SEEDS, st.integers(1, 9))
def test_combining_in_steps_differs_by_rounding_only(kind, seed, steps):
    device, golden = tensors(kind, seed)
    records = [
        first_sums(Sweeper(), device[a : a + 24], golden[a : a + 24], a) for a in range(0, 240, 24)
    ]
    at_once, in_steps = combine(records), combine([combine(records[:steps]), *records[steps:]])
    found, wanted = (figures_of(sums, NO_SECOND, 0.0, 0.0) for sums in (in_steps, at_once))
    assert_close(astuple(found), astuple(wanted))
    assert_close(in_steps[:-1], at_once[:-1])


@settings(max_examples=30)
@given(KINDS, SEEDS)
def test_permuting_the_elements_changes_no_metric(kind, seed):
    device, golden = tensors(kind, seed)
    order = np.random.default_rng(seed).permutation(len(golden))
    before = measure(device, golden, sweeper=Sweeper(32))
    after = measure(device[order], golden[order], sweeper=Sweeper(32))
    assert_close(astuple(after.metrics), astuple(before.metrics))
    assert after.figures.bad == before.figures.bad
    assert after.figures.equal == before.figures.equal
    if after.figures.worst >= 0 and kind != "odd":
        assert worst_error(after.figures) == worst_error(before.figures)


def worst_error(figures) -> float:
    return abs(figures.worst_device - figures.worst_golden)


@pytest.mark.parametrize("place", [0, BLOCK - 1, BLOCK, 2 * BLOCK + 17])
def test_places_count_from_the_start_of_the_tensor(place):
    golden = np.linspace(1, 2, 2 * BLOCK + 100, dtype=np.float32)
    device = golden.copy()
    device[place] += 0.5
    figures = measure(device, golden).figures
    assert (figures.worst, figures.first_bad, figures.bad) == (place, place, 1)
    assert (figures.worst_device, figures.worst_golden) == (device[place], golden[place])
    assert figures.equal == len(golden) - 1


def test_many_blocks_are_combined_on_the_way():
    golden = np.arange(5000, dtype=np.float32)
    device = golden + 1
    small, large = (measure(device, golden, sweeper=Sweeper(size)) for size in (2, 8192))
    assert_close(astuple(small.metrics), astuple(large.metrics))
    assert_close(astuple(small.figures), astuple(large.figures))
