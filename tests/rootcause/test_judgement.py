"""The judgement of one output, step by step, and each tolerance by itself."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from judged_output import context, judged, split_by

from divergraph.rootcause import fallback
from divergraph.rootcause.devices.precisions.bf16 import BF16
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.devices.precisions.int8 import INT8
from divergraph.rootcause.devices.quantisers import Quantisers
from divergraph.rootcause.judgement import unknown
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.tolerances.contract import ToleranceEstimate
from divergraph.rootcause.tolerances.gains import gain_floor
from divergraph.rootcause.tolerances.masks import (
    Mask,
    past_the_end,
    sentinel_values,
    stands_for_infinity,
    without,
)
from divergraph.rootcause.tolerances.noise_floor import floor_of, least_floor
from divergraph.rootcause.values import relative
from graphstore.errors import InputError
from graphstore.model import Effect, ErrorSplit, Guilt, Role, TensorRef

RNG = np.random.default_rng(11)
V = RNG.standard_normal(4000).astype(np.float32)
W = RNG.standard_normal(4000).astype(np.float32)
H = FP16.rounded(V)
UNIT = 2.0**-11


def acted(found, name: str):
    """What a tolerance did to a judgement; None if nothing."""
    return next((each for each in found.adjustments if each.tolerance == name), None)


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
    assert found.told.floor == least_floor(FP16, V.size)
    off = V + np.float32(0.05) * W
    found, _ = judged(off, V, off)
    assert found.told.floor == pytest.approx(relative(off, V))
    no_emulation, _ = judged(V, V, V[:10])
    assert no_emulation.told.floor == floor_of(V, None, FP16, 1) > 8 * least_floor(FP16, V.size)
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


def test_masks_are_left_out_however_they_are_held() -> None:
    reference = V.copy()
    reference[:900] = -1e9
    known = context()
    known.arithmetic.numbers = (-1e9,)
    for held in (-65504.0, -1e4, -np.inf):
        device = FP16.rounded(reference)
        device[:900] = held
        emulation = FP16.rounded(reference)
        found, split = judged(device, reference, emulation, known=known)
        assert split.guilt is Guilt.NONE, held
        mask = acted(found, "beyond the type")
        assert mask.effect is Effect.EXCLUDE
        assert mask.numbers == {"held": 900, "missed": 0, "overflown": 0}
    device[:900] = 0.0
    found, split = judged(device, reference, emulation, known=known)
    assert split.guilt is Guilt.GUILTY
    assert acted(found, "beyond the type").numbers == {"held": 0, "missed": 900, "overflown": 0}
    in_32_bits = context(FP32)
    in_32_bits.arithmetic.numbers = (-1e9,)
    found, _ = judged(reference, reference, reference, known=in_32_bits)
    assert acted(found, "beyond the type") is None


def test_a_mask_makes_zeros_where_it_is_held_and_the_end_of_the_type_where_not() -> None:
    mask = Mask(np.array([True, False, False]), np.array([False, True, False]), 100.0)
    assert without(mask, np.array([-1e9, -1e9, -1e9])).tolist() == [0.0, -100.0, -1e9]
    held = Mask(np.array([True, False]), np.array([False, False]), 100.0)
    assert without(held, np.array([-1e9, -1e9])).tolist() == [0.0, -1e9]


def test_only_a_large_number_that_stands_over_and_over_is_told_as_infinity() -> None:
    assert stands_for_infinity(np.array([1.0, -1e4, -1e4])).tolist() == [False, True, True]
    for plain in ([1.0, -1e4], [1.0, 1.0], [np.inf, np.inf], []):
        assert stands_for_infinity(np.array(plain)) is None


def test_constants_too_small_for_the_type_may_be_raised() -> None:
    small = np.full(200, 3e-7, np.float32)
    device = small + np.float32(1e-7)
    found, constant = judged(FP16.rounded(device), small, small, known=context(fed=False))
    assert constant.guilt is Guilt.NONE
    assert acted(found, "small numbers").after > acted(found, "small numbers").before


def quantising(hidden: bool, owns: tuple[str, ...] = ()):
    known = context(INT8)
    known.arithmetic.quantisers = Quantisers({"w": None}, frozenset())
    op = SimpleNamespace(owns=owns, type="If")
    return replace(known, hidden_bodies=hidden, golden=SimpleNamespace(ops={"op": op}))


def test_bodies_nobody_sees_may_quantise() -> None:
    for hidden, owns, emulation, widened in (
        (True, ("then",), V, True),
        (True, (), V, False),
        (False, ("then",), V, False),
        (False, (), None, True),
    ):
        found, _ = judged(V, V, emulation, known=quantising(hidden, owns))
        assert (acted(found, "unseen scales") is not None) is widened
        assert (found.told.unseen > 0) is widened
    found, _ = judged(V, V, None, known=context(INT8))
    assert acted(found, "unseen scales") is None


def test_kernels_in_integers_add_up_like_chance() -> None:
    one, _ = judged(V, V, V, known=context(INT8, integers=True))
    four, _ = judged(V, V, V, known=context(INT8, integers=True, ops=4))
    assert four.told.floor == pytest.approx(2 * one.told.floor)
    assert acted(one, "unseen scales").numbers == {"ops": 1}


def test_an_overflow_of_the_type_excuses_only_the_same_places() -> None:
    emulation = H.copy()
    emulation[:3] = np.inf
    found, split = judged(emulation, V, emulation)
    assert split.guilt is Guilt.NONE
    assert acted(found, "beyond the type").numbers["overflown"] == 3
    other = H.copy()
    other[10:13] = np.inf
    _, split = judged(other, V, emulation)
    assert split.guilt is Guilt.GUILTY
    finite, _ = judged(H, V, emulation)
    assert acted(finite, "beyond the type") is None


def test_an_emulation_that_is_infinite_everywhere_explains_anything() -> None:
    assert floor_of(V, np.full_like(V, np.inf), FP16, 1) == pytest.approx(1.0)
    some = V.copy()
    some[:40] = np.inf
    assert floor_of(V, some, FP16, 1) == pytest.approx(0.1)


def test_values_before_they_were_rounded_explain_what_cancels() -> None:
    error = np.float32(0.05) * W
    known = context()
    known.arithmetic.draws = [V - error, V - 2 * error]
    found, split = judged(V + error, V, H, known=known)
    assert split.guilt is Guilt.NONE
    widened = acted(found, "pre-rounding perturbation")
    assert widened.after == pytest.approx(0.05, rel=0.1)
    assert widened.numbers == {"draws": 1}
    _, split = judged(V + error, V, H)
    assert split.guilt is Guilt.GUILTY


def test_of_several_draws_the_widest_counts() -> None:
    known = context(ops=2)
    known.arithmetic.draws = [V + np.float32(by) * W for by in (0.01, 0.03, 0.02)]
    found, _ = judged(V + np.float32(0.05) * W, V, H, known=known)
    assert acted(found, "pre-rounding perturbation").after == pytest.approx(0.03, rel=0.1)
    assert len(found.told.imitations) == 3  # the emulation, and the two that explain more


def test_below_the_smallest_normal_number_few_bits_are_kept() -> None:
    small = (V * np.float32(1e-6)).astype(np.float32)
    device = FP16.rounded(small + np.float32(8e-8))
    found, split = judged(device, small, small)
    assert split.guilt is Guilt.NONE
    assert acted(found, "small numbers").numbers["spacing"] == pytest.approx(1e-7)
    finer = small + np.float32(1.1e-8) * np.sign(W)  # held in more bits than float16 has
    found, split = judged(finer.astype(np.float32), small, small)
    assert split.guilt is not Guilt.NONE
    assert acted(found, "small numbers").numbers["spacing"] < 1e-37


def test_weights_raised_to_the_least_kept_are_clamped() -> None:
    dead = np.full(400, 1e-20, np.float32)
    device = FP16.rounded(np.full(400, 2e-6, np.float32))
    known = context()
    assert judged(device, dead, dead, known=known)[1].guilt is Guilt.GUILTY
    known.arithmetic.clamped = device
    found, split = judged(device, dead, dead, known=known)
    assert split.guilt is Guilt.NONE
    assert acted(found, "small numbers").numbers["norm"] == pytest.approx(4e-5, rel=0.1)
    known.arithmetic.clamped = np.full(400, 1.0, np.float32)  # not among small numbers
    assert judged(device, dead, dead, known=known)[1].guilt is Guilt.GUILTY


def test_flushed_numbers_are_left_out() -> None:
    reference = np.full(4000, 1e-3, np.float32)
    reference[:200] = 3e-5
    device = FP16.rounded(reference)
    device[:200] = 0
    found, split = judged(device, reference, FP16.rounded(reference))
    assert split.guilt is Guilt.NONE
    assert acted(found, "flushed subnormals").numbers == {"places": 200}
    device[200:210] = 0  # normal numbers are not flushed
    found, split = judged(device, reference, FP16.rounded(reference))
    assert split.guilt is Guilt.GUILTY


def test_a_part_that_is_wrong_beside_large_values_is_guilty() -> None:
    wide = np.concatenate([V[:3000], np.full(1000, -1e4, np.float32)])
    device = FP16.rounded(wide)
    device[:100] = 0
    emulation = wide * np.float32(1.0002)
    found, split = judged(device, wide, emulation)
    assert split.guilt is Guilt.GUILTY
    narrowed = acted(found, "local error")
    assert narrowed.effect is Effect.NARROW
    assert narrowed.after < narrowed.before / 3


def test_a_gain_in_half_precision_is_seen_below_the_floor() -> None:
    found, split = judged(H * np.float32(1.004), V, H)
    assert split.guilt is Guilt.GUILTY
    assert acted(found, "gain").effect is Effect.NARROW
    found, split = judged(H * np.float32(1.004), V, H, known=context(INT8, integers=True))
    assert acted(found, "gain") is None
    off = V + np.float32(1e-3) * W
    found, _ = judged(V * np.float32(1.0005), V, off, known=context(FP32))
    assert acted(found, "gain") is None
    found, _ = judged(H * np.float32(1.004), V, None)  # what cannot run is not known so well
    assert acted(found, "gain") is None


def test_suspicion_is_bounded_by_the_last_place() -> None:
    right = np.zeros(4000, np.float32)
    right[:40] = 1.0
    device = right.copy()
    device[40:] = 1e-9
    found, split = judged(device, right, right, known=context(FP32))
    assert split.suspicion <= 10.0
    tiny = np.full(64, 1e-6, np.float64)
    emulated = tiny * (1 + 1e-9)
    found, split = judged(tiny + 1e-12, tiny, emulated, known=context(FP32, inputs_error=0.5))
    bounded = acted(found, "last place")
    if bounded is not None:
        assert split.suspicion == bounded.numbers["most_suspicion"]


def test_an_error_of_one_unit_is_at_most_suspect_whatever_the_floor() -> None:
    right = np.ones(4000)
    right[40:] = 1e-5
    device = right.copy()
    device[40:] += 2e-9 * np.sign(W[40:])
    found, split = judged(device, right, right, known=context(FP32, inputs_error=0.5))
    assert acted(found, "last place").effect is Effect.WIDEN
    assert split.suspicion == 10.0
    assert split.guilt is Guilt.SUSPECT
    assert split.introduced / split.floor == pytest.approx(10.0)


def test_other_numbers_than_floats_are_measured_without_tolerances_of_rounding() -> None:
    whole = np.arange(400)
    found, split = judged(whole + 1, whole, whole)
    assert split.introduced > 0
    assert {each.tolerance for each in found.adjustments} <= {"last place", "local error"}


def test_in_bfloat16_a_gain_of_1_percent_is_no_rounding() -> None:
    rounded = BF16.rounded(V)
    _, healthy = judged(rounded, V, rounded, known=context(BF16))
    assert healthy.guilt is Guilt.NONE
    _, wrong = judged(rounded * np.float32(1.04), V, rounded, known=context(BF16))
    assert wrong.guilt is Guilt.GUILTY


@pytest.mark.parametrize(
    ("error", "before", "guilt"),
    [(0.5, 0.0, Guilt.GUILTY), (0.5, math.nan, Guilt.GUILTY), (0.5, 0.4, Guilt.NONE)],
)
def test_what_cannot_be_run_is_judged_by_its_gain(error, before, guilt) -> None:
    assert fallback._guilt(fallback._gain(error, before)) is guilt


@pytest.mark.parametrize(
    ("error", "nonfinite", "found"), [(0.5, 3, 0.5), (math.nan, 3, math.inf), (math.nan, 0, None)]
)
def test_an_error_that_is_no_number_is_infinite_if_the_device_broke(error, nonfinite, found):
    metrics = SimpleNamespace(relative_euclidean_distance=error, device_nonfinite=nonfinite)
    told = fallback._error(SimpleNamespace(metrics=metrics))
    assert math.isnan(told) if found is None else told == found


def test_of_zeros_the_last_place_is_that_of_what_was_handed() -> None:
    zeros = np.zeros(64)
    known = context(FP32, given={"x": np.ones(64)})
    found, split = judged(zeros + 1e-9, zeros, zeros, known=known)
    assert split.suspicion == 10.0
    assert acted(found, "last place").numbers == {"most_suspicion": 10.0}


@pytest.mark.parametrize("emulation", [H[:10], np.ones(4000, np.int32)])
def test_without_an_emulation_like_it_an_error_is_no_gain(emulation) -> None:
    told = ToleranceEstimate(V, V * np.float32(1.004), 1e-3, imitations=(emulation,))
    assert gain_floor(told, FP16, 1) == 1e-3


def test_integers_and_what_the_type_holds_stand_for_nothing() -> None:
    assert sentinel_values(np.array([-1e9, 1.0]), 65504.0) == (-1e9,)
    for other in (np.array([-(10**9)]), np.array([6e4]), np.array([]), np.array([np.inf])):
        assert sentinel_values(other, 65504.0) == ()


def test_what_is_scaled_past_the_end_is_infinite_only_where_it_stood_for_infinity() -> None:
    reference, device = np.array([-8e4, 1.0]), np.array([-np.inf, 1.0])

    def held(given: np.ndarray) -> bool:
        return past_the_end(reference, device, [given], (), 65504.0) is not None

    assert held(np.array([-65504.0, 1.0]))
    assert not held(np.array([-5e4, 1.0]))
    assert not held(np.array([-65504, 1]))  # integers are no mask
    assert not held(np.array([[-65504.0, 1.0]]))


def test_splits_name_what_ran_the_reference() -> None:
    _, split = judged(H, V, H)
    assert isinstance(split, ErrorSplit)
    assert split.reference == "test"
    assert split.group == ("op",)
    assert TensorRef("op", 0) == context().group.output
