"""What the analysis says of tensors and ops, as the JSON values of portable lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from graphstore.model import (
    ErrorSplit,
    Figures,
    Finding,
    FindingKind,
    Guilt,
    Role,
    SideFigures,
    TensorIO,
)


def number(value: float) -> float:
    """A float as every store gives it back: a database may lose the sign of a zero."""
    return float(value) + 0.0


def figures_dict(figures: Figures) -> dict[str, object]:
    """Figures; what is as by default is left out."""
    sides = {"device": _set(figures.device), "golden": _set(figures.golden)}
    return {**_set(figures), **sides}


def figures_value(read: Mapping[str, Any]) -> Figures:
    """The figures behind :func:`figures_dict`."""
    sides = {name: SideFigures(**read[name]) for name in ("device", "golden")}
    return Figures(**{**read, **sides})


def split_dict(split: ErrorSplit) -> dict[str, object]:
    """A split; what is as by default is left out."""
    return _set(split)


def split_value(read: Mapping[str, Any]) -> ErrorSplit:
    """The split behind :func:`split_dict`."""
    kinds: dict[str, Any] = {"role": Role, "guilt": Guilt, "group": tuple}
    return ErrorSplit(**{name: kinds.get(name, _same)(value) for name, value in read.items()})


def finding_dict(finding: Finding) -> dict[str, object]:
    """A finding, whole."""
    evidence = {"evidence": dict(finding.evidence)} if finding.evidence else {}
    return {**_set(finding), **evidence}


def finding_value(read: Mapping[str, Any]) -> Finding:
    """The finding behind :func:`finding_dict`."""
    kinds: dict[str, Any] = {"kind": FindingKind, "io": TensorIO}
    return Finding(**{name: kinds.get(name, _same)(value) for name, value in read.items()})


def _set(value: Any) -> dict[str, object]:
    """The fields that are set, but for those that are values of the model themselves."""
    found: dict[str, object] = {}
    for field in fields(value):
        part = getattr(value, field.name)
        if field.default_factory is not MISSING or isinstance(part, SideFigures):
            continue
        if field.default is MISSING or part != field.default:
            found[field.name] = number(part) if isinstance(part, float) else part
    return found


def _same(value: Any) -> Any:
    return value
