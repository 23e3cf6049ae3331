"""Doubts about a verdict: said before it, and where no answer can be right, instead of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from divergraph.metrics.statistics import CHECKSUMS_DIFFER
from divergraph.text.words import counted
from graphstore.contract import RunData
from graphstore.model import Comparison, Guilt, OpState, Origin, Verdict


def with_doubt(data: RunData, doubt: str, *, first: bool = False) -> RunData:
    """*data* with *doubt* said before its verdict, *first* of all doubts or last; as it is if
    *doubt* is ""."""
    doubt_before = data.run.analysis.doubt
    if not doubt or doubt in doubt_before:
        return data
    doubts = "; ".join(filter(None, (doubt, doubt_before) if first else (doubt_before, doubt)))
    return replace(data, run=replace(data.run, analysis=replace(data.run.analysis, doubt=doubts)))


def undecided(data: RunData) -> RunData:
    """*data* without a verdict or an origin, as no answer can be right."""
    data = not_accused(data, {origin.op for origin in data.origins})
    if data.run.verdict is Verdict.NOT_COMPARED:
        return data
    return replace(data, run=replace(data.run, verdict=Verdict.UNDECIDED))


def judged_by_checksums(data: RunData) -> RunData:
    """*data*, undecided where tensors are known to differ, nothing says by how much, and no other
    tensor is over a limit."""
    differing = [
        item.op
        for item in data.comparisons
        if item.metrics is None and item.detail.endswith(CHECKSUMS_DIFFER)
    ]
    if not differing or data.run.verdict is Verdict.DIVERGED:
        return data
    many = counted(len(differing), "tensor")
    doubt = f"checksums differ of {many}, and nothing says by how much (first: {differing[0]})"
    return undecided(with_doubt(data, doubt))


def not_accused(data: RunData, ops: Collection[str]) -> RunData:
    """*data* with those of its origins that are in *ops* as suspects; where no other origin is
    left, it is undecided."""
    freed = [origin for origin in data.origins if origin.op in ops]
    if not freed:
        return data
    origins = [origin for origin in data.origins if origin.op not in ops]
    return replace(
        data,
        run=data.run if origins else replace(data.run, verdict=Verdict.UNDECIDED),
        origins=_ranked(origins),
        suspects=_ranked([*freed, *data.suspects]),
        comparisons=tuple([_not_guilty(item, ops) for item in data.comparisons]),
        states={
            op: OpState.INHERITED if state is OpState.ORIGIN and op in ops else state
            for op, state in data.states.items()
        },
    )


def _ranked(origins: Sequence[Origin]) -> tuple[Origin, ...]:
    return tuple([replace(origin, rank=rank) for rank, origin in enumerate(origins, 1)])


def _not_guilty(item: Comparison, ops: Collection[str]) -> Comparison:
    if item.op not in ops or item.split is None or item.split.guilt is not Guilt.GUILTY:
        return item
    return replace(item, split=replace(item.split, guilt=Guilt.SUSPECT))
