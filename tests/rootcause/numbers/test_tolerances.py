"""What tolerances let pass, and what a norm hides."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from calibrated import both_tests
from judged_output import context

from divergraph.rootcause.devices.precision import fits_half
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.tolerances import flushed, gains, local_errors, lone_slices, pre_rounding
from divergraph.rootcause.tolerances.contract import ToleranceEstimate
from divergraph.rootcause.tolerances.exact_ops import outside
from divergraph.rootcause.tolerances.masks import (
    past_the_end,
    sentinel_values,
    standing_for_infinity,
)
from divergraph.rootcause.tolerances.slices import departing_suspicion, lone_slice, slice_suspicion
from divergraph.rootcause.tolerances.standing_out import limit_of, standing_out
from divergraph.rootcause.values import relative
from graphstore.model import TensorRef

RNG = np.random.default_rng(7)
V = RNG.standard_normal(4000).astype(np.float32)
W = RNG.standard_normal(4000).astype(np.float32)


def mask_values() -> None:
    def numbers(count: int) -> int:
        return len(sentinel_values(-1e9 - 1e6 * np.arange(count), 65504.0))

    assert numbers(3) == 3
    assert numbers(10) == 0


def stands(reference: float, device: float = -65504.0) -> bool:
    mask = standing_for_infinity(np.array([reference]), np.array([device]), (-1e9,), 65504.0)
    return mask is not None and bool(mask.held[0])


def test_what_is_added_to_a_mask_leaves_it_one() -> None:
    assert stands(-0.997e9)
    assert not stands(-0.95e9)


def mask_least() -> None:
    assert stands(-1e9, -1e4)
    assert not stands(-1e9, -5e3)


def mask_scaled() -> None:
    def scaled(by: float) -> bool:
        reference, device = np.array([-1e9 * by]), np.array([-np.inf])
        return past_the_end(reference, device, (), (-1e9,), 65504.0) is not None

    assert scaled(8)
    assert not scaled(50)


def draws(ops: int, size: int) -> float:
    known = context(ops=ops)
    known.arithmetic.drawn = [V[:size]] * 200
    told = ToleranceEstimate(V[:size], V[:size], 1e-4)
    return pre_rounding.TOLERANCE.apply(known, told).numbers["draws"]


def rounded_draws() -> None:
    assert 4 <= draws(3, 200) <= 16


def few_values() -> None:
    assert draws(1, 30) > 1
    assert draws(1, 200) == 1


def flushes(share: float) -> bool:
    """Whether a number set to zero that is *share* of the output's norm is left out."""
    reference = np.full(1000, 5e-5 / share / math.sqrt(999))
    reference[0] = 5e-5
    device = FP16.rounded(np.where(reference == 5e-5, 0, reference).astype(np.float32))
    told = ToleranceEstimate(reference, device, 1e-4)
    return flushed.TOLERANCE.apply(context(), told) is not None


def test_small_numbers_are_no_great_loss() -> None:
    assert flushes(0.003)
    assert not flushes(0.05)


def converted_least() -> None:
    assert fits_half(np.array([3e-7]))
    assert not fits_half(np.array([3e-8]))


def part_least_values() -> None:
    def local(size: int) -> float:
        noise = local_errors.Noise((FP16.rounded(V[:size]),), FP16)
        return local_errors.local_suspicion(V[:size], V[:size] * np.float32(1.5), noise)

    assert local(50) > 0
    assert local(20) == 0


def parts(small: float, large: float, counts=(100, 100)) -> int:
    right = np.concatenate([np.full(counts[0], small), np.full(counts[1], large)])
    return len(set(local_errors._by_size(right).tolist()))


def part_bits() -> None:
    assert parts(0.6, 3.0) == 1
    assert parts(0.6, 100.0) == 2


def part_values() -> None:
    assert parts(0.6, 1000.0, (100, 50)) == 2
    assert parts(0.6, 1000.0, (100, 10)) == 1


def part_unsure() -> None:
    zeros, off = np.zeros(100, np.intp), np.full(100, 1e-3)
    assert 1 < local_errors._of_parts(zeros, np.ones(100), off, 8 * off, 1e-9) < 4


def slices(rows: int, columns: int) -> float:
    exact = np.ones((rows, columns), np.float32)
    device = exact.copy()
    device[0] += np.float32(0.1)
    device[1:] += np.float32(0.001)
    return slice_suspicion(exact, device, [exact + np.float32(0.001)], 1e-9, 0.0)


def slices_least() -> None:
    assert slices(20, 5) > 10
    assert slices(6, 7) == 0


def uneven(width: int, spread: float) -> float:
    """The suspicion of one slice of 100 that is far off, where the others differ by chance."""
    draws = np.random.default_rng(3)
    exact = np.ones((100, width), np.float32)
    noise = np.exp(draws.normal(0, spread, (100, 1))).astype(np.float32) * np.float32(1e-3)
    device = exact + noise
    device[0] += np.float32(0.1)
    return slice_suspicion(exact, device, [exact + np.float32(1e-3)], 1e-9, 0.0)


def slice_least_values() -> None:
    assert uneven(7, 1.5) > 10
    assert uneven(2, 1.5) == 0


def slices_alike() -> None:
    assert uneven(2, 0.1) > 10
    assert uneven(2, 0.6) == 0


def slices_repeated() -> None:
    exact = RNG.uniform(1, 2, (20, 40)).astype(np.float32)
    imitated = np.rint(exact * 8) / 8
    for others, seen in ((2, True), (10, False)):
        device = imitated.copy()
        device[:others] = exact[:others]
        device[0] += 4
        found = departing_suspicion(exact[:, :1], device[:, :1], imitated[:, :1], 1e-7, 0.0, 0.0)
        assert (found is not None) is seen


def standing_out_ops() -> None:
    assert math.isinf(limit_of([1.0] * 30))
    assert math.isfinite(limit_of([1.0] * 100))


def false_alarms() -> None:
    falling = [math.exp(0.3 * math.log(400 / rank)) for rank in range(1, 401)]
    assert 9 < limit_of(falling) / 4**0.3 < 30


def standing_out_peers() -> None:
    worst = {TensorRef(f"add{n}", 0): 1.0 for n in range(40)}
    worst |= {TensorRef(f"mul{n}", 0): 1.0 for n in range(2)}
    types = {**dict.fromkeys(worst, "Add"), TensorRef("div0", 0): "Div"}
    types |= {TensorRef(f"mul{n}", 0): "Mul" for n in range(3)}
    types[TensorRef("div1", 0)] = "Div"
    for name, guilty in (("mul2", True), ("div1", False)):
        every = {**worst, TensorRef("div0", 0): 1.0, TensorRef(name, 0): 7.0}
        (suspicion,) = standing_out(every, RootCauseOptions(), types.__getitem__).values()
        assert (suspicion > 10.0) is guilty


def off(count: int, outside_by: int) -> float:
    errors = np.zeros(count)
    errors[:outside_by] = 1.2
    return outside(errors, np.zeros(count), np.ones(count), 300)


def outside_chance() -> None:
    assert off(1776, 4) >= 1.0
    assert off(177_600, 8) == 0.0


def slices_with_one(distance: float) -> tuple[np.ndarray, ...]:
    """64 slices of 64, an imitation of them, and a device with one further off than the others."""
    exact = RNG.standard_normal((64, 64))
    noise = 1e-3 * RNG.choice([-1.0, 1.0], (2, 64, 64)) * np.abs(exact)
    noise[0, 5] *= distance
    return exact, exact + noise[0], exact + noise[1]


def lone(distance: float) -> float:
    exact, device, imitated = slices_with_one(distance)
    return lone_slice(exact, device, [imitated], 1e-4, 0.0)


def lone_sigma() -> None:
    assert 10 < lone(14.0) < 20
    assert lone(1.45) == 0.0


def lone_ratio() -> None:
    for distance, acts in ((7.0, True), (3.0, False)):
        exact, device, imitated = (x.astype(np.float32) for x in slices_with_one(distance))
        known = context(FP16)
        found = lone_slices.TOLERANCE.apply(
            known, ToleranceEstimate(exact, device, 1.0, imitations=(imitated,))
        )
        assert (found is not None) is acts


def test_no_op_of_a_healthy_size_stands_out() -> None:
    assert 1 < limit_of([1.0] * 100) < 6


def peak_values() -> None:
    def peak(count: int) -> float:
        ratios = np.zeros(1000)
        ratios[:count] = 100
        return local_errors._peak(ratios)

    assert peak(2) < 1
    assert peak(6) > 6


def peak_unsure() -> None:
    assert 2 < local_errors._peak(np.full(10, 40.0)) < 10


def usual_steps() -> None:
    off = np.full(100, 1e-3)
    off[:20] = 1.0
    assert local_errors._usual(off) > 0.9


def gain_floor(device, emulated=V, floor: float = 0.1) -> float:
    told = ToleranceEstimate(V, device, floor, imitations=(emulated,))
    return gains.gain_floor(told, FP16, 1)


def gain_share() -> None:
    along, aside = V * np.float32(0.01), W * np.float32(0.01)
    assert gain_floor(V + along + aside * np.float32(0.5)) < 0.1
    assert gain_floor(V + along * np.float32(0.3) + aside) == 0.1


def gain_by_chance() -> None:
    chance = 0.1 * math.sqrt(float(np.sum(V.astype(np.float64) ** 4))) / float(np.sum(V * V))
    assert 2 < gain_floor(V * np.float32(1.05)) / chance < 5


def gain_emulated() -> None:
    assert 0.015 < gain_floor(V * np.float32(1.05), V * np.float32(1.01)) < 0.03


class Runner:
    """Runs a group of one value inside: it is what the group gives, and what was fed is kept."""

    def __init__(self) -> None:
        self.fed: list[np.ndarray] = []

    def run_subgraphs(self, subgraphs, given, memory):
        for each in subgraphs:
            values = given(each)
            self.fed += [values["h"]] if "h" in values else []
            yield SimpleNamespace(key=each.key, values={"h": V, "y": values.get("h", V)})


def inside(ratio: float) -> list[np.ndarray]:
    """What is tried inside of a group whose error is *ratio* times its floor."""
    runner = Runner()
    op = SimpleNamespace(outputs=[SimpleNamespace(name="h")])
    golden = SimpleNamespace(
        name=lambda ref: "y",
        ops=dict.fromkeys(("op0", "op"), op),
        inputs=lambda op: [SimpleNamespace(tensor="h")],
    )
    known = replace(context(ops=2), executor=runner, golden=golden)
    told = ToleranceEstimate(V, V * np.float32(1 + 1e-3 * ratio), 1e-3, imitations=(V,))
    gains._inner(known, told, 1e-3)
    return runner.fed


def gain_tried() -> None:
    assert 0.005 < relative(inside(4)[0], V) < 0.05


def gain_asked() -> None:
    assert inside(4)
    assert not inside(1)


CASES: dict[str, Callable[[], None]] = {
    "MASK_VALUES": mask_values,
    "MASK_SCALED": mask_scaled,
    "MASK_LEAST": mask_least,
    "ROUNDED_DRAWS": rounded_draws,
    "FEW_VALUES": few_values,
    "CONVERTED_LEAST": converted_least,
    "PART_LEAST_VALUES": part_least_values,
    "PART_BITS": part_bits,
    "PART_VALUES": part_values,
    "PART_UNSURE": part_unsure,
    "SLICES_LEAST": slices_least,
    "SLICE_LEAST_VALUES": slice_least_values,
    "SLICES_ALIKE": slices_alike,
    "SLICES_REPEATED": slices_repeated,
    "STANDING_OUT_OPS": standing_out_ops,
    "FALSE_ALARMS": false_alarms,
    "STANDING_OUT_PEERS": standing_out_peers,
    "OUTSIDE_CHANCE": outside_chance,
    "LONE_SIGMA": lone_sigma,
    "LONE_RATIO": lone_ratio,
    "PEAK_VALUES": peak_values,
    "PEAK_UNSURE": peak_unsure,
    "USUAL_STEPS": usual_steps,
    "GAIN_SHARE": gain_share,
    "GAIN_BY_CHANCE": gain_by_chance,
    "GAIN_EMULATED": gain_emulated,
    "GAIN_TRIED": gain_tried,
    "HEALTHY_SHARE": gain_asked,
}

test_the_number_decides, test_a_wrong_one_is_noticed = both_tests(CASES)
