"""Origins, suspects, states and the verdict of a run whose errors were split."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from divergraph.thresholds.verdicts import is_broken, outputs_by_op, worst
from graphstore.model import (
    Comparison,
    Counts,
    ErrorSplit,
    Guilt,
    InputMismatch,
    Level,
    LineageLink,
    Op,
    OpState,
    Origin,
    TensorIO,
    TensorRef,
    Verdict,
)
from graphstore.traverse.algorithms import descendants, first_diverging
from graphstore.traverse.arrays import GraphArrays


def with_splits(
    comparisons: Iterable[Comparison], splits: Mapping[TensorRef, ErrorSplit]
) -> tuple[Comparison, ...]:
    """*comparisons* with the split of each output that has one."""
    return tuple(
        replace(item, split=splits.get(TensorRef(item.op, item.port)))
        if item.io is TensorIO.OUTPUT
        else item
        for item in comparisons
    )


def ops_over(comparisons: Iterable[Comparison], guilt: Guilt) -> dict[str, Comparison]:
    """The ops of this guilt, each with its most suspicious output."""
    worst_of_op: dict[str, Comparison] = {}
    for item in comparisons:
        if item.split is None or item.split.guilt is not guilt:
            continue
        before = worst_of_op.get(item.op)
        if before is None or _suspicion(item) > _suspicion(before):
            worst_of_op[item.op] = item
    return worst_of_op


def ranked(arrays: GraphArrays, guilty: Mapping[str, Comparison]) -> list[Comparison]:
    """The guilty ops in rank order: first those with no guilty op upstream, the most suspicious
    first; then the others, which add errors of their own, in the same order."""
    mask = np.zeros(len(arrays.ids), dtype=np.bool_)
    for op in guilty:
        mask[arrays.number[op]] = True
    # Only guilty ops count as measured, so that all ops between two of them are looked through.
    first = {arrays.ids[number] for number in first_diverging(arrays, mask, mask)}
    return sorted(
        guilty.values(),
        key=lambda item: (item.op not in first, -_suspicion(item), arrays.number[item.op]),
    )


def as_origins(
    items: Sequence[Comparison],
    ops: Mapping[str, Op],
    links: Iterable[LineageLink],
    causes: Mapping[str, str],
) -> tuple[Origin, ...]:
    """*items*, outputs with metrics and a split, as origins ranked in the order given.

    *causes* are sentences by device op; *links* give the originals that are named with each.
    """
    wanted = {item.op for item in items}
    originals: dict[str, list[str]] = {}
    for link in links:
        if link.device in wanted:
            originals.setdefault(link.device, []).append(link.original)
    origins: list[Origin] = []
    for rank, item in enumerate(items, start=1):
        assert item.metrics is not None
        assert item.split is not None
        golden = [] if item.golden is None else [item.golden]
        golden += [
            TensorRef(name, -1)
            for name in dict.fromkeys(originals.get(item.op, ()))
            if item.golden is None or name != item.golden.op
        ]
        origins.append(
            Origin(
                rank,
                item.op,
                ops[item.op].type,
                item.port,
                tuple(golden),
                item.metrics,
                item.level or Level.FAIL,
                item.split.suspicion,
                causes.get(item.op),
            )
        )
    return tuple(origins)


def states(
    arrays: GraphArrays,
    comparisons: Sequence[Comparison],
    origins: Iterable[str],
    around: Collection[str] = (),
) -> dict[str, OpState]:
    """The state of each op, by id. An op over a limit is inherited if an origin lies upstream or
    (*around*) in one of its bodies, else explained by its precision, unless it is a suspect or
    nothing is known of its own error."""
    starts = set(origins)
    numbers = [arrays.number[op] for op in starts]
    later_ops = {arrays.ids[number] for number in descendants(arrays, numbers)} | set(around)
    outputs = outputs_by_op(comparisons)
    return {op: _state(outputs.get(op, ()), op in starts, op in later_ops) for op in arrays.ids}


def _state(outputs: Sequence[Comparison], is_origin: bool, is_behind: bool) -> OpState:
    item = worst(outputs)
    if is_origin:
        return OpState.ORIGIN
    if item is None:
        return OpState.NOT_COMPARED
    if any(is_broken(output) for output in outputs):
        return OpState.BROKEN
    if item.over:
        return OpState.INHERITED if is_behind else _past_a_level(item)
    if item.level is not Level.WARN:
        return OpState.CLEAN
    return OpState.DRIFTING if is_behind else _past_a_level(item)


def _past_a_level(item: Comparison) -> OpState:
    """The state of an op past a limit or warning level, with no origin before it."""
    split = item.split
    is_explained = split is not None and not split.failure and split.guilt is Guilt.NONE
    return OpState.EXPLAINED if is_explained else OpState.DRIFTING


def verdict(
    counts: Counts,
    origins: Sequence[Origin],
    comparisons: Iterable[Comparison],
    unlike: Sequence[InputMismatch] = (),
) -> Verdict:
    """DIVERGED if some op is guilty, else INPUTS_DIFFER if the sides were fed *unlike* inputs, else
    WITHIN_ROUNDING if a level is past, else CLEAN."""
    if counts.compared == 0:
        return Verdict.NOT_COMPARED
    if origins:
        return Verdict.DIVERGED
    if unlike:
        return Verdict.INPUTS_DIFFER
    noisy = any(item.level in (Level.WARN, Level.FAIL) for item in comparisons)
    return Verdict.WITHIN_ROUNDING if noisy else Verdict.CLEAN


def _suspicion(item: Comparison) -> float:
    suspicion = None if item.split is None else item.split.suspicion
    return math.inf if suspicion is None else suspicion
