"""The answer of a `diff` as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from divergraph.present.declared_answer import AnswerTable
from divergraph.text.numbers import short
from divergraph.text.words import shape_text
from graphstore.model import Level, Metric

_SHOWN = (
    Metric.COSINE_SIMILARITY,
    Metric.RELATIVE_EUCLIDEAN_DISTANCE,
    Metric.MAX_ABSOLUTE_ERROR,
)
_WORST_FIRST = (Level.FAIL.value, Level.WARN.value, None, Level.PASS.value)


def diff_table(answer: Mapping[str, Any]) -> AnswerTable:
    """The pairs of what ``diff --json`` printed, the worst first."""

    def rank(pair: Mapping[str, Any]) -> tuple[int, float]:
        error = (pair["metrics"] or {}).get(Metric.RELATIVE_EUCLIDEAN_DISTANCE.value)
        # null where values that are not finite stand behind it
        return _WORST_FIRST.index(pair["level"]), -math.inf if error is None else -error

    pairs = sorted(answer["pairs"], key=rank)
    names = ("tensor", "level", *(metric.label for metric in _SHOWN), "shape", "why")
    return AnswerTable("pairs", names, list(map(_cells, pairs)), (0,) * len(pairs), frozenset())


def _cells(pair: Mapping[str, Any]) -> list[str]:
    metrics = pair["metrics"] or {}
    numbers = [metrics.get(metric.value) for metric in _SHOWN]
    texts = [short(one, ".4g") if isinstance(one, float) else str(one or "") for one in numbers]
    shape = "" if pair["shape"] is None else shape_text(tuple(pair["shape"]))
    rule = (pair["limit"] or "").removeprefix("default: ")
    why = rule or ": ".join(filter(None, (pair["reason"], pair["detail"])))
    return [pair["name"], pair["level"] or "not compared", *texts, shape, why]
