"""What causes take of memory, and that nothing but the cause is lost where it is refused."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from divergraph.comparison.compare_run import compare
from divergraph.rootcause.causes import rules
from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import FaultEvidence, SampledTensors
from divergraph.rootcause.causes.extremes import quantised_grid
from divergraph.rootcause.causes.rules import explain
from graphstore.model import DType

_MIB = 1 << 20


def test_values_far_apart_for_their_errors_take_no_more_memory_than_others():
    """A hundred million steps would lie between the frequencies tried."""
    rng = np.random.default_rng(3)
    right = rng.standard_normal(4096) * 1e7
    wrong = right + rng.uniform(-0.5, 0.5, right.shape)
    view = SampledTensors(FaultEvidence("op", 0, wrong, right, 1e-9, dtype=DType.FLOAT32))
    tracemalloc.start()
    try:
        assert quantised_grid(view) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * _MIB


@pytest.mark.parametrize("step", [0.07, 0.011])
def test_a_grid_is_seen_among_few_and_among_many_candidates(step):
    rng = np.random.default_rng(4)
    right = (rng.standard_normal((8, 4096)) * 3).astype(np.float32)
    wrong = (np.round(right / step) * step).astype(np.float32)
    finding = explain(FaultEvidence("op", 0, wrong, right, 1e-6, dtype=DType.FLOAT32))
    assert finding is not None
    assert finding.label == "quantised_grid"
    assert finding.evidence["step"] == pytest.approx(step, rel=1e-3)


def test_sums_of_integers_are_no_quantised_output():
    """Products of 8 bits, summed, lie on a grid as well: that of a million steps."""
    rng = np.random.default_rng(4)
    sums = np.where(rng.random(4096) < 0.01, 1_000_000, rng.integers(0, 9, 4096))
    right = (sums + rng.uniform(-0.4, 0.4, sums.shape)) * 1e-3
    view = SampledTensors(FaultEvidence("op", 0, sums * 1e-3, right, 1e-9, dtype=DType.FLOAT32))
    assert quantised_grid(view) is None


def _hungry(view: SampledTensors) -> None:
    np.ones(1 << 50)


def _broken(view: SampledTensors) -> None:
    np.ones(3).reshape(2)


@pytest.mark.parametrize("rule", [_hungry, _broken])
def test_a_cause_that_fails_leaves_the_guilt_as_it_is(sides, monkeypatch, rule):
    made = sides(lambda weights: weights.update(w1=weights["w1"] * np.float32(1.02)))
    usual = compare(made.request)
    only = CauseRule(rule, CauseStage.MISSING, 1)
    monkeypatch.setattr(rules, "cause_rules", lambda: (only,))
    data = compare(made.request)
    assert [each.op for each in data.origins] == ["conv1"]
    assert [each.split for each in data.comparisons] == [each.split for each in usual.comparisons]
    assert not data.findings
    assert any("no cause could be looked for in 1 output" in said for said in data.run.warnings)
