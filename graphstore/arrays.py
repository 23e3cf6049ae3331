"""A graph as numpy CSR arrays: what every long traversal runs on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]


@dataclass(frozen=True)
class GraphArrays:
    """Ops numbered 0..n-1 by ``topo``; edges as CSR in both directions.

    ``ids[i]`` is the op id of number i, ``number`` its inverse. ``successors`` of i are
    ``successor_ops[successor_start[i]:successor_start[i + 1]]``, sorted and without
    doubles; predecessors alike. Data and call edges only; control edges are in the
    ``control_*`` arrays of the same form.
    """

    ids: tuple[str, ...]
    number: dict[str, int]
    successor_start: Int32
    successor_ops: Int32
    predecessor_start: Int32
    predecessor_ops: Int32
    control_successor_start: Int32
    control_successor_ops: Int32
    control_predecessor_start: Int32
    control_predecessor_ops: Int32
