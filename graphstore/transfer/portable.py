"""Graphs and runs as lines of JSON, the same whatever store they come from.

A graph is its header, then one line ``[op, attributes]`` an op. A run is its record, then a
line each for its links, comparisons (in their order), states, origins, suspects and findings,
with what they are as the first item; suspects that are not there have no line. Numbers that
JSON lacks are written NaN, Infinity and -Infinity.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from typing import Any

from graphstore.contract import RunData
from graphstore.errors import InputError
from graphstore.model import (
    Comparison,
    DType,
    Finding,
    Level,
    LineageLink,
    LineageRule,
    Metric,
    MetricSet,
    ModelGraph,
    Op,
    OpState,
    Reason,
    TensorIO,
    TensorRef,
)
from graphstore.schema import codec
from graphstore.transfer.portable_facts import (
    figures_dict,
    figures_value,
    finding_dict,
    finding_value,
    number,
    split_dict,
    split_value,
)

_SPREAD = Metric.STANDARD_DEVIATION.value
_COUNTS = ("elements", "device_nonfinite", "golden_nonfinite", "different")


def graph_lines(graph: ModelGraph) -> Iterator[bytes]:
    """The lines of a graph, each with its line end."""
    yield _line(codec.header_text(graph))
    for op in graph.ops:
        yield _line(f"[{codec.op_text(op)},{codec.attrs_text(op.attrs)}]")


def run_lines(data: RunData) -> Iterator[bytes]:
    """The lines of a run without its graphs."""
    yield _line(codec.run_text(data.run))
    for link in data.links:
        rest = (link.device_port, link.original_port, link.confidence)
        yield _line(codec.dumps(["link", link.device, link.original, link.rule, *rest]))
    for comparison in data.comparisons:
        yield _line(codec.dumps(["comparison", _comparison_dict(comparison)]))
    for op, state in data.states.items():
        yield _line(codec.dumps(["state", op, state]))
    yield _line(f'["origins",{codec.origins_text(data.origins)}]')
    if data.suspects:
        yield _line(f'["suspects",{codec.origins_text(data.suspects)}]')
    for finding in data.findings:
        yield _line(f'["finding",{codec.values_text(finding_dict(finding))}]')


def content_hash(lines: Iterable[bytes]) -> str:
    """The SHA-256 of *lines*: equal for equal graphs and runs, from whatever store."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line)
    return digest.hexdigest()


def graph_from_lines(lines: Iterable[bytes]) -> ModelGraph:
    """The graph behind :func:`graph_lines`.

    Raises:
        InputError: a line is not what it should be.
    """
    reader = _Reader(lines)
    header = reader.value(lambda text: text)
    ops: list[Op] = []
    while reader.more():
        ops.append(reader.value(_op))
    graph: ModelGraph = reader.checked(lambda: codec.graph_value(header, ops))
    return graph


def run_from_lines(lines: Iterable[bytes], golden: ModelGraph, device: ModelGraph) -> RunData:
    """The run behind :func:`run_lines`, with its graphs.

    Raises:
        InputError: a line is not what it should be.
    """
    reader = _Reader(lines)
    run = reader.value(codec.run_value)
    links: list[LineageLink] = []
    comparisons: list[Comparison] = []
    states: dict[str, OpState] = {}
    findings: list[Finding] = []
    data = RunData(run, golden, device, (), (), states, ())
    while reader.more():
        kind, value = reader.value(_fact)
        if kind == "link":
            links.append(value)
        elif kind == "comparison":
            comparisons.append(value)
        elif kind == "state":
            states[value[0]] = value[1]
        elif kind == "finding":
            findings.append(value)
        else:
            data = replace(data, **{kind: value})
    return replace(
        data, links=tuple(links), comparisons=tuple(comparisons), findings=tuple(findings)
    )


def _line(text: str) -> bytes:
    return f"{text}\n".encode("ascii")


def _op(text: str) -> Op:
    record, attrs = json.loads(text)
    return codec.op_value(codec.dumps(record), codec.dumps(attrs))


def _fact(text: str) -> tuple[str, Any]:
    kind, *rest = json.loads(text)
    if kind == "link":
        device, original, rule, *more = rest
        return kind, LineageLink(device, original, LineageRule(rule), *more)
    if kind == "comparison":
        return kind, _comparison(rest[0])
    if kind == "state":
        return kind, (rest[0], OpState(rest[1]))
    if kind in ("origins", "suspects"):
        return kind, tuple(codec.origins_value(codec.dumps(rest[0])))
    if kind == "finding":
        return kind, finding_value(rest[0])
    raise ValueError(f"a run has no {kind!r}")


def _comparison_dict(item: Comparison) -> dict[str, object]:
    """What is set; defaults are left out."""
    shape: dict[str, object] = {}
    for field in fields(Comparison):
        value = getattr(item, field.name)
        if field.name in ("op", "io", "port") or value != field.default:
            shape[field.name] = value
    if item.golden is not None:
        shape["golden"] = [item.golden.op, item.golden.port]
    if item.metrics is not None:
        shape["metrics"] = _metrics_dict(item.metrics)
    if item.figures is not None:
        shape["figures"] = figures_dict(item.figures)
    if item.split is not None:
        shape["split"] = split_dict(item.split)
    return shape


def _metrics_dict(metrics: MetricSet) -> dict[str, object]:
    shape: dict[str, object] = {}
    for metric in Metric:
        value = metrics.value(metric)
        parts = [number(v) for v in value] if isinstance(value, tuple) else number(value)
        shape[metric.value] = parts
    for name in _COUNTS:
        shape[name] = int(getattr(metrics, name))
    shape["notes"] = {metric.value: note for metric, note in metrics.notes.items()}
    return shape


def _comparison(read: dict[str, Any]) -> Comparison:
    kinds: dict[str, Callable[[Any], Any]] = {
        "io": TensorIO,
        "golden": lambda ref: TensorRef(*ref),
        "rule": LineageRule,
        "metrics": _metrics,
        "level": Level,
        "failed": lambda names: tuple(map(Metric, names)),
        "reason": Reason,
        "shape": tuple,
        "device_dtype": DType,
        "golden_dtype": DType,
        "figures": figures_value,
        "split": split_value,
    }
    return Comparison(**{name: kinds.get(name, _same)(value) for name, value in read.items()})


def _same(value: Any) -> Any:
    return value


def _metrics(read: dict[str, Any]) -> MetricSet:
    notes = {Metric(name): note for name, note in read["notes"].items()}
    return MetricSet(**{**read, _SPREAD: tuple(read[_SPREAD]), "notes": notes})


class _Reader:
    """Lines one by one; what cannot be read is named by its number."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = iter(lines)
        self._number = 0
        self._next = next(self._lines, None)

    def more(self) -> bool:
        return self._next is not None

    def value(self, read: Callable[[str], Any]) -> Any:
        line = self._next
        self._number += 1
        if line is None:
            raise InputError("it is empty")
        value = self.checked(lambda: read(line.decode()))
        self._next = next(self._lines, None)
        return value

    def checked(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            said = f"{type(error).__name__}: {error}"[:200]
            raise InputError(f"line {self._number} cannot be read: {said}") from error
