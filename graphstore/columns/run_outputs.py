"""The compared outputs of a run as columns: what queries about all of them run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore.columns.coded import Coded, Lists
from graphstore.traverse.arrays import Bool, Int32


@dataclass(frozen=True)
class RunOutputs:
    """The compared outputs of a run by topo and port; place i of each column is one.

    ``over`` is true past a limit. ``broken`` is true where the device has more values that are not
    finite than the golden side; ``distance`` and ``cosine`` are NaN where there is none, ``error``
    is the distance or what stands for it. ``nan`` are the names of the metrics that are NaN.
    """

    topo: Int32
    port: Int32
    over: Bool
    broken: Bool
    distance: NDArray[np.float64]
    error: NDArray[np.float64]
    level: Coded[str | None]
    cosine: NDArray[np.float64]
    nan: Lists

    def values(self, place: int) -> tuple[str | None, float | None, float | None, Any]:
        """(level, cosine similarity, relative Euclidean distance, names of metrics that are NaN) of
        one."""
        cosine, distance = (
            None if np.isnan(column[place]) else float(column[place])
            for column in (self.cosine, self.distance)
        )
        return self.level[place], cosine, distance, list(self.nan[place]) or None

    def worst(self) -> NDArray[np.int64]:
        """The places of all outputs, worst first."""
        return np.lexsort((self.port, self.topo, -self.error, ~self.broken))

    def masks(self, ops: int) -> tuple[Bool, Bool]:
        """(measured, over): one value per op of a graph of *ops* ops."""
        measured = np.zeros(ops, dtype=np.bool_)
        over = np.zeros(ops, dtype=np.bool_)
        measured[self.topo] = True
        over[self.topo[self.over]] = True
        return measured, over
