"""Other numbers in the same places: scaled, shifted, cut off, rounded, constant."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.input_relations.contract import Guess, InputRelations

_MOST_CHANNELS = 16
_SHOWN = 4
_BYTES = 256


def the_same(golden: Array, _: Array | None) -> Iterator[Guess]:
    """The numbers as they are: what is asked of arrangements."""
    yield Guess("", golden)


def scaled(golden: Array, _: Array | None) -> Iterator[Guess]:
    """Times a factor, plus a number, or both."""
    nothing, ones = np.zeros_like(golden), np.ones_like(golden)
    yield Guess(
        lambda solution: f"times {_number(solution[0])}", nothing, 1, (golden,), is_gain=True
    )
    yield Guess(lambda solution: f"plus {_number(solution[0])}", golden, 1, (ones,))
    yield Guess(
        lambda solution: f"times {_number(solution[0])} plus {_number(solution[1])}",
        nothing,
        2,
        (golden, ones),
    )


def scaled_by_channel(golden: Array, _: Array | None) -> Iterator[Guess]:
    """Times a factor and plus a number of each channel: a mean and a standard deviation."""
    for axis, size in enumerate(golden.shape):
        if not 1 < size <= _MOST_CHANNELS or golden.size < 8 * size or axis == 0:
            continue
        places = np.arange(size).reshape(
            [-1 if other == axis else 1 for other in range(golden.ndim)]
        )
        channels = [np.broadcast_to(places == index, golden.shape) for index in range(size)]
        parts = [golden * channel for channel in channels]
        ones = [channel.astype(np.float64) for channel in channels]
        nothing = np.zeros_like(golden)
        yield Guess(partial(_plus, axis), golden, size, tuple(ones))
        yield Guess(partial(_times, axis), nothing, size, tuple(parts))
        yield Guess(partial(_both, axis), nothing, 2 * size, (*parts, *ones))


def _plus(axis: int, solution: Array) -> str:
    return f"plus {_numbers(solution)} by index of axis {axis}"


def _times(axis: int, solution: Array) -> str:
    return f"times {_numbers(solution)} by index of axis {axis}"


def _both(axis: int, solution: Array) -> str:
    factors, offsets = np.split(solution, 2)
    return f"times {_numbers(factors)} plus {_numbers(offsets)} by index of axis {axis}"


def constant(golden: Array, _: Array | None) -> Iterator[Guess]:
    """One number everywhere."""
    ones, nothing = np.ones_like(golden), np.zeros_like(golden)
    yield Guess("replaced by zeros", nothing, is_gain=True)
    yield Guess(
        lambda solution: f"replaced by {_number(solution[0])} everywhere", nothing, 1, (ones,)
    )


def cut_off(golden: Array, device: Array | None) -> Iterator[Guess]:
    """Cut off at the device's smallest and largest number; rounded to its steps."""
    if device is None or device.size == 0:
        return
    low, high = float(device.min()), float(device.max())
    if low == high:
        return
    within = np.clip(golden, low, high)
    limits = f"cut off at {_number(low)} and {_number(high)}"
    yield Guess(limits, within, 2)
    step = grid_step(device)
    if step:
        words = "rounded to integers" if step == 1 else f"rounded to steps of {_number(step)}"
        for rounding in (np.rint, np.floor):
            rounded = rounding(golden / step) * step
            how = " downwards" if rounding is np.floor else ""
            yield Guess(words + how, rounded, 1)
            yield Guess(f"{words}{how} and {limits}", np.clip(rounded, low, high), 3)


def grid_step(device: Array) -> float:
    """The distance of the grid all numbers lie on, which has some thousand places at most; else 0.
    Bytes, which have 256, may be scaled and shifted by now."""
    values = np.unique(device)
    if not 1 < values.size <= 2**12:
        return 0.0
    step = float(np.diff(values).min())
    places = (values - values[0]) / step
    return step if np.abs(places - np.rint(places)).max() < 0.01 else 0.0


def in_steps(device: Array, golden: Array) -> bool:
    """Whether a device has golden's floats in the steps of 8 bits, of which they take up a quarter
    at least, cut off at its ends."""
    if device.dtype.kind != "f" or golden.dtype.kind != "f" or not np.isfinite(device).all():
        return False
    step, within = (
        grid_step(device),
        np.clip(golden.reshape(device.shape), device.min(), device.max()),
    )
    steps = (float(device.max()) - float(device.min())) / step if step else np.inf
    return _BYTES // 4 <= steps < _BYTES and bool((np.abs(device - within) <= 1.01 * step).all())


def _number(value: float) -> str:
    return f"{float(value):.4g}"


def _numbers(values: Array) -> str:
    return ", ".join(map(_number, values[:_SHOWN])) + (", ..." if len(values) > _SHOWN else "")


RELATIONS = InputRelations(valued=(the_same, scaled, scaled_by_channel, constant, cut_off))
