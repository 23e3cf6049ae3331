"""Which device ops of a run were measured and which are over a limit, as array masks.

An op is measured if at least one of its *outputs* was compared, and over if one of
these is. Inputs do not count: they are outputs of other ops.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from graphstore.model import Comparison, TensorIO
from graphstore.traverse.arrays import Bool, GraphArrays


def measured_ops(arrays: GraphArrays, comparisons: Iterable[Comparison]) -> Bool:
    """True for each op (by number) with a compared output."""
    return _mask(arrays, (item for item in comparisons if item.compared))


def over_ops(arrays: GraphArrays, comparisons: Iterable[Comparison]) -> Bool:
    """True for each op (by number) with a compared output over a limit."""
    return _mask(arrays, (item for item in comparisons if item.compared and item.over))


def _mask(arrays: GraphArrays, comparisons: Iterable[Comparison]) -> Bool:
    mask = np.zeros(len(arrays.ids), dtype=np.bool_)
    for item in comparisons:
        if item.io is TensorIO.OUTPUT:
            mask[arrays.number[item.op]] = True
    return mask
