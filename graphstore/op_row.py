"""One op as every table shows it and every filter sees it."""

from __future__ import annotations

from dataclasses import dataclass

from graphstore.model import (
    ErrorSplit,
    Level,
    Metric,
    MetricSet,
    Note,
    OpState,
    Reason,
    Shape,
    Side,
)


@dataclass(frozen=True, slots=True)
class OpRow:
    """An op with its place, its worst compared output and what happened to it.

    ``metrics`` are those of the op's worst output (None if nothing was compared, then
    ``reason`` and ``detail`` say why); ``output`` is that output's port. ``fused`` is
    the number of originals (0: inserted, 1: itself). ``gain`` is relative error out over
    the worst relative error of the nearest measured ancestors, None if unknown.
    ``origins`` are the ids of the origins an inherited error can come from. ``split`` is
    that of the op's most suspicious output (None: no root-cause analysis was made).
    ``notes`` are what somebody wrote of its originals, ``attributes`` its own as ``name=value``,
    where a list was asked for them.
    Outside a run (an imported graph) ``state`` and what follows are None or empty.
    """

    topo: int
    id: str
    name: str
    type: str
    side: Side
    subgraph: str
    dtype: str
    shape: Shape | None
    layout: str
    fused: int
    originals: tuple[str, ...]
    state: OpState | None = None
    level: Level | None = None
    output: int | None = None
    metrics: MetricSet | None = None
    failed: tuple[Metric, ...] = ()
    reason: Reason | None = None
    detail: str = ""
    gain: float | None = None
    origins: tuple[str, ...] = ()
    split: ErrorSplit | None = None
    attributes: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
