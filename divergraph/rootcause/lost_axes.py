"""Axes of one slice that the device lost.

Dumps are often written without such axes, so that is no fault by itself. But if an op behind gives
exactly what the device has when it is run on the shape that was dumped, and not on the right one,
the axis was missing on the device, too: it was broadcast along another one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from divergraph.rootcause.causes.limits import SURE
from divergraph.rootcause.causes.reruns.shapes import LABEL
from divergraph.rootcause.prepared import PreparedRun
from divergraph.rootcause.run_inputs import Splits
from divergraph.rootcause.shape_metrics import without_ones
from divergraph.rootcause.values import relative
from graphstore.model import ErrorSplit, Finding, FindingKind, Guilt, Role, TensorRef

_FAR_LESS = 1e-2
"""The share of the error that running on the dumped shape may leave, to be what the device did."""


def with_lost_axes(run: PreparedRun, splits: Splits) -> Splits:
    """*splits* with the ops that lost an axis guilty in place of those that read their outputs."""
    for reader, output, finding in list(_lost(run, splits)):
        split = splits.by_output[output]
        guilty = ErrorSplit(
            Role.INTRODUCES,
            Guilt.GUILTY,
            propagated=split.propagated,
            suspicion=math.inf,
            group=split.group,
            reference=split.reference,
        )
        follows = replace(
            splits.by_output[reader],
            role=Role.CARRIES,
            guilt=Guilt.NONE,
            introduced=0.0,
            propagated=math.inf,
            suspicion=0.0,
        )
        about = {(ref.op, ref.port) for ref in (reader, output)}
        other_findings = tuple(
            finding for finding in splits.findings if (finding.op, finding.port) not in about
        )
        splits = replace(
            splits,
            by_output={**splits.by_output, output: guilty, reader: follows},
            findings=(*other_findings, finding),
        )
    return splits


def _lost(run: PreparedRun, splits: Splits) -> Iterator[tuple[TensorRef, TensorRef, Finding]]:
    """Outputs that are guilty, each with the output that lost an axis before it."""
    for reader, split in splits.by_output.items():
        group = splits.groups[reader]
        squeezed = [ref for ref in group.measured if _is_squeezed(run, ref)]
        if split.guilt is not Guilt.GUILTY or not squeezed:
            continue
        feeds, missing = run.runs.feeds(group)
        device = run.values.device(reader)
        if missing or device is None or not split.introduced:
            continue
        for feed in group.feeds:
            if feed.device not in squeezed:
                continue
            value = feeds[feed.tensor]
            dumped = run.values.pairs[feed.device].device.shape or ()
            (rerun,) = run.runs.references([group], [{**feeds, feed.tensor: value.reshape(dumped)}])
            if isinstance(rerun, str) or rerun.size != device.size:
                continue
            if relative(device, rerun) <= _FAR_LESS * split.introduced:
                yield reader, feed.device, _finding(feed.device, dumped, value.shape, reader)
                break


def _is_squeezed(run: PreparedRun, output: TensorRef) -> bool:
    """Whether an output was dumped without axes of one slice that golden has, or with more."""
    pair, right = run.values.pairs[output], run.values.shapes.get(output)
    dumped = pair.device.shape
    if dumped is None or right is None or pair.device.layout or pair.reorder:
        return False
    return dumped != right and without_ones(dumped) == without_ones(right)


def _finding(
    output: TensorRef, dumped: Sequence[int], right: Sequence[int], reader: TensorRef
) -> Finding:
    here, there = ("x".join(map(str, shape)) or "a scalar" for shape in (dumped, right))
    return Finding(
        FindingKind.CAUSE,
        LABEL,
        f"its shape is {here} where {there} is right (keepdims?): {reader.op}, run on that, gives "
        "what the device has",
        output.op,
        port=output.port,
        confidence=SURE,
        evidence={"shape": list(dumped), "right": list(right), "seen_in": reader.op},
    )
