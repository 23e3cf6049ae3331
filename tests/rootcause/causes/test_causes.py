"""Causes in words: each kind of fault, on values like those of real ops, gets its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divergraph.rootcause.causes.evidence import FaultEvidence, TensorHashes
from divergraph.rootcause.causes.rules import explain
from graphstore.model import DType, FindingKind, Op, Tensor

Array = np.ndarray[Any, np.dtype[np.float32]]
HALF = 2.0**-11
SHAPE = (1, 16, 12, 10)


def expected(seed: int = 0, shape: tuple[int, ...] = SHAPE) -> Array:
    """A feature map: channels of different size and offset, smooth along the picture."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if len(shape) == 4:
        values += np.sin(np.arange(shape[-1]) / 2) + np.cos(np.arange(shape[-2]) / 3)[:, None]
        values *= rng.uniform(0.5, 2, (1, shape[1], 1, 1))
        values += rng.uniform(-1, 1, (1, shape[1], 1, 1))
    return values.astype(np.float32)


def on_device(values: Array, seed: int = 1) -> Array:
    """As a half-precision device has it: sums a little off, then rounded."""
    noise = np.random.default_rng(seed).standard_normal(values.shape) * HALF
    return (values * (1 + noise)).astype(np.float16).astype(np.float32)


def case(device: Array, reference: Array, **more: Any) -> FaultEvidence:
    return FaultEvidence("op", 0, device, reference, 1.2 * HALF, dtype=DType.FLOAT16, **more)


def label(device: Array, reference: Array, **more: Any) -> str:
    finding = explain(case(device, reference, **more))
    assert finding is not None
    assert finding.kind is FindingKind.CAUSE
    json.dumps(dict(finding.evidence), allow_nan=False)
    return finding.label


def dead(values: Array) -> Array:
    values[:, 5] = 0
    return values


def tail(values: Array) -> Array:
    values.reshape(-1)[-333:] = 0
    return values


def one_nan(values: Array) -> Array:
    values[0, 3, 4, 5] = np.nan
    return values


def half_of_the_channels_lower(values: Array) -> Array:
    values[:, 8:] -= np.linspace(0.3, 0.7, 8).reshape(8, 1, 1)
    return values


FAULTS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "2 % gain": ("gain", lambda x: x * 1.02),
    "0.7 % gain": ("gain", lambda x: x * 0.993),
    "sign": ("gain", lambda x: -x),
    "offset": ("global_offset", lambda x: x + 0.25),
    "both": ("gain_and_offset", lambda x: 0.9 * x + 0.25),
    "clip": ("saturation", lambda x: np.clip(x, -2.5, 2.5)),
    "ceiling": ("saturation", lambda x: np.minimum(x, 2.0)),
    "shift": ("reordered", lambda x: np.roll(x, 2, axis=-1)),
    "channels last": ("reordered", lambda x: x.transpose(0, 2, 3, 1).reshape(x.shape)),
    "memory offset": ("reordered", lambda x: np.roll(x.reshape(-1), 37).reshape(x.shape)),
    "channel blocks": (
        "reordered",
        lambda x: x.reshape(1, 4, 4, 12, 10).transpose(0, 1, 3, 4, 2).reshape(x.shape),
    ),
    "shuffled": (
        "reordered",
        lambda x: np.random.default_rng(5).permutation(x.reshape(-1)).reshape(x.shape),
    ),
    "other halves first": ("reordered", lambda x: np.concatenate([x[:, 9:], x[:, :9]], 1)),
    "zero": ("all_zero", lambda x: x * 0),
    "one value": ("constant_output", lambda x: x * 0 + 3),
    "tail": ("tail_not_written", tail),
    "dead channel": ("dead_channels", dead),
    "flush": ("flush_to_zero", lambda x: np.where(np.abs(x) < 0.3, 0, x)),
    "Relu too many": ("wrong_activation", lambda x: np.maximum(x, 0)),
    "one NaN": ("nan_origin", one_nan),
    "6 bits": ("quantised_grid", lambda x: np.round(x * 8) / 8),
    "channel offsets": ("channel_offset", half_of_the_channels_lower),
    "channel gains": (
        "channel_gain",
        lambda x: x * np.linspace(0.8, 1.3, 16).reshape(16, 1, 1),
    ),
    "curve": ("wrong_activation", lambda x: np.tanh(x) * 1.7),
    "garbage": (
        "unrelated_values",
        lambda x: np.random.default_rng(9).standard_normal(x.shape),
    ),
}


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("before", [True, False], ids=["then rounded", "rounded before"])
def test_each_kind_of_fault_gets_its_name(kind: str, before: bool) -> None:
    wanted, fault = FAULTS[kind]
    reference = expected()
    if before:
        device = on_device(fault(reference.copy()).astype(np.float32))
    else:
        device = fault(on_device(reference)).astype(np.float32)
    assert label(device, reference) == wanted


def test_noise_alone_is_never_named_a_fault_for_sure() -> None:
    reference = expected()
    finding = explain(case(on_device(reference), reference))
    assert finding is not None
    assert finding.label in ("unclassified", "rounding")
    assert finding.confidence < 0.8


def test_weights_slightly_off_stay_unclassified_with_a_hint() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((64, 48)).astype(np.float32)
    weights = rng.standard_normal((48, 40)).astype(np.float32)
    wrong = weights + 0.02 * rng.standard_normal(weights.shape).astype(np.float32)
    finding = explain(
        case(on_device(x @ wrong), x @ weights, ops=(Op("m", "m", "MatMul"),), inputs={"x": x})
    )
    assert finding is not None
    assert finding.label == "unclassified"
    assert "weights" in finding.sentence


def test_equal_values_need_no_cause() -> None:
    reference = expected()
    assert explain(case(reference.copy(), reference)) is None
    assert explain(case(reference[:, :3], reference)) is None


def test_a_lost_bias_is_told_by_its_channels_and_its_name() -> None:
    reference = expected()
    bias = np.linspace(0.2, 0.9, 16).astype(np.float32)
    device = reference.copy()
    device[:, 8:] -= bias[8:].reshape(8, 1, 1)
    finding = explain(case(on_device(device), reference, constants={"conv.bias": bias}))
    assert finding is not None
    assert finding.label == "lost_bias"
    assert "bias missing in channels 8-15" in finding.sentence
    assert finding.evidence["bias"] == "conv.bias"


def test_a_bias_added_twice_is_told_by_its_channels_and_its_name() -> None:
    reference = expected()
    bias = np.linspace(0.2, 0.9, 16).astype(np.float32)
    device = reference.copy()
    device[:, 8:] += bias[8:].reshape(8, 1, 1)
    finding = explain(case(on_device(device), reference, constants={"conv.bias": bias}))
    assert finding is not None
    assert finding.label == "doubled_bias"
    assert "bias added twice in channels 8-15" in finding.sentence


def test_a_bias_lost_in_front_of_a_relu() -> None:
    before = expected(4)
    bias = np.linspace(0.3, 0.6, 16).astype(np.float32).reshape(16, 1, 1)
    finding = explain(
        case(
            on_device(np.maximum(before - bias, 0)),
            np.maximum(before, 0),
            constants={"b": bias.reshape(-1)},
        )
    )
    assert finding is not None
    assert finding.label == "lost_bias"


def test_an_overflow_names_the_limit() -> None:
    reference = np.array([[1e3, 1.27e5, 3e4, 7e4]], np.float32)
    device = reference.copy()
    device[0, [1, 3]] = np.inf
    finding = explain(case(device, reference))
    assert finding is not None
    assert finding.label == "overflow"
    assert "65504" in finding.sentence
    assert finding.evidence["over_limit"] == 2


def test_an_op_that_did_nothing_gives_its_input() -> None:
    given, reference = expected(1), expected(2)
    assert label(on_device(given), reference, inputs={"x": given}) == "missing_op"


def test_a_stale_buffer_is_found_by_its_content() -> None:
    reference, foreign = expected(1), expected(7, (1, 32, 12, 10))
    hashes = TensorHashes()
    hashes.add("Conv_3:0", foreign)
    hashes.add("this:0", reference)
    stale = foreign.reshape(-1)[: reference.size].reshape(reference.shape).copy()
    finding = explain(
        case(stale, reference, others=lambda values: hashes.holding(values, "this:0"))
    )
    assert finding is not None
    assert finding.label == "stale_tensor"
    assert finding.evidence["same_as"] == ["Conv_3:0"]


def test_known_functions_are_named() -> None:
    x = expected(3)
    finding = explain(
        case(
            on_device(np.clip(0.2 * x + 0.5, 0, 1)),
            1 / (1 + np.exp(-x)),
            inputs={"x": x},
            ops=(Op("s", "s", "Sigmoid"),),
        )
    )
    assert finding is not None
    assert finding.label == "wrong_activation"
    assert "HardSigmoid" in finding.sentence


def test_a_lost_sign_is_seen_where_many_values_are_zero() -> None:
    rng = np.random.default_rng(3)
    reference = np.where(rng.random((40, 40)) < 0.5, 0, rng.uniform(0.1, 1, (40, 40)))
    reference = reference.astype(np.float32)

    assert label(on_device(-reference), reference) == "gain"


def test_some_foreign_values_of_the_same_distribution_are_no_other_order() -> None:
    """Sorted, they are near the expected ones by chance, but not as near as noise is."""
    rng = np.random.default_rng(2)
    shape = (128, 128)
    reference = rng.standard_normal(shape).astype(np.float32)
    blocks = np.repeat(rng.random(256) < 0.2, 64).reshape(shape)
    device = np.where(blocks, rng.standard_normal(shape), reference)

    assert label(on_device(device), reference) != "reordered"


def test_slices_that_are_alike_are_moved_not_copied() -> None:
    reference = expected(4, (20, 12))
    reference[:, [2, 5, 9]] = 0
    device = np.concatenate([reference[:, 0::2], reference[:, 1::2]], axis=1)

    assert label(on_device(device), reference) == "reordered"


def test_zeros_of_no_relu_are_no_relu_that_is_missing() -> None:
    x = np.maximum(np.random.default_rng(3).standard_normal((16, 40)), 0).astype(np.float32)
    device = np.random.default_rng(4).standard_normal((16, 40)).astype(np.float32)
    device[x > 0] = x[x > 0]
    scaled = {"inputs": {"x": x * 2}, "ops": (Op("m", "m", "Mul"),)}

    assert label(on_device(-np.abs(device) * (x == 0) + x), x, **scaled) != "wrong_activation"


def test_what_hardly_varies_is_no_function() -> None:
    """All ones are near the cosine of small numbers."""
    x = np.random.default_rng(3).normal(0, 0.05, (8, 40)).astype(np.float32)
    ops = (Op("s", "s", "Softmax"),)

    finding = explain(case(np.ones_like(x), np.full_like(x, 0.025), inputs={"x": x}, ops=ops))

    assert finding is not None
    assert finding.label != "wrong_activation"


def test_attributes_are_tried_where_ops_can_be_run_again() -> None:
    x = expected(3, (6, 8))

    def softmax(axis: int) -> Array:
        powers = np.exp(x - x.max())
        made: Array = (powers / powers.sum(axis=axis, keepdims=True)).astype(np.float32)
        return made

    finding = explain(
        case(
            on_device(softmax(0)),
            softmax(1),
            ops=(Op("s", "s", "Softmax", outputs=(Tensor("y"),), attrs={"axis": 1}),),
            rerun=lambda _op, attrs: softmax(int(str(attrs["axis"]))),
        )
    )
    assert finding is not None
    assert finding.label == "wrong_axis"
    assert "axis 0 in place of 1" in finding.sentence


def test_random_ops_are_no_mystery() -> None:
    reference = expected()
    ops = (Op("d", "d", "RandomNormalLike"),)
    assert label(expected(8), reference, ops=ops) == "random_op"


@pytest.mark.slow
def test_large_tensors_are_sampled_and_the_finding_says_so() -> None:
    reference = np.random.default_rng(0).standard_normal((1, 8, 900, 900)).astype(np.float32)
    device = reference.copy()
    device[:, 3] *= np.float32(0.9)
    finding = explain(case(device, reference))
    assert finding is not None
    assert finding.label in ("channel_gain", "wrong_channels")
    assert finding.evidence["slices"] == [3]
    assert finding.evidence["sampled_elements"] < reference.size


def test_few_values_make_no_one_sure() -> None:
    finding = explain(case(np.array([1.02, 2.04], np.float32), np.array([1, 2], np.float32)))
    assert finding is not None
    assert finding.confidence <= 0.6


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=40),
    st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), min_size=1, max_size=40),
)
def test_any_values_get_some_answer(reference: list[float], device: list[float]) -> None:
    size = min(len(reference), len(device))
    finding = explain(
        case(np.array(device[:size], np.float32), np.array(reference[:size], np.float32))
    )
    if finding is not None:
        json.dumps(dict(finding.evidence), allow_nan=False)
        assert 0 < finding.confidence <= 1


def test_channels_of_which_the_bias_is_left_are_said_to_hold_one_value() -> None:
    device = on_device(expected())
    device[:, 3:6] = np.array([0.25, -0.5, 0.75], np.float32).reshape(3, 1, 1)
    finding = explain(case(device, expected()))
    assert finding is not None
    assert finding.label == "dead_channels"
    assert "one value throughout (-0.5 to 0.75)" in finding.sentence
    assert finding.evidence["slices"] == [3, 4, 5]


def test_what_looks_like_a_scale_behind_several_ops_is_not_sure() -> None:
    gains = np.linspace(0.8, 1.2, 16).reshape(16, 1, 1).astype(np.float32)
    device = on_device(expected() * gains)
    ops = tuple(Op(id=name, name=name, type=name) for name in ("Conv", "Mul"))
    alone, several = explain(case(device, expected())), explain(case(device, expected(), ops=ops))
    assert alone is not None
    assert several is not None
    assert alone.label == several.label == "channel_gain"
    assert several.confidence < 0.7 < alone.confidence


def test_a_softmax_over_an_axis_of_one_is_no_constant_output() -> None:
    """All ones: a setting of the op explains that."""
    logits = np.random.default_rng(2).standard_normal((1, 10)).astype(np.float32)
    right = np.exp(logits) / np.exp(logits).sum()
    softmax = Op(id="s", name="s", type="Softmax", attrs={"axis": -1})
    device = np.full_like(right, 0.9995)
    again = {"axis": lambda axis: np.ones_like(right) if axis in (0, -2) else right}
    finding = explain(
        case(
            device,
            right,
            ops=(softmax,),
            inputs={"x": logits},
            rerun=lambda _op, attrs: again["axis"](attrs["axis"]),
        )
    )
    assert finding is not None
    assert finding.label == "wrong_axis"


@pytest.mark.parametrize("offset", [0.003, 0.02])
def test_gains_of_channels_that_the_floor_would_explain_have_a_cause_all_the_same(offset):
    signs = np.random.default_rng(2).choice([-1, 1], (1, 16, 1, 1))
    offsets = offset * np.random.default_rng(3).standard_normal((1, 16, 1, 1))
    device = (expected() * (1 + 0.01 * signs) + offsets).astype(np.float32)
    found = explain(FaultEvidence("op", 0, device, expected(), 0.01, dtype=DType.BFLOAT16))
    assert found is not None
    assert found.label in {"channel_gain", "channel_offset"}


def test_a_single_value_that_is_cut_off_is_told_as_one():
    reference = expected(shape=(40,))
    reference[7] = 9.0
    finding = explain(case(np.minimum(reference, 6.0), reference))
    assert finding is not None
    assert finding.sentence.startswith("1 value (2.5 %) is cut off at 6; up to 9 is expected")


def test_a_gain_that_differs_by_channel_is_told_with_its_spread():
    gains = np.linspace(0.835, 0.891, 16, dtype=np.float32).reshape(1, 16, 1, 1)
    finding = explain(case(on_device(expected() * gains), expected()))
    assert finding.label == "gain"
    assert "every value" not in finding.sentence
    assert "by channel" in finding.sentence
    low, high = finding.sentence.partition("(")[2].partition(",")[0].split(" to ")
    assert [float(low), float(high)] == pytest.approx([0.835, 0.891], abs=2e-3)
    assert finding.confidence <= 0.75


def test_what_varies_within_a_channel_is_no_constant_of_it():
    device, other = expected(), expected(seed=9)
    device[:, 5] += 0.4 + 0.1 * other[:, 3]
    finding = explain(case(on_device(device), expected()))
    assert "a constant per channel is off in channel 5 (by up to" not in finding.sentence
    assert finding.evidence["slices"] == [5]
    assert finding.confidence <= 0.85


def test_channels_that_lost_their_weights_and_kept_a_little_are_dead():
    device = on_device(expected())
    device[:, 3:5] = 0.002 * expected(seed=4)[:, 3:5]
    finding = explain(case(device, expected()))
    assert finding.label == "dead_channels"
    assert finding.evidence["slices"] == [3, 4]
    assert "next to nothing" in finding.sentence
