"""What a store keeps: node and relationship tables and their columns, declared once.

The embedded store makes its tables from this, Neo4j its constraints and indexes, and both take
their rows in this form. Absent is null. DOUBLE columns never hold NaN: a NaN is null and its column
is named in ``Metric.nan`` (so both stores answer alike; ladybug turns a whole column chunk into NaN
if its first value is one and another is null).

A run of a million ops takes 480 MiB, and the embedded engine compresses no text. So ids of ops,
tensors and metrics are numbers, and a name that follows from others is not written. ``Op.name`` is
unique in its graph; ``own_name``, what the file says, is null where it is the same. ``Tensor.name``
is null where it is ``<op>:<port>``, and an edge's ``tensor`` where it is the output the edge comes
from.

What joins nodes stands twice: as a key among the columns (``Op.graph``, ``Tensor.op``), which the
program's own queries ask for, and as a relationship, for who asks by hand. In a run of a million
ops these relationships take 80 MiB, and a seventh of the CPU time of its import.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import NoneType
from typing import Any, get_args, get_origin

from graphstore.columns.parts import COUNTS, FIGURES, SPREAD
from graphstore.errors import StoreError
from graphstore.model import ErrorSplit, Figures, SideFigures
from graphstore.schema.codec import declared

SCHEMA_VERSION = 3
"""Increased whenever tables or columns change. What is written has this version."""
RENAMED = {
    "attrs_json": "attrs_json is now `attributes`, a list of texts such as 'axis=1'",
    "SHOWS": "SHOWS is now HAS_GRAPH, HAS_OP and PRODUCES, which are always there",
}
"""What users' queries may still call by an earlier name."""
_READ = (2, SCHEMA_VERSION)
"""Versions that are read; the older one has no relationships for the keys among the columns, and
attributes of ops as one text."""


def check_version(version: object, where: str) -> None:
    """Return if a store, or an entry of one, that says *version* can be read here.

    Raises:
        StoreError: another program wrote it.
    """
    if version not in _READ:
        raise StoreError(
            f"it has schema version {version!r}, this program reads "
            f"{' and '.join(map(str, _READ))} only",
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
    INTS = "INT64[]"
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


def _columns(names: str) -> tuple[Column, ...]:
    """Columns by their *names*; the type of one that is no text stands behind a colon."""
    partitions = (word.partition(":") for word in names.split())
    return tuple(Column(name, ColumnType[kind or "STRING"]) for name, _, kind in partitions)


def _column_of(name: str, declared_type: Any) -> Column:
    """The column of a field of a record; whether it may be None makes no difference."""
    inner = [arg for arg in get_args(declared_type) if arg is not NoneType]
    is_tuple = get_origin(declared_type) is tuple
    base = ColumnType.STRINGS if is_tuple else _TYPES.get(inner[0] if inner else declared_type)
    return Column(name, base or ColumnType.STRING)


_TYPES = {float: ColumnType.DOUBLE, int: ColumnType.INT64, bool: ColumnType.BOOL}

SPREAD_COLUMNS, METRIC_COLUMNS, COUNT_COLUMNS = SPREAD, FIGURES, COUNTS
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
    NodeTable("Model", _columns("id name framework")),
    NodeTable(
        "Graph",
        _columns(
            "id model name kind framework format sha256 content ops:INT64 edges:INT64 "
            "subgraphs:INT64 fused_ops:INT64 source header_json"
        ),
    ),
    NodeTable(
        "Run",
        _columns(
            "id name golden device created verdict method version ops:INT64 tensors:INT64 "
            "compared:INT64 over:INT64 not_compared:INT64 origins_json loose_links_json "
            "next_measured:BOOL suspects_json"
        ),
    ),
    NodeTable("Import", _columns("id name graph created")),
    NodeTable(
        "Op",
        _columns(
            "id:INT64 graph name own_name type topo:INT64 place:INT64 sequence:INT64 subgraph "
            "originals:INT64 original_names:STRINGS attributes:STRINGS kind rank:INT64 ranks:INTS"
        ),
        (("graph", "topo"), ("graph", "name"), ("graph", "type")),
    ),
    NodeTable(
        "OpBlock",
        _columns("id:INT64 graph first:INT64 data:BYTES"),
        (("graph", "first"),),
    ),
    NodeTable(
        "Tensor",
        _columns(
            "id:INT64 op:INT64 port:INT64 name shape dtype layout origin_op origin_port:INT64 "
            "dims:INTS"
        ),
        (("op",),),
    ),
    NodeTable(
        "Metric",
        _columns(
            "id:INT64 run seq:INT64 op:INT64 tensor:INT64 io port:INT64 state level "
            "compared:BOOL over:BOOL origin_rank:INT64 suspicion:DOUBLE cause"
        )
        + tuple(Column(name, ColumnType.DOUBLE) for name in METRIC_COLUMNS)
        + _columns("nan:STRINGS notes_json")
        + tuple(Column(name, ColumnType.INT64) for name in COUNT_COLUMNS)
        + _columns(
            "failed:STRINGS golden_name golden_port:INT64 rule reason detail shape device_dtype "
            "golden_dtype device_path golden_path address overflow:BOOL"
        )
        + SPLIT_COLUMNS
        + _columns("limit_rule")
        + FIGURE_COLUMNS,
        (
            *(("run", name) for name in ("seq", "io", "reason", "guilt", "amplification")),
            *(("run", "suspicion"), ("origin_rank",)),
        ),
    ),
    NodeTable(
        "Finding",
        _columns(
            "id:INT64 run seq:INT64 kind label sentence op:INT64 op_name io port:INT64 "
            "confidence:DOUBLE evidence_json"
        ),
        (("run", "seq"),),
    ),
)

RELS: tuple[RelTable, ...] = (
    RelTable("HAS_GRAPH", "Model", "Graph", ()),
    RelTable("HAS_OP", "Graph", "Op", ()),
    RelTable("PRODUCES", "Op", "Tensor", ()),
    RelTable("INPUT_OF", "Tensor", "Op", _columns("port:INT64 kind"), ("port", "kind")),
    RelTable(
        "FEEDS",
        "Op",
        "Op",
        _columns("out:INT64 in:INT64 tensor kind"),
        ("out", "in", "kind"),
    ),
    RelTable("CONTROLS", "Op", "Op", ()),
    RelTable(
        "FUSES",
        "Op",
        "Op",
        _columns("run seq:INT64 evidence out:INT64 origin_out:INT64 confidence:DOUBLE"),
        ("run", "seq"),
    ),
    RelTable("NEXT_MEASURED", "Op", "Op", _columns("run back:BOOL"), ("run",)),
    RelTable("OF", "Metric", "Op", ()),
    RelTable("OF_TENSOR", "Metric", "Tensor", ()),
    RelTable("AGAINST", "Metric", "Op", ()),
    RelTable("OF_DEVICE", "Run", "Graph", ()),
    RelTable("OF_GOLDEN", "Run", "Graph", ()),
    RelTable("OF_GRAPH", "Import", "Graph", ()),
    RelTable("COMPARED", "Run", "Metric", ()),
    RelTable("ABOUT", "Finding", "Op", ()),
    RelTable("FOUND", "Run", "Finding", ()),
)
