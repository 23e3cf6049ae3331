"""The state of each op of a run whose errors were split."""

from __future__ import annotations

from dataclasses import replace

import pytest
from shaped_runs import chain_run

from divergraph.rootcause.verdicts import states
from graphstore.model import Comparison, ErrorSplit, Guilt, Level, Metric, OpState, Role
from graphstore.traverse.topological_order import graph_arrays

RUN = chain_run("run", "net", 6)
"""op0 to op5 in a row; op1, op3 and op5 were compared."""


def off(item: Comparison, level: Level, guilt: Guilt = Guilt.NONE, failure: str = "") -> Comparison:
    split = ErrorSplit(Role.CLEAN, guilt, 1.0, 0.1, None, 1.0, failure=failure)
    failed = (Metric.RELATIVE_EUCLIDEAN_DISTANCE,) if level is Level.FAIL else ()
    return replace(item, level=level, failed=failed, split=split)


def state_of(origins: tuple[str, ...] = (), **changed: Comparison) -> dict[str, OpState]:
    items = [changed.get(item.op, item) for item in RUN.comparisons]
    return states(graph_arrays(RUN.device), items, origins)


ITEMS = {item.op: item for item in RUN.comparisons}


@pytest.mark.parametrize("level", [Level.WARN, Level.FAIL])
def test_what_precision_explains_is_neither_drifting_nor_broken(level: Level) -> None:
    assert state_of(op3=off(ITEMS["op3"], level))["op3"] is OpState.EXPLAINED


@pytest.mark.parametrize("level", [Level.WARN, Level.FAIL])
def test_a_suspect_and_an_op_that_could_not_be_run_are_not_explained(level: Level) -> None:
    suspect = off(ITEMS["op3"], level, Guilt.SUSPECT)
    assert state_of(op3=suspect)["op3"] is OpState.DRIFTING
    unknown = off(ITEMS["op3"], level, failure="not run")
    assert state_of(op3=unknown)["op3"] is OpState.DRIFTING


def test_behind_an_origin_an_error_is_inherited_and_a_small_one_drifts() -> None:
    found = state_of(("op1",), op3=off(ITEMS["op3"], Level.FAIL), op5=off(ITEMS["op5"], Level.WARN))
    assert found["op1"] is OpState.ORIGIN
    assert found["op3"] is OpState.INHERITED
    assert found["op5"] is OpState.DRIFTING
