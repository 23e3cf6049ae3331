"""Each kind of fault on a feature map gets its name, and any values an answer."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from feature_maps import Array, case, expected, label, on_device
from hypothesis import given, settings
from hypothesis import strategies as st

from divergraph.rootcause.causes.rules import explain
from graphstore.model import Op


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
