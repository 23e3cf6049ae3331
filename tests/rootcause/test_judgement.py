"""The judgement of one output, step by step; each tolerance has a file of its own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from judged_output import H, V, W, context, judged, split_by

from divergraph.rootcause.devices.floors import floor_of, least_floor
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.judgement import unknown
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.values import relative
from graphstore.errors import InputError
from graphstore.model import ErrorSplit, Guilt, Role, TensorRef

UNIT = 2.0**-11


def test_rounding_is_no_error_and_noise_of_2_percent_is_one() -> None:
    _, healthy = judged(H, V, H)
    assert healthy.guilt is Guilt.NONE
    assert healthy.suspicion == pytest.approx(1.0, abs=0.01)
    assert healthy.role is Role.CLEAN
    _, wrong = judged(H + np.float32(0.02) * W, V, H)
    assert wrong.guilt is Guilt.GUILTY
    assert wrong.role is Role.INTRODUCES
    assert wrong.introduced == pytest.approx(0.02, rel=0.1)
    assert wrong.suspicion == pytest.approx(wrong.introduced / wrong.floor)


def test_the_floor_is_the_emulation_or_the_least_rounding() -> None:
    found, _ = judged(V, V, V)
    assert found.estimate.floor == least_floor(FP16, V.size)
    off = V + np.float32(0.05) * W
    found, _ = judged(off, V, off)
    assert found.estimate.floor == pytest.approx(relative(off, V))
    no_emulation, _ = judged(V, V, V[:10])
    assert no_emulation.estimate.floor == floor_of(V, None, FP16, 1) > 8 * least_floor(FP16, V.size)
    assert floor_of(V, None, FP16, 8) > 1.5 * floor_of(V, None, FP16, 1)


@pytest.mark.parametrize(
    ("golden", "inputs_error", "role"),
    [
        (1.0, None, Role.CLEAN),
        (1.1, None, Role.CARRIES),
        (1.1, 0.1, Role.CARRIES),
        (1.1, 0.01, Role.AMPLIFIES),
        (1.1, 1.0, Role.ATTENUATES),
        (1.00001, 1.0, Role.ATTENUATES),
        (1.00001, 1e-5, Role.CLEAN),
        (1.0, 1.0, Role.CLEAN),
        (1.1, math.inf, Role.CARRIES),
        (1.1, 0.0, Role.CARRIES),
    ],
)
def test_roles_follow_from_what_is_propagated(golden, inputs_error, role) -> None:
    split = split_by(V, V, V * np.float64(golden), 1e-3, context(inputs_error=inputs_error))
    assert split.role is role
    assert split.guilt is Guilt.NONE


def test_guilt_is_above_the_limits_not_at_them() -> None:
    options = RootCauseOptions(2.0, 4.0)
    assert [options.guilt(each) for each in (2.0, 2.1, 4.0, 4.1)] == [
        Guilt.NONE,
        Guilt.SUSPECT,
        Guilt.SUSPECT,
        Guilt.GUILTY,
    ]
    assert RootCauseOptions(3.0, 3.0).guilt(3.5) is Guilt.GUILTY
    for suspect, guilty in ((0.0, 1.0), (2.0, 1.0)):
        with pytest.raises(InputError):
            RootCauseOptions(suspect, guilty)


def test_an_infinite_error_is_guilty_and_zeros_are_measured_absolutely() -> None:
    broken = V.copy()
    broken[5] = np.nan
    _, split = judged(broken, V, H)
    assert math.isinf(split.introduced)
    assert split.guilt is Guilt.GUILTY
    zeros = np.zeros(64, np.float32)
    _, exact = judged(zeros, zeros, zeros)
    assert exact.suspicion == 0.0
    known = context(given={"x": np.ones(64, np.float32)})
    _, tiny = judged(zeros + np.float32(2.0**-24), zeros, zeros, known=known)
    assert tiny.guilt is Guilt.NONE
    _, large = judged(zeros + np.float32(1.0), zeros, zeros, known=known)
    assert large.guilt is Guilt.GUILTY


def test_of_places_explained_away_nothing_is_propagated() -> None:
    reference = V.copy()
    reference[:5] = np.nan
    split = split_by(H, reference, V, 1e-3, context())
    assert split.propagated == 0.0
    device = H.copy()
    device[:5] = np.nan
    assert math.isinf(split_by(device, reference, V, 1e-3, context()).propagated)


def test_what_cannot_be_run_has_no_role() -> None:
    split = unknown("no kernel", ("a",), "runner")
    assert (split.role, split.failure, split.suspicion) == (Role.UNKNOWN, "no kernel", None)


def test_other_numbers_than_floats_are_measured_without_tolerances_of_rounding() -> None:
    whole = np.arange(400)
    found, split = judged(whole + 1, whole, whole)
    assert split.introduced > 0
    assert {each.tolerance for each in found.adjustments} <= {"last place", "local error"}


def test_splits_name_what_ran_the_reference() -> None:
    _, split = judged(H, V, H)
    assert isinstance(split, ErrorSplit)
    assert split.reference == "test"
    assert split.group == ("op",)
    assert TensorRef("op", 0) == context().group.output
