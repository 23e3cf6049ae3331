"""The measurement of one pair of tensors, and its JSON form, exact to the last bit and for NaN. The
JSON is a list in the order of the fields, since a journal may hold a hundred thousand."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from graphstore.model import DType, Figures, Metric, MetricSet, Reason, SideFigures

_METRICS = tuple(field.name for field in fields(MetricSet))
_FIGURES = tuple(field.name for field in fields(Figures))
_SIDE = tuple(field.name for field in fields(SideFigures))
_metric_values = attrgetter(*_METRICS)
_figure_values = attrgetter(*_FIGURES)
_side_values = attrgetter(*_SIDE)
_SIDE_PLACES = (_FIGURES.index("device"), _FIGURES.index("golden"))
_DEVIATION, _NOTES = _METRICS.index("standard_deviation"), _METRICS.index("notes")


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurement of one pair: metrics, with figures where values were read, or a reason.

    ``shape`` is the compared (golden) shape. Types are those of the dumps.
    """

    metrics: MetricSet | None = None
    figures: Figures | None = None
    reason: Reason | None = None
    detail: str = ""
    shape: tuple[int, ...] | None = None
    overflow: bool | None = None
    device_dtype: DType | None = None
    golden_dtype: DType | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled as plain values, which takes a third of the time and space."""
        return measurement_value, (measurement_json(self),)


def measurement_json(measurement: Measurement) -> list[Any]:
    """A value that :func:`json.dumps` writes."""
    metrics = None if measurement.metrics is None else list(_metric_values(measurement.metrics))
    if metrics is not None:
        metrics[_NOTES] = dict(metrics[_NOTES])
    figures = None if measurement.figures is None else list(_figure_values(measurement.figures))
    if figures is not None:
        for place in _SIDE_PLACES:
            figures[place] = _side_values(figures[place])
    return [
        metrics,
        figures,
        measurement.reason and measurement.reason.value,
        measurement.detail,
        measurement.shape,
        measurement.overflow,
        measurement.device_dtype and measurement.device_dtype.value,
        measurement.golden_dtype and measurement.golden_dtype.value,
    ]


def measurement_value(value: Any) -> Measurement:
    """The measurement behind *value*.

    Raises:
        ValueError, KeyError, TypeError: *value* is not a measurement.
    """
    metrics, figures, reason, detail, shape, overflow, device_dtype, golden_dtype = value
    return Measurement(
        metrics=_metrics(metrics),
        figures=_figures(figures),
        reason=None if reason is None else Reason(reason),
        detail=str(detail),
        shape=None if shape is None else tuple(map(int, shape)),
        overflow=overflow,
        device_dtype=None if device_dtype is None else DType(device_dtype),
        golden_dtype=None if golden_dtype is None else DType(golden_dtype),
    )


def _metrics(value: list[Any] | None) -> MetricSet | None:
    if value is None:
        return None
    metrics = list(value)
    first, second, third, fourth = metrics[_DEVIATION]
    metrics[_DEVIATION] = first, second, third, fourth
    metric_notes = metrics[_NOTES]
    metrics[_NOTES] = (
        {Metric(name): str(text) for name, text in metric_notes.items()} if metric_notes else {}
    )
    return MetricSet(**dict(zip(_METRICS, metrics, strict=True)))


def _figures(value: list[Any] | None) -> Figures | None:
    if value is None:
        return None
    figures = list(value)
    for place in _SIDE_PLACES:
        figures[place] = SideFigures(*figures[place])
    return Figures(**dict(zip(_FIGURES, figures, strict=True)))
