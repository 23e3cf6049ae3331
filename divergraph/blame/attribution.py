"""Which ops are to blame for the error of the model's outputs, by reference runs alone.

Each op's introduced error is added alone to the golden run; the change at the outputs is the op's
contribution. All errors added together reproduce the device's outputs, so leaving some out
simulates the device with those ops exact: that proves a list of ops to keep in higher precision
before anything is compiled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from divergraph.blame.imitated_device import ALIKE, Imitation
from divergraph.blame.output_changes import root_mean_square
from divergraph.blame.sample import Alone, Introduced, ModelSample
from divergraph.blame.search import KeepSearch, Left, Told
from divergraph.jobs.progress import NO_PROGRESS, Progress

MOST = 100
"""Ops whose error is added alone: those that introduce the most."""
_ENOUGH = 5e-3
"""Picking of ops to keep stops once this share of the error is left, or less than it can be
gained."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one op's introduced error does to the outputs. ``share`` of their error is signed: a
    negative one cancels errors of other ops. ``size`` is the norm of its contribution over that of
    the error, ``left`` the relative error of the outputs predicted if this op were exact.
    ``by_output`` are the shares of each output."""

    op: str
    port: int
    tensor: str
    group: tuple[str, ...]
    share: float
    size: float
    left: float
    by_output: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class KeepListEntry:
    """An op to keep exact, and the share of the error left with it and those before it in the list.
    ``left`` if all other ops err exactly as they did; ``anew`` is an estimate if they err as much
    but independently, since rounding changes once anything before it has changed. For an emulated
    device, ``left`` is measured with all others rounding again, ``anew`` the same on slightly
    different inputs."""

    op: str
    tensor: str
    group: tuple[str, ...]
    left: float
    anew: float


MOSTLY = 0.5
"""The share of the error that no op explains, above which the ops are not what to look at."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What would be left of the outputs' error if the device ``ops`` were exact: as shares of it,
    ``left`` with the errors of all other ops as they were (or, for an emulated device, anew), and
    ``anew`` if they err as much but independently. ``without`` are asked ops with no error that
    could be taken away."""

    ops: tuple[str, ...]
    left: float
    anew: float
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Blame:
    """Who made the error of the outputs.

    ``errors`` are the device's relative errors by output, infinite where values are not finite;
    ``unexplained`` is the share of the error that the introduced errors leave when all are added
    to the golden run. ``shares`` are ordered by size, ``keep`` in the order of picking; ``runs``
    counts runs of the model.
    """

    errors: Mapping[str, float]
    unexplained: float
    shares: tuple[Share, ...]
    keep: tuple[KeepListEntry, ...]
    runs: int
    left_out: tuple[str, ...] = ()
    """Tensors whose error could not be added: not floats, or too large to keep."""
    imitated: bool = False
    """The list was searched and measured with all other ops rounding again."""
    not_imitated: str = ""
    """Why that could not be done for a device that quantises."""
    stand_ins: frozenset[str] = frozenset()
    """The names in ``errors`` that are not outputs, but the last compared tensors before some."""
    warnings: tuple[str, ...] = ()
    what_if: WhatIf | None = None
    """What is left if the asked ops are exact."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """By output that is right as a whole the damaged parts of it, whose error was blamed."""


def blame(
    samples: Sequence[ModelSample],
    *,
    most: int = MOST,
    keep: int = 10,
    exact: Sequence[str] = (),
    progress: Progress = NO_PROGRESS,
) -> Blame:
    """Shares of the *most* ops that introduce most, and up to *keep* ops to keep exact. Over
    several samples of the same models shares are means, errors and what is left are root mean
    squares, and the list is the best one for all samples. *exact* are device ops: what would be
    left if they were exact is added."""
    chosen = [list(sample.items)[:most] for sample in samples]
    progress.stage("adding each op's error to the golden run", sum(map(len, chosen)))
    alone: dict[str, list[Alone | None]] = {}
    for place, sample in enumerate(samples):
        for tensor in chosen[place]:
            alone.setdefault(tensor, [None] * len(samples))[place] = sample.alone(tensor)
            progress.step()
    items = {name: item for sample in reversed(samples) for name, item in sample.items.items()}
    shares = [_share(items[tensor], alone_runs, samples) for tensor, alone_runs in alone.items()]
    progress.stage("proving which ops to keep exact")
    imitations, why_not = _imitations(samples)
    unexplained = root_mean_square(sample.unexplained for sample in samples)
    # Where the ops did not make the error, no list of ops takes it away.
    not_theirs = unexplained > MOSTLY and sum(share.size for share in shares) < 1.0 - MOSTLY
    searched = [] if not_theirs else list(_keep_order(imitations or samples, samples, keep))
    entries = _worth_it(searched)
    return Blame(
        errors=_errors(samples),
        parts={name: part for sample in reversed(samples) for name, part in sample.parts.items()},
        unexplained=unexplained,
        shares=tuple(sorted(shares, key=lambda share: -share.size)),
        keep=tuple(
            KeepListEntry(items[tensor].op, tensor, items[tensor].group, left_over, new_noise)
            for tensor, left_over, new_noise in entries
        ),
        runs=sum(sample.runs for sample in samples)
        + sum(imitation.runs for imitation in imitations),
        left_out=tuple(dict.fromkeys(name for sample in samples for name in sample.left_out)),
        imitated=bool(imitations),
        not_imitated=why_not,
        what_if=_what_if(exact, items, imitations or samples) if exact else None,
    )


def _what_if(
    ops: Sequence[str], items: Mapping[str, Introduced], replays: Sequence[_Replays]
) -> WhatIf:
    tensors = frozenset(name for name, item in items.items() if item.op in set(ops))
    imitated_ops = {items[name].op for name in tensors}
    return WhatIf(
        tuple(ops),
        root_mean_square(replay_run.left(tensors).share for replay_run in replays),
        root_mean_square(replay_run.anew(tensors) for replay_run in replays),
        tuple(op for op in ops if op not in imitated_ops),
    )


class _Replays(Protocol):
    """Replays of several samples: what is left of the error with some tensors exact."""

    def left(self, exact: Collection[str]) -> Left: ...

    def anew(self, exact: Collection[str]) -> float: ...


def _keep_order(
    replays: Sequence[_Replays], samples: Sequence[ModelSample], count: int
) -> Iterator[tuple[str, float, float]]:
    """The tensors to keep exact, until hardly any error is left, each with what is left then."""
    nothing = [
        np.zeros_like(next(iter(sample.effects.values()), np.zeros(1))) for sample in samples
    ]
    effects = {
        name: np.concatenate(
            [sample.effects.get(name, none) for sample, none in zip(samples, nothing, strict=True)]
        )
        for name in dict.fromkeys(name for sample in samples for name in sample.effects)
    }
    if not any(np.any(effect) for effect in effects.values()):
        return

    def replay(exact: frozenset[str]) -> Left:
        lefts = [replay_run.left(exact) for replay_run in replays]
        return Left(
            root_mean_square(part.share for part in lefts),
            np.concatenate([part.error for part in lefts]),
        )

    scope = Told.MUCH
    if replays is not samples:
        scope = Told.ALL
    elif any(sample.rounds for sample in samples):
        scope = Told.LITTLE
    exact: set[str] = set()
    for tensor, share in KeepSearch(replay, effects, scope).best(count):
        exact.add(tensor)
        yield tensor, share, root_mean_square(replay_run.anew(exact) for replay_run in replays)
        if share <= _ENOUGH:
            return


def _worth_it(entries: Sequence[tuple[str, float, float]]) -> Sequence[tuple[str, float, float]]:
    """*entries* without those at the end that together gain hardly anything; nothing if all of
    them do, as of ops in a row that each quantise what they hand on."""
    remaining = [(1.0, 1.0), *(entry[1:] for entry in entries)]
    for count, pair in enumerate(remaining):
        if all(own <= last + _ENOUGH for own, last in zip(pair, remaining[-1], strict=True)):
            return entries[:count]
    return entries


def _imitations(samples: Sequence[ModelSample]) -> tuple[list[Imitation], str]:
    """The device emulated on each sample, if that works for all of them; else none, and the
    reason."""
    imitations = [imitation for sample in samples if (imitation := sample.imitation()) is not None]
    if len(imitations) < len(samples):
        return [], ""
    off = max(imitation.off for imitation in imitations)
    if off <= ALIKE:
        return imitations, ""
    return [], f"imitated, its outputs would be off by {100 * off:.0f} % of their error"


def _share(
    item: Introduced, alone: Sequence[Alone | None], samples: Sequence[ModelSample]
) -> Share:
    alone_runs = [run for run in alone if run is not None]
    outputs = dict.fromkeys(name for run in alone_runs for name in run.by_output)
    return Share(
        op=item.op,
        port=item.port,
        tensor=item.tensor,
        group=item.group,
        share=sum(run.share for run in alone_runs) / len(samples),
        size=root_mean_square(run.size if run else 0.0 for run in alone),
        left=root_mean_square(
            run.left if run else sample.off for run, sample in zip(alone, samples, strict=True)
        ),
        by_output={
            name: sum(run.by_output.get(name, 0.0) for run in alone_runs) / len(samples)
            for name in outputs
        },
    )


def _errors(samples: Sequence[ModelSample]) -> dict[str, float]:
    names = dict.fromkeys(name for sample in samples for name in sample.errors)
    return {
        name: root_mean_square(sample.errors[name] for sample in samples if name in sample.errors)
        for name in names
    }
