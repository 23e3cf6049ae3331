"""What differs at the outputs of two runs, each output's difference relative to that output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from divergraph.execute.contract import Array

Change: TypeAlias = Mapping[str, Array]
"""By output what differs, over the length of the golden output."""


@dataclass(frozen=True)
class GoldenOutputs:
    """Golden outputs by name, with their lengths: hundreds of runs are held against them."""

    values: Mapping[str, Array]
    scales: Mapping[str, float] = field(init=False)

    def __post_init__(self) -> None:
        scales = {name: norm(value) or 1.0 for name, value in self.values.items()}
        object.__setattr__(self, "scales", scales)

    def change(self, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """What *outputs* differ by from these; others are not looked at."""
        return {
            name: _difference(outputs[name], value) / self.scales[name]
            for name, value in self.values.items()
        }

    def off(self, outputs: Mapping[str, Array]) -> dict[str, float]:
        """The relative error of each of *outputs*, infinite where it alone is not finite."""
        return {
            name: float("inf") if _one_sided(outputs[name], self.values[name]).any() else norm(each)
            for name, each in self.change(outputs).items()
        }


def minus(one: Change, other: Change) -> dict[str, Array]:
    """One change without another."""
    return {name: value - other[name] for name, value in one.items()}


def length(changes: Change) -> float:
    """The root of the sum of all squares."""
    return float(np.sqrt(sum(float(np.vdot(each, each).real) for each in changes.values())))


def root_mean_square(values: Iterable[float]) -> float:
    """Of as many numbers as there are; at least one."""
    return float(np.sqrt(np.mean(np.square(list(values)))))


def flat(changes: Change) -> Array:
    """All of it in one row."""
    return np.concatenate([each.ravel() for each in changes.values()])


def norm(values: Array) -> float:
    """The length of what is finite."""
    finite = np.asarray(values, np.float64).reshape(-1)
    finite = finite[np.isfinite(finite)]
    return float(np.linalg.norm(finite))


def _difference(device: Array, golden: Array) -> Array:
    """device - golden; a value only one side has finite counts as off by the largest there is."""
    shaped = np.asarray(device, np.float64).reshape(golden.shape)
    wanted = np.asarray(golden, np.float64)
    both = np.isfinite(shaped) & np.isfinite(wanted)
    found = np.zeros(wanted.shape)
    np.subtract(shaped, wanted, out=found, where=both)
    one_sided = _one_sided(shaped, wanted)
    if one_sided.any():
        largest = float(np.abs(wanted[np.isfinite(wanted)]).max()) or 1.0
        found[one_sided] = 10.0 * largest
    return found


def _one_sided(device: Array, golden: Array) -> Array:
    """Where only the golden value is finite."""
    found: Array = np.isfinite(golden) & ~np.isfinite(np.reshape(device, golden.shape))
    return found
