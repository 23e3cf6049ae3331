"""Measurements as JSON values and back, bit for bit: NaN and infinities too."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from divergraph.comparison.tensor_pairs import Measurement
from graphstore.model import DType, Figures, Metric, MetricSet, Reason, SideFigures


def measurement_json(found: Measurement) -> dict[str, Any]:
    """A value that :func:`json.dumps` writes; fields without a value are left out."""
    value: dict[str, Any] = {
        "metrics": None if found.metrics is None else asdict(found.metrics),
        "figures": None if found.figures is None else asdict(found.figures),
        "reason": found.reason,
        "detail": found.detail,
        "shape": found.shape,
        "overflow": found.overflow,
        "device_dtype": found.device_dtype,
        "golden_dtype": found.golden_dtype,
    }
    return {name: part for name, part in value.items() if part is not None}


def measurement_value(value: Any) -> Measurement:
    """The measurement behind *value*.

    Raises:
        ValueError, KeyError, TypeError: *value* is no such thing.
    """
    reason, shape = value.get("reason"), value.get("shape")
    return Measurement(
        metrics=_metrics(value.get("metrics")),
        figures=_figures(value.get("figures")),
        reason=None if reason is None else Reason(reason),
        detail=str(value["detail"]),
        shape=None if shape is None else tuple(map(int, shape)),
        overflow=value.get("overflow"),
        device_dtype=_dtype(value.get("device_dtype")),
        golden_dtype=_dtype(value.get("golden_dtype")),
    )


def _metrics(value: dict[str, Any] | None) -> MetricSet | None:
    if value is None:
        return None
    first, second, third, fourth = value["standard_deviation"]
    notes = {Metric(name): str(said) for name, said in value["notes"].items()}
    return MetricSet(
        **{**value, "standard_deviation": (first, second, third, fourth), "notes": notes}
    )


def _figures(value: dict[str, Any] | None) -> Figures | None:
    if value is None:
        return None
    sides = {side: SideFigures(**value[side]) for side in ("device", "golden")}
    return Figures(**{**value, **sides})


def _dtype(value: str | None) -> DType | None:
    return None if value is None else DType(value)
