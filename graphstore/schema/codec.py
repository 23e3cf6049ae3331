"""Model values to JSON text and back, without loss; what columns alone cannot hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from graphstore.model import (
    AttrValue,
    Constant,
    Counts,
    DType,
    Framework,
    GraphKind,
    InputRef,
    Level,
    LineageLink,
    LineageRule,
    Method,
    Metric,
    MetricSet,
    ModelGraph,
    Op,
    Origin,
    Run,
    Shape,
    Subgraph,
    Tensor,
    TensorOrigin,
    TensorRef,
    Verdict,
)

_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)


def _plain_number(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no JSON value")


_VALUES = json.JSONEncoder(separators=(",", ":"), default=_plain_number)


def dumps(value: object) -> str:
    """Compact JSON; NaN and infinities as Python's json writes them."""
    return _ENCODER.encode(value)


def values_text(values: Mapping[str, object]) -> str:
    """JSON values by name; numbers of arrays as numbers.

    Raises:
        TypeError: one is no JSON value.
    """
    return _VALUES.encode(dict(values))


def values_of(text: str | None) -> dict[str, object]:
    """The values behind :func:`values_text`; none for None."""
    read: dict[str, object] = {} if text is None else json.loads(text)
    return read


def plain_text(text: str) -> str:
    """*text* as a database can hold it: half surrogate pairs as backslash escapes."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def plain_texts(texts: Sequence[str | None]) -> Sequence[str | None]:
    """The same for many at once, faster; None stays None."""
    if "".join(filter(None, texts)).isascii():
        return texts
    return [None if text is None else plain_text(text) for text in texts]


@lru_cache(4096)
def shape_text(shape: Shape | None) -> str | None:
    """``[1,null,224]``; None for an unknown rank."""
    return None if shape is None else dumps(list(shape))


@lru_cache(4096)
def shape_value(text: str | None) -> Any:
    """The shape behind :func:`shape_text`; one value for all that are equal."""
    return None if text is None else tuple(json.loads(text))


def attrs_text(attrs: Mapping[str, AttrValue]) -> str:
    """Attributes as a JSON object; tuples as lists."""
    return dumps(dict(attrs))


def attrs_value(text: str) -> dict[str, AttrValue]:
    """The attributes behind :func:`attrs_text`."""
    return _attrs(json.loads(text))


def op_text(op: Op) -> str:
    """An op without its attributes."""
    return dumps(
        {
            "id": op.id,
            "name": op.name,
            "type": op.type,
            "inputs": [
                None if ref is None else [ref.tensor, *_ref_list(ref.producer)] for ref in op.inputs
            ],
            "control": op.control_inputs,
            "outputs": [_tensor_list(tensor) for tensor in op.outputs],
            "subgraph": op.subgraph,
            "owns": op.owns,
            "originals": op.original_names,
            "sequence": op.sequence,
        }
    )


def op_value(text: str, attrs: str) -> Op:
    """The op behind :func:`op_text` and :func:`attrs_text`."""
    read = json.loads(text)
    originals = read["originals"]
    return Op(
        id=read["id"],
        name=read["name"],
        type=read["type"],
        inputs=tuple(
            None if ref is None else InputRef(ref[0], TensorRef(*ref[1:]) if ref[1:] else None)
            for ref in read["inputs"]
        ),
        control_inputs=tuple(read["control"]),
        outputs=tuple(_tensor(tensor) for tensor in read["outputs"]),
        attrs=attrs_value(attrs),
        subgraph=read["subgraph"],
        owns=tuple(read["owns"]),
        original_names=None if originals is None else tuple(originals),
        sequence=read["sequence"],
    )


def header_text(graph: ModelGraph) -> str:
    """A graph without its ops."""
    return dumps(
        {
            "name": graph.name,
            "kind": graph.kind,
            "framework": graph.framework,
            "format": graph.format,
            "subgraphs": [
                {
                    "name": body.name,
                    "owner": body.owner,
                    "role": body.role,
                    "inputs": body.inputs,
                    "outputs": [[port, *_ref_list(ref)] for port, ref in body.outputs],
                }
                for body in graph.subgraphs
            ],
            "inputs": [_tensor_list(tensor) for tensor in graph.inputs],
            "outputs": [_ref_list(ref) for ref in graph.outputs],
            "constants": [
                [_tensor_list(const.tensor), const.location, const.offset, const.nbytes]
                for const in graph.constants
            ],
            "attrs": dict(graph.attrs),
            "warnings": graph.warnings,
            "source": graph.source,
            "sha256": graph.sha256,
        }
    )


def graph_value(header: str, ops: Iterable[Op]) -> ModelGraph:
    """The graph behind :func:`header_text` with its *ops*."""
    read = json.loads(header)
    return ModelGraph(
        name=read["name"],
        kind=GraphKind(read["kind"]),
        framework=Framework(read["framework"]),
        format=read["format"],
        ops=tuple(ops),
        subgraphs=tuple(
            Subgraph(
                name=body["name"],
                owner=body["owner"],
                role=body["role"],
                inputs=tuple((position, op) for position, op in body["inputs"]),
                outputs=tuple((port, TensorRef(op, out)) for port, op, out in body["outputs"]),
            )
            for body in read["subgraphs"]
        ),
        inputs=tuple(_tensor(tensor) for tensor in read["inputs"]),
        outputs=tuple(TensorRef(op, port) for op, port in read["outputs"]),
        constants=tuple(
            Constant(_tensor(tensor), location, offset, nbytes)
            for tensor, location, offset, nbytes in read["constants"]
        ),
        attrs=_attrs(read["attrs"]),
        warnings=tuple(read["warnings"]),
        source=read["source"],
        sha256=read["sha256"],
    )


def run_text(run: Run) -> str:
    """A run."""
    counts = run.counts
    analysis = {"analysis": dict(run.analysis)} if run.analysis else {}
    return values_text(
        {
            "name": run.name,
            "golden": run.golden,
            "device": run.device,
            "created": run.created,
            "verdict": run.verdict,
            "method": run.method,
            "counts": [
                counts.ops,
                counts.tensors,
                counts.compared,
                counts.over,
                counts.not_compared,
            ],
            "thresholds": dict(run.thresholds),
            "inputs": dict(run.inputs),
            "warnings": run.warnings,
            "version": run.version,
            **analysis,
        }
    )


def run_value(text: str) -> Run:
    """The run behind :func:`run_text`."""
    read = json.loads(text)
    return Run(
        name=read["name"],
        golden=read["golden"],
        device=read["device"],
        created=read["created"],
        verdict=Verdict(read["verdict"]),
        method=Method(read["method"]),
        counts=Counts(*read["counts"]),
        thresholds=read["thresholds"],
        inputs=read["inputs"],
        warnings=tuple(read["warnings"]),
        version=read["version"],
        analysis=read.get("analysis", {}),
    )


def origins_text(origins: Iterable[Origin]) -> str:
    """The origins of a run in order."""
    return dumps(
        [
            {
                "rank": origin.rank,
                "op": origin.op,
                "type": origin.type,
                "output": origin.output,
                "golden": [_ref_list(ref) for ref in origin.golden],
                "metrics": _metrics_dict(origin.metrics),
                "level": origin.level,
                "suspicion": origin.suspicion,
                "cause": origin.cause,
            }
            for origin in origins
        ]
    )


def origins_value(text: str) -> list[Origin]:
    """The origins behind :func:`origins_text`."""
    return [
        Origin(
            rank=read["rank"],
            op=read["op"],
            type=read["type"],
            output=read["output"],
            golden=tuple(TensorRef(op, port) for op, port in read["golden"]),
            metrics=_metrics(read["metrics"]),
            level=Level(read["level"]),
            suspicion=read["suspicion"],
            cause=read["cause"],
        )
        for read in json.loads(text)
    ]


def links_text(links: Iterable[tuple[int, LineageLink]]) -> str:
    """Links that no relationship can hold, each with its place among all."""
    return dumps(
        [
            [
                place,
                link.device,
                link.original,
                link.rule,
                link.device_port,
                link.original_port,
                link.confidence,
            ]
            for place, link in links
        ]
    )


def links_value(text: str) -> list[tuple[int, LineageLink]]:
    """The links behind :func:`links_text`."""
    return [
        (place, LineageLink(device, original, LineageRule(rule), *rest))
        for place, device, original, rule, *rest in json.loads(text)
    ]


def notes_text(notes: Mapping[Metric, str]) -> str | None:
    """Notes as a JSON object, None if there are none."""
    return dumps({metric.value: note for metric, note in notes.items()}) if notes else None


def notes_value(text: str | None) -> dict[Metric, str]:
    """The notes behind :func:`notes_text`."""
    if text is None or text == "{}":
        return {}
    return {Metric(name): note for name, note in json.loads(text).items()}


def _metrics_dict(metrics: MetricSet) -> dict[str, object]:
    values: dict[str, object] = {}
    for metric in Metric:
        value = metrics.value(metric)
        values[metric] = [float(v) for v in value] if isinstance(value, tuple) else float(value)
    values["elements"] = int(metrics.elements)
    values["device_nonfinite"] = int(metrics.device_nonfinite)
    values["golden_nonfinite"] = int(metrics.golden_nonfinite)
    values["different"] = int(metrics.different)
    values["notes"] = {metric.value: note for metric, note in metrics.notes.items()}
    return values


def _metrics(read: dict[str, Any]) -> MetricSet:
    read["standard_deviation"] = tuple(read["standard_deviation"])
    read["notes"] = {Metric(name): note for name, note in read["notes"].items()}
    return MetricSet(**read)


def _ref_list(ref: TensorRef | None) -> list[object]:
    return [] if ref is None else [ref.op, ref.port]


def _tensor_list(tensor: Tensor) -> list[object]:
    head: list[object] = [tensor.name, tensor.dtype, tensor.shape, tensor.layout]
    if tensor.origin is not None:
        head.append(origin_list(tensor.origin))
    return head


def _tensor(read: list[Any]) -> Tensor:
    name, dtype, shape, layout, *rest = read
    origin = origin_value(rest[0]) if rest else None
    return Tensor(name, dtype_value(dtype), shape_list_value(shape), layout, origin)


def origin_list(origin: TensorOrigin) -> list[object]:
    """An origin as JSON takes it."""
    return [origin.op, origin.port, origin.layout, origin.dtype, origin.shape]


def origin_value(read: list[Any]) -> TensorOrigin:
    """The origin behind :func:`origin_list`."""
    op, port, layout, dtype, shape = read
    return TensorOrigin(op, port, layout, dtype_value(dtype), shape_list_value(shape))


def dtype_value(read: str | None) -> DType | None:
    """The type behind its word."""
    return None if read is None else DType(read)


def shape_list_value(read: list[int | None] | None) -> Shape | None:
    """The shape behind a list."""
    return None if read is None else tuple(read)


def _attrs(read: dict[str, Any]) -> dict[str, AttrValue]:
    return {name: _attr(value) for name, value in read.items()}


def _attr(read: Any) -> AttrValue:
    return tuple(_attr(item) for item in read) if isinstance(read, list) else read
