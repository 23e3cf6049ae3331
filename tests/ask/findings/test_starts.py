"""Origins by limits: ops that chose between near equals are none, what is off by more is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from divergraph.comparison import CompareRequest, compare
from divergraph.rootcause.options import MethodChoice
from divergraph.thresholds.starts import starts_by_limits
from divergraph.thresholds.verdicts import outputs_by_op
from graphstore.model import Level, Verdict
from graphstore.traverse.topological_order import graph_arrays

RANDOM = np.random.default_rng(7)
GOLDEN = RANDOM.standard_normal(4000, dtype=np.float32)
GOOD = GOLDEN.astype(np.float16)


def saturated(bad):
    """What Tanh gives of large values, *bad* of them near zero on one side only."""
    golden = np.sign(GOLDEN)
    device = golden.copy()
    device[:bad] = -0.2
    return device.astype(np.float16), golden


def starts(run):
    arrays = graph_arrays(run.device)
    return starts_by_limits(arrays, run.device, run.comparisons, outputs_by_op(run.comparisons))


CHAIN = (("g", "Mul", ()), ("t", "Tanh", ("g",)), ("r", "Mul", ("t",)))


def test_a_saturated_op_near_zero_is_no_origin(device_graph, run_of):
    pair = saturated(3)
    run = run_of(device_graph(*CHAIN), {"g": (GOOD, GOLDEN), "t": pair, "r": pair})
    found = starts(run)
    assert found.origins == ()
    assert "at either end" in found.choices["t"]
    assert run.run.verdict is Verdict.WITHIN_ROUNDING


def test_many_elements_are_no_choice(device_graph, run_of):
    pair = saturated(400)
    run = run_of(device_graph(*CHAIN), {"g": (GOOD, GOLDEN), "t": pair, "r": pair})
    assert starts(run).origins == ("t",)


def test_only_some_ops_saturate(device_graph, run_of):
    pair = saturated(3)
    ops = (("g", "Mul", ()), ("t", "Add", ("g",)))
    assert starts(run_of(device_graph(*ops), {"g": (GOOD, GOLDEN), "t": pair})).origins == ("t",)


def test_an_error_that_grows_after_a_choice_has_an_origin_there(device_graph, run_of):
    pair = saturated(3)
    run = run_of(device_graph(*CHAIN), {"g": (GOOD, GOLDEN), "t": pair, "r": (-GOOD, GOLDEN)})
    found = starts(run)
    assert found.origins == ("r",)
    assert found.grown == {"r"}
    assert run.run.verdict is Verdict.DIVERGED


def test_what_the_users_own_limit_fails_is_an_origin(device_graph, run_of):
    pair = saturated(3)
    run = run_of(device_graph(*CHAIN), {"g": (GOOD, GOLDEN), "t": pair, "r": (GOOD, GOLDEN)})
    own = tuple(
        replace(item, limit="types.Tanh: worst_error > 0.1") if item.op == "t" else item
        for item in run.comparisons
    )
    assert any(item.level is Level.FAIL for item in own)
    assert starts(replace(run, comparisons=own)).origins == ("t",)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("side", "verdict", "origins"),
    [
        ("npu_clean", Verdict.WITHIN_ROUNDING, []),
        ("npu_fault", Verdict.DIVERGED, ["LeNet/conv2/Conv2DRelu"]),
    ],
)
def test_lenet_by_limits_alone(lenet, side, verdict, origins):
    device = lenet / side
    found = compare(
        CompareRequest(
            lenet / "model.ckpt.meta",
            lenet / "golden",
            device / "graph",
            device / "dump",
            method=MethodChoice.THRESHOLDS,
        )
    )
    assert found.run.verdict is verdict
    assert [origin.op for origin in found.origins] == origins
    noted = [text for text in found.run.warnings if text.startswith("no origin: ")]
    assert len(noted) == (side == "npu_clean")
