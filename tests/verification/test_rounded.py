"""Rounding to integers: values next to a tie go either way, others do not."""

from __future__ import annotations

import numpy as np
import pytest

from divergraph.verification.verify_dump import verify
from tests.made.device_ops import DeviceOps

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

SCALE, OFFSET = 1.7, 3.0


@pytest.fixture
def values():
    return (np.random.default_rng(0).normal(size=(64, 100)) * 20).astype(np.float16)


def _int8(value):
    return np.clip(value, -128, 127).astype(np.int8)


def _wrong(folder, value, **outputs):
    made = DeviceOps(folder)
    exact = value.astype(float) * SCALE + OFFSET
    for name in "abcd":
        made.add(name, "AscendQuant", [value], [_int8(np.rint(exact))], scale=SCALE, offset=OFFSET)
    for name, (after, attrs) in outputs.items():
        said = {"scale": SCALE, "offset": OFFSET, **attrs}
        made.add(name, "AscendQuant", [value], [_int8(after)], **said)
    found = verify(made.operands())
    assert found.not_covered == {}
    assert not found.suspects
    return [each.op for each in found.wrong]


def test_a_scale_in_half_precision_moves_values_over_their_ties(tmp_path, values):
    halves = values * np.float16(SCALE) + np.float16(OFFSET)
    assert (np.rint(halves) != np.rint(values.astype(float) * SCALE + OFFSET)).sum() > 50
    assert _wrong(tmp_path, values, half=(np.rint(halves), {})) == []


def test_ties_may_go_away_from_zero(tmp_path, values):
    ties = (np.round(values * 2) / 2).astype(np.float16)
    away = np.sign(ties) * np.floor(np.abs(ties.astype(float)) + 0.5)
    assert _wrong(tmp_path, ties, away=(away, {"scale": 1.0, "offset": 0.0})) == []


@pytest.mark.parametrize("mode", ["Floor", "Ceil", "Trunc"])
def test_every_way_of_rounding_has_its_own_ties(tmp_path, values, mode):
    way = {"Floor": np.floor, "Ceil": np.ceil, "Trunc": np.trunc}[mode]
    halves = values * np.float16(SCALE) + np.float16(OFFSET)
    rounded = way(halves), {"round_mode": mode}
    other = np.rint(values.astype(float) * SCALE + OFFSET), {"round_mode": mode}
    assert _wrong(tmp_path, values, right=rounded, other=other) == ["other"]


def test_another_scale_is_wrong(tmp_path, values):
    other = np.rint(values.astype(float) * (SCALE * 1.03) + OFFSET)
    assert _wrong(tmp_path, values, scaled=(other, {})) == ["scaled"]
