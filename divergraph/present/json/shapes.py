"""The JSON the command line prints; documented in docs/reference/json.md.

Field names are stable. NaN and infinity become null, and ``notes`` then says which it was and why;
unknown fields are null.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from json.encoder import encode_basestring as _quoted
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from divergraph.text.numbers import deviation_text
from divergraph.text.words import excuse_text, observed_text, reserve_text
from divergraph.thresholds.verdicts import badness
from graphstore.contract import GraphInfo, QueryResult
from graphstore.model import (
    Comparison,
    ErrorSplit,
    Finding,
    LineageLink,
    Metric,
    MetricSet,
    ModelGraph,
    Origin,
    Run,
    TensorIO,
    TensorRef,
)
from graphstore.op_row import OpRow

if TYPE_CHECKING:
    from divergraph.golden_capture import CaptureResult, Coverage

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

WORST_SHOWN = 10

_METRIC_NAMES = tuple(metric.value for metric in Metric)
_metric_values = attrgetter(*_METRIC_NAMES)


def json_text(shape: Mapping[str, Json], indent: int = 0) -> str:
    """A document as all front ends write it; numbers that are not finite raise ValueError. With
    *indent* as it stands in another document, so many spaces from its edge.

    It is what ``json.dumps(shape, indent=2, ensure_ascii=False, allow_nan=False)`` gives, which
    takes three times as long: its fast encoder knows no indentation.
    """
    return _text(shape, "\n" + " " * indent)


def listing_parts(head: Mapping[str, Json], name: str, items: Iterable[str]) -> Iterator[str]:
    """The document ``{**head, name: items}`` of *items* that are text already, indented by 4, part
    by part: of a million items none is held."""
    yield f"{json_text(head)[:-2]},\n  {_quoted(name)}: ["
    between, end = "", "]\n}"
    for item in items:
        yield f"{between}\n    {item}"
        between, end = ",", "\n  ]\n}"
    yield end


def _text(value: Any, line: str) -> str:
    """*value* as JSON; *line* is a line end and the indentation of what it stands in."""
    if isinstance(value, str):
        return _quoted(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no number in JSON")
        return float.__repr__(value)
    inner = f"{line}  "
    if isinstance(value, dict):
        items = [f"{_quoted(name)}: {_text(each, inner)}" for name, each in value.items()]
        return f"{{{inner}{f',{inner}'.join(items)}{line}}}" if items else "{}"
    items = [_text(each, inner) for each in value]
    return f"[{inner}{f',{inner}'.join(items)}{line}]" if items else "[]"


def number(value: float | None) -> float | None:
    """A JSON number; null for None, NaN and infinity."""
    return value if value is not None and math.isfinite(value) else None


def metrics_json(metrics: MetricSet | None) -> Json:
    """The ten metrics by name; ``standard_deviation`` is its text form."""
    if metrics is None:
        return None
    shape: dict[str, Json] = {}
    for name, value in zip(_METRIC_NAMES, _metric_values(metrics), strict=True):
        if isinstance(value, tuple):
            finite = all(math.isfinite(part) for part in value)
            shape[name] = deviation_text(value) if finite else None
        else:
            shape[name] = value if math.isfinite(value) else None
    return shape


def notes_json(metrics: MetricSet | None) -> dict[str, Json]:
    """Why a metric is null or what it is by definition, by metric name."""
    if metrics is None or not (metrics.notes or _has_odd(metrics)):
        return {}
    notes: dict[str, Json] = {}
    for metric in Metric:
        value = metrics.value(metric)
        parts = value if isinstance(value, tuple) else (value,)
        odd = next((part for part in parts if not math.isfinite(part)), None)
        said = metrics.notes.get(metric, "")
        if odd is not None:
            kind = "NaN" if math.isnan(odd) else "Inf"
            notes[metric.value] = f"{kind}: {said}" if said else kind
        elif said:
            notes[metric.value] = said
    return notes


def _has_odd(metrics: MetricSet) -> bool:
    """True if some metric is NaN or infinite; may also be true if their sum overflows."""
    values = _metric_values(metrics)
    return not math.isfinite(sum(sum(part) if isinstance(part, tuple) else part for part in values))


def tensor_json(ref: TensorRef) -> Json:
    """``{op, output}``; output is null where only the op is known."""
    return {"op": ref.op, "output": ref.port if ref.port >= 0 else None}


def origin_json(origin: Origin) -> Json:
    """One entry of ``origins``."""
    return {
        "rank": origin.rank,
        "op": origin.op,
        "type": origin.type,
        "output": origin.output,
        "golden": [tensor_json(ref) for ref in origin.golden],
        "metrics": metrics_json(origin.metrics),
        "notes": notes_json(origin.metrics),
        "level": origin.level.value,
        "suspicion": number(origin.suspicion),
        "cause": origin.cause,
    }


def comparison_json(item: Comparison, types: Mapping[str, str]) -> dict[str, Json]:
    """One compared tensor as ``worst`` lists it."""
    return {
        "op": item.op,
        "type": types.get(item.op),
        "io": item.io.value,
        "output": item.port if item.io is TensorIO.OUTPUT and item.port >= 0 else None,
        "input": item.port if item.io is TensorIO.INPUT else None,
        "golden": [] if item.golden is None else [tensor_json(item.golden)],
        "metrics": metrics_json(item.metrics),
        "notes": notes_json(item.metrics),
        "level": None if item.level is None else item.level.value,
        "failed": [metric.value for metric in item.failed],
        "limit": item.limit or None,
        "excuse": excuse_text(item) or None,
        "shape": None if item.shape is None else list(item.shape),
    }


def not_compared_json(item: Comparison) -> Json:
    """One entry of ``not_compared``."""
    assert item.reason is not None
    return {
        "op": item.op,
        "output": item.port if item.io is TensorIO.OUTPUT else None,
        "input": item.port if item.io is TensorIO.INPUT else None,
        "reason": item.reason.value,
        "detail": item.detail,
    }


def finding_json(finding: Finding) -> dict[str, Json]:
    """A finding with the numbers behind it."""
    is_output = finding.io is TensorIO.OUTPUT
    return {
        "kind": finding.kind.value,
        "label": finding.label,
        "sentence": finding.sentence,
        "op": finding.op or None,
        "output": finding.port if is_output and finding.port >= 0 else None,
        "input": None if is_output else finding.port,
        "confidence": finding.confidence,
        "evidence": plain_json(finding.evidence),
    }


def worst_first(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Compared output tensors, worst first; equal ones in the order given."""
    outputs = [item for item in comparisons if item.io is TensorIO.OUTPUT and item.compared]

    def key(item: Comparison) -> tuple[int, float, float]:
        assert item.metrics is not None
        return badness(item.metrics)

    return sorted(outputs, key=key, reverse=True)


def run_json(
    run: Run,
    origins: Iterable[Origin],
    comparisons: Iterable[Comparison],
    types: Mapping[str, str],
    *,
    stored: bool = True,
) -> dict[str, Json]:
    """What ``compare --json`` prints. ``run`` is null if nothing was stored."""
    items = list(comparisons)
    return {
        "run": run.name if stored else None,
        **verdict_json(run),
        "doubt": run.analysis.doubt or None,
        "observed": _observed_json(run),
        "reserve": reserve_text(run) or None,
        "method": run.method.value,
        "counts": record_json(run.counts),
        "origins": [origin_json(origin) for origin in origins],
        "worst": [comparison_json(item, types) for item in worst_first(items)[:WORST_SHOWN]],
        "not_compared": [
            not_compared_json(item) for item in items if item.reason is not None and item.port >= 0
        ],
        "warnings": list(run.warnings),
    }


def verdict_json(run: Run) -> dict[str, Json]:
    """The verdict and the two answers it sums up, as every document about a run has them."""
    return {
        "verdict": run.verdict.value,
        "result": record_json(run.result),
        "blame": record_json(run.blame),
    }


def _observed_json(run: Run) -> Json:
    found = run.analysis.observed
    if found is None:
        return None
    return {"text": observed_text(run), **record_json(found)}


def run_summary_json(run: Run) -> dict[str, Json]:
    """One entry of ``runs``."""
    return {
        "run": run.name,
        **verdict_json(run),
        "method": run.method.value,
        "created": run.created,
        "golden": run.golden,
        "device": run.device,
        "counts": record_json(run.counts),
    }


def graph_info_json(info: GraphInfo) -> dict[str, Json]:
    """One imported graph as ``runs`` lists it."""
    shape = record_json(info, {"name": "graph"})
    del shape["id"]
    return shape


def import_json(info: GraphInfo, graph: ModelGraph, *, unchanged: bool) -> dict[str, Json]:
    """What ``import --json`` prints."""
    shape: dict[str, Json] = {"unchanged": unchanged, "warnings": list(graph.warnings)}
    return {**graph_info_json(info), **shape}


def capture_json(result: CaptureResult) -> dict[str, Json]:
    """What ``capture --json`` prints."""
    return {
        "folder": str(result.folder),
        "model": str(result.model),
        "executor": result.executor,
        "tensors": result.tensors,
        "bytes": result.bytes,
        "left_out": [record_json(each) for each in result.left_out],
        "guessed": list(result.guessed),
        "nonfinite": list(result.nonfinite),
        "notes": list(result.notes),
    }


def coverage_json(found: Coverage) -> dict[str, Json]:
    """What ``capture --coverage --json`` prints."""
    return {
        "ops": found.ops,
        "translated": found.translated,
        "types": found.types,
        "translated_types": found.translated_types,
        "without": dict(found.without),
    }


def row_json(row: OpRow) -> dict[str, Json]:
    """One op as ``ops`` lists it."""
    return {
        "op": row.id,
        "name": row.name,
        "type": row.type,
        "topo": row.topo,
        "subgraph": row.subgraph or None,
        "dtype": row.dtype or None,
        "shape": None if row.shape is None else list(row.shape),
        "layout": row.layout or None,
        "fused": row.fused,
        "originals": list(row.originals),
        "state": None if row.state is None else row.state.value,
        "level": None if row.level is None else row.level.value,
        "output": row.output,
        "metrics": metrics_json(row.metrics),
        "notes": notes_json(row.metrics),
        "failed": [metric.value for metric in row.failed],
        "reason": None if row.reason is None else row.reason.value,
        "detail": row.detail or None,
        "gain": number(row.gain),
        "from": list(row.origins),
        "split": split_json(row.split),
    }


def split_json(split: ErrorSplit | None) -> Json:
    """The split of an output's error; null where no root-cause analysis was made."""
    if split is None:
        return None
    values = split.numbers
    return {
        "role": split.role.value,
        "guilt": split.guilt.value,
        **{name: number(value) for name, value in values.items()},
        "infinite": [name for name, value in values.items() if value == math.inf],
        "group": list(split.group),
        "reference": split.reference or None,
        "failure": split.failure or None,
    }


def link_json(link: LineageLink) -> dict[str, Json]:
    """One lineage link."""
    return {
        "device": link.device,
        "output": link.device_port,
        "original": link.original,
        "original_output": link.original_port,
        "evidence": link.rule.value,
        "confidence": link.confidence,
    }


def query_json(result: QueryResult) -> dict[str, Json]:
    """Rows of a query; values JSON has no form for are shown as text."""
    return {
        "columns": list(result.columns),
        "rows": [[plain_json(value) for value in row] for row in result.rows],
        "truncated": result.truncated,
        "notes": list(result.notes),
    }


def record_json(
    record: object, names: Mapping[str, str] | None = None, *, null: Collection[str] = ()
) -> dict[str, Json]:
    """The fields of a frozen dataclass as JSON, in their order.

    *names* renames fields; an empty text in a field of *null* becomes null.
    """
    found: dict[str, Json] = {}
    kind: Any = type(record)
    for name in _field_names(kind):
        value = getattr(record, name)
        shown = None if value == "" and name in null else plain_json(value)
        found[names.get(name, name) if names else name] = shown
    return found


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def plain_json(value: object) -> Json:
    """A value as JSON, a record as an object of its fields; text for values without a JSON form."""
    if isinstance(value, Enum):
        return plain_json(value.value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return number(value)
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain_json(item) for key, item in value.items()}
    return record_json(value) if is_dataclass(value) else str(value)
