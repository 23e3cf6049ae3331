"""A run as one Parquet table: a row for each device tensor, typed columns, nothing rounded."""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import attrgetter
from types import NoneType
from typing import IO, TYPE_CHECKING, Any, TypeAlias, get_args, get_origin

from divergraph.present.declared_answer import answer_json
from divergraph.present.run_report import RunReport
from graphstore.model import Comparison, ErrorSplit, Figures, Metric, SideFigures
from graphstore.op_row import OpRow
from graphstore.schema.codec import declared
from graphstore.schema.tables import COUNT_COLUMNS, SIDES, SPREAD_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

_Getter: TypeAlias = Callable[[Comparison], object]
_Column: TypeAlias = "tuple[str, pa.DataType, _Getter]"

_TENSOR = (
    *("shape", "device_dtype", "golden_dtype", "level", "failed", "limit", "reason", "detail"),
    *("overflow", "address", "device_path", "golden_path"),
)
"""The other fields of a tensor, in the order of their columns."""


def write_parquet_to(file: IO[bytes], report: RunReport) -> None:
    """Write the table to an open file. Unknown values are null; NaN and infinity are kept. The
    run's own facts are JSON in the table's metadata, under ``divergraph``."""
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
        "counts": answer_json(run.counts),
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
    """The columns of a tensor, then of its metrics, figures and split, in the order of their
    records."""
    import pyarrow as pa

    own = {name: (name, _arrow(kind), _own(name)) for name, kind in declared(Comparison).items()}
    own["address"] = ("address", pa.uint64(), _own("address"))  # 64 bits of the device's memory
    return [
        *(own["io"], own["port"]),
        ("golden_op", pa.string(), lambda item: None if item.golden is None else item.golden.op),
        ("golden_port", pa.int64(), _golden_port),
        ("evidence", pa.string(), _own("rule")),
        *(own[name] for name in _TENSOR),
        *_metric_columns(),
        *_figure_columns(),
        *((name, _arrow(kind), _of("split", name)) for name, kind in declared(ErrorSplit).items()),
    ]


def _arrow(kind: Any) -> pa.DataType:
    """The type of a column for a declared type; None is null everywhere."""
    import pyarrow as pa

    inner = [arg for arg in get_args(kind) if arg not in (NoneType, Ellipsis)]
    if tuple in (get_origin(kind), *map(get_origin, inner)):
        item = get_args(inner[0])[0] if get_origin(kind) is not tuple else inner[0]
        return pa.list_(_arrow(item))
    base = inner[0] if inner else kind
    plain = {float: pa.float64(), int: pa.int64(), bool: pa.bool_()}
    return plain.get(base, pa.string())


def _own(name: str) -> _Getter:
    """A field of the tensor itself; no text is null."""

    def get(item: Comparison) -> object:
        value = getattr(item, name)
        return None if value == "" else value

    return get


def _of(record: str, name: str) -> _Getter:
    """A field of a record of the tensor, null where it has none; *name* may be a path."""
    get_record, get_field = attrgetter(record), attrgetter(name)

    def get(item: Comparison) -> object:
        record = get_record(item)
        return None if record is None else get_field(record)

    return get


def _golden_port(item: Comparison) -> int | None:
    return item.golden.port if item.golden is not None and item.golden.port >= 0 else None


def _metric_columns() -> list[_Column]:
    import pyarrow as pa

    columns: list[_Column] = [
        (metric.value, pa.float64(), _of("metrics", metric.value))
        for metric in Metric
        if metric is not Metric.STANDARD_DEVIATION
    ]
    columns += [
        (name, pa.float64(), _deviation(place)) for place, name in enumerate(SPREAD_COLUMNS)
    ]
    columns += [(name, pa.int64(), _of("metrics", name)) for name in COUNT_COLUMNS]
    columns.append(("notes", pa.map_(pa.string(), pa.string()), _notes))
    return columns


def _deviation(place: int) -> _Getter:
    def get(item: Comparison) -> object:
        return None if item.metrics is None else item.metrics.standard_deviation[place]

    return get


def _notes(item: Comparison) -> list[tuple[str, str]] | None:
    if item.metrics is None:
        return None
    return [(metric.value, note) for metric, note in item.metrics.notes.items()]


def _figure_columns() -> list[_Column]:
    """A side's figures with its name before; ``exact`` tells its mean and std from those of the
    metrics, which are of float32."""
    exact = ("mean", "std")
    ordered = sorted(declared(SideFigures).items(), key=lambda one: one[0] in exact)
    columns = [
        (
            f"{side}_exact_{name}" if name in exact else f"{side}_{name}",
            _arrow(kind),
            _of("figures", f"{side}.{name}"),
        )
        for side in SIDES
        for name, kind in ordered
    ]
    others = [one for one in declared(Figures).items() if one[0] not in SIDES]
    return columns + [(name, _arrow(kind), _of("figures", name)) for name, kind in others]
