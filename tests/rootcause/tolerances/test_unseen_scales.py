"""Quantising with scales the graph does not give."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from judged_output import V, acted, context, judged

from divergraph.rootcause.devices.precisions.int8 import INT8
from divergraph.rootcause.devices.quantisers import Quantisers


def quantising(hidden: bool, owns: tuple[str, ...] = ()):
    known = context(INT8)
    known.arithmetic.quantisers = Quantisers({"w": None}, frozenset())
    op = SimpleNamespace(owns=owns, type="If")
    return replace(known, hidden_bodies=hidden, golden=SimpleNamespace(ops={"op": op}))


def test_bodies_nobody_sees_may_quantise() -> None:
    for hidden, owns, emulation, widened in (
        (True, ("then",), V, True),
        (True, (), V, False),
        (False, ("then",), V, False),
        (False, (), None, True),
    ):
        found, _ = judged(V, V, emulation, known=quantising(hidden, owns))
        assert (acted(found, "unseen scales") is not None) is widened
        assert (found.estimate.unseen > 0) is widened
    found, _ = judged(V, V, None, known=context(INT8))
    assert acted(found, "unseen scales") is None


def test_kernels_in_integers_add_up_like_chance() -> None:
    one, _ = judged(V, V, V, known=context(INT8, integers=True))
    four, _ = judged(V, V, V, known=context(INT8, integers=True, ops=4))
    assert four.estimate.floor == pytest.approx(2 * one.estimate.floor)
    assert acted(one, "unseen scales").numbers == {"ops": 1}
