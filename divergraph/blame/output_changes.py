"""Differences at the outputs of two runs, each relative to the norm of its output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from divergraph.execute.contract import Array

Change: TypeAlias = Mapping[str, Array]
"""By output the difference (an array of its shape) over the golden output's norm."""


@dataclass(frozen=True)
class GoldenOutputs:
    """Golden outputs by name, with their norms, as hundreds of runs are compared with them. Of an
    output with a mask, an array of bools of its shape, only what is True there counts."""

    values: Mapping[str, Array]
    masks: Mapping[str, Array] = field(default_factory=dict)
    scales: Mapping[str, float] = field(init=False)

    def __post_init__(self) -> None:
        scales = {name: norm(self._part(name, value)) or 1.0 for name, value in self.values.items()}
        object.__setattr__(self, "scales", scales)

    def _part(self, name: str, value: Array) -> Array:
        mask = self.masks.get(name)
        return value if mask is None else np.where(mask, value, 0.0)

    def change(self, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """How *outputs* differ from these; outputs of other names are ignored."""
        return {
            name: self._part(name, _difference(outputs[name], value)) / self.scales[name]
            for name, value in self.values.items()
        }

    def off(self, outputs: Mapping[str, Array]) -> dict[str, float]:
        """The relative error of each of *outputs*, infinite where it alone is not finite."""
        return {
            name: float("inf")
            if _one_sided(outputs[name], self.values[name]).any()
            else norm(change)
            for name, change in self.change(outputs).items()
        }


def minus(one: Change, other: Change) -> dict[str, Array]:
    """The difference of two changes."""
    return {name: value - other[name] for name, value in one.items()}


def length(changes: Change) -> float:
    """The Euclidean norm of a change."""
    return float(np.sqrt(sum(float(np.vdot(change, change).real) for change in changes.values())))


def root_mean_square(values: Iterable[float]) -> float:
    """The root mean square of at least one number."""
    return float(np.sqrt(np.mean(np.square(list(values)))))


def flat(changes: Change) -> Array:
    """A change as one flat array."""
    return np.concatenate([change.ravel() for change in changes.values()])


def norm(values: Array) -> float:
    """The Euclidean norm of the finite elements."""
    finite = np.asarray(values, np.float64).reshape(-1)
    finite = finite[np.isfinite(finite)]
    return float(np.linalg.norm(finite))


def _difference(device: Array, golden: Array) -> Array:
    """device - golden; where only one side is finite, the largest magnitude there is counts as the
    error."""
    shaped = np.asarray(device, np.float64).reshape(golden.shape)
    wanted = np.asarray(golden, np.float64)
    both = np.isfinite(shaped) & np.isfinite(wanted)
    difference = np.zeros(wanted.shape)
    np.subtract(shaped, wanted, out=difference, where=both)
    one_sided = _one_sided(shaped, wanted)
    if one_sided.any():
        largest = float(np.abs(wanted[np.isfinite(wanted)]).max()) or 1.0
        difference[one_sided] = 10.0 * largest
    return difference


def _one_sided(device: Array, golden: Array) -> Array:
    """A mask of the elements that are finite in golden only."""
    one_sided: Array = np.isfinite(golden) & ~np.isfinite(np.reshape(device, golden.shape))
    return one_sided
