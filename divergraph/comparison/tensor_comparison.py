"""The comparison made of what was measured of a pair."""

from __future__ import annotations

from divergraph.graphs.pairing import Pair
from divergraph.metrics.limits.thresholds import Thresholds
from divergraph.metrics.pairs.measurement import Measurement
from graphstore.model import Comparison


def judged(pair: Pair, found: Measurement, thresholds: Thresholds) -> Comparison:
    """What was *found* of *pair*, with its level."""
    judgement = None
    if found.metrics is not None:
        judgement = thresholds.judge(
            found.metrics,
            found.figures,
            device=pair.device.dtype,
            golden=pair.golden.dtype,
            op_type=pair.op.type,
            name=pair.op.name,
        )
    return Comparison(
        pair.op.id,
        pair.io,
        pair.port,
        pair.match.golden,
        pair.match.rule,
        metrics=found.metrics,
        level=None if judgement is None else judgement.level,
        failed=() if judgement is None else judgement.failed,
        reason=found.reason,
        detail=found.detail,
        shape=found.shape,
        device_dtype=pair.device.dtype,
        golden_dtype=pair.golden.dtype,
        device_path=str(pair.device.path),
        golden_path=str(pair.golden.path),
        address=pair.device.address,
        overflow=found.overflow,
        figures=found.figures,
        limit="" if judgement is None else judgement.limit,
    )
