"""Attributes that a converter makes constants of, and holds as it holds weights.

A runtime without a kernel for HardSigmoid multiplies, adds and clips; its slope, 1/6 in networks
for phones, is then a constant like others, and off by 2e-4 in float16.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.devices.quantisers import Quantiser
from graphstore.model import Op

_USUAL: Mapping[str, tuple[float, float]] = {"HardSigmoid": (0.2, 0.5)}
"""By op type the slope and the offset where the graph does not write them."""


def has_attributes(op: Op) -> bool:
    """Whether *op* has numbers in attributes that may be held as constants."""
    return op.type in _USUAL


def with_held_attributes(op: Op, feeds: Mapping[str, Array], quantiser: Quantiser) -> Array | None:
    """What *op* makes of *feeds* (arrays by tensor name) with its numbers through
    *quantiser*; None for ops that have none."""
    x = feeds.get(op.inputs[0].tensor) if has_attributes(op) and op.inputs[0] is not None else None
    if x is None or x.dtype.kind != "f":
        return None
    names_and_defaults = zip(("alpha", "beta"), _USUAL[op.type], strict=True)
    attrs = [op.attrs.get(name, usual) for name, usual in names_and_defaults]
    numbers = np.array([attr for attr in attrs if isinstance(attr, float)], np.float32)
    if numbers.size != len(attrs):
        return None
    slope, offset = quantiser(numbers).astype(x.dtype)
    return np.asarray(np.clip(slope * x + offset, 0, 1), x.dtype)
