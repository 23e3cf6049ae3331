"""A run from the results that another tool wrote, a table or graphs: to browse, to be advised."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from divergraph.consistency.stored_run import run_findings
from divergraph.inputs.kept_paths import RESULT, with_folder
from divergraph.inputs.sources import load_graph
from divergraph.metrics.limits.thresholds import load_thresholds
from divergraph.metrics.statistics import CHECKSUMS_DIFFER, told_by_statistics
from divergraph.results.conclusion import concluded
from divergraph.text.words import counted
from divergraph.thresholds.doubts import judged_by_checksums
from divergraph.thresholds.judged_again import judged_again
from divergraph.thresholds.verdicts import count
from divergraph.version import __version__
from graphstore.contract import RunData
from graphstore.errors import InputError
from graphstore.model import (
    AttrValue,
    Comparison,
    Framework,
    GraphKind,
    InputRef,
    LineageLink,
    LineageRule,
    Method,
    ModelGraph,
    Op,
    OpState,
    Reason,
    Run,
    Subgraph,
    Tensor,
    TensorIO,
    TensorRef,
    Verdict,
)
from graphstore.traverse.topological_order import graph_arrays
from importers.archives import refuse_archive
from importers.registry import COMPARED_GRAPHS, detect, foreign
from importers.results.compared_graphs import ComparedGraphs, ComparedNode
from importers.results.rows import ResultRow, call_type, result_rows
from importers.results.table import ResultKind, ResultTable, kind_of, read_table
from importers.source import mapped, read_head, sha256

_IN_ORDER = (
    "the table names no edges: ops are taken to run one after the other, as its rows stand; "
    "--device GRAPH gives the graph"
)
_ALONE = "the file holds one graph and no comparison: msprobe was given one run"
_ERROR_INDEX = 0.6
"""From here on msprobe draws a node as an error."""


_TABLES = "result_*.csv of msaccucmp or compare_result*.csv, .xlsx or .vis.db of msprobe"


def open_result(
    path: Path,
    *,
    device: Path | None = None,
    thresholds: Path | None = None,
    name: str = "run",
    step: int | None = None,
    rank: int | None = None,
) -> RunData:
    """The run that the table in *path* tells of, judged by *thresholds* (default: ours).

    *device* is the graph of the device's model; without it the ops are in the order of the rows.
    *step* and *rank* choose among the graphs of a database.

    Raises:
        InputError: no such table, or a graph with none of its ops.
    """
    limits = load_thresholds(thresholds)
    _refuse_others(path)
    table = read_table(path, step, rank)
    rows = list(result_rows(table))
    if not rows:
        raise InputError("the table lists no tensor", where=str(path))
    with mapped(path) as buffer:
        digest = sha256(buffer)
    warnings: list[str] = []
    if device is None:
        graph = _graph_of(rows, path, digest, table)
        warnings.append(_IN_ORDER)
    else:
        graph = load_graph(device, None, "device").graph
    by_name = {op.name: op.id for op in graph.ops} | {op.id: op.id for op in graph.ops}
    strange = {row.op for row in rows} - by_name.keys()
    if device is not None and len(strange) == len({row.op for row in rows}):
        raise InputError("no op of the table is in this graph", where=str(device))
    warnings += _missing(strange)
    rows = [row for row in rows if row.op in by_name]
    golden = _golden_of(rows, path, digest, table.graphs)
    warnings += _marked(rows, table.graphs)
    comparisons = tuple(_comparisons(rows, by_name, graph, table.kind))
    ids = graph_arrays(graph).ids
    run = Run(
        name=name,
        golden=golden.id,
        device=graph.id,
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        verdict=Verdict.NOT_COMPARED,
        method=Method.THRESHOLDS,
        counts=count(len(ids), comparisons),
        thresholds=limits.as_mapping(),
        inputs=with_folder({RESULT: str(path), "device": str(device or "")}),
        warnings=tuple(warnings),
        version=__version__,
    )
    states = dict.fromkeys(ids, OpState.NOT_COMPARED)
    links = tuple(_links(rows, by_name))
    data = judged_again(RunData(run, golden, graph, links, comparisons, states, ()), limits)
    data = replace(data, findings=tuple(run_findings(data, graph_arrays(graph))))
    return concluded(judged_by_checksums(data))


def _refuse_others(path: Path) -> None:
    """Return if *path* may be a table.

    Raises:
        InputError: it is a folder, a graph, or another known file.
    """
    head = read_head(path)
    if path.is_dir():
        tables = sorted(entry.name for entry in path.glob("*.csv"))
        hint = f"give one of {', '.join(tables[:3])}" if tables else "give one file"
        raise InputError("this is a folder, not a table of results", where=str(path), hint=hint)
    if kind_of(head) is not None:
        return
    refuse_archive(path, "a table of results")
    name, hint = foreign(path, head)
    if name.startswith("an .xlsx") or name == COMPARED_GRAPHS:
        return
    if not name and detect(path):
        name, hint = "a graph", f"divergraph import {path.name} reads it"
    if name:
        what = f"this is {name}, not a table of results"
        raise InputError(what, where=str(path), hint=hint or _TABLES)


def _graph_of(rows: Sequence[ResultRow], path: Path, digest: str, table: ResultTable) -> ModelGraph:
    """The device's ops in the order of the rows, each after the one before."""
    outputs: dict[str, dict[int, ResultRow]] = {}
    nodes = {} if table.graphs is None else _nodes(table.graphs.device)
    first = {name: ResultRow(name, call_type(name), TensorIO.OUTPUT, -1, ()) for name in nodes}
    for row in rows:
        first.setdefault(row.op, row)
        ports = outputs.setdefault(row.op, {})
        if row.io is TensorIO.OUTPUT and row.port >= 0:
            ports.setdefault(row.port, row)
    ops: list[Op] = []
    for number, (name, row) in enumerate(first.items()):
        ports = outputs.get(name, {})
        node = nodes.get(name)
        ops.append(
            Op(
                id=name,
                name=name,
                type=row.type,
                inputs=(InputRef(f"{ops[-1].id}:0", TensorRef(ops[-1].id, 0)),) if ops else (),
                outputs=tuple(
                    _tensor(name, port, ports.get(port))
                    for port in range(max(ports, default=-1) + 1)
                ),
                original_names=row.originals,
                attrs={} if node is None else _node_attrs(node),
                subgraph=node.around if node is not None and node.around in nodes else "",
                sequence=number,
            )
        )
    ascend = table.kind is ResultKind.MSACCUCMP
    return ModelGraph(
        name=path.stem,
        kind=GraphKind.DEVICE,
        framework=Framework.ASCEND if ascend else Framework.PYTORCH,
        format=f"{table.kind}_result",
        ops=tuple(ops),
        subgraphs=_bodies(ops),
        source=str(path),
        sha256=digest,
    )


def _golden_of(
    rows: Sequence[ResultRow], path: Path, digest: str, graphs: ComparedGraphs | None
) -> ModelGraph:
    """The originals that the table names, without edges."""
    nodes = {} if graphs is None else _nodes(graphs.golden)
    names = dict.fromkeys((*nodes, *(name for row in rows for name in row.originals)))
    ops = tuple(
        Op(
            id=name,
            name=name,
            type=call_type(name) if nodes else "",
            outputs=(Tensor(f"{name}:0"),),
            subgraph=nodes[name].around if name in nodes and nodes[name].around in nodes else "",
            sequence=number,
        )
        for number, name in enumerate(names)
    )
    return ModelGraph(
        name=f"{path.stem}.golden",
        kind=GraphKind.ORIGINAL,
        framework=Framework.PYTORCH,
        format="result",
        ops=ops,
        subgraphs=_bodies(ops),
        source=str(path),
        sha256=digest,
    )


def _missing(strange: Collection[str]) -> Iterator[str]:
    if strange:
        listed = ", ".join(sorted(strange)[:3])
        yield f"{counted(len(strange), 'op')} of the table not in the graph: {listed}"


def _marked(rows: Sequence[ResultRow], graphs: ComparedGraphs | None) -> Iterator[str]:
    """What msprobe itself held to be wrong: of statistics alone there is no other verdict."""
    nodes = () if graphs is None else graphs.device
    if graphs is not None and not graphs.golden:
        yield _ALONE
    bad = dict.fromkeys(
        (
            *(row.op for row in rows if row.remark.lower() in ("msprobe: error", "msprobe: no")),
            *(node.name for node in nodes if node.index and node.index >= _ERROR_INDEX),
        )
    )
    if bad:
        names = ", ".join(list(bad)[:3])
        yield f"msprobe marks {counted(len(bad), 'call')} as wrong: {names}"


def _nodes(side: Iterable[ComparedNode]) -> dict[str, ComparedNode]:
    """The nodes of one side but the model itself, which is around all of them."""
    return {node.name: node for node in side if node.around}


def _bodies(ops: Sequence[Op]) -> tuple[Subgraph, ...]:
    return tuple(
        Subgraph(name, name, "calls") for name in dict.fromkeys(op.subgraph for op in ops) if name
    )


def _node_attrs(node: ComparedNode) -> dict[str, AttrValue]:
    """What msprobe says of a node beyond its tensors."""
    attrs: dict[str, AttrValue] = {} if node.index is None else {"precision_index": node.index}
    return attrs | ({"overflow_level": node.overflow} if node.overflow else {})


def _tensor(op: str, port: int, row: ResultRow | None) -> Tensor:
    if row is None:
        return Tensor(f"{op}:{port}")
    return Tensor(f"{op}:{port}", row.device_dtype, row.shape)


def _links(rows: Sequence[ResultRow], ids: dict[str, str]) -> list[LineageLink]:
    pairs = dict.fromkeys((ids[row.op], name) for row in rows for name in row.originals)
    return [LineageLink(op, name, LineageRule.ORIGINAL_NAMES) for op, name in pairs]


def _comparisons(
    rows: Sequence[ResultRow], ids: Mapping[str, str], graph: ModelGraph, kind: ResultKind
) -> Iterator[Comparison]:
    """One for each row, and one that says so for each op that no row is about."""
    for row in rows:
        yield _comparison(row, ids[row.op], kind)
    listed = {ids[row.op] for row in rows}
    for op in graph.ops:
        if op.id not in listed:
            reason = Reason.UNMATCHED if op.outputs else Reason.NO_OUTPUT
            detail = "the table lists no tensor of it"
            yield Comparison(op.id, TensorIO.OUTPUT, -1, reason=reason, detail=detail)


def _comparison(row: ResultRow, op: str, kind: ResultKind) -> Comparison:
    metrics, detail = row.metrics, row.failure or row.remark
    if row.statistics is not None and row.originals:
        alike = row.device_dtype == row.golden_dtype
        metrics, detail_of_metrics = told_by_statistics(*row.statistics, alike=alike)
        detail = (
            detail_of_metrics if metrics is None or not detail else f"{detail}; {detail_of_metrics}"
        )
    reason = None
    if metrics is None:
        inserted = kind is ResultKind.MSACCUCMP and not row.originals
        reason = Reason.INSERTED if inserted else _reason(detail)
    golden = TensorRef(row.originals[-1], 0) if row.originals else None
    return Comparison(
        op,
        row.io,
        row.port,
        golden=golden,
        rule=LineageRule.ORIGINAL_NAMES if golden else None,
        metrics=metrics,
        reason=reason,
        detail=detail,
        shape=row.shape,
        device_dtype=row.device_dtype,
        golden_dtype=row.golden_dtype,
        overflow=row.overflow,
    )


def _reason(failure: str) -> Reason:
    """The reason in a sentence of the other tool, as far as it is one of ours."""
    text = failure.lower()
    if text.startswith("statistics only") or text.endswith(CHECKSUMS_DIFFER):
        return Reason.STATISTICS_ONLY
    if "shape" in text:
        return Reason.SHAPE_MISMATCH
    if "no dump file" in text and "my output" in text:
        return Reason.NO_DEVICE_DUMP
    return Reason.NO_GOLDEN_DUMP if "no dump" in text or "no bench" in text else Reason.UNMATCHED
