"""States of ops, origins and the verdict of a run, by thresholds.

An op is over if one of its outputs is. An origin is an op that is over while none of its
nearest measured ancestors is; unmeasured ops in between are looked through.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from divergraph.metrics.metrics import every_metric
from divergraph.metrics.statistics import BY_STATISTICS
from graphstore.model import (
    SHAPES_DIFFER,
    Comparison,
    Counts,
    Level,
    LineageLink,
    Metric,
    MetricSet,
    Op,
    OpState,
    Origin,
    TensorIO,
    TensorRef,
    Verdict,
)

OTHER_SHAPE = every_metric(
    math.nan,
    relative_euclidean_distance=math.inf,
    notes=dict.fromkeys(Metric, SHAPES_DIFFER),
)
"""The metrics of a tensor of another shape than golden's: as far over every limit as can be."""


def outputs_by_op(comparisons: Iterable[Comparison]) -> dict[str, list[Comparison]]:
    """The output comparisons of each op, by op id, in port order as given."""
    outputs: dict[str, list[Comparison]] = {}
    for comparison in comparisons:
        if comparison.io is TensorIO.OUTPUT:
            outputs.setdefault(comparison.op, []).append(comparison)
    return outputs


def badness(metrics: MetricSet, level: Level | None = None) -> tuple[int, float, float]:
    """Sort key, worse is larger: non-finite first, then relative error (of booleans: the
    share that differs), then cosine. A tensor whose *level* is passed with infinities has the same
    on both sides, as a mask does: that is no error."""
    broken = int(metrics.device_nonfinite > metrics.golden_nonfinite)
    error, cosine = metrics.relative_euclidean_distance, metrics.cosine_similarity
    if math.isnan(error):
        undefined = metrics.device_nonfinite or metrics.golden_nonfinite
        share = metrics.different / max(metrics.elements, 1)
        if undefined and level is Level.PASS:
            return broken, 0.0, -1.0
        error = math.inf if undefined else share
    return broken, error, 0.0 if math.isnan(cosine) else -cosine


def worst(comparisons: Iterable[Comparison]) -> Comparison | None:
    """The worst compared tensor: highest level first, then :func:`badness`."""
    order = {Level.PASS: 0, Level.WARN: 1, Level.FAIL: 2}
    compared = [item for item in comparisons if item.metrics is not None]
    if not compared:
        return None

    def key(item: Comparison) -> tuple[int, tuple[int, float, float]]:
        assert item.metrics is not None
        return order[item.level or Level.PASS], badness(item.metrics, item.level)

    return max(compared, key=key)


def is_broken(comparison: Comparison) -> bool:
    """True if the device has NaN or Inf where the golden side has not, or overflowed."""
    metrics = comparison.metrics
    if metrics is None:
        return False
    return metrics.device_nonfinite > metrics.golden_nonfinite


def op_states(
    ops: Sequence[str], outputs: Mapping[str, Sequence[Comparison]], origins: frozenset[str]
) -> dict[str, OpState]:
    """The state of each op of *ops* (ids in execution order).

    BROKEN means non-finite values no golden tensor has, on an op that is not an origin: an origin
    stays one, whatever the error looks like.
    """
    return {op: _state(op, outputs.get(op, ()), origins) for op in ops}


def _state(op: str, outputs: Sequence[Comparison], origins: frozenset[str]) -> OpState:
    compared = [item for item in outputs if item.compared]
    if not compared:
        return OpState.NOT_COMPARED
    if op in origins:
        return OpState.ORIGIN
    if any(is_broken(item) for item in compared):
        return OpState.BROKEN
    if any(item.over for item in compared):
        return OpState.INHERITED
    if any(item.level is Level.WARN for item in compared):
        return OpState.DRIFTING
    return OpState.CLEAN


def describe_origins(
    origin_ids: Sequence[str],
    ops: Mapping[str, Op],
    comparisons: Iterable[Comparison],
    links: Iterable[LineageLink],
    causes: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Origin, ...]:
    """The origins in the order given, with their worst output, their originals and *causes*.

    An op of which no output was compared shows its worst input; one whose tensors all have other
    shapes than golden's is as far off as can be.
    """
    wanted = set(origin_ids)
    tensors: dict[str, list[Comparison]] = {}
    for one in comparisons:
        if one.op in wanted and one.compared:
            tensors.setdefault(one.op, []).append(one)
    originals: dict[str, list[str]] = {}
    for link in links:
        if link.device in wanted:
            originals.setdefault(link.device, []).append(link.original)
    described: list[Origin] = []
    for rank, op_id in enumerate(origin_ids, start=1):
        compared = tensors.get(op_id, ())
        item = worst([one for one in compared if one.io is TensorIO.OUTPUT] or compared)
        metrics = OTHER_SHAPE if item is None or item.metrics is None else item.metrics
        golden = [item.golden] if item is not None and item.golden is not None else []
        held_against = {ref.op for ref in golden}
        golden += [
            TensorRef(name, -1) for name in originals.get(op_id, ()) if name not in held_against
        ]
        described.append(
            Origin(
                rank,
                op_id,
                ops[op_id].type,
                0 if item is None else item.port,
                tuple(golden),
                metrics,
                Level.FAIL if item is None or item.level is None else item.level,
                cause=causes.get(op_id) or None,
            )
        )
    return tuple(described)


def count(ops: int, comparisons: Sequence[Comparison]) -> Counts:
    """Counts over all tensors; ops without any output count as ops only."""
    tensors = [item for item in comparisons if item.port >= 0]
    compared = sum(item.compared for item in tensors)
    return Counts(
        ops=ops,
        tensors=len(tensors),
        compared=compared,
        over=sum(item.over for item in tensors),
        not_compared=len(tensors) - compared,
    )


def verdict(
    counts: Counts, origins: Sequence[Origin], comparisons: Iterable[Comparison]
) -> Verdict:
    """DIVERGED with an origin, WITHIN_ROUNDING with warnings only, CLEAN, or NOT_COMPARED.

    Statistics that differ are no proof of anything clean: the errors are at least what they tell.
    """
    if counts.compared == 0:
        return Verdict.NOT_COMPARED
    if origins:
        return Verdict.DIVERGED
    if any(item.level in (Level.WARN, Level.FAIL) or _may_differ(item) for item in comparisons):
        return Verdict.WITHIN_ROUNDING
    return Verdict.CLEAN


def _may_differ(item: Comparison) -> bool:
    """Whether statistics alone were compared, and differ."""
    return (
        item.metrics is not None
        and BY_STATISTICS in item.detail
        and item.metrics.max_absolute_error > 0.0
    )
