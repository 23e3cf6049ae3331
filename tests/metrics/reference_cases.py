"""Tensor pairs whose metrics the reference comparator was asked for once.

``reference_cases.json`` holds what msaccucmp of mindstudio-probe 26.2.0 wrote for them: the
device side as Nano dumps, the golden side as ``.npy`` files, one op each. Values come from
formulas, so that no random generator has to stay as it is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Pair = tuple[np.ndarray, np.ndarray]


def waves(shape: tuple[int, ...], phase: float = 0.0) -> np.ndarray:
    """Values between -3 and 3 that do not repeat."""
    at = np.arange(np.prod(shape, dtype=int), dtype=np.float64)
    values = np.sin(0.7 * at + phase) + np.sin(0.013 * at * (1 + phase)) + np.cos(1.9 * at)
    return values.reshape(shape).astype(np.float32)


def _noisy(size: float, shape: tuple[int, ...] = (2, 3, 16, 16)) -> Pair:
    golden = waves(shape)
    return golden + np.float32(size) * waves(shape, 2.0), golden


def _sparse() -> Pair:
    golden = waves((1, 40, 12, 12))
    device = golden.copy()
    device.reshape(-1)[[7, 2000, 5000]] += np.float32(1)
    return device, golden


def _with(value: float) -> Pair:
    device, golden = _noisy(1e-3)
    device.reshape(-1)[11] = value
    return device, golden


def _integers(dtype: str) -> Pair:
    device, golden = _noisy(0.05)
    shift = 4 if dtype.startswith("u") else 0
    return ((device + shift) * 12).astype(dtype), ((golden + shift) * 12).astype(dtype)


CASES: dict[str, Callable[[], Pair]] = {
    "noise3": lambda: _noisy(1e-3),
    "noise1": lambda: _noisy(0.1),
    "noise0": lambda: _noisy(2.0),
    "long": lambda: _noisy(1e-2, (300_000,)),
    "scaled": lambda: (waves((500,)) * np.float32(1.14), waves((500,))),
    "moved": lambda: (waves((500,)) + np.float32(100), waves((500,)) + np.float32(100.5)),
    "opposite": lambda: (-waves((500,)), waves((500,))),
    "sparse": _sparse,
    "half": lambda: (waves((700,)).astype(np.float16), waves((700,))),
    "halves": lambda: (
        waves((700,), 0.01).astype(np.float16),
        waves((700,)).astype(np.float16),
    ),
    "double": lambda: (waves((700,), 0.01), waves((700,)).astype(np.float64)),
    "int8": lambda: _integers("int8"),
    "uint8": lambda: _integers("uint8"),
    "int32": lambda: _integers("int32"),
    "bools": lambda: (waves((400,), 0.2) > 0, waves((400,)) > 0),
    "bool_float": lambda: (waves((400,)) > 0, waves((400,))),
    "constant": lambda: (np.full((8, 8), 2.5, np.float32), np.full((8, 8), 2.0, np.float32)),
    "constant_golden": lambda: (waves((64,)), np.full((64,), 2.0, np.float32)),
    "zero_golden": lambda: (waves((64,)), np.zeros(64, np.float32)),
    "zero_device": lambda: (np.zeros(64, np.float32), waves((64,))),
    "zeros": lambda: (np.zeros(64, np.float32), np.zeros(64, np.float32)),
    "some_zeros": lambda: (waves((640,), 0.1), np.where(waves((640,)) > 0, waves((640,)), 0)),
    "equal": lambda: (waves((640,)), waves((640,))),
    "single": lambda: (np.float32([[1.5]]), np.float32([[1.0]])),
    "two": lambda: (np.float32([1.5, -1.0]), np.float32([1.0, 3.0])),
    "tiny_values": lambda: (
        waves((640,), 0.1) * np.float32(1e-6),
        waves((640,)) * np.float32(1e-6),
    ),
    "nan_device": lambda: _with(float("nan")),
    "inf_device": lambda: _with(float("inf")),
}
