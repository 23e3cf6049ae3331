"""A run judged by other limits, from the metrics it keeps."""

from __future__ import annotations

from dataclasses import replace

from divergraph.metrics.limits.thresholds import Thresholds
from divergraph.metrics.statistics import at_least_a_warning
from divergraph.thresholds.doubts import with_doubt
from divergraph.thresholds.starts import starts_by_limits
from divergraph.thresholds.verdicts import (
    count,
    describe_origins,
    op_states,
    outputs_by_op,
    verdict,
)
from graphstore.contract import RunData
from graphstore.model import Comparison, Method, Op, RunBlame, RunResult, Verdict
from graphstore.traverse.topological_order import graph_arrays


def judged_again(data: RunData, thresholds: Thresholds) -> RunData:
    """*data* with its levels, origins and verdict by *thresholds*; nothing is measured."""
    ops = data.device.op_index()
    comparisons = tuple(_level(item, ops.get(item.op), thresholds) for item in data.comparisons)
    arrays = graph_arrays(data.device)
    outputs = outputs_by_op(comparisons)
    starts = starts_by_limits(arrays, data.device, comparisons, outputs, data.golden, data.links)
    run_verdict = starts.recorded.verdict
    if data.run.verdict is Verdict.LAYOUTS_DIFFER:
        run_verdict = data.run.verdict  # no limit changes that, and the other ranks may not be here
    origins = describe_origins(starts.origins, ops, comparisons, data.links, starts.recorded.causes)
    counts = count(data.run.counts.ops, comparisons)
    run = replace(
        data.run,
        verdict=run_verdict or verdict(counts, origins, comparisons),
        method=Method.THRESHOLDS,
        counts=counts,
        thresholds=thresholds.as_mapping(),
        result=RunResult(),
        blame=RunBlame(),
    )
    judged = replace(
        data,
        run=run,
        comparisons=comparisons,
        states=op_states(arrays.ids, outputs, frozenset(starts.origins)),
        origins=origins,
        suspects=(),
    )
    return with_doubt(judged, starts.recorded.doubt)


def _level(item: Comparison, op: Op | None, thresholds: Thresholds) -> Comparison:
    if item.metrics is None:
        return item
    judgement = thresholds.judge(
        item.metrics,
        item.figures,
        device=item.device_dtype,
        golden=item.golden_dtype,
        op_type=op.type if op else "",
        name=op.name if op else item.op,
    )
    level = at_least_a_warning(judgement.level, item.detail)
    return replace(item, level=level, failed=judgement.failed, limit=judgement.limit)
