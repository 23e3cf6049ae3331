"""The numbers of a run as compact JSON columns, for the script of the HTML report."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from divergraph.ask.sentences import names
from divergraph.present.computed_fields import metric_notes
from divergraph.present.pictures.metric_curve import TOLD_METRICS
from divergraph.present.pictures.scatter_plot import scatter_plot
from divergraph.present.pictures.svg import scatter_axes
from divergraph.present.run_report import RunReport
from divergraph.text.numbers import deviation_text, short
from divergraph.text.printable import printable
from divergraph.text.words import REASON_WORDS, UNDEFINED, known, shape_text, undefined
from graphstore.model import SPLIT_NUMBERS, Comparison, Level, Metric, OpState, TensorIO
from graphstore.schema.tables import COUNT_COLUMNS

Column: TypeAlias = "list[object]"
Getter: TypeAlias = Callable[[Comparison], "float | int | str | None"]

_LEVELS = {None: 0, Level.PASS: 1, Level.WARN: 2, Level.FAIL: 3}
_STATES = list(OpState)


def page_data(report: RunReport) -> str:
    """The JSON document; safe inside a script element whatever the names are."""
    words = _Words()
    document = {
        "states": [state.value for state in _STATES],
        "ops": _ops(report, words),
        "tensors": _tensors(report, words),
        "numbers": _numbers(report.tensors),
        "notes": _notes(report.tensors),
        "plots": _plots(report),
        "metrics": [[metric.value, metric.label, metric.words] for metric in TOLD_METRICS],
        "words": words.all,
    }
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    # Nothing in the text may end the element or begin a comment in it.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


class _Words:
    """Every text once; columns hold its number, 0 is the empty text."""

    def __init__(self) -> None:
        self.all: list[str] = [""]
        self._places: dict[str, int] = {"": 0}

    def place(self, text: str | None) -> int:
        place = self._places.get(text or "")
        if place is None:
            place = self._places[text or ""] = len(self.all)
            self.all.append(printable(text or ""))
        return place

    def column(self, texts: Iterable[str | None]) -> list[int]:
        return [self.place(text) for text in texts]


def _ops(report: RunReport, words: _Words) -> dict[str, object]:
    rows = report.rows
    ranks = {one.origin.op: one.origin.rank for one in report.answer.origins}
    return {
        "name": words.column(row.id for row in rows),
        "type": words.column(row.type for row in rows),
        "state": [_STATES.index(row.state or OpState.NOT_COMPARED) for row in rows],
        "row": _rows_of_ops(report),
        "causes": words.column(names(row.origins) for row in rows),
        "ranks": {report.number[op]: rank for op, rank in ranks.items() if op in report.number},
    }


def _rows_of_ops(report: RunReport) -> list[int]:
    """By op: the row of the output whose numbers are the op's, or -1."""
    worst = {(row.id, row.output) for row in report.rows if row.metrics is not None}
    places = {
        item.op: number
        for number, item in enumerate(report.tensors)
        if item.io is TensorIO.OUTPUT and (item.op, item.port) in worst
    }
    return [places.get(row.id, -1) for row in report.rows]


def _tensors(report: RunReport, words: _Words) -> dict[str, Sequence[object]]:
    items = report.tensors
    place = words.place
    columns: dict[str, Sequence[object]] = {
        "op": [report.number[item.op] for item in items],
        "out": [int(item.io is TensorIO.OUTPUT) for item in items],
        "port": [item.port for item in items],
        "level": [_LEVELS[item.level] for item in items],
        "compared": [int(item.compared) for item in items],
        "dtype": [place(item.device_dtype) for item in items],
        "goldenType": [place(item.golden_dtype) for item in items],
        "shape": [0 if item.shape is None else place(shape_text(item.shape)) for item in items],
        "golden": [0 if item.golden is None else place(item.golden.op) for item in items],
        "goldenPort": [0 if item.golden is None else item.golden.port + 1 for item in items],
        "limit": [place(item.limit) for item in items],
        "reason": [place(REASON_WORDS[item.reason]) if item.reason else 0 for item in items],
        "detail": [place(item.detail) for item in items],
        "deviation": [place(_deviation(item)) for item in items],
        "whereBad": [place(item.figures.where_bad) if item.figures else 0 for item in items],
        "role": [place(item.split.role) if item.split else 0 for item in items],
        "guilt": [place(item.split.guilt) if item.split else 0 for item in items],
        "group": [place(names(item.split.group, 6)) if item.split else 0 for item in items],
        "failure": [place(item.split.failure) if item.split else 0 for item in items],
    }
    always = ("op", "out", "port", "level", "compared")
    return {name: column for name, column in columns.items() if name in always or any(column)}


def _deviation(item: Comparison) -> str:
    return "" if item.metrics is None else deviation_text(item.metrics.standard_deviation)


def _metric(metric: Metric) -> Getter:
    def get(item: Comparison) -> float | str | None:
        if item.metrics is not None and undefined(item.metrics, metric):
            return UNDEFINED
        return known(item.metrics, metric)

    return get


def _bad_share(item: Comparison) -> float | None:
    if item.figures is None or item.metrics is None or not item.metrics.elements:
        return None
    return item.figures.bad / item.metrics.elements


def _figure(name: str) -> Getter:
    def get(item: Comparison) -> float | None:
        return None if item.figures is None else getattr(item.figures, name)

    return get


def _split(name: str) -> Getter:
    def get(item: Comparison) -> float | None:
        return None if item.split is None else getattr(item.split, name)

    return get


def _count(name: str) -> Getter:
    def get(item: Comparison) -> int | None:
        return None if item.metrics is None else getattr(item.metrics, name) or None

    return get


_GETTERS: Mapping[str, Getter] = {
    **{metric.value: _metric(metric) for metric in TOLD_METRICS},
    "bad_share": _bad_share,
    "snr": _figure("snr"),
    "max_ulp": _figure("max_ulp"),
    **{name: _split(name) for name in SPLIT_NUMBERS},
    **{name: _count(name) for name in COUNT_COLUMNS if name != "different"},
}


def _numbers(items: Sequence[Comparison]) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for name, get in _GETTERS.items():
        digits = ".9g" if name == Metric.COSINE_SIMILARITY else ".6g"
        column = [_rounded(get(item), digits) for item in items]
        if any(value is not None for value in column):
            columns[name] = column
    return columns


def _rounded(value: float | int | str | None, digits: str) -> object:
    if value is None or isinstance(value, int | str):
        return value
    return float(format(value, digits)) if math.isfinite(value) else short(value)


def _notes(items: Sequence[Comparison]) -> dict[int, object]:
    return {
        row: note
        for row, item in enumerate(items)
        if item.metrics is not None and (item.metrics.notes or _has_nonfinite(item))
        if (note := metric_notes(item.metrics))
    }


def _has_nonfinite(item: Comparison) -> bool:
    assert item.metrics is not None
    return bool(item.metrics.device_nonfinite or item.metrics.golden_nonfinite)


def _plots(report: RunReport) -> list[dict[str, object]]:
    """What can be drawn: the axes as all faces have them, on which the script puts the ops."""
    return [
        {
            "key": curve.metric,
            "label": curve.label,
            "lower": curve.is_cosine,
            "fail": curve.limits.get("fail"),
            "axes": scatter_axes(scatter_plot(curve)).inline(),
        }
        for curve in report.curves
    ]
