"""Which introduced errors are added to the golden run."""

from __future__ import annotations

import numpy as np

from divergraph.blame.collected_errors import Collected
from divergraph.rootcause.groups.group_reruns import OpVerdict
from divergraph.rootcause.groups.groups import Group
from graphstore.model import ErrorSplit, Role, TensorRef


def collected(device: list[float], reference: list[float], golden: list[float]) -> list[float]:
    """The error of one tensor that is added to the golden run."""
    ref = TensorRef("op", 0)
    values = [np.array(each, np.float32) for each in (device, reference, golden)]
    found = Collected({"op:0": "t"}, 1 << 20, frozenset({"t"}))
    split = ErrorSplit(Role.INTRODUCES, introduced=0.5)
    found.see(OpVerdict(Group(ref, ref, ("op",)), split, *values, {}))
    (item,) = found.items()
    return item.values().tolist()


def test_where_the_reference_is_no_number_nothing_is_added() -> None:
    reference = [1.0, np.inf, np.nan]
    assert collected([1.5, np.inf, 0.0], reference, reference) == [0.5, 0.0, 0.0]


def test_behind_a_gate_that_is_closed_in_golden_nothing_is_added() -> None:
    """Another op opened it on the device; what this one then rounds is not its own doing."""
    assert collected([1.5, 2.5, 0.5], [1.0, 2.0, 0.0], [1.0, 0.0, 0.0]) == [0.5, 0.0, 0.5]
