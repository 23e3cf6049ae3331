"""Which ops are to blame for the error of the model's outputs, by reference runs alone.

Each op's introduced error is added by itself to the golden run; what that changes at the
outputs is the op's contribution. All of them added together give the device's outputs
again, so leaving some out is the device with those ops exact: that proves a list of ops to
keep in higher precision before anyone compiles anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.execution.contract import AdditiveRun, Array, QuantisedRun
from divergraph.progress import NO_PROGRESS, Progress
from divergraph.root_cause.blame_changes import Change, GoldenOutputs, flat, length, minus, norm
from divergraph.root_cause.blame_imitated import ALIKE, Errs, Imitation
from divergraph.root_cause.blame_keeping import Left, Search, Shortener, Told, size

MOST = 100
"""Ops looked at one by one: those that introduce most."""
_ENOUGH = 5e-3
"""Stop keeping ops exact once this share of the error is left."""


@dataclass(frozen=True, slots=True)
class Introduced:
    """The introduced error of one device output, d - f(d_in), in golden order.

    ``tensor`` is the golden tensor it is an error of, ``op`` the device op's id, ``group``
    the golden ops behind it; ``error`` its size relative to the reference, ``suspicion``
    that over the floor. ``values`` gives the array when it is needed. ``handed_on`` gives what
    is left of the error if the op is computed exactly and its result handed on as the device
    hands it on: rounded to 16 bits. None: nothing is left.
    """

    op: str
    port: int
    tensor: str
    group: tuple[str, ...]
    error: float
    suspicion: float
    values: Callable[[], Array]
    handed_on: Callable[[], Array | None] | None = None
    reads: tuple[str, ...] = ()
    """The ops behind it that read quantised, as ``QuantisedRun`` calls them."""
    beyond: Callable[[], Array | None] | None = None
    """Gives what of the error is not by what they read so; None: all of it is, or nothing."""
    first: bool = False
    """Nothing that errs comes before it."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one op's introduced error does to the outputs.

    ``share`` of their error is signed: below zero, it makes up for others. ``size`` is the
    norm of its contribution over that of the error, ``left`` the relative error of the
    outputs predicted if this op were exact. ``by_output`` are the shares of each output.
    """

    op: str
    port: int
    tensor: str
    group: tuple[str, ...]
    share: float
    size: float
    left: float
    by_output: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Kept:
    """An op of the list of ops to keep exact, and the share of the error left with it.

    ``left`` if all others err just as they did; ``anew`` about, if they err as much, but each
    for itself: rounding is another once anything before it has changed. Of a device imitated
    ``left`` is with all others rounding anew, ``anew`` the same on slightly other inputs.
    """

    op: str
    tensor: str
    group: tuple[str, ...]
    left: float
    anew: float


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
    keep: tuple[Kept, ...]
    runs: int
    left_out: tuple[str, ...] = ()
    """Tensors whose error could not be added: no floats, or too many."""
    imitated: bool = False
    """The list to keep was searched and measured with the other ops rounding anew."""
    not_imitated: str = ""
    """Why that could not be done of a device that quantises."""
    stand_ins: frozenset[str] = frozenset()
    """Those of ``errors`` that are no outputs, but the last compared before some."""
    warnings: tuple[str, ...] = ()


def blame(
    model: AdditiveRun,
    introduced: Sequence[Introduced],
    device_outputs: Mapping[str, Array],
    *,
    most: int = MOST,
    keep: int = 10,
    memory: int = 1 << 30,
    progress: Progress = NO_PROGRESS,
) -> Blame:
    """Shares of the *most* ops that introduce most, and up to *keep* ops to keep exact.

    *device_outputs* are the device's values of the model's outputs, in golden order;
    about *memory* bytes of introduced errors are held, the largest relative errors first.
    """
    return _Blaming(model, introduced, device_outputs, memory, progress).blame(most, keep)


class _Blaming:
    def __init__(
        self,
        model: AdditiveRun,
        introduced: Sequence[Introduced],
        device_outputs: Mapping[str, Array],
        memory: int,
        progress: Progress,
    ) -> None:
        self._model = model
        self._progress = progress
        self._shortener = Shortener()
        self.runs = 0
        can = set(model.tensors)
        ranked = sorted(introduced, key=lambda each: -_importance(each))
        self._held: dict[str, Array] = {}
        self._rounding: dict[str, Array] = {}
        self._items: dict[str, Introduced] = {}
        self.left_out = [each.tensor for each in ranked if each.tensor not in can]
        used = 0
        for each in ranked:
            if each.tensor not in can or each.error == 0.0:
                continue
            values = each.values()
            rounding = None if each.handed_on is None else each.handed_on()
            used += values.nbytes + (0 if rounding is None else rounding.nbytes)
            if used > memory:
                self.left_out.append(each.tensor)
                continue
            known = self._held.get(each.tensor)
            # Two device tensors of one golden one (before and behind a Cast): both err.
            self._held[each.tensor] = values if known is None else known + values
            self._items.setdefault(each.tensor, each)
            if rounding is not None:
                self._rounding[each.tensor] = rounding
        outputs = self._run({})
        names = [name for name in outputs if name in device_outputs]
        self._golden = GoldenOutputs({name: outputs[name] for name in names})
        self._device = {name: device_outputs[name] for name in names}
        self._error = self._change(self._device)

    def blame(self, most: int, keep: int) -> Blame:
        replayed = self._change(self._run(self._held))
        whole = length(self._error)
        chosen = list(self._items)[:most]
        self._progress.stage("adding each op's error to the golden run", len(chosen))
        shares: list[Share] = []
        effects: dict[str, Array] = {}
        for tensor in chosen:
            alone = self._change(self._run({tensor: self._held[tensor]}))
            shares.append(self._share(self._items[tensor], alone, whole))
            effects[tensor] = self._short(alone)
            self._progress.step()
        shares.sort(key=lambda each: -each.size)
        self._progress.stage("proving which ops to keep exact")
        imitated = self._imitation()
        off = 0.0 if imitated is None else imitated.off(self._error)
        fits = imitated is not None and off <= ALIKE
        if imitated is not None and fits:
            kept = self._keep_imitated(imitated, effects, keep)
        else:
            kept = self._keep(effects, length(replayed), keep)
        self.runs += 0 if imitated is None else imitated.runs
        return Blame(
            errors=self._golden.off(self._device),
            unexplained=length(minus(self._error, replayed)) / whole if whole else 0.0,
            shares=tuple(shares),
            keep=kept,
            runs=self.runs,
            left_out=tuple(self.left_out),
            imitated=fits,
            not_imitated="" if off <= ALIKE else _far_off(off),
        )

    def _share(self, item: Introduced, alone: Change, whole: float) -> Share:
        def share(name: str) -> float:
            error = self._error[name]
            power = float(np.vdot(error, error).real)
            return float(np.vdot(alone[name], error).real) / power if power else 0.0

        powers = {name: float(np.vdot(e, e).real) for name, e in self._error.items()}
        total = sum(powers.values())
        by_output = {name: share(name) for name in self._error}
        signed = sum(by_output[name] * powers[name] for name in powers) / total if total else 0.0
        return Share(
            op=item.op,
            port=item.port,
            tensor=item.tensor,
            group=item.group,
            share=signed,
            size=length(alone) / whole if whole else 0.0,
            left=length(minus(self._error, alone)),
            by_output=by_output,
        )

    def _keep(self, effects: Mapping[str, Array], base: float, count: int) -> tuple[Kept, ...]:
        """The ops to keep exact, until hardly any error is left; *base* is all of it."""
        if not effects or base == 0.0:
            return ()

        def replay(exact: frozenset[str]) -> Left:
            off = self._change(self._run(self._without(exact)))
            return Left(length(off) / base, self._short(off))

        gains = self._gains(effects)
        total = sum(size(effect) for effect in effects.values())
        kept: list[Kept] = []
        rest = total
        told = Told.LITTLE if self._rounding else Told.MUCH
        for tensor, left in Search(replay, effects, told).best(count):
            item = self._items[tensor]
            rest -= gains[tensor]
            anew = float(np.sqrt(max(rest, 0.0) / total)) if total else 0.0
            kept.append(Kept(item.op, tensor, item.group, left, anew))
            if left <= _ENOUGH:
                break
        return tuple(kept)

    def _imitation(self) -> Imitation | None:
        """The device imitated, if it reads quantised."""
        if not isinstance(self._model, QuantisedRun) or not length(self._error):
            return None
        opened = set(self._model.makers)
        reads = {
            name: item.reads
            for name, item in self._items.items()
            if opened.intersection(item.reads)
        }
        if not reads:
            return None
        beyond = {
            name: left
            for name, item in self._items.items()
            if (left := item.beyond() if item.beyond else self._held[name]) is not None
        }
        sizes = {
            name: norm(self._held[name]) / np.sqrt(self._held[name].size or 1) / item.error
            for name, item in self._items.items()
            if item.first and np.isfinite(item.error)
        }
        shapes = {name: self._held[name].shape for name in sizes}
        errs = Errs(beyond, self._rounding, reads, sizes)
        return Imitation(self._model, errs, self._golden, shapes, self._shortener.short)

    def _keep_imitated(
        self, imitated: Imitation, effects: Mapping[str, Array], count: int
    ) -> tuple[Kept, ...]:
        """As ``_keep``, by runs in which the ops not kept round anew."""
        kept: list[Kept] = []
        exact: frozenset[str] = frozenset()
        for tensor, left in Search(imitated.left, effects, Told.ALL).best(count):
            item = self._items[tensor]
            exact |= {tensor}
            elsewhere = imitated.elsewhere(exact)
            anew = left if elsewhere is None else elsewhere
            kept.append(Kept(item.op, tensor, item.group, left, anew))
            if left <= _ENOUGH:
                break
        return tuple(kept)

    def _gains(self, effects: Mapping[str, Array]) -> dict[str, float]:
        """What keeping each op exact takes off the squared error, if none makes up for another."""
        found = {}
        for name, effect in effects.items():
            lost, held = self._rounding.get(name), self._held[name]
            share = 0.0  # an overflow is gone altogether
            if lost is not None and np.isfinite(held).all():
                share = norm(lost) / (norm(held) or 1.0)
            found[name] = size(effect) * max(0.0, 1.0 - share**2)
        return found

    def _short(self, found: Mapping[str, Array]) -> Array:
        return self._shortener.short(flat(found))

    def _without(self, exact: Collection[str]) -> dict[str, Array]:
        """What is added if *exact* tensors are: of them, their rounding behind the op."""
        found = {tensor: values for tensor, values in self._held.items() if tensor not in exact}
        found |= {name: self._rounding[name] for name in exact if name in self._rounding}
        return found

    def _run(self, additions: Mapping[str, Array]) -> Mapping[str, Array]:
        self.runs += 1
        return self._model.run(additions)

    def _change(self, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """What differs from the golden outputs, each over the golden output's norm."""
        return self._golden.change(outputs)


def left_with(
    model: AdditiveRun,
    introduced: Sequence[Introduced],
    device_outputs: Mapping[str, Array],
    exact: Sequence[str],
) -> float:
    """The share of the outputs' error left if the ops behind golden tensors *exact* were exact."""
    blaming = _Blaming(model, introduced, device_outputs, 1 << 40, NO_PROGRESS)
    base = length(blaming._change(blaming._run(blaming._held)))
    rest = length(blaming._change(blaming._run(blaming._without(set(exact)))))
    return rest / base if base else 0.0


def _far_off(off: float) -> str:
    return f"imitated, its outputs would be off by {100 * off:.0f} % of their error"


def _importance(item: Introduced) -> float:
    """Errors that are not finite come first, then by relative size."""
    return item.error if np.isfinite(item.error) else np.inf
