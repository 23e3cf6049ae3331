"""NaN, overflow and constant outputs of a compared run, from its figures alone: no file is read.
What golden has, too, is not named."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from divergraph.consistency.checks import ALL_ZERO, CONSTANT, INFINITY, NAN, SATURATED
from divergraph.consistency.checksums import first_unequal
from divergraph.consistency.first_ops import finding, first_ops
from divergraph.consistency.values import FLOAT16_MAX
from graphstore.contract import RunData
from graphstore.model import Comparison, DType, EvidenceValue, Figures, Finding, TensorIO
from graphstore.traverse.arrays import GraphArrays
from graphstore.traverse.topological_order import graph_arrays

_FEW = 8
_Shows: TypeAlias = Callable[[Comparison], bool]
_Says: TypeAlias = Callable[[Comparison, str], tuple[str, str]]


def run_findings(data: RunData, arrays: GraphArrays | None = None) -> tuple[Finding, ...]:
    """The first ops of a run that show NaN or infinities, values at the end of float16, or
    one value throughout, where the golden side does not, and that make other bits of equal
    inputs. *arrays* are the device graph's."""
    arrays = graph_arrays(data.device) if arrays is None else arrays
    types = {op.id: op.type for op in data.device.ops}
    checks: tuple[tuple[_Shows, _Says], ...] = (
        (_new_nonfinite, _say_nonfinite),
        (_saturated, _say_saturated),
        (_flat, _say_flat),
    )
    findings: list[Finding] = []
    for shows, says in checks:
        findings.extend(_first(data, arrays, types, shows, says))
    findings.extend(first_unequal(data, arrays))
    return tuple(findings)


def _first(
    data: RunData,
    arrays: GraphArrays,
    types: Mapping[str, str],
    shows: _Shows,
    says: _Says,
) -> Iterator[Finding]:
    items_by_op: dict[str, Comparison] = {}
    for item in data.comparisons:
        if item.io is TensorIO.OUTPUT and item.compared and shows(item):
            items_by_op.setdefault(item.op, item)
    measured = (
        item.op for item in data.comparisons if item.compared and item.io is TensorIO.OUTPUT
    )
    for first in first_ops(arrays, measured, items_by_op) if items_by_op else ():
        item = items_by_op[first.op]
        label, sentence = says(item, f"{first.op} ({types[first.op]})")
        evidence = {**_evidence(item), "later_ops": first.later}
        yield finding(label, sentence, (first.op, item.io, item.port), 0.9, evidence)


def _evidence(item: Comparison) -> dict[str, EvidenceValue]:
    assert item.metrics is not None
    metrics, figures = item.metrics, item.figures
    evidence: dict[str, EvidenceValue] = {
        "elements": metrics.elements,
        "device_nonfinite": metrics.device_nonfinite,
        "golden_nonfinite": metrics.golden_nonfinite,
    }
    if figures is not None:
        evidence |= {
            "device_lowest": figures.device.low,
            "device_highest": figures.device.high,
            "golden_lowest": figures.golden.low,
            "golden_highest": figures.golden.high,
        }
    return evidence


def _new_nonfinite(item: Comparison) -> bool:
    assert item.metrics is not None
    return item.metrics.device_nonfinite > item.metrics.golden_nonfinite


def _say_nonfinite(item: Comparison, op: str) -> tuple[str, str]:
    assert item.metrics is not None
    bad, figures = item.metrics.device_nonfinite, item.figures
    has_nan = figures is None or figures.device.nans > figures.golden.nans
    label, what = (NAN, "NaN") if has_nan else (INFINITY, "infinity")
    golden = item.metrics.golden_nonfinite or "none"
    return label, (
        f"{what} appears first in {op}: {bad} of {item.metrics.elements} values of output "
        f"{item.port}, golden has {golden}"
    )


def _saturated(item: Comparison) -> bool:
    figures = item.figures
    if figures is None or item.device_dtype is not DType.FLOAT16:
        return False
    return _reach(figures.device.low, figures.device.high) >= FLOAT16_MAX


def _reach(low: float, high: float) -> float:
    return 0.0 if math.isnan(low) else max(abs(low), abs(high))


def _say_saturated(item: Comparison, op: str) -> tuple[str, str]:
    assert item.figures is not None
    largest = _reach(item.figures.golden.low, item.figures.golden.high)
    return SATURATED, (
        f"{op} reaches the largest float16, 65504, in output {item.port}; golden goes up to "
        f"{largest:.6g}"
    )


def _flat(item: Comparison) -> bool:
    assert item.metrics is not None
    figures = item.figures
    if figures is None or item.metrics.elements <= _FEW or item.metrics.device_nonfinite:
        return False
    if item.device_dtype is DType.BOOL or figures.device.low != figures.device.high:
        return False
    return (
        _spread(figures) > 2.0**-7 * _reach(figures.golden.low, figures.golden.high) and item.over
    )


def _spread(figures: Figures) -> float:
    return figures.golden.high - figures.golden.low


def _say_flat(item: Comparison, op: str) -> tuple[str, str]:
    assert item.figures is not None
    assert item.metrics is not None
    value = item.figures.device.low
    what = "zero" if value == 0.0 else f"{value:g}"
    return (ALL_ZERO if value == 0.0 else CONSTANT), (
        f"all {item.metrics.elements} values of output {item.port} of {op} are {what}; golden goes "
        f"from {item.figures.golden.low:.6g} to {item.figures.golden.high:.6g}"
    )
