"""Gains and offsets, of all of an output or by channel, lost biases among them."""

from __future__ import annotations

import numpy as np
import pytest
from feature_maps import case, expected, label, on_device

from divergraph.rootcause.causes.evidence import FaultEvidence
from divergraph.rootcause.causes.rules import explain
from graphstore.model import DType, Op


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


def test_a_lost_sign_is_seen_where_many_values_are_zero() -> None:
    rng = np.random.default_rng(3)
    reference = np.where(rng.random((40, 40)) < 0.5, 0, rng.uniform(0.1, 1, (40, 40)))
    reference = reference.astype(np.float32)

    assert label(on_device(-reference), reference) == "gain"


def test_what_looks_like_a_scale_behind_several_ops_is_not_sure() -> None:
    gains = np.linspace(0.8, 1.2, 16).reshape(16, 1, 1).astype(np.float32)
    device = on_device(expected() * gains)
    ops = tuple(Op(id=name, name=name, type=name) for name in ("Conv", "Mul"))
    alone, several = explain(case(device, expected())), explain(case(device, expected(), ops=ops))
    assert alone is not None
    assert several is not None
    assert alone.label == several.label == "channel_gain"
    assert several.confidence < 0.8 < alone.confidence


@pytest.mark.parametrize("offset", [0.003, 0.02])
def test_gains_of_channels_that_the_floor_would_explain_have_a_cause_all_the_same(offset):
    signs = np.random.default_rng(2).choice([-1, 1], (1, 16, 1, 1))
    offsets = offset * np.random.default_rng(3).standard_normal((1, 16, 1, 1))
    device = (expected() * (1 + 0.01 * signs) + offsets).astype(np.float32)
    found = explain(FaultEvidence("op", 0, device, expected(), 0.01, dtype=DType.BFLOAT16))
    assert found is not None
    assert found.label in {"channel_gain", "channel_offset"}


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
