"""Tensors of 8 bits in a device whose graph says nothing of it: their values lie on even grids.

Simulators and converters often dump what their integers stand for, beside a graph of floats. Each
tensor then has a grid of its own, of at most 256 values, and shows its step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.devices.precision import LOOKED_AT
from divergraph.rootcause.devices.quantisers import Quantiser, Quantisers
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.values.run_values import RunValues
from graphstore.model import Comparison, TensorRef

_LEVELS = 256
_LEAST_VALUES = 16
"""Tensors with fewer different values lie on a grid by chance, as masks and one-hot vectors do."""
_PROBED = 12
"""Tensors, evenly spread, of which some must lie on a grid before all are looked at."""
_OFF = 0.01
"""How far from a whole number of steps a value may be: float32 leaves 1e-5, values on no grid are
off by up to half."""
_SHARE = 0.5
"""The least share of tensors on grids for a device that quantises: one of them is a fault, of which
a cause tells. Changes the verdict of a detector dumped as floats of 8 bits (undecided before)."""
_LEAST_TENSORS = 3


def with_seen_grids(
    quantisers: Quantisers,
    golden: OpGraph,
    compared: Mapping[TensorRef, Comparison],
    values: RunValues,
) -> Quantisers:
    """*quantisers*, or where the graph tells of none, the quantisers that outputs show."""
    if (
        quantisers.by_tensor
        or quantisers.held
        or quantisers.outputs
        or quantisers.unseen
        or quantisers.dynamic
    ):
        return quantisers
    refs = [ref for ref, item in compared.items() if item.golden is not None]
    probed = refs[:: max(1, len(refs) // _PROBED)]
    if not any(_grid(values.device(ref)) for ref in probed):
        return quantisers
    steps: dict[TensorRef, float] = {}
    float_count = 0
    for ref in refs:
        value = values.device(ref)
        float_count += value is not None and value.dtype.kind == "f" and _many(value)
        step = _grid(value)
        if step is not None:
            steps[ref] = step
    on_grid = {ref for ref in steps if not _is_golden_on_grid(compared[ref], values)}
    if len(on_grid) < max(_LEAST_TENSORS, _SHARE * float_count):
        return quantisers
    grids = {ref: _quantiser(steps[ref]) for ref in steps}
    names = {golden.name(item.golden): ref for ref in grids if (item := compared[ref]).golden}
    return replace(
        quantisers,
        by_tensor={name: grids[ref] for name, ref in names.items()},
        held=grids,
        silent=True,
    )


def _quantiser(step: float) -> Quantiser:
    """Rounds to whole steps. Where the range ends is not known: what is cut off is no noise."""
    return Quantiser(np.array([step]), np.array([0.0]), -_LEVELS, _LEVELS)


def _is_golden_on_grid(item: Comparison, values: RunValues) -> bool:
    return item.golden is not None and _grid(values.golden(item.golden)) is not None


def _many(value: Array) -> bool:
    return np.unique(_some(value)).size >= _LEAST_VALUES


def _some(value: Array) -> Array:
    return value.reshape(-1)[:: max(1, value.size // LOOKED_AT)]


def _grid(value: Array | None) -> float | None:
    """The step of the even grid of at most 256 values, 0 among them, that *value* lies on; None
    without one."""
    if value is None or value.dtype.kind != "f" or not value.size:
        return None
    if np.unique(_some(value)).size > _LEVELS:
        return None
    levels = np.unique(value).astype(np.float64)
    if not _LEAST_VALUES <= levels.size <= _LEVELS or not np.isfinite(levels).all():
        return None
    low, high = min(levels[0], 0.0), max(levels[-1], 0.0)
    smallest = float(np.diff(levels).min())
    steps_of_range = (high / 127, high / 255, -low / 128, -low / 127, (high - low) / 255)
    for step in sorted({*(smallest / n for n in range(1, 5)), *steps_of_range}, reverse=True):
        if step <= 0.0 or (high - low) / step >= _LEVELS + 0.5:
            continue
        steps = levels / step
        if np.abs(steps - np.rint(steps)).max() <= _OFF:
            return float(step)
    return None
