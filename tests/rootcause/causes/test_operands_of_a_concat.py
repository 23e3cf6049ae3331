"""Causes of errors in single inputs of a Concat."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from divergraph.rootcause.causes.evidence import FaultEvidence
from divergraph.rootcause.causes.rules import explain
from graphstore.model import InputRef, Op, Tensor

Array = np.ndarray
RNG = np.random.default_rng(4)
PARTS = {name: RNG.standard_normal((1, 4, 6, 6)).astype(np.float32) for name in "abc"}


def concat(**changed: Array) -> FaultEvidence:
    """A Concat of three inputs, of which the device had some otherwise."""
    op = Op(
        "cat",
        "cat",
        "Concat",
        inputs=tuple(InputRef(name) for name in PARTS),
        outputs=(Tensor("y", None, (1, 12, 6, 6)),),
        attrs={"axis": 1},
    )
    right = np.concatenate(list(PARTS.values()), 1)
    device = np.concatenate(list({**PARTS, **changed}.values()), 1)
    return FaultEvidence("cat", 0, device, right, 1e-7, PARTS, ops=(op,))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("b", lambda v: v.transpose(0, 1, 3, 2), "with axes 2 and 3 exchanged"),
        ("a", lambda v: np.flip(v, 2), "with axis 2 running backwards"),
        ("c", lambda _: PARTS["a"], "holds input 0 (a)"),
        ("b", lambda v: v * 1.5, "1.5 times"),
    ],
)
def test_it_is_said_which_input_is_wrong_and_how(
    name: str, change: Callable[[Array], Array], words: str
) -> None:
    finding = explain(concat(**{name: change(PARTS[name])}))
    assert finding is not None
    number = "abc".index(name)
    assert words in finding.sentence
    if words != "1.5 times":
        assert (
            f"input {number} ({name}, channels {4 * number}-{4 * number + 3})" in finding.sentence
        )


def test_two_wrong_inputs_are_both_named() -> None:
    turned = {name: PARTS[name].transpose(0, 1, 3, 2) for name in "ab"}
    finding = explain(concat(**turned))
    assert finding is not None
    assert "input 0 (a" in finding.sentence
    assert "input 1 (b" in finding.sentence
