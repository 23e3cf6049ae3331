"""Weights of one name that are not alike: the sides are no two forms of one model.

Only where no original op runs: there nothing else tells them from what a device computes wrongly.
Weights in integers are held against floats by correlation, as their scales are not at hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.values import correlation
from divergraph.text.words import first_names
from graphstore.contract import RunData
from graphstore.model import Constant

_ALIKE = 0.9
"""The least correlation of weights that are the same but for 8 bits, which leave 0.99 and more;
others have next to none."""
_FEWEST = 8
"""Weights of fewer values may be alike by chance."""


@dataclass(frozen=True, slots=True)
class UnlikeWeights:
    """Weights of one name and shape that hold other values on both sides: their names with the
    correlation of the values, of ``compared`` that both sides have."""

    correlations: Mapping[str, float]
    compared: int

    @property
    def are_most(self) -> bool:
        """Whether most weights are others: then these are two models, and no op is at fault."""
        return len(self.correlations) > self.compared / 2

    @property
    def words(self) -> str:
        """The sentence for the run; "" if all are alike."""
        if not self.correlations:
            return ""
        named = [f"{name} (correlation {alike:.2f})" for name, alike in self.correlations.items()]
        sentence = (
            f"the sides hold other weights in {len(named)} of {self.compared}: {first_names(named)}"
        )
        if self.are_most:
            sentence += "; they are no two forms of one model, so no layer need agree"
        return sentence


def unlike_weights(data: RunData, golden: Path, device: Path) -> UnlikeWeights:
    """The weights of the two models' files that are not alike."""
    ours = {constant.tensor.name: constant for constant in data.device.constants}
    correlations: dict[str, float] = {}
    compared = 0
    for constant in data.golden.constants:
        other = ours.get(constant.tensor.name)
        values = _values(golden, constant)
        against = None if other is None else _values(device, other)
        if values is None or against is None or values.shape != against.shape:
            continue
        compared += 1
        alike = _correlation(values, against)
        if alike < _ALIKE:
            correlations[constant.tensor.name] = alike
    return UnlikeWeights(correlations, compared)


def _values(path: Path, constant: Constant) -> Array | None:
    """The values of a constant that lies in the model's file as plain numbers; None otherwise."""
    tensor = constant.tensor
    kind = None if tensor.dtype is None else tensor.dtype.numpy
    shape = [size for size in tensor.shape or () if size is not None]
    count = int(np.prod(shape)) if shape else 0
    plain = kind is not None and constant.nbytes == count * kind.itemsize and count >= _FEWEST
    if not plain or constant.location or len(shape) != len(tensor.shape or ()):
        return None
    try:
        with path.open("rb") as file:
            file.seek(constant.offset)
            values = np.fromfile(file, kind, count)
    except OSError:
        return None  # the run was made of it before; a file that is gone has no weights to tell
    return values.reshape(shape) if values.size == count else None


def _correlation(one: Array, other: Array) -> float:
    """The correlation of the whole, or of the slices of the first or last axis, each of which may
    have a scale of its own, whichever is largest."""
    a, b = one.astype(np.float64), other.astype(np.float64)
    return max(_of([(a, b)]), *(_of(_slices(a, b, axis)) for axis in (0, -1)))


def _slices(a: Array, b: Array, axis: int) -> Sequence[tuple[Array, Array]]:
    ours, theirs = (np.moveaxis(array, axis, 0) for array in (a, b))
    return [(x, y) for x, y in zip(ours, theirs, strict=True) if x.size >= _FEWEST]


def _of(pairs: Sequence[tuple[Array, Array]]) -> float:
    products = [correlation(a, b) for a, b in pairs if np.ptp(a) and np.ptp(b)]
    return float(np.median(products)) if products else -1.0
