"""What is taken for the device's arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from calibrated import both_tests
from judged_output import Emulated, context

from divergraph.rootcause.arithmetic import candidates, finding, losses
from divergraph.rootcause.arithmetic.contract import FULL
from divergraph.rootcause.devices import quantised_ops
from divergraph.rootcause.devices.deciding import coarsest
from divergraph.rootcause.devices.dynamic_choice import scales_of
from divergraph.rootcause.devices.dynamic_scales import DYNAMIC_SCALES, DynamicScale
from divergraph.rootcause.devices.functions import find_functions
from divergraph.rootcause.devices.mixed_precision import DeclaredTypes
from divergraph.rootcause.devices.precision import fits_half, precision_of
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.devices.precisions.int8 import INT8
from divergraph.rootcause.devices.quantised_ops import QuantisedKind
from divergraph.rootcause.devices.quantisers import NO_QUANTISERS, Quantisers
from divergraph.rootcause.devices.tiles import told_tiles
from divergraph.rootcause.groups.group_runs import GroupSample
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.tolerances import other_arithmetic
from divergraph.rootcause.tolerances.contract import ToleranceEstimate
from divergraph.rootcause.tolerances.integers import quantised_steps
from graphstore.model import DType, Guilt, TensorRef

RNG = np.random.default_rng(7)
V = RNG.standard_normal(4000).astype(np.float32)
W = RNG.standard_normal(4000).astype(np.float32)
REF = TensorRef("op", 0)


def suspect() -> None:
    options = RootCauseOptions()
    assert options.guilt(5) is Guilt.NONE
    assert options.guilt(8) is Guilt.SUSPECT


def kept_largest() -> None:
    assert fits_half(np.array([5e3]))
    assert not fits_half(np.array([3e4]))


def precision_share() -> None:
    assert coarsest({FP16: 30, FP32: 70}) is FP16
    assert coarsest({FP16: 5, FP32: 95}) is FP32


def precision_values() -> None:
    rounded = FP16.rounded(V)
    assert precision_of(np.resize(rounded[:40], 400), DType.FLOAT32) is FP16
    assert precision_of(np.resize(rounded[:8], 400), DType.FLOAT32) is None


def trusts(agreeing: int) -> bool:
    kinds = {f"op{n}": DType.FLOAT16 if n < agreeing else DType.FLOAT32 for n in range(100)}
    outputs = {op: [SimpleNamespace(dtype=kind)] for op, kind in kinds.items()}
    device = SimpleNamespace(
        ops={op: SimpleNamespace(outputs=made) for op, made in outputs.items()}
    )
    compared = {TensorRef(op, 0): SimpleNamespace(device_dtype=DType.FLOAT16) for op in kinds}
    return DeclaredTypes.of(device, compared).is_declared


def declared_trusted() -> None:
    assert trusts(95)
    assert not trusts(50)


def common_loss(error: np.ndarray, count: int) -> losses.Loss | None:
    """What *count* ops with this error lose alike."""
    golden = SimpleNamespace(constants_read=lambda ops: frozenset())
    groups = (Group(TensorRef(f"op{number}", 0), REF, ("op",)) for number in range(count))
    samples = [replace(sample(error), group=group) for group in groups]
    return losses.common_loss(golden, samples)


def enough_ops() -> None:
    quantised_enough()
    assert common_loss(0.1 * W, 4) is not None
    assert common_loss(0.1 * W, 2) is None


class Off:
    """Floors whose emulation is *off* the reference."""

    precision = FP32

    def __init__(self, off: np.ndarray) -> None:
        self.off = off

    def emulated(self, groups, feeds):
        return [(V + self.off).astype(np.float64) for _ in groups]


class Samples(list):
    """Samples that can be gone through again."""

    def of(self, groups):
        return self

    @property
    def groups(self):
        return [each.group for each in self]


def sample(error: np.ndarray) -> GroupSample:
    group = Group(REF, REF, ("op",))
    return GroupSample(group, {}, V.astype(np.float64), V.astype(np.float64) + error)


def operands_rest() -> None:
    assert finding.are_shown([0.3, 0.3, 0.9], 2)
    assert not finding.are_shown([0.9, 0.9, 0.9], 2)


def most_lost() -> None:
    assert common_loss(0.1 * W, 4) is not None
    assert common_loss(0.9 * W, 4) is None


def operands_alike() -> None:
    def likely(cosine: float) -> bool:
        """Whether sums are whose errors are so much like those of a product."""
        product = SimpleNamespace(sums_agreements=lambda kind, sums: [cosine] * len(sums))
        return bool(candidates._likely_sums([product], FULL))

    assert likely(0.6)
    assert not likely(0.1)


@dataclass
class ShortProduct(Emulated):
    """Emulates a product whose operands are rounded: its errors are V."""

    def emulated(self, groups: object, feeds: object) -> list[np.ndarray]:
        return [2 * V]


def operands_seen() -> None:
    known = context(FP32, kind="MatMul")
    floors = known.arithmetic
    short = ShortProduct(floors.executor, floors.golden, FP32, floors.memory)

    def seen(cosine: float) -> bool:
        """Whether errors so much like those of short operands are theirs, where no op has them."""
        device = V + cosine * V + math.sqrt(1 - cosine**2) * W
        estimate = ToleranceEstimate(V, device)
        return other_arithmetic._apply(replace(known, arithmetic=short), estimate) is not None

    assert seen(0.97)
    assert not seen(0.7)


def alike(cosine: float, values: int) -> bool:
    """Whether errors of this cosine in each of four channels are those of tiles."""
    one, other = (RNG.standard_normal((1, 4, values)) for _ in range(2))
    other -= one * np.sum(one * other, 2, keepdims=True) / np.sum(one**2, 2, keepdims=True)
    one, other = (each / np.linalg.norm(each, axis=2, keepdims=True) for each in (one, other))
    device = cosine * one + math.sqrt(1 - cosine**2) * other
    return told_tiles._alike(device, one, np.zeros_like(one)) is not None


def tiles_alike() -> None:
    assert alike(0.3, 10**5)
    assert not alike(0.03, 10**5)


def tiles_by_chance() -> None:
    assert alike(0.9, 100)
    assert not alike(0.2, 100)


def function_size(
    error: float, exact: float = 1e-7, precision=FP32, groups: int = 1
) -> float | None:
    """The size found for exponentials, in so many *groups*, that are all off by *error*."""
    golden = SimpleNamespace(ops={"op": SimpleNamespace(type="Exp", outputs=())})

    def floors(approximated) -> Off:
        off = Off(V * max(exact, *(each.size for each in approximated.values()), 0.0))
        off.precision = precision
        return off

    found = find_functions(
        golden,
        [Group(REF, REF, ("op",))],
        lambda _: Samples([sample(V * error)] * groups),
        floors,
    )
    return found["Exp"].size if found else None


def function_inexact() -> None:
    assert function_size(3e-3, exact=1e-3) is None  # further off than approximations are
    assert function_size(3.6e-6, exact=1.2e-6) is not None
    assert function_size(1.5e-6, exact=1.2e-6) is None


def function_fits() -> None:
    assert function_size(2.6e-6) == pytest.approx(2e-6)
    assert function_size(2.1e-5) == pytest.approx(1.6e-5)


def function_in_16_bits() -> None:
    unit = FP16.unit
    assert function_size(0.7 * unit, unit / 4, FP16) == pytest.approx(unit / 2)


def function_steps() -> None:
    assert function_size(5e-5) is not None
    assert function_size(1e-3) is None


def function_in_common() -> None:
    unit = FP16.unit
    assert function_size(5 * unit, unit / 4, FP16, groups=2) is None
    assert function_size(5 * unit, unit / 4, FP16, groups=3) == pytest.approx(4 * unit)
    assert function_size(20 * unit, unit / 4, FP16, groups=6) is None


def formula_alike() -> None:
    """Errors of a size and direction, where a formula gives those of *V*."""

    def found(cosine: float) -> bool:
        golden = SimpleNamespace(ops={"op": SimpleNamespace(type="Erf", outputs=())})
        other = W - V * float(np.vdot(V, W) / np.vdot(V, V))
        other *= float(np.linalg.norm(V) / np.linalg.norm(other))
        error = 1e-3 * (cosine * V + math.sqrt(1 - cosine**2) * other)

        def floors(approximated) -> Off:
            by_formula = any(each.formula for each in approximated.values())
            return Off(V * 1e-3 + W * 2e-4 if by_formula else V * 1e-7)

        one = Group(REF, REF, ("op",))
        return bool(find_functions(golden, [one], lambda _: Samples([sample(error)]), floors))

    assert found(0.95)
    assert not found(0.4)


def tiles_grow_alike() -> None:
    """Errors that grow over six places as those of tiles do, or half of them the other way."""
    grown = np.exp(np.tile(np.arange(6.0), 50))
    tiled = RNG.choice((-1.0, 1.0), (1, 8, 300)) * grown
    mixed = RNG.choice((-1.0, 1.0), (1, 8, 300)) * np.tile(np.exp([1, 0, 3, 2, 5, 4]), 50)
    right, steps = np.zeros_like(tiled), {2: 6}
    assert told_tiles._alike_by_place(tiled[:, ::-1], tiled, right, steps) is not None
    assert told_tiles._alike_by_place(mixed, tiled, right, steps) is None


def test_ops_agree_with_their_scales_up_to_half_the_suspect_limit() -> None:
    assert quantised_ops.are_exact([1, 1, 2])
    assert not quantised_ops.are_exact([8, 8, 8])


def quantised_enough() -> None:
    handed = {QuantisedKind.HANDED_ON: [1.0] * 4}
    few = quantised_ops._enough(QuantisedKind.INSIDE, handed | {QuantisedKind.INSIDE: [9.0] * 2})
    many = quantised_ops._enough(QuantisedKind.INSIDE, handed | {QuantisedKind.INSIDE: [9.0] * 5})
    assert len(few) == 6
    assert len(many) == 5


def quantised_most_off() -> None:
    assert quantised_ops.are_exact([1] * 8 + [9] * 2)
    assert not quantised_ops.are_exact([1] * 5 + [9] * 5)


def test_what_was_expected_to_be_zero_has_a_floor() -> None:
    quantised = SimpleNamespace(
        floors=SimpleNamespace(precision=FP32),
        kinds={QuantisedKind.INSIDE},
        kind=lambda group: QuantisedKind.INSIDE,
        expected=lambda *given: [SimpleNamespace(ratio=math.inf, value=V)],
        suspect=6.0,
    )
    told = ToleranceEstimate(V, V * np.float32(1.01), 1e-2, imitations=(V,))
    action = quantised_steps.TOLERANCE.apply(replace(context(INT8), quantised=quantised), told)
    assert 5e-10 < action.floor < 5e-9


@dataclass
class DynamicKernel:
    """Emulates the one scale it is right with as the device's values, and others as they come."""

    quantisers: Quantisers
    device: np.ndarray
    right: DynamicScale
    plain: bool = False

    def emulated(self, groups: object, feeds: object) -> list[np.ndarray]:
        is_right = self.quantisers.scales["op"] == self.right
        return [self.device if is_right else V + np.float32(1e-2) * RNG.permutation(W)]


def dynamic_scale(share: float) -> DynamicScale | None:
    """What is found where a *share* of the values is as emulated, the others as they were."""
    rounded = V + np.float32(1e-2) * W
    device = np.where(np.arange(V.size) < share * V.size, rounded, V)
    quantisers = replace(NO_QUANTISERS, dynamic=frozenset({"op"}))
    kernel = DynamicKernel(quantisers, rounded, DYNAMIC_SCALES[2])
    group = Group(REF, REF, ("op",))
    ran = [GroupSample(group, {}, V, device)]
    return scales_of(lambda groups: ran, [group], kernel).get("op")


def dynamic_alike() -> None:
    assert dynamic_scale(0.9) == DYNAMIC_SCALES[2]
    assert dynamic_scale(0.6) is None


CASES: dict[str, Callable[[], None]] = {
    "PRECISION_SHARE": precision_share,
    "PRECISION_VALUES": precision_values,
    "KEPT_LARGEST": kept_largest,
    "DECLARED_TRUSTED": declared_trusted,
    "ENOUGH_OPS": enough_ops,
    "OPERANDS_ALIKE": operands_alike,
    "OPERANDS_REST": operands_rest,
    "MOST_LOST": most_lost,
    "OPERANDS_SEEN": operands_seen,
    "TILES_ALIKE": tiles_alike,
    "TILES_BY_CHANCE": tiles_by_chance,
    "TILES_GROW_ALIKE": tiles_grow_alike,
    "FORMULA_ALIKE": formula_alike,
    "FUNCTION_INEXACT": function_inexact,
    "FUNCTION_FITS": function_fits,
    "FUNCTION_SMALLEST": function_fits,
    "FUNCTION_SMALLEST_16_BIT": function_in_16_bits,
    "FUNCTION_STEPS": function_steps,
    "FUNCTION_STEPS_IN_COMMON": function_in_common,
    "DYNAMIC_ALIKE": dynamic_alike,
    "QUANTISED_MOST_OFF": quantised_most_off,
}

test_the_number_decides, test_a_wrong_one_is_noticed = both_tests(CASES)
