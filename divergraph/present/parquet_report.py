"""A run as one Parquet table: a row for each device tensor, typed columns, nothing rounded."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, TypeAlias

from divergraph.present.json.shapes import counts_json
from divergraph.present.run_report import RunReport
from graphstore.model import Comparison, Figures, Metric, SideFigures
from graphstore.op_row import OpRow

if TYPE_CHECKING:
    import pyarrow as pa

_Column: TypeAlias = "tuple[str, pa.DataType, Callable[[Comparison], object]]"

_DEVIATION = ("device_mean", "device_std", "golden_mean", "golden_std")


def write_parquet_to(file: IO[bytes], report: RunReport) -> None:
    """Write the table to an open file. What is not known is null; NaN and infinity stay what
    they are. The run's own facts are JSON in the table's metadata, under ``divergraph``."""
    import pyarrow.parquet as pq

    pq.write_table(parquet_table(report), file, compression="zstd")


def parquet_table(report: RunReport) -> pa.Table:
    """The table :func:`write_parquet_to` writes; docs/how-to/reports.md names its columns."""
    import pyarrow as pa

    items = report.tensors
    rows = [report.rows[report.number[item.op]] for item in items]
    fields: list[pa.Field] = []
    arrays: list[pa.Array] = []
    for name, kind, row_value in _op_columns():
        fields.append(pa.field(name, kind))
        arrays.append(pa.array([row_value(row) for row in rows], kind))
    for name, kind, value in _columns():
        fields.append(pa.field(name, kind))
        arrays.append(pa.array([value(item) for item in items], kind))
    metadata = {"divergraph": json.dumps(_facts(report))}
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=metadata))


def _facts(report: RunReport) -> dict[str, object]:
    run = report.run
    return {
        "run": run.name,
        "created": run.created,
        "verdict": run.verdict.value,
        "method": run.method.value,
        "golden": report.golden_name,
        "device": report.device_name,
        "counts": counts_json(run.counts),
        "thresholds": dict(run.thresholds),
        "origins": [one.origin.op for one in report.answer.origins],
        "version": run.version,
    }


def _op_columns() -> list[tuple[str, pa.DataType, Callable[[OpRow], object]]]:
    import pyarrow as pa

    text, names = pa.string(), pa.list_(pa.string())
    return [
        ("topo", pa.int64(), lambda row: row.topo),
        ("op", text, lambda row: row.id),
        ("type", text, lambda row: row.type),
        ("state", text, lambda row: None if row.state is None else row.state.value),
        ("gain", pa.float64(), lambda row: row.gain),
        ("inherited_from", names, lambda row: list(row.origins)),
    ]


def _columns() -> list[_Column]:
    return [*_tensor_columns(), *_metric_columns(), *_figure_columns(), *_split_columns()]


def _tensor_columns() -> list[_Column]:
    import pyarrow as pa

    text, names, whole = pa.string(), pa.list_(pa.string()), pa.int64()
    return [
        ("io", text, lambda item: item.io.value),
        ("port", whole, lambda item: item.port),
        ("golden_op", text, lambda item: None if item.golden is None else item.golden.op),
        ("golden_port", whole, _golden_port),
        ("evidence", text, lambda item: None if item.rule is None else item.rule.value),
        ("shape", pa.list_(whole), lambda item: item.shape),
        ("device_dtype", text, lambda item: item.device_dtype and item.device_dtype.value),
        ("golden_dtype", text, lambda item: item.golden_dtype and item.golden_dtype.value),
        ("level", text, lambda item: None if item.level is None else item.level.value),
        ("failed", names, lambda item: [metric.value for metric in item.failed]),
        ("limit", text, lambda item: item.limit or None),
        ("reason", text, lambda item: None if item.reason is None else item.reason.value),
        ("detail", text, lambda item: item.detail or None),
        ("overflow", pa.bool_(), lambda item: item.overflow),
        ("address", whole, lambda item: item.address),
        ("device_path", text, lambda item: item.device_path or None),
        ("golden_path", text, lambda item: item.golden_path or None),
    ]


def _golden_port(item: Comparison) -> int | None:
    return item.golden.port if item.golden is not None and item.golden.port >= 0 else None


def _metric_columns() -> list[_Column]:
    import pyarrow as pa

    columns: list[_Column] = [
        (metric.value, pa.float64(), _of_metrics(metric.value))
        for metric in Metric
        if metric is not Metric.STANDARD_DEVIATION
    ]
    columns += [(name, pa.float64(), _deviation(place)) for place, name in enumerate(_DEVIATION)]
    for name in ("elements", "device_nonfinite", "golden_nonfinite", "different"):
        columns.append((name, pa.int64(), _of_metrics(name)))
    columns.append(("notes", pa.map_(pa.string(), pa.string()), _notes))
    return columns


def _of_metrics(name: str) -> Callable[[Comparison], object]:
    def get(item: Comparison) -> object:
        return None if item.metrics is None else getattr(item.metrics, name)

    return get


def _deviation(place: int) -> Callable[[Comparison], object]:
    def get(item: Comparison) -> object:
        return None if item.metrics is None else item.metrics.standard_deviation[place]

    return get


def _notes(item: Comparison) -> list[tuple[str, str]] | None:
    if item.metrics is None:
        return None
    return [(metric.value, said) for metric, said in item.metrics.notes.items()]


def _figure_columns() -> list[_Column]:
    """The figures by the names :class:`Figures` gives them; a side's with its name before."""
    import pyarrow as pa

    columns: list[_Column] = []
    counts = ("zeros", "nans", "infinities")
    for side in ("device", "golden"):
        for name in ("low", "high", *counts):
            kind = pa.int64() if name in counts else pa.float64()
            columns.append((f"{side}_{name}", kind, _of_side(side, name)))
        columns += [
            (f"{side}_exact_{name}", pa.float64(), _of_side(side, name)) for name in ("mean", "std")
        ]
    whole = ("equal", "bad", "first_bad", "worst")
    for name in _figure_names():
        kind = pa.int64() if name in whole else pa.string() if name == "where_bad" else pa.float64()
        columns.append((name, kind, _of_figures(name)))
    return columns


def _figure_names() -> Sequence[str]:
    return [name for name in Figures.__dataclass_fields__ if name not in ("device", "golden")]


def _of_side(side: str, name: str) -> Callable[[Comparison], object]:
    def get(item: Comparison) -> object:
        if item.figures is None:
            return None
        figures: SideFigures = getattr(item.figures, side)
        return getattr(figures, name)

    return get


def _of_figures(name: str) -> Callable[[Comparison], object]:
    def get(item: Comparison) -> object:
        return None if item.figures is None else getattr(item.figures, name)

    return get


def _split_columns() -> list[_Column]:
    import pyarrow as pa

    text, number = pa.string(), pa.float64()
    kinds = {
        "role": text,
        "guilt": text,
        "introduced": number,
        "propagated": number,
        "floor": number,
        "suspicion": number,
        "amplification": number,
        "group": pa.list_(text),
        "reference": text,
        "failure": text,
    }
    return [(name, kind, _of_split(name)) for name, kind in kinds.items()]


def _of_split(name: str) -> Callable[[Comparison], object]:
    def get(item: Comparison) -> object:
        return None if item.split is None else getattr(item.split, name)

    return get
