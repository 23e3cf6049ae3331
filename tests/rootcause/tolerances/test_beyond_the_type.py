"""Numbers beyond the type: masks that stand for infinity, and overflows of the emulation."""

from __future__ import annotations

import numpy as np
from judged_output import H, V, acted, context, judged

from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.tolerances.masks import END_OF_FLOAT32
from graphstore.model import Effect, Guilt


def test_masks_are_left_out_however_they_are_held() -> None:
    reference = V.copy()
    reference[:900] = -1e9
    known = context()
    known.arithmetic.numbers = (-1e9,)
    for held in (-65504.0, -1e4, -np.inf):
        device = FP16.rounded(reference)
        device[:900] = held
        emulation = FP16.rounded(reference)
        found, split = judged(device, reference, emulation, known=known)
        assert split.guilt is Guilt.NONE, held
        mask = acted(found, "beyond the type")
        assert mask.effect is Effect.EXCLUDE
        assert mask.numbers == {"held": 900, "missed": 0, "overflown": 0}
    device[:900] = 0.0
    found, split = judged(device, reference, emulation, known=known)
    assert split.guilt is Guilt.GUILTY
    assert acted(found, "beyond the type").numbers == {"held": 0, "missed": 900, "overflown": 0}


def test_the_end_of_float32_is_infinity_whatever_the_rest_is_computed_in() -> None:
    reference = V.copy()
    reference[:900] = np.finfo(np.float32).min
    for held in (-END_OF_FLOAT32, -np.inf):
        device = reference.copy()
        device[:900] = held
        found, split = judged(device, reference, reference, known=context(FP32))
        assert split.guilt is Guilt.NONE, held
        numbers = acted(found, "beyond the type").numbers
        assert numbers == {"held": 900, "missed": 0, "overflown": 0}
    for wrong in (-65504.0, END_OF_FLOAT32):
        device[:900] = wrong
        found, split = judged(device, reference, reference, known=context(FP32))
        assert split.guilt is Guilt.GUILTY, wrong
        assert acted(found, "beyond the type") is None


def test_an_overflow_of_the_type_excuses_only_the_same_places() -> None:
    emulation = H.copy()
    emulation[:3] = np.inf
    found, split = judged(emulation, V, emulation)
    assert split.guilt is Guilt.NONE
    assert acted(found, "beyond the type").numbers["overflown"] == 3
    other = H.copy()
    other[10:13] = np.inf
    _, split = judged(other, V, emulation)
    assert split.guilt is Guilt.GUILTY
    finite, _ = judged(H, V, emulation)
    assert acted(finite, "beyond the type") is None
