"""The compared outputs of a run as columns: what queries about all of them run on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore.model import Level
from graphstore.traverse.arrays import Bool, Int32

_FAIL = Level.FAIL.value
_NAN_OR_INF = 1e308
"""The distance of an output whose distance is not a number, for sorting."""


@dataclass(frozen=True)
class RunOutputs:
    """The compared outputs of a run by topo and port; place i of each column is one.

    ``values`` are (level, cosine similarity, relative Euclidean distance, names of metrics
    that are NaN), ``over`` is true past a limit. ``broken`` is true where the device has
    more values that are not finite than the golden side; ``distance`` is NaN where there is
    none, ``error`` is the distance or what stands for it.
    """

    topo: Int32
    port: Int32
    over: Bool
    broken: Bool
    distance: NDArray[np.float64]
    error: NDArray[np.float64]
    values: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, rows: Sequence[Sequence[Any]]) -> RunOutputs:
        """The columns of the rows of the query ``run_outputs``, in its order."""
        columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * 10
        topo, port, level, cosine, distance, nan, device, golden, elements, different = columns
        # None becomes NaN; a distance is never NaN itself
        distances = np.asarray(distance, dtype=np.float64)
        device_nonfinite = np.asarray(device, dtype=np.int64)
        golden_nonfinite = np.asarray(golden, dtype=np.int64)
        return cls(
            np.asarray(topo, dtype=np.int32),
            np.asarray(port, dtype=np.int32),
            np.asarray([one == _FAIL for one in level], dtype=np.bool_),
            device_nonfinite > golden_nonfinite,
            distances,
            _error(distances, device_nonfinite + golden_nonfinite, elements, different),
            tuple(zip(level, cosine, distance, nan, strict=True)),
        )

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


def _error(
    distances: NDArray[np.float64],
    nonfinite: NDArray[np.int64],
    elements: Sequence[int],
    different: Sequence[int],
) -> NDArray[np.float64]:
    size = np.maximum(np.asarray(elements, dtype=np.float64), 1.0)
    share = np.asarray(different, dtype=np.float64) / size
    error: NDArray[np.float64] = np.where(
        np.isnan(distances), np.where(nonfinite > 0, _NAN_OR_INF, share), distances
    )
    return error
