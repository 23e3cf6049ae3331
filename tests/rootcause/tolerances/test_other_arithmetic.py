"""An op in another arithmetic than its like makes the errors of that arithmetic."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from judged_output import acted, context, judged

from divergraph.rootcause.devices.precisions.bf16 import BF16
from divergraph.rootcause.devices.precisions.fp32 import FP32
from graphstore.model import Effect, Guilt

RNG = np.random.default_rng(8)
X, W = (RNG.standard_normal(shape).astype(np.float32) for shape in ((64, 32), (32, 48)))
EXACT = X @ W
COARSE = BF16.rounded(X) @ BF16.rounded(W)
ALMOST = COARSE * (1 + RNG.uniform(-1, 1, COARSE.shape) * 2.0**-22).astype(np.float32)
"""The same products, added up in another order."""
OTHER = SimpleNamespace(emulated=lambda _groups, _feeds: [COARSE], precision=FP32)
KNOWN = replace(context(FP32, given={"x": X}), others=(OTHER,))


def test_the_errors_of_short_operands_are_recognised_one_by_one() -> None:
    found, split = judged(ALMOST, EXACT, EXACT, known=KNOWN)
    step = acted(found, "other arithmetic")
    assert step.effect is Effect.WIDEN
    assert step.numbers["cosine"] > 0.99
    assert split.guilt is Guilt.NONE


def test_errors_of_that_size_but_other_places_are_a_fault() -> None:
    sizes = np.linalg.norm(COARSE - EXACT) / np.linalg.norm(EXACT)
    device = EXACT * (1 + RNG.standard_normal(EXACT.shape) * sizes).astype(np.float32)
    found, split = judged(device, EXACT, EXACT, known=KNOWN)
    assert acted(found, "other arithmetic") is None
    assert split.guilt is Guilt.GUILTY


def test_a_fault_on_top_of_such_an_arithmetic_is_seen() -> None:
    device = ALMOST.copy()
    device[:, 7] *= np.float32(1.3)
    _, split = judged(device, EXACT, EXACT, known=KNOWN)
    assert split.guilt is Guilt.GUILTY


def test_where_all_ops_are_alike_there_is_no_other() -> None:
    found, split = judged(ALMOST, EXACT, EXACT, known=context(FP32, given={"x": X}))
    assert acted(found, "other arithmetic") is None
    assert split.guilt is Guilt.GUILTY


def test_no_other_arithmetic_explains_what_its_own_explains_better() -> None:
    rng = np.random.default_rng(0)
    two, wide = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 32), (32, 600)))
    exact, imitated = two @ wide, BF16.rounded(two) @ BF16.rounded(wide)
    device = imitated.copy()
    device[:, 7] *= np.float32(1.06)
    coarser = SimpleNamespace(
        emulated=lambda _groups, _feeds: [BF16.rounded(imitated)], precision=BF16
    )
    found, split = judged(device, exact, imitated, known=replace(KNOWN, others=(coarser,)))
    assert acted(found, "other arithmetic") is None
    assert split.guilt is Guilt.GUILTY


def test_the_nearer_of_two_arithmetics_still_explains_the_error() -> None:
    rounded = BF16.rounded(ALMOST)
    coarser = SimpleNamespace(
        emulated=lambda _groups, _feeds: [BF16.rounded(COARSE)], precision=BF16
    )
    found, split = judged(rounded, EXACT, COARSE, known=replace(KNOWN, others=(coarser,)))
    assert split.guilt is Guilt.NONE
    step = acted(found, "other arithmetic")
    assert step is None or step.numbers["cosine"] > 0.9
