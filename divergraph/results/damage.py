"""How an output of the model is damaged, as a whole or in parts, whoever is to blame for it.

A whole output is damaged where it is over a limit. A small part of it, such as the scores beside
boxes in pixels, hardly counts in the norms of the whole, so parts are looked at by themselves: the
slices of each axis (a channel, a column, an item of the batch).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from divergraph.text.words import counted
from divergraph.values.array_types import Array
from graphstore.model import Comparison, DamagedOutput, Metric

_PART_OFF = 0.5
"""Relative error above which a slice shows hardly anything of golden's."""
_FEWEST = 8
"""Elements a slice needs: of fewer, rounding alone makes all equal, or all wrong."""
_MOST_SLICES = 4096
"""Slices of an axis that are looked at. Longer axes are positions, not parts."""
VISIBLE = 0.03
"""The least spread of a part, relative to its size, that is missed: below a few per cent a constant
is as good. Changes the verdict of no case yet."""
_CANCELLED = 2.0**-16
"""A slice below this share of golden's largest value is what is left of sums that cancel (the
gradient of a first query, which sees one key alone): rounding of golden itself."""
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Damage:
    """``words`` say what is wrong with an output, or with the slices ``places`` of its ``axis``.

    ``lost``: one value is left where golden's vary, which rounding in every op never gives.
    """

    words: str
    axis: int | None = None
    places: tuple[int, ...] = ()
    lost: bool = False

    @property
    def part(self) -> str:
        """``4-9 of axis 2``, "" for the whole."""
        return "" if self.axis is None else f"{_numbers(self.places)} of axis {self.axis}"

    def error(self, value: Array, golden: Array) -> float | None:
        """The relative error of *value* there, of indices the share that differs; None where it has
        no finite one."""
        if value.size != golden.size:
            return None
        value = value.reshape(golden.shape)
        if golden.dtype.kind in "biu":
            return float(np.mean(value != golden))
        if self.axis is not None:
            value, golden = (np.take(array, self.places, self.axis) for array in (value, golden))
        there = golden.astype(np.float64)
        with np.errstate(all="ignore"):
            size, off = float(np.linalg.norm(there)), float(np.linalg.norm(value - there))
        return off / size if size > 0.0 and np.isfinite(off) else None

    def of(self, item: Comparison, tensor: str, error: float | None) -> DamagedOutput:
        """The record of this damage to the output *item*, golden's *tensor*."""
        return DamagedOutput(tensor, item.op, item.port, self.part, self.words, error)


def damage_of(item: Comparison, device: Array | None, golden: Array | None) -> Iterator[Damage]:
    """How the compared output *item* is damaged; nothing if it is not.

    *device* and *golden* are its values in golden's shape; without them only the whole is judged.
    """
    whole_damage = _output_fault(item, device, golden)
    if whole_damage:
        yield Damage(whole_damage)  # its parts say no more, unless one is lost
    if device is None or golden is None or device.shape != golden.shape:
        return
    yield from (part for part in damaged_parts(device, golden) if part.lost or not whole_damage)


def damaged_parts(device: Array, golden: Array) -> Iterator[Damage]:
    """The damaged slices along each axis of two arrays of one shape; none unless both are finite
    floats."""
    if device.dtype.kind == "f" and golden.dtype.kind == "f" and np.isfinite(device).all():
        for axis in range(golden.ndim):
            yield from damaged_slices(device, golden, axis)


def mask_of(parts: Iterable[Damage], shape: tuple[int, ...]) -> Array:
    """Where an output of *shape* is damaged, as bools."""
    mask = np.zeros(shape, np.bool_)
    for part in parts:
        mask[(slice(None),) * (part.axis or 0) + (list(part.places),)] = True
    return mask


def _output_fault(item: Comparison, device: Array | None, golden: Array | None) -> str:
    """What is wrong with the whole output, "" if nothing is."""
    metrics = item.metrics
    assert metrics is not None
    if metrics.device_nonfinite > metrics.golden_nonfinite:
        return f"{metrics.device_nonfinite} of {metrics.elements} elements are NaN or infinite"
    if device is not None and golden is not None and golden.dtype.kind in "biu":
        # An index or a class is a name: by how much it is off says nothing.
        names = golden.dtype.kind == "b" or golden.dtype.itemsize >= 4
        if names and device.size == golden.size:
            different = int(np.count_nonzero(device.reshape(-1) != golden.reshape(-1)))
            return f"{different} of {counted(golden.size, 'element')} differ" if different else ""
    if not item.over:
        return ""
    texts = [
        f"{name} {value:.3g}"
        for metric, name in (
            (Metric.COSINE_SIMILARITY, "cosine"),
            (Metric.RELATIVE_EUCLIDEAN_DISTANCE, "relative error"),
        )
        if np.isfinite(value := float(getattr(metrics, metric.value)))
    ]
    return ", ".join([*texts, "over a limit"])


def damaged_slices(device: Array, golden: Array, axis: int) -> Iterator[Damage]:
    """The damaged slices along *axis* of two float arrays of one shape, equal damage together.

    If hardly anything is left of most slices, the damage is not one of parts.
    """
    slices = golden.shape[axis]
    if not 2 <= slices <= _MOST_SLICES or golden.size // slices < _FEWEST:
        return
    here = np.moveaxis(device, axis, 0).reshape(slices, -1)
    there = np.moveaxis(golden, axis, 0).reshape(slices, -1)
    with np.errstate(all="ignore"):
        lows, highs = there.min(axis=1), there.max(axis=1)
        largest = np.maximum(np.abs(lows), np.abs(highs))
        size = np.sqrt(np.mean(np.square(there, dtype=np.float64), axis=1))
        off = np.sqrt(np.mean(np.square(np.subtract(here, there, dtype=np.float64)), axis=1))
        speaks = largest > _CANCELLED * np.max(largest[np.isfinite(largest)], initial=0.0)
        lost = one_valued_slices(device, golden, axis) & np.isfinite(largest) & speaks
        wrong = ~lost & (off > _PART_OFF * size) & (size > 0) & speaks
    for value in np.unique(here[lost, 0]).tolist():
        places = np.flatnonzero(lost & (here[:, 0] == value))
        low, high = float(lows[places].min()), float(highs[places].max())
        words = f"all are {value:.3g} where golden's go from {low:.3g} to {high:.3g}"
        yield Damage(words, axis, tuple(places.tolist()), lost=True)
    if wrong.any() and 2 * np.count_nonzero(wrong) <= slices:
        words = "hardly anything of golden's values is left"
        yield Damage(words, axis, tuple(np.flatnonzero(wrong).tolist()))


def one_valued_slices(
    device: Array, expected: Array, axis: int, smallest: float = VISIBLE
) -> Array:
    """Which slices along *axis* hold one value each on the device, where the expected ones vary by
    more than *smallest* of their size: an array of bools."""
    others = tuple(other for other in range(expected.ndim) if other != axis)
    spread = np.std(expected, axis=others, dtype=np.float64)
    size = np.sqrt(np.mean(np.square(expected, dtype=np.float64), axis=others))
    one_valued: Array = (np.ptp(device, axis=others) == 0.0) & (spread > smallest * size)
    return one_valued


def _numbers(places: tuple[int, ...]) -> str:
    """``4-9``, ``1, 3``, ``1, 3, 5, 7 and 12 more``: the *places*, which rise."""
    if places[-1] - places[0] == len(places) - 1 and len(places) > 2:
        return f"{places[0]}-{places[-1]}"
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(map(str, places[:_SHOWN])) + more
