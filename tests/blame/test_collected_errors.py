"""Which introduced errors are added to the golden run."""

from __future__ import annotations

import numpy as np

from divergraph.root_cause.blame_collected import Collected
from divergraph.root_cause.explaining import Judged
from divergraph.root_cause.groups import Group
from graphstore.model import ErrorSplit, Role, TensorRef


def test_where_the_reference_is_no_number_nothing_is_added() -> None:
    ref = TensorRef("op", 0)
    device = np.array([1.5, np.inf, 0.0], np.float32)
    reference = np.array([1.0, np.inf, np.nan], np.float32)
    collected = Collected({"op:0": "t"}, 1 << 20, frozenset({"t"}))
    split = ErrorSplit(Role.INTRODUCES, introduced=0.5)
    collected.see(Judged(Group(ref, ref, ("op",)), split, device, reference, reference, {}))
    (item,) = collected.items()
    assert item.values().tolist() == [0.5, 0.0, 0.0]
