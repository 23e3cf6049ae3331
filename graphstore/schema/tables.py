"""What a store keeps: node and relationship tables and their columns, said once.

The embedded store makes its tables from this, Neo4j its constraints and indexes, and
both take their rows in this form. Absent is null. DOUBLE columns never hold NaN: a NaN
is null and its column is named in ``Metric.nan`` (so both stores answer alike; ladybug
turns a whole column chunk into NaN if its first value is one and another is null).

A million ops must fit into 400 MiB, and the embedded engine compresses no text. So ids of
ops, tensors and metrics are numbers, and a name that follows from others is not written.
``Op.name`` is unique in its graph; ``own_name``, what the file says, is null where it is the
same. ``Tensor.name`` is null where it is ``<op>:<port>``, and an edge's ``tensor`` where it is
the output the edge comes from.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import NoneType
from typing import Any, get_args, get_origin

from graphstore.errors import StoreError
from graphstore.model import ErrorSplit, Figures, Metric, MetricSet, SideFigures
from graphstore.schema.codec import declared

SCHEMA_VERSION = 1
"""Raised whenever tables or columns change. Stores of another version are refused."""


def check_version(version: object, where: str) -> None:
    """Return if a store, or an entry of one, that says *version* can be read here.

    Raises:
        StoreError: another program wrote it.
    """
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"it has schema version {version!r}, this program reads {SCHEMA_VERSION} only",
            where=where,
            hint="use the divergraph that wrote it, or another store",
        )


class ColumnType(StrEnum):
    """Types both stores have; the value is the embedded store's word."""

    STRING = "STRING"
    INT64 = "INT64"
    DOUBLE = "DOUBLE"
    BOOL = "BOOLEAN"
    STRINGS = "STRING[]"
    BYTES = "BLOB"


@dataclass(frozen=True, slots=True)
class Column:
    """One property."""

    name: str
    type: ColumnType


@dataclass(frozen=True, slots=True)
class NodeTable:
    """Nodes of one label; the first column, ``id``, is unique. ``indexed`` speeds look-ups."""

    label: str
    columns: tuple[Column, ...]
    indexed: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class RelTable:
    """Relationships of one type between nodes of the given labels.

    ``key`` are the columns that tell two of them between the same nodes apart.
    """

    type: str
    source: str
    target: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()


def _columns(**groups: str) -> tuple[Column, ...]:
    return tuple(Column(name, ColumnType[kind]) for name, kind in groups.items())


def _column_of(name: str, declared_type: Any) -> Column:
    """The column of a field of a record; whether it may be None makes no difference."""
    inner = [each for each in get_args(declared_type) if each is not NoneType]
    is_tuple = get_origin(declared_type) is tuple
    base = ColumnType.STRINGS if is_tuple else _TYPES.get(inner[0] if inner else declared_type)
    return Column(name, base or ColumnType.STRING)


_TYPES = {float: ColumnType.DOUBLE, int: ColumnType.INT64, bool: ColumnType.BOOL}

SPREAD_COLUMNS = ("device_mean", "device_std", "golden_mean", "golden_std")
"""The four numbers of ``standard_deviation``, in its order."""
METRIC_COLUMNS = tuple(
    name
    for metric in Metric
    for name in (SPREAD_COLUMNS if metric is Metric.STANDARD_DEVIATION else (metric.value,))
)
"""The ten metrics as columns."""
COUNT_COLUMNS = tuple(name for name, kind in declared(MetricSet).items() if kind is int)
METRIC_SET_COLUMNS = (*METRIC_COLUMNS, "nan", "notes_json", *COUNT_COLUMNS)
"""The columns of a Metric row that hold its metric set."""

SPLIT_COLUMNS = tuple(
    _column_of("split_group" if name == "group" else name, kind)
    for name, kind in declared(ErrorSplit).items()
    if name != "suspicion"
)
"""How an error splits; ``suspicion`` stands apart, it is known of origins by thresholds, too.
``role`` is always set, ``split_group`` null where it is the golden op the tensor is held against.
"""

SIDES = ("device", "golden")
FINITE_COLUMNS = {
    f"{side}_finite_{name}": f"{side}_{name}" for side in SIDES for name in ("mean", "std")
}
"""Mean and std of the finite values; null where they are those of all values, in the others."""
FIGURE_COLUMNS = tuple(
    column
    for name, kind in declared(Figures).items()
    for column in (
        [
            _column_of(f"{name}_finite_{part}" if part in ("mean", "std") else f"{name}_{part}", of)
            for part, of in declared(SideFigures).items()
        ]
        if name in SIDES
        else [_column_of(name, kind)]
    )
)
"""The figures of a tensor pair; ``bad`` is always set."""

NODES: tuple[NodeTable, ...] = (
    NodeTable("Model", _columns(id="STRING", name="STRING", framework="STRING")),
    NodeTable(
        "Graph",
        _columns(
            id="STRING",
            model="STRING",
            name="STRING",
            kind="STRING",
            framework="STRING",
            format="STRING",
            sha256="STRING",
            content="STRING",
            ops="INT64",
            edges="INT64",
            subgraphs="INT64",
            fused_ops="INT64",
            source="STRING",
            header_json="STRING",
        ),
    ),
    NodeTable(
        "Run",
        _columns(
            id="STRING",
            name="STRING",
            golden="STRING",
            device="STRING",
            created="STRING",
            verdict="STRING",
            method="STRING",
            version="STRING",
            ops="INT64",
            tensors="INT64",
            compared="INT64",
            over="INT64",
            not_compared="INT64",
            origins_json="STRING",
            loose_links_json="STRING",
            next_measured="BOOL",
            suspects_json="STRING",
        ),
    ),
    NodeTable("Import", _columns(id="STRING", name="STRING", graph="STRING", created="STRING")),
    NodeTable(
        "Op",
        _columns(
            id="INT64",
            graph="STRING",
            name="STRING",
            own_name="STRING",
            type="STRING",
            topo="INT64",
            place="INT64",
            sequence="INT64",
            subgraph="STRING",
            originals="INT64",
            original_names="STRINGS",
            attrs_json="STRING",
        ),
        (("graph", "topo"), ("graph", "name"), ("graph", "type")),
    ),
    NodeTable(
        "OpBlock",
        _columns(id="INT64", graph="STRING", first="INT64", data="BYTES"),
        (("graph", "first"),),
    ),
    NodeTable(
        "Tensor",
        _columns(
            id="INT64",
            op="INT64",
            port="INT64",
            name="STRING",
            shape="STRING",
            dtype="STRING",
            layout="STRING",
            origin_op="STRING",
            origin_port="INT64",
        ),
        (("op",),),
    ),
    NodeTable(
        "Metric",
        _columns(
            id="INT64",
            run="STRING",
            seq="INT64",
            op="INT64",
            tensor="INT64",
            io="STRING",
            port="INT64",
            state="STRING",
            level="STRING",
            compared="BOOL",
            over="BOOL",
            origin_rank="INT64",
            suspicion="DOUBLE",
            cause="STRING",
        )
        + tuple(Column(name, ColumnType.DOUBLE) for name in METRIC_COLUMNS)
        + _columns(
            nan="STRINGS",
            notes_json="STRING",
            **dict.fromkeys(COUNT_COLUMNS, "INT64"),
            failed="STRINGS",
            golden_name="STRING",
            golden_port="INT64",
            rule="STRING",
            reason="STRING",
            detail="STRING",
            shape="STRING",
            device_dtype="STRING",
            golden_dtype="STRING",
            device_path="STRING",
            golden_path="STRING",
            address="STRING",
            overflow="BOOL",
        )
        + SPLIT_COLUMNS
        + _columns(limit_rule="STRING")
        + FIGURE_COLUMNS,
        (
            ("run", "seq"),
            ("run", "io"),
            ("run", "reason"),
            ("run", "guilt"),
            ("run", "amplification"),
            ("run", "suspicion"),
            ("origin_rank",),
        ),
    ),
    NodeTable(
        "Finding",
        _columns(
            id="INT64",
            run="STRING",
            seq="INT64",
            kind="STRING",
            label="STRING",
            sentence="STRING",
            op="INT64",
            op_name="STRING",
            io="STRING",
            port="INT64",
            confidence="DOUBLE",
            evidence_json="STRING",
        ),
        (("run", "seq"),),
    ),
)

RELS: tuple[RelTable, ...] = (
    RelTable(
        "FEEDS",
        "Op",
        "Op",
        (
            Column("out", ColumnType.INT64),
            Column("in", ColumnType.INT64),
            Column("tensor", ColumnType.STRING),
            Column("kind", ColumnType.STRING),
        ),
        ("out", "in", "kind"),
    ),
    RelTable("CONTROLS", "Op", "Op", ()),
    RelTable(
        "FUSES",
        "Op",
        "Op",
        _columns(
            run="STRING",
            seq="INT64",
            evidence="STRING",
            out="INT64",
            origin_out="INT64",
            confidence="DOUBLE",
        ),
        ("run", "seq"),
    ),
    RelTable("NEXT_MEASURED", "Op", "Op", _columns(run="STRING", back="BOOL"), ("run",)),
    RelTable("OF", "Metric", "Op", ()),
    RelTable("AGAINST", "Metric", "Op", ()),
    RelTable("COMPARED", "Run", "Metric", ()),
    RelTable("ABOUT", "Finding", "Op", ()),
    RelTable("FOUND", "Run", "Finding", ()),
)
