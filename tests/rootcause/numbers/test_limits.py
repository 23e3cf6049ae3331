"""Limits of suspicion, of roles and of what matters at all."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from calibrated import both_tests
from judged_output import context, judged, split_by

from divergraph.rootcause import fallback, run
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.graph_inputs import entry_mismatches
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.prepared import PreparedRun
from divergraph.rootcause.tolerances.last_place import most_suspicion
from graphstore.model import ErrorSplit, Guilt, Role, TensorRef

RNG = np.random.default_rng(7)
V = RNG.standard_normal(4000).astype(np.float32)
ONES = np.ones(64)
REF = TensorRef("op", 0)
HALF = 2.0**-11


def suspect() -> None:
    options = RootCauseOptions()
    assert options.guilt(5) is Guilt.NONE
    assert options.guilt(8) is Guilt.SUSPECT
    assert mismatches(3 * HALF) == 0
    assert mismatches(20 * HALF) == 1


def guilty() -> None:
    assert RootCauseOptions().guilt(8) is Guilt.SUSPECT
    assert RootCauseOptions().guilt(12) is Guilt.GUILTY


def role(amplification: float) -> Role:
    """Of an op that hands on an error of 10 %, so many times as large."""
    reference = V * np.float32(1 + 0.1 * amplification)
    return split_by(reference, reference, V, 1e-4, context(inputs_error=0.1)).role


def amplifies() -> None:
    assert role(3) is Role.AMPLIFIES
    assert role(1.2) is role(0.9) is Role.CARRIES
    assert role(0.3) is Role.ATTENUATES


def most_of_all() -> None:
    _, split = judged(np.full(64, 1e30), np.full(64, 1e-30), known=context(FP32))
    assert split.suspicion == pytest.approx(1e9)


def most(off: float, precision=FP32, before: float = 0.0) -> float:
    """The bound of suspicion where one of many values of size 1 is *off*."""
    device = ONES.copy()
    device[3] += off
    return most_suspicion(device, ONES, (), before, precision, 10.0)


def far_below() -> None:
    assert most(4e-6, before=1.0) == 10.0
    assert most(4e-5, before=1.0) > 10.0


def test_what_cannot_be_run_is_judged_by_its_gain() -> None:
    assert fallback._guilt(2) is Guilt.NONE
    assert fallback._guilt(5) is fallback._guilt(8) is Guilt.SUSPECT
    assert fallback._guilt(12) is Guilt.GUILTY


def changed(error: float) -> bool:
    """Whether a constant that is so far off golden's is the device's own doing."""
    metrics = SimpleNamespace(relative_euclidean_distance=error)
    prepared = PreparedRun(
        inputs=None,
        executor=None,
        options=None,
        golden=SimpleNamespace(
            is_constant=lambda op: True, ops={REF.op: SimpleNamespace(inputs=())}
        ),
        device=None,
        values=SimpleNamespace(golden=lambda ref: V),
        compared={REF: SimpleNamespace(golden=REF, metrics=metrics)},
        runs=None,
        quantisers=None,
    )
    return list(prepared._changed()) == [REF]


def same_constant() -> None:
    assert not changed(0.005)
    assert changed(0.05)


def mismatches(error: float) -> int:
    golden = SimpleNamespace(graph=SimpleNamespace(inputs=[SimpleNamespace(name="x")]))
    device = V * np.float32(1 + error)
    values = SimpleNamespace(device_input=lambda name: device, golden_input=lambda name: V)
    return len(list(entry_mismatches(golden, values, {}, HALF)))


def everywhere(count: int, judged_ones: int) -> bool:
    splits = {
        TensorRef("op", port): ErrorSplit(
            Role.CLEAN, Guilt.GUILTY if port < count else Guilt.NONE, suspicion=1.0
        )
        for port in range(judged_ones)
    }
    return bool(run.everywhere(SimpleNamespace(arithmetic="fp16"), splits))


def guilty_everywhere() -> None:
    assert everywhere(10, 20)
    assert not everywhere(4, 5)


def share_everywhere() -> None:
    assert everywhere(10, 20)
    assert not everywhere(7, 70)


CASES: dict[str, Callable[[], None]] = {
    "SUSPECT": suspect,
    "GUILTY": guilty,
    "AMPLIFIES": amplifies,
    "MOST_SUSPICION": most_of_all,
    "FAR_BELOW": far_below,
    "LEAST_LIMIT": far_below,
    "SAME_CONSTANT": same_constant,
    "GUILTY_EVERYWHERE": guilty_everywhere,
    "SHARE_EVERYWHERE": share_everywhere,
}

test_the_number_decides, test_a_wrong_one_is_noticed = both_tests(CASES)
