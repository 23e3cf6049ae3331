"""Graphs and runs as rows of the tables in :mod:`graphstore.schema`, and back.

A row has one value per column of its table, in order; a relationship row starts with the
ids of its two ends. Both stores write exactly these rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from graphstore import codec
from graphstore.algorithms import next_measured
from graphstore.arrays import GraphArrays
from graphstore.contract import GraphInfo, RunData
from graphstore.measured import measured_ops
from graphstore.model import (
    Comparison,
    DType,
    EdgeKind,
    Level,
    LineageLink,
    LineageRule,
    Metric,
    MetricSet,
    ModelGraph,
    Op,
    Reason,
    TensorIO,
    TensorRef,
)
from graphstore.schema import METRIC_COLUMNS
from graphstore.topo import graph_arrays

Row: TypeAlias = tuple[object, ...]

METRIC_SET_COLUMNS = (
    *METRIC_COLUMNS,
    "nan",
    "notes_json",
    "elements",
    "device_nonfinite",
    "golden_nonfinite",
    "different",
)
"""The columns of a Metric row that hold its metric set."""

_INT64_MAX = 2**63 - 1


@dataclass
class Records:
    """Rows by node label and by relationship type."""

    nodes: dict[str, list[Row]] = field(default_factory=dict)
    rels: dict[str, list[Row]] = field(default_factory=dict)

    def add(self, other: Records) -> None:
        """Append the rows of *other*."""
        for mine, theirs in ((self.nodes, other.nodes), (self.rels, other.rels)):
            for table, rows in theirs.items():
                mine.setdefault(table, []).extend(rows)


@dataclass(frozen=True)
class StoredGraph:
    """A graph about to be stored: its key in the store, content hash and numbering.

    ``header`` and ``texts`` (record and attributes of each op) are its lossless form.
    """

    graph: ModelGraph
    key: str
    content: str
    arrays: GraphArrays
    header: str
    texts: tuple[tuple[str, str], ...]

    def node(self, op: str) -> str:
        """The node id of an op of this graph."""
        return op_key(self.key, op)


def op_key(graph_key: str, op: str) -> str:
    """The node id of the op with id *op*."""
    return plain_text(f"{graph_key}/{op}")


def plain_text(text: str) -> str:
    """*text* as a database can hold it: half surrogate pairs as backslash escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def stored_graph(graph: ModelGraph, taken: Mapping[str, str]) -> StoredGraph:
    """*graph* under its own id; where *taken* (key to content hash) has that id with
    other content, the hash is appended. Equal graphs have equal hashes."""
    header = codec.header_text(graph)
    texts = tuple((codec.op_text(op), codec.attrs_text(op.attrs)) for op in graph.ops)
    digest = hashlib.sha256(header.encode())
    for record, attrs in texts:
        digest.update(f"\n{record}\n{attrs}".encode())
    content = digest.hexdigest()
    key = plain_text(graph.id)
    if taken.get(key, content) != content:
        key = f"{key}+{content[:12]}"
    return StoredGraph(graph, key, content, graph_arrays(graph), header, texts)


def graph_info(graph: ModelGraph, name: str, created: str) -> GraphInfo:
    """What ``runs`` lists of a graph stored as *name* at *created* (ISO 8601 UTC)."""
    return GraphInfo(
        name=name,
        id=graph.id,
        kind=graph.kind.value,
        framework=graph.framework.value,
        format=graph.format,
        ops=len(graph.ops),
        edges=sum(edge.kind is not EdgeKind.CALL for edge in graph.edges()),
        subgraphs=len(graph.subgraphs),
        fused_ops=sum(1 for op in graph.ops if op.is_fused),
        created=created,
        source=graph.source,
    )


def graph_records(stored: StoredGraph) -> Records:
    """The rows of one graph."""
    graph, key = stored.graph, stored.key
    info = graph_info(graph, graph.name, "")
    model = plain_text(f"{graph.framework.value}:{graph.name}")
    records = Records()
    records.nodes["Model"] = [(model, plain_text(graph.name), graph.framework.value)]
    records.nodes["Graph"] = [
        (
            key,
            model,
            plain_text(graph.name),
            info.kind,
            info.framework,
            info.format,
            graph.sha256,
            stored.content,
            info.ops,
            info.edges,
            info.subgraphs,
            info.fused_ops,
            plain_text(graph.source),
            stored.header,
        )
    ]
    records.nodes["Op"] = [_op_row(stored, place, op) for place, op in enumerate(graph.ops)]
    records.nodes["Tensor"] = [row for op in graph.ops for row in _tensor_rows(stored, op)]
    feeds: list[Row] = []
    controls: list[Row] = []
    for edge in graph.edges():
        if edge.source not in stored.arrays.number or edge.target not in stored.arrays.number:
            continue
        ends = (stored.node(edge.source), stored.node(edge.target))
        if edge.kind is EdgeKind.CONTROL:
            controls.append(ends)
        else:
            ports = (edge.source_port, edge.target_port)
            feeds.append((*ends, *ports, plain_text(edge.tensor), edge.kind.value))
    records.rels["FEEDS"] = feeds
    records.rels["CONTROLS"] = controls
    return records


def import_records(stored: StoredGraph, name: str, created: str) -> Records:
    """The row that gives a stored graph its name."""
    return Records({"Import": [(name, name, stored.key, created)]})


def run_records(data: RunData, golden: StoredGraph, device: StoredGraph, run_key: str) -> Records:
    """The rows of a run kept under *run_key*, without those of its graphs.

    Raises:
        ValueError: a device op without a comparison or state; a comparison or state of
            an op the device graph does not have.
    """
    _check_complete(data)
    loose: list[tuple[int, LineageLink]] = []
    fuses: list[Row] = []
    for place, link in enumerate(data.links):
        if link.device in device.arrays.number and link.original in golden.arrays.number:
            ends = (device.node(link.device), golden.node(link.original))
            ports = (link.device_port, link.original_port)
            fuses.append((*ends, run_key, place, link.rule.value, *ports))
        else:
            loose.append((place, link))
    records = Records()
    records.nodes["Run"] = [_run_row(data, golden, device, run_key, loose)]
    records.nodes["Metric"] = _metric_rows(data, golden, device, run_key)
    records.rels["FUSES"] = fuses
    records.rels["OF"] = [(row[0], row[3]) for row in records.nodes["Metric"]]
    records.rels["COMPARED"] = [(run_key, row[0]) for row in records.nodes["Metric"]]
    records.rels["NEXT_MEASURED"] = _next_measured_rows(data, device, run_key)
    return records


def comparison_value(row: Mapping[str, Any]) -> Comparison:
    """The comparison behind a Metric row (column name to value)."""
    level, reason, rule = row["level"], row["reason"], row["rule"]
    golden_op, shape, address = row["golden_op"], row["shape"], row["address"]
    return Comparison(
        op=row["op"],
        io=TensorIO(row["io"]),
        port=row["port"],
        golden=None if golden_op is None else TensorRef(golden_op, row["golden_port"]),
        rule=None if rule is None else LineageRule(rule),
        metrics=metric_set_value(row) if row["compared"] else None,
        level=None if level is None else Level(level),
        failed=tuple(Metric(name) for name in row["failed"] or ()),
        reason=None if reason is None else Reason(reason),
        detail=row["detail"] or "",
        shape=codec.shape_value(shape),
        device_dtype=_dtype(row["device_dtype"]),
        golden_dtype=_dtype(row["golden_dtype"]),
        device_path=row["device_path"] or "",
        golden_path=row["golden_path"] or "",
        address=None if address is None else int(address, 16),
        overflow=row["overflow"],
    )


def _op_row(stored: StoredGraph, place: int, op: Op) -> Row:
    name = plain_text(op.name)
    originals = op.original_names
    return (
        stored.node(op.id),
        stored.key,
        plain_text(op.id),
        name,
        name.lower(),
        plain_text(op.type),
        stored.arrays.number[op.id],
        place,
        max(-_INT64_MAX, min(_INT64_MAX, op.sequence)),
        plain_text(op.scope),
        plain_text(op.subgraph),
        None if originals is None else len(originals),
        None if originals is None else [plain_text(text) for text in originals],
        stored.texts[place][1],
        stored.texts[place][0],
    )


def _tensor_rows(stored: StoredGraph, op: Op) -> Iterator[Row]:
    node = stored.node(op.id)
    for port, tensor in enumerate(op.outputs):
        origin = tensor.origin
        yield (
            f"{node}:{port}",
            node,
            port,
            plain_text(tensor.name),
            codec.shape_text(tensor.shape),
            None if tensor.dtype is None else tensor.dtype.value,
            tensor.layout,
            None if origin is None else plain_text(origin.op),
            None if origin is None else origin.port,
        )


def _check_complete(data: RunData) -> None:
    ops = {op.id for op in data.device.ops}
    compared = {comparison.op for comparison in data.comparisons}
    for what, names in (("comparison", compared), ("state", set(data.states))):
        if names != ops:
            odd = sorted(names ^ ops)
            raise ValueError(
                f"run {data.run.name!r}: every device op needs a {what} and nothing else may "
                f"have one; wrong for {len(odd)} ops, the first is {odd[0]!r}"
            )


def _run_row(
    data: RunData,
    golden: StoredGraph,
    device: StoredGraph,
    run_key: str,
    loose: Iterable[tuple[int, LineageLink]],
) -> Row:
    run, counts = data.run, data.run.counts
    return (
        run_key,
        plain_text(run.name),
        golden.key,
        device.key,
        run.created,
        run.verdict.value,
        run.method.value,
        run.version,
        counts.ops,
        counts.tensors,
        counts.compared,
        counts.over,
        counts.not_compared,
        codec.run_text(run),
        codec.origins_text(data.origins),
        codec.links_text(loose),
    )


def _metric_rows(data: RunData, golden: StoredGraph, device: StoredGraph, run: str) -> list[Row]:
    origins = {origin.op: origin for origin in reversed(data.origins)}
    outputs = {op.id: len(op.outputs) for op in data.device.ops}
    rows: list[Row] = []
    for seq, item in enumerate(data.comparisons):
        node = device.node(item.op)
        origin = origins.get(item.op)
        is_tensor = item.io is TensorIO.OUTPUT and item.port < outputs[item.op]
        rows.append(
            (
                f"{run}#{seq}",
                run,
                seq,
                node,
                f"{node}:{item.port}" if is_tensor else None,
                item.io.value,
                item.port,
                data.states[item.op].value,
                None if item.level is None else item.level.value,
                item.compared,
                item.over,
                None if origin is None else origin.rank,
                None if origin is None else _float(origin.suspicion),
                None if origin is None else origin.cause,
                *_metric_columns(item.metrics),
                [metric.value for metric in item.failed] or None,
                None if item.golden is None else golden.node(item.golden.op),
                None if item.golden is None else item.golden.port,
                None if item.rule is None else item.rule.value,
                None if item.reason is None else item.reason.value,
                plain_text(item.detail) or None,
                codec.shape_text(item.shape),
                None if item.device_dtype is None else item.device_dtype.value,
                None if item.golden_dtype is None else item.golden_dtype.value,
                plain_text(item.device_path) or None,
                plain_text(item.golden_path) or None,
                None if item.address is None else hex(item.address),
                item.overflow,
            )
        )
    return rows


def _metric_columns(metrics: MetricSet | None) -> Row:
    """The metric columns up to ``different``."""
    if metrics is None:
        return (None,) * len(METRIC_SET_COLUMNS)
    by_name: dict[str, float] = {}
    for metric in Metric:
        value = metrics.value(metric)
        if not isinstance(value, tuple):
            by_name[metric.value] = float(value)
    spread = ("device_mean", "device_std", "golden_mean", "golden_std")
    by_name.update(zip(spread, map(float, metrics.standard_deviation), strict=True))
    nan = [name for name in METRIC_COLUMNS if math.isnan(by_name[name])]
    return (
        *(None if math.isnan(by_name[name]) else by_name[name] for name in METRIC_COLUMNS),
        nan or None,
        codec.notes_text(metrics.notes),
        int(metrics.elements),
        int(metrics.device_nonfinite),
        int(metrics.golden_nonfinite),
        int(metrics.different),
    )


def metric_set_value(row: Mapping[str, Any]) -> MetricSet:
    """The metrics behind the columns METRIC_SET_COLUMNS of a Metric row."""
    if row["nan"]:
        row = {**row, **dict.fromkeys(row["nan"], math.nan)}
    return MetricSet(
        row["cosine_similarity"],
        row["max_absolute_error"],
        row["accumulated_relative_error"],
        row["relative_euclidean_distance"],
        row["kullback_leibler_divergence"],
        (row["device_mean"], row["device_std"], row["golden_mean"], row["golden_std"]),
        row["mean_absolute_error"],
        row["root_mean_square_error"],
        row["max_relative_error"],
        row["mean_relative_error"],
        row["elements"],
        row["device_nonfinite"],
        row["golden_nonfinite"],
        row["different"],
        codec.notes_value(row["notes_json"]),
    )


def _next_measured_rows(data: RunData, device: StoredGraph, run: str) -> list[Row]:
    measured = measured_ops(device.arrays, data.comparisons)
    sources, targets = next_measured(device.arrays, measured)
    nodes: Sequence[str] = [device.node(op) for op in device.arrays.ids]
    back = np.asarray(sources >= targets).tolist()
    return [
        (nodes[source], nodes[target], run, is_back)
        for source, target, is_back in zip(sources.tolist(), targets.tolist(), back, strict=True)
    ]


def _float(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


def _dtype(name: str | None) -> DType | None:
    return None if name is None else DType(name)
