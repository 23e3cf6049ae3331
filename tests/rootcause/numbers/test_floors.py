"""Noise floors, of what is emulated and of what is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from calibrated import both_tests
from judged_output import Emulated, context, judged

from divergraph.rootcause.devices.floors import floor_of, least_floor
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.devices.precisions.int8 import INT8
from divergraph.rootcause.devices.quantisers import Quantisers
from divergraph.rootcause.values import relative

RNG = np.random.default_rng(7)
V = RNG.standard_normal(4000).astype(np.float32)
SINGLE = 2.0**-24


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
    assert 0.02 < found.estimate.floor < 0.1


def integer_kernel() -> None:
    found, _ = judged(V, V, V, known=context(INT8, integers=True))
    assert 0.01 < found.estimate.floor < 0.04


def recurrent_kernel() -> None:
    known = context(INT8, integers=True)
    lstm = {op: SimpleNamespace(owns=(), type="LSTM") for op in known.group.ops}
    found, _ = judged(V, V, V, known=replace(known, golden=SimpleNamespace(ops=lstm)))
    assert 0.06 < found.estimate.floor < 0.12


def _moved(value, units):
    return value * value.dtype.type(1 + units * SINGLE)


def division() -> None:
    def run_subgraphs(subgraphs, given, memory):
        return [SimpleNamespace(key="w", values={"w": V})]

    floors = Emulated(SimpleNamespace(run_subgraphs=run_subgraphs), None, INT8, 1 << 20)
    floors.quantisers = Quantisers({"w": _moved}, frozenset())
    floors.shift = 8.0
    made = floors._weights([SimpleNamespace(constants=lambda: ["w"])])["w"]
    assert SINGLE < relative(made, V) < 5 * SINGLE


CASES: dict[str, Callable[[], None]] = {
    "LEAST_UNITS_16_BIT": least_in_16_bits,
    "LEAST_UNITS_32_BIT": least_in_32_bits,
    "CHANCE_OF_ONE_VALUE": chance_of_one,
    "FP32_UNITS": disturbance,
    "WITHOUT_EMULATION": without_emulation,
    "NEXT_TO_INFINITY": next_to_infinity,
    "HIDDEN_BODIES": hidden_bodies,
    "INTEGER_KERNEL": integer_kernel,
    "RECURRENT_KERNEL": recurrent_kernel,
    "DIVISION_UNITS": division,
}

test_the_number_decides, test_a_wrong_one_is_noticed = both_tests(CASES)
