"""Runs of any values come back as they were saved, from every store."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from any_run import whole_runs
from asking import same
from hypothesis import HealthCheck, given, settings

from graphstore.contract import GraphStore, RunData
from graphstore.model import Comparison, Reason, TensorIO
from graphstore.transfer.copying import whole_run_hash

pytestmark = pytest.mark.exhaustive


@pytest.mark.slow
@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(whole_runs())
def test_anything_comes_back(store: GraphStore, data: RunData) -> None:
    store.save_run(data, replace=True)
    assert repr(store.run("any")) == repr(data.run)
    assert store.graph("any") == data.device
    assert store.states("any") == dict(data.states)
    assert repr(store.suspects("any")) == repr(list(data.suspects))
    assert same(store.findings("any")) == same(list(data.findings))
    assert whole_run_hash(store.run_data("any")) == whole_run_hash(data)
    assert [same(item) for item in store.comparisons("any")] == [
        same(item) for item in data.comparisons
    ]


def test_nan_first_in_a_column_with_gaps(store: GraphStore, sample_run, shaped_run) -> None:
    """The case in which a columnar engine may take the whole column for NaN."""
    data = shaped_run("gaps", [], dict.fromkeys((f"op{n}" for n in range(100)), False))
    items = list(data.comparisons)
    for place, value in ((0, math.nan), (1, math.inf), (2, -math.inf)):
        broken = replace(items[place].metrics, cosine_similarity=value, max_absolute_error=value)
        items[place] = replace(items[place], metrics=broken)
    items[3] = Comparison("op3", TensorIO.OUTPUT, 0, reason=Reason.NO_DEVICE_DUMP)
    store.save_run(replace(data, comparisons=tuple(items)))
    assert [same(item) for item in store.comparisons("gaps")] == [same(item) for item in items]
