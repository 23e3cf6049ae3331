"""The floor's own steps: what is rounded, disturbed, raised and doubted, and by how much."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from divergraph.rootcause.arithmetic.contract import format_named
from divergraph.rootcause.arithmetic.families import Family, ReadOperands
from divergraph.rootcause.devices.floors import floor_of
from divergraph.rootcause.devices.formulas import Approximation
from divergraph.rootcause.devices.precisions.bf16 import BF16
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.devices.quantisers import Quantiser, Quantisers
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.tolerances.drawn_noise import DrawnNoise, generator
from divergraph.rootcause.tolerances.noise_floor import Emulation
from divergraph.rootcause.values import relative
from graphstore.model import Framework, GraphKind, InputRef, ModelGraph, Op, TensorRef

RNG = np.random.default_rng(3)
V = RNG.standard_normal(1000).astype(np.float32)
H = FP16.rounded(V)
REF = TensorRef("y", 0)


class OfWeights(Emulation):
    """The floor of a group whose output is its one weight."""

    weight: np.ndarray

    def _weights(self, states):
        return {"w": self.weight}

    def _run(self, states, weights):
        return [weights["w"]]


def floors(precision=FP16, **given) -> OfWeights:
    golden = SimpleNamespace(name=lambda ref: ref.op, ops={})
    return OfWeights(None, golden, precision, 1 << 20, **given)


def test_only_numbers_that_were_rounded_may_have_been_others_before() -> None:
    half = floors()
    assert half._was_rounded(H)
    assert not half._was_rounded(V)  # held in more bits than float16 has
    assert not half._was_rounded(np.rint(H))  # whole numbers mean themselves


def test_integers_and_plain_runs_are_not_rounded() -> None:
    whole = np.arange(5000)
    assert floors()._round(whole) is whole
    assert floors(plain=True)._round(V) is V
    assert np.array_equal(floors()._round(V), H)
    assert DrawnNoise(generator()).times(whole, 0.5) is whole
    assert 0 < relative(floors(FP32)._round(V), V) < 1e-6


@pytest.mark.parametrize(
    ("kind", "owns", "size"),
    [("Exp", (), 1e-5), ("Relu", (), 0.0), ("If", ("then",), 3e-5), (None, (), 0.0)],
)
def test_functions_are_as_far_off_as_was_found_and_bodies_as_the_worst(kind, owns, size) -> None:
    op = None if kind is None else SimpleNamespace(type=kind, owns=owns)
    found = {"Exp": Approximation(1e-5), "Log": Approximation(3e-5)}
    assert floors(approximated=found)._function_error(op) == size
    assert floors(approximated=found, plain=True)._function_error(op) == 0.0
    assert floors()._function_error(op) == 0.0


def test_converters_raise_what_is_smaller_than_they_keep_and_nothing_else() -> None:
    half, group = floors(), Group(REF, REF)
    half.weight = np.array([1e-9, -1e-9, 0.0, 0.5, 2e-7], np.float32)
    made = half.emulated_converted(group, {})
    assert made == pytest.approx([1e-7, -1e-7, 0.0, 0.5, 2e-7])
    half.weight = np.array([0.0, 0.5], np.float32)
    assert half.emulated_converted(group, {}) is None
    assert floors(FP32).emulated_converted(group, {}) is None


def test_an_unrounded_value_lies_within_one_rounding_of_what_is_dumped() -> None:
    small = np.array([1e-6, 0.0, 0.5] * 100, np.float32)
    apart = np.abs(DrawnNoise(generator()).unrounded(small, FP16) - small)
    for first, most in ((0, 2.0**-14 * 2.0**-11), (2, 0.5 * 2.0**-11)):
        assert 0.8 * most < apart[first::3].max() <= 1.001 * most
    assert apart[1::3].max() == 0.0


def test_constants_are_held_within_the_type_and_dead_weights_stay() -> None:
    half = floors()
    assert half._stored(np.array([1e6, -1e6, 2.0, np.inf])).tolist() == [65504, -65504, 2, np.inf]
    assert floors(FP32)._stored(np.array([1e6])).tolist() == pytest.approx([1e6])
    assert half._kept("w", np.array([1e-12, 0.0], np.float32)).tolist() == pytest.approx(
        [1e-12, 0.0]
    )


COARSE = Quantiser(np.array([0.25], np.float32), np.array([0]), -128, 127)


def test_only_what_is_dequantised_has_a_step_and_is_handed_on_in_steps() -> None:
    group = Group(REF, REF)
    plain = floors(FP32, quantisers=Quantisers({"y": COARSE}, frozenset()))
    assert plain.step(group) is None
    assert relative(plain.passed_on(group, V), V) < 1e-6
    quantised = floors(FP32, quantisers=Quantisers({"y": COARSE}, frozenset({REF})))
    assert quantised.step(group) == 0.25
    assert np.array_equal(quantised.passed_on(group, V), np.rint(V / 0.25) * np.float32(0.25))
    assert floors(FP32, quantisers=Quantisers({}, frozenset({REF}))).step(group) is None


def test_an_op_reads_floats_through_their_quantiser_and_integers_as_they_are() -> None:
    whole = np.arange(4)
    state = SimpleNamespace(
        values={"x": V, "i": whole},
        quantised={"x", "i"},
        inputs=lambda piece, weights: {"x": V, "i": whole},
        next_op=lambda: SimpleNamespace(type="Conv", id="conv"),
    )
    read = floors(FP32, quantisers=Quantisers({"x": COARSE, "i": COARSE}, frozenset()))
    given = read._given(state, None, {})
    assert np.array_equal(given["x"], np.rint(V / 0.25) * np.float32(0.25))
    assert given["i"] is whole


def test_a_value_on_a_tie_of_its_format_is_read_either_way_and_no_other_is() -> None:
    # By a scale of 1: 1.0625 lies halfway between 1 and 1.125, and 448 is the largest.
    values = np.array([[448.0, 1.0625, 1.0, 1.1]], np.float32)
    product = Op("m", "m", "MatMul", (InputRef("x"), InputRef("w")))
    graph = ModelGraph("g", GraphKind.ORIGINAL, Framework.ONNX, "onnx", (product,))
    rows = ReadOperands({Family.LINEAR: format_named("e4m3 by row")})
    state = SimpleNamespace(
        inputs=lambda piece, weights: {"x": values}, next_op=lambda: product, quantised=frozenset()
    )
    read = Emulation(None, OpGraph(graph), BF16, 1 << 20, operands=rows, divided=2.0**-23)
    rows_read = (read._given(state, None, {})["x"][0] for _ in range(20))
    seen = {tuple(np.round(row, 5).tolist()) for row in rows_read}
    assert seen == {(448.0, 1.0, 1.0, 1.125), (448.0, 1.125, 1.0, 1.125)}


def test_masks_meet_the_largest_number_of_the_type() -> None:
    state = SimpleNamespace(
        values={},
        quantised=set(),
        inputs=lambda piece, weights: {"hide": np.array([-1e9, 1.0])},
        next_op=lambda: SimpleNamespace(type="Add", id="add"),
    )
    for made, expected in ((floors(), -65504.0), (floors(FP32), -1e9), (floors(plain=True), -1e9)):
        assert made._given(state, None, {})["hide"].tolist() == [expected, 1.0]


def test_an_emulation_that_is_infinite_everywhere_explains_anything() -> None:
    assert floor_of(V, np.full_like(V, np.inf), FP16, 1) == pytest.approx(1.0)
    some = V.copy()
    some[:10] = np.inf
    assert floor_of(V, some, FP16, 1) == pytest.approx(0.1)
