"""Every number that decides a verdict: ten times more or less of it, and a case here goes wrong."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from judged_output import Emulated, context, judged, split_by

from divergraph.rootcause import calibration, fallback, run
from divergraph.rootcause.devices import arithmetic, operand_precision, quantised_ops
from divergraph.rootcause.devices.deciding import coarsest
from divergraph.rootcause.devices.functions import find_functions
from divergraph.rootcause.devices.mixed_precision import DeclaredTypes
from divergraph.rootcause.devices.operand_precision import Family, OperandEvidence, Operands
from divergraph.rootcause.devices.precision import fits_half, precision_of
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.devices.precisions.int8 import INT8
from divergraph.rootcause.devices.quantised_ops import QuantisedKind
from divergraph.rootcause.devices.quantisers import Quantisers
from divergraph.rootcause.graph_inputs import entry_mismatches
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.prepared import PreparedRun
from divergraph.rootcause.tolerances import gains, local_errors, pre_rounding, quantised_steps
from divergraph.rootcause.tolerances.contract import ToleranceEstimate
from divergraph.rootcause.tolerances.flushed import without_flushed
from divergraph.rootcause.tolerances.last_place import most_suspicion
from divergraph.rootcause.tolerances.masks import huge_values, past_the_end, standing_for_infinity
from divergraph.rootcause.tolerances.noise_floor import constant_floor, floor_of, least_floor
from divergraph.rootcause.values import relative
from graphstore.model import DType, ErrorSplit, Guilt, Role, TensorRef, analysis

RNG = np.random.default_rng(7)
V = RNG.standard_normal(4000).astype(np.float32)
W = RNG.standard_normal(4000).astype(np.float32)
ONES = np.ones(64)
REF = TensorRef("op", 0)
HALF, SINGLE = 2.0**-11, 2.0**-24


def suspect() -> None:
    options = RootCauseOptions()
    assert options.guilt(5) is Guilt.NONE
    assert options.guilt(8) is Guilt.SUSPECT


def guilty() -> None:
    assert RootCauseOptions().guilt(8) is Guilt.SUSPECT
    assert RootCauseOptions().guilt(12) is Guilt.GUILTY


def role(amplification: float) -> Role:
    """Of an op that hands on an error of 10 %, so many times as large."""
    reference = V * np.float32(1 + 0.1 * amplification)
    return split_by(reference, reference, V, 1e-4, context(inputs_error=0.1)).role


def amplifies() -> None:
    assert role(3) is Role.AMPLIFIES
    assert role(1.2) is Role.CARRIES


def attenuates() -> None:
    assert role(0.3) is Role.ATTENUATES
    assert role(0.9) is Role.CARRIES


def most_of_all() -> None:
    _, split = judged(np.full(64, 1e30), np.full(64, 1e-30), known=context(FP32))
    assert split.suspicion == pytest.approx(1e9)


def most(off: float, precision=FP32, before: float = 0.0) -> float:
    """The bound of suspicion where one of many values of size 1 is *off*."""
    device = ONES.copy()
    device[3] += off
    return most_suspicion(device, ONES, (), before, precision, 10.0)


def last_place_in_16_bits() -> None:
    assert most(5 * HALF, FP16) == pytest.approx(50, rel=0.5)


def last_place_in_32_bits() -> None:
    assert most(40 * SINGLE) == pytest.approx(100, rel=0.5)


def far_below() -> None:
    assert most(4e-6, before=1.0) == 10.0
    assert most(4e-5, before=1.0) > 10.0


def fallback_gains() -> None:
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
        golden=SimpleNamespace(is_constant=lambda op: True),
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


def input_units() -> None:
    assert mismatches(3 * HALF) == 0
    assert mismatches(20 * HALF) == 1


def everywhere(count: int, judged_ones: int) -> bool:
    splits = {
        TensorRef("op", port): ErrorSplit(
            Role.CLEAN, Guilt.GUILTY if port < count else Guilt.NONE, suspicion=1.0
        )
        for port in range(judged_ones)
    }
    return bool(list(run._everywhere(SimpleNamespace(arithmetic="fp16"), splits)))


def guilty_everywhere() -> None:
    assert everywhere(10, 20)
    assert not everywhere(4, 5)


def share_everywhere() -> None:
    assert everywhere(10, 20)
    assert not everywhere(7, 70)


def least_in_16_bits() -> None:
    rounding = relative(FP16.rounded(V), V)
    assert rounding / 3 < least_floor(FP16, V.size) < rounding


def least_in_32_bits() -> None:
    assert 2 * SINGLE < least_floor(FP32, V.size) < 10 * SINGLE


def chance_of_one() -> None:
    assert 1.5 < least_floor(FP16, 1) / least_floor(FP16, 1 << 30) < 5


def disturbance() -> None:
    def disturb(value, size):
        return value * (1 + size * RNG.uniform(-1, 1, value.size))

    assert 2 * SINGLE < relative(FP32.emulate(V, disturb), V) < 12 * SINGLE


def without_emulation() -> None:
    assert 4 < floor_of(V, None, FP16, 1) / least_floor(FP16, V.size) < 30


def next_to_infinity() -> None:
    def floor(value: float) -> float:
        reference = np.ones(100, np.float64)
        reference[0] = value
        emulated = reference.copy()
        emulated[0] = np.inf
        return floor_of(reference, emulated, FP32, 1)

    assert floor(5e37) > 0.05
    assert floor(3e38) < 1e-3


def hidden_bodies() -> None:
    known = context(INT8)
    known.arithmetic.quantisers = Quantisers({"w": None}, frozenset())
    found, _ = judged(V, V, None, known=known)
    assert 0.02 < found.told.floor < 0.1


def integer_kernel() -> None:
    found, _ = judged(V, V, V, known=context(INT8, integers=True))
    assert 0.01 < found.told.floor < 0.04


def division() -> None:
    def run_subgraphs(subgraphs, given, memory):
        return [SimpleNamespace(key="w", values={"w": V})]

    floors = Emulated(SimpleNamespace(run_subgraphs=run_subgraphs), None, INT8, 1 << 20)
    floors.quantisers = Quantisers({"w": lambda value: value}, frozenset())
    floors.shift = 8.0
    made = floors._weights([SimpleNamespace(constants=lambda: ["w"])])["w"]
    assert SINGLE < relative(made, V) < 5 * SINGLE


def raised_constant() -> None:
    assert 0.1 < constant_floor(np.full(100, 1e-6, np.float32), FP16) < 0.4


def mask_values() -> None:
    def numbers(count: int) -> int:
        return len(huge_values(-1e9 - 1e6 * np.arange(count), 65504.0))

    assert numbers(3) == 3
    assert numbers(10) == 0


def stands(reference: float, device: float = -65504.0) -> bool:
    mask = standing_for_infinity(np.array([reference]), np.array([device]), (-1e9,), 65504.0)
    return mask is not None and bool(mask.held[0])


def mask_near() -> None:
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
    known.arithmetic.draws = [V[:size]] * 200
    told = ToleranceEstimate(V[:size], 1e-4, device=V[:size])
    return pre_rounding.TOLERANCE.apply(known, told).numbers["draws"]


def rounded_draws() -> None:
    assert 4 <= draws(3, 200) <= 16


def few_values() -> None:
    assert draws(1, 30) > 1
    assert draws(1, 200) == 1


def flushed(share: float) -> bool:
    reference = np.full(1000, 1e-2)
    reference[0] = 5e-5
    reference[1:] *= 5e-5 / share / 1e-2 / math.sqrt(999)
    device = np.where(reference == 5e-5, 0, reference)
    return bool(np.isnan(without_flushed(device, reference, 2.0**-14)).any())


def flushed_share() -> None:
    assert flushed(0.003)
    assert not flushed(0.05)


def converted_least() -> None:
    assert fits_half(np.array([3e-7]))
    assert not fits_half(np.array([3e-8]))


def kept_largest() -> None:
    assert fits_half(np.array([5e3]))
    assert not fits_half(np.array([3e4]))


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
    told = ToleranceEstimate(V, floor)
    return gains.with_gain_floor(told, device, [emulated], FP16, 1).floor


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
    told = ToleranceEstimate(V, 1e-3, imitations=(V,))
    gains._inner(known, told, V * np.float32(1 + 1e-3 * ratio), 1e-3)
    return runner.fed


def gain_tried() -> None:
    assert 0.005 < relative(inside(4)[0], V) < 0.05


def gain_asked() -> None:
    assert inside(4)
    assert not inside(1)


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
    return DeclaredTypes.of(device, compared).told


def declared_trusted() -> None:
    assert trusts(95)
    assert not trusts(50)


def operands(ratios: list[float], other: float = 100.0, **named: float) -> Operands | None:
    """What ops of these errors over floors with TF32 operands, and others without, decide."""
    evidence = [
        OperandEvidence(
            Family.PRODUCT,
            {**dict.fromkeys(Operands, other), Operands.TF32: each}
            | {Operands[name]: value for name, value in named.items()},
        )
        for each in ratios
    ]
    return operand_precision.decided(evidence, 6.0).get(Family.PRODUCT)


def operands_enough() -> None:
    assert operands([1, 1, 1, 4]) is Operands.TF32
    assert operands([1, 4]) is None


def operands_likely() -> None:
    assert operands([2, 2, 2, 2]) is Operands.TF32
    assert operands([5, 5, 5, 5]) is None


def operands_likely_few() -> None:
    assert operands([1.5, 1.5]) is Operands.TF32
    assert operands([4, 4]) is None


def operands_same() -> None:
    assert operands([math.exp(0.02)] * 4, FP16=1.0) is Operands.TF32
    assert operands([math.exp(0.2)] * 4, FP16=1.0) is Operands.FP16


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


def sample(error: np.ndarray) -> arithmetic.GroupSample:
    group = Group(REF, REF, ("op",))
    return arithmetic.GroupSample(group, {}, V.astype(np.float64), V.astype(np.float64) + error)


def operands_alike() -> None:
    def ratio(cosine: float) -> float:
        floors = {Operands.TF32: Off(0.01 * V)}
        error = 0.01 * (cosine * V + math.sqrt(1 - cosine**2) * W)
        found = arithmetic._evidence(Family.PRODUCT, sample(error), 50.0, floors, alone=True)
        return found.ratios[Operands.TF32]

    assert math.isfinite(ratio(0.6))
    assert math.isinf(ratio(0.1))


def function_size(error: float, exact: float = 1e-7) -> float | None:
    """The size found for exponentials that are all off by *error*."""
    golden = SimpleNamespace(ops={"op": SimpleNamespace(type="Exp", outputs=())})

    def floors(approximated) -> Off:
        return Off(V * max(exact, *approximated.values(), 0.0))

    found = find_functions(
        golden, [Group(REF, REF, ("op",))], lambda groups: Samples([sample(V * error)]), floors
    )
    return found.get("Exp")


def function_inexact() -> None:
    assert function_size(3e-3, exact=1e-3) is None  # further off than approximations are
    assert function_size(3.6e-6, exact=1.2e-6) is not None
    assert function_size(1.5e-6, exact=1.2e-6) is None


def function_fits() -> None:
    assert function_size(2.6e-6) == pytest.approx(2e-6)
    assert function_size(2.1e-5) == pytest.approx(1.6e-5)


def function_steps() -> None:
    assert function_size(5e-5) is not None
    assert function_size(1e-3) is None


def quantised_agrees() -> None:
    assert quantised_ops._exact([1, 1, 2])
    assert not quantised_ops._exact([8, 8, 8])


def ties_in_32_bits() -> None:
    assert 3 * SINGLE < INT8.tie_units * INT8.unit < 20 * SINGLE


def ties_in_16_bits() -> None:
    assert HALF / 2 < FP16.tie_units * FP16.unit < 3 * HALF


def quantised_enough() -> None:
    handed = {QuantisedKind.HANDED_ON: [1.0] * 4}
    few = quantised_ops._enough(QuantisedKind.INSIDE, handed | {QuantisedKind.INSIDE: [9.0] * 2})
    many = quantised_ops._enough(QuantisedKind.INSIDE, handed | {QuantisedKind.INSIDE: [9.0] * 5})
    assert len(few) == 6
    assert len(many) == 5


def quantised_most_off() -> None:
    assert quantised_ops._exact([1] * 8 + [9] * 2)
    assert not quantised_ops._exact([1] * 5 + [9] * 5)


def quantised_least_floor() -> None:
    quantised = SimpleNamespace(
        floors=SimpleNamespace(precision=FP32),
        kinds={QuantisedKind.INSIDE},
        kind=lambda group: QuantisedKind.INSIDE,
        expected=lambda *given: [SimpleNamespace(ratio=math.inf, value=V)],
        suspect=6.0,
    )
    told = ToleranceEstimate(V, 1e-2, imitations=(V,), device=V * np.float32(1.01))
    action = quantised_steps.TOLERANCE.apply(replace(context(INT8), quantised=quantised), told)
    assert 5e-10 < action.floor < 5e-9


CASES: dict[str, Callable[[], None]] = {
    "SUSPECT": suspect,
    "GUILTY": guilty,
    "AMPLIFIES": amplifies,
    "ATTENUATES": attenuates,
    "MOST_SUSPICION": most_of_all,
    "LAST_PLACE_UNITS_16_BIT": last_place_in_16_bits,
    "LAST_PLACE_UNITS_32_BIT": last_place_in_32_bits,
    "FAR_BELOW": far_below,
    "LEAST_LIMIT": far_below,
    "FALLBACK_GUILTY_GAIN": fallback_gains,
    "FALLBACK_SUSPECT_GAIN": fallback_gains,
    "SAME_CONSTANT": same_constant,
    "INPUT_UNITS": input_units,
    "GUILTY_EVERYWHERE": guilty_everywhere,
    "SHARE_EVERYWHERE": share_everywhere,
    "LEAST_UNITS_16_BIT": least_in_16_bits,
    "LEAST_UNITS_32_BIT": least_in_32_bits,
    "CHANCE_OF_ONE_VALUE": chance_of_one,
    "FP32_UNITS": disturbance,
    "WITHOUT_EMULATION": without_emulation,
    "NEXT_TO_INFINITY": next_to_infinity,
    "HIDDEN_BODIES": hidden_bodies,
    "INTEGER_KERNEL": integer_kernel,
    "DIVISION_UNITS": division,
    "CONSTANT_LEAST_FP16": raised_constant,
    "MASK_VALUES": mask_values,
    "MASK_NEAR": mask_near,
    "MASK_SCALED": mask_scaled,
    "MASK_LEAST": mask_least,
    "ROUNDED_DRAWS": rounded_draws,
    "FEW_VALUES": few_values,
    "FLUSHED_SHARE": flushed_share,
    "CONVERTED_LEAST": converted_least,
    "PART_LEAST_VALUES": part_least_values,
    "PART_BITS": part_bits,
    "PART_VALUES": part_values,
    "PART_UNSURE": part_unsure,
    "PEAK_VALUES": peak_values,
    "PEAK_UNSURE": peak_unsure,
    "USUAL_STEPS": usual_steps,
    "GAIN_SHARE": gain_share,
    "GAIN_BY_CHANCE": gain_by_chance,
    "GAIN_EMULATED": gain_emulated,
    "GAIN_TRIED": gain_tried,
    "GAIN_ASKED": gain_asked,
    "PRECISION_SHARE": precision_share,
    "PRECISION_VALUES": precision_values,
    "KEPT_LARGEST": kept_largest,
    "DECLARED_TRUSTED": declared_trusted,
    "OPERANDS_ENOUGH": operands_enough,
    "OPERANDS_LIKELY": operands_likely,
    "OPERANDS_LIKELY_FEW": operands_likely_few,
    "OPERANDS_SAME": operands_same,
    "OPERANDS_ALIKE": operands_alike,
    "FUNCTION_INEXACT": function_inexact,
    "FUNCTION_FITS": function_fits,
    "FUNCTION_SMALLEST": function_fits,
    "FUNCTION_STEPS": function_steps,
    "QUANTISED_AGREES": quantised_agrees,
    "QUANTISED_TIE_UNITS_32_BIT": ties_in_32_bits,
    "QUANTISED_TIE_UNITS_16_BIT": ties_in_16_bits,
    "QUANTISED_ENOUGH": quantised_enough,
    "QUANTISED_MOST_OFF": quantised_most_off,
    "QUANTISED_LEAST_FLOOR": quantised_least_floor,
}

NUMBERS = sorted(name for name in vars(calibration) if name.isupper())


@pytest.mark.parametrize("name", NUMBERS)
def test_the_number_decides_as_it_stands(name: str) -> None:
    CASES[name]()


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("smaller", [False, True], ids=["ten times larger", "ten times smaller"])
def test_a_wrong_number_is_noticed(name: str, smaller: bool, monkeypatch) -> None:
    value = getattr(calibration, name)
    wrong = value / 10 if smaller else value * 10
    monkeypatch.setattr(calibration, name, type(value)(wrong))
    with pytest.raises(Exception):  # noqa: B017, PT011 - a wrong verdict, or none at all
        CASES[name]()


def test_each_number_says_its_reason_and_what_it_was_measured_on() -> None:
    with open(calibration.__file__, encoding="utf-8") as file:  # noqa: PTH123
        body = ast.parse(file.read()).body
    told = {}
    for statement, after in pairwise(body):
        if isinstance(statement, ast.Assign) and isinstance(after, ast.Expr):
            told[statement.targets[0].id] = ast.literal_eval(after.value)
    assert sorted(told) == NUMBERS
    known = ("easured", "Source:")
    assert [name for name, said in told.items() if not any(each in said for each in known)] == []


def test_stored_runs_without_limits_have_the_same() -> None:
    assert (analysis.SUSPECT, analysis.GUILTY) == (calibration.SUSPECT, calibration.GUILTY)
