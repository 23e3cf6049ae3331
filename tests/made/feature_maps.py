"""A feature map, as half-precision devices with and without a fault have it, and its cause."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from divergraph.rootcause.causes.evidence import FaultEvidence
from divergraph.rootcause.causes.rules import explain
from graphstore.model import DType, FindingKind

Array = np.ndarray[Any, np.dtype[np.float32]]
HALF = 2.0**-11
SHAPE = (1, 16, 12, 10)


def expected(seed: int = 0, shape: tuple[int, ...] = SHAPE) -> Array:
    """A feature map: channels of different size and offset, smooth along the picture."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if len(shape) == 4:
        values += np.sin(np.arange(shape[-1]) / 2) + np.cos(np.arange(shape[-2]) / 3)[:, None]
        values *= rng.uniform(0.5, 2, (1, shape[1], 1, 1))
        values += rng.uniform(-1, 1, (1, shape[1], 1, 1))
    return values.astype(np.float32)


def on_device(values: Array, seed: int = 1) -> Array:
    """As a half-precision device has it: sums a little off, then rounded."""
    noise = np.random.default_rng(seed).standard_normal(values.shape) * HALF
    return (values * (1 + noise)).astype(np.float16).astype(np.float32)


def case(device: Array, reference: Array, **more: Any) -> FaultEvidence:
    return FaultEvidence("op", 0, device, reference, 1.2 * HALF, dtype=DType.FLOAT16, **more)


def label(device: Array, reference: Array, **more: Any) -> str:
    finding = explain(case(device, reference, **more))
    assert finding is not None
    assert finding.kind is FindingKind.CAUSE
    json.dumps(dict(finding.evidence), allow_nan=False)
    return finding.label
