"""Reruns start from the reference, also where that allows for how the device holds weights."""

from __future__ import annotations

import numpy as np
import pytest

from divergraph.rootcause.groups.group_reruns import OpVerdict, beyond_reruns
from divergraph.rootcause.groups.groups import Group
from graphstore.model import ErrorSplit, Role, TensorRef

OWN = np.array([1.0, -2.0, 3.0, np.inf], np.float32)


def apart(reference: list[float], noise: float) -> list[float] | None:
    ref = TensorRef("op", 0)
    value = np.array(reference, np.float32)
    split = ErrorSplit(Role.INTRODUCES, introduced=0.5)
    found = beyond_reruns(
        OpVerdict(Group(ref, ref, ("op",)), split, value, value, value, {}, noise), OWN
    )
    return None if found is None else found.tolist()


def test_what_the_reference_adds_is_added_to_reruns() -> None:
    assert apart([1.25, -2.0, 2.5, np.inf], 1e-3) == [0.25, 0.0, -0.5, 0.0]


@pytest.mark.parametrize("by", [0.0, 1e-3])
def test_within_noise_the_reference_is_what_reruns_give(by) -> None:
    assert apart([1.0 + by, -2.0, 3.0, np.inf], 1e-3) is None
