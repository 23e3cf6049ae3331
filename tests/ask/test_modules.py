"""The parts of a model the overview lists: their names, and what is worst in them."""

from __future__ import annotations

import math

from divergraph.ask.overview_answers import modules_of
from graphstore.model import MetricSet, OpState, Side
from graphstore.op_row import OpRow
from tests.made.op_columns import columns_of


def row(name: str, cosine: float, state: OpState, nonfinite: int = 0) -> OpRow:
    metrics = MetricSet(
        cosine, 0.1, 0.1, 0.2, 0.1, (0, 1, 0, 1), 0.1, 0.1, 0.1, 0.1, 8, device_nonfinite=nonfinite
    )
    return OpRow(
        0, name, name, "Add", Side.DEVICE, "", "", None, "", 1, (), state, metrics=metrics
    )  # fmt: skip


def test_ops_right_below_the_root_are_in_no_module():
    rows = [row(f"/{part}/add", 0.9, OpState.CLEAN) for part in "abc"]
    modules = modules_of(columns_of([*rows, row("/pool", 0.5, OpState.INHERITED)]))
    assert [module.name for module in modules] == ["/a", "/b", "/c"]


def test_nan_is_the_worst_cosine_of_a_module():
    rows = [row(f"{part}/add", 0.999, OpState.CLEAN) for part in "abc"]
    broken = [
        row("b/exp", math.nan, OpState.ORIGIN, nonfinite=2),
        row("c/exp", math.nan, OpState.CLEAN),  # the golden side's are the same
    ]
    modules = modules_of(columns_of([*rows, *broken]))
    worst = {module.name: module.worst_cosine for module in modules}
    assert math.isnan(worst["b"])
    assert (worst["a"], worst["c"]) == (0.999, 0.999)
