"""Names that are wrong are counted; no line is fitted to them."""

from __future__ import annotations

import numpy as np
import pytest

from divergraph.rootcause.causes.evidence import FaultEvidence
from divergraph.rootcause.causes.rules import explain
from graphstore.model import Op

RIGHT = np.random.default_rng(2).integers(0, 500, (20, 4))


def told(device: np.ndarray, reference: np.ndarray, *types: str):
    ops = tuple(Op(f"op{number}", kind, kind) for number, kind in enumerate(types))
    found = explain(FaultEvidence("op", 0, device, reference, ops=ops))
    assert found is not None
    return found


def changed(values: np.ndarray) -> np.ndarray:
    device = values.copy()
    device[3:9, 1] = np.array([7, 123, 9, 400, 33, 81])
    return device


@pytest.mark.parametrize(("kind", "word"), [("TopK", "indices"), ("Cast", "integers")])
def test_wrong_ones_are_counted(kind: str, word: str) -> None:
    found = told(changed(RIGHT), RIGHT, kind)
    assert found.label == "wrong_choices"
    assert f"6 of 80 {word} are wrong" in found.sentence
    assert found.evidence["first_index"] == [3, 1]


def test_booleans_have_their_word() -> None:
    device = RIGHT > 250
    device[2, 2] = not device[2, 2]
    assert "1 of 80 booleans is wrong" in told(device, RIGHT > 250, "Greater").sentence


def test_integers_on_a_scale_are_numbers() -> None:
    assert told(changed(RIGHT), RIGHT, "QuantizeLinear").label != "wrong_choices"
