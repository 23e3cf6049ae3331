"""How many terms are added up for one element of an output."""

from __future__ import annotations

import numpy as np
import pytest

from divergraph.rootcause.devices.long_sums import terms
from graphstore.model import Op


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("kind", "given", "made", "count"),
    [
        ("MatMul", [zeros(8, 512), zeros(512, 3)], zeros(8, 3), 512),
        ("Conv", [zeros(1, 16, 9, 9), zeros(32, 16, 1, 1)], zeros(1, 32, 9, 9), 16),
        ("Softmax", [zeros(2, 20000)], zeros(2, 20000), 20000),
        ("ReduceMean", [zeros(4, 1000)], zeros(4, 1), 1000),
        ("GlobalAveragePool", [zeros(1, 3, 50, 50)], zeros(1, 3, 1, 1), 2500),
        ("ReduceMax", [zeros(4, 1000)], zeros(4, 1), 1),
        ("Slice", [zeros(4, 1000)], zeros(4, 1), 1),
        ("Add", [zeros(4), zeros(4)], zeros(4), 1),
        ("MatMul", [], zeros(1), 1),
    ],
)
def test_terms(kind: str, given: list[np.ndarray], made: np.ndarray, count: int) -> None:
    assert terms(Op("o", "o", kind), given, made) == count


def test_a_softmax_adds_along_its_axis() -> None:
    op = Op("o", "o", "Softmax", attrs={"axis": 1})
    assert terms(op, [zeros(2, 300, 7)], zeros(2, 300, 7)) == 300
