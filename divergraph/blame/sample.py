"""One sample: replays of its golden run with introduced errors added."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from divergraph.blame.imitated_device import Errs, Imitation
from divergraph.blame.output_changes import Change, GoldenOutputs, flat, length, minus, norm
from divergraph.blame.search import Left, Shortener, size
from divergraph.execute.contract import AdditiveRun, Array, QuantisedRun
from divergraph.results.damage import damaged_parts, mask_of


@dataclass(frozen=True, slots=True)
class Introduced:
    """The introduced error of one device output, d - f(d_in), in golden order.

    ``tensor`` is the golden tensor it is an error of, ``op`` the device op's id, ``group`` the
    golden ops behind it; ``error`` its size relative to the reference, ``suspicion`` that over the
    floor. ``values`` gives the array when it is needed. ``handed_on`` gives the error that is left
    if the op is computed exactly but its result rounded to 16 bits as on the device; None: nothing
    is left.
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
    """Gives the part of the error that quantised operands do not explain; None: they explain all of
    it, or nothing was quantised."""
    first: bool = False
    """True if no tensor with an error comes before it."""


@dataclass(frozen=True, slots=True)
class Alone:
    """What one op's introduced error does to a sample's outputs; see ``Share``."""

    share: float
    size: float
    left: float
    by_output: Mapping[str, float]


class ModelSample:
    """The golden *model* on a sample, the errors the device *introduced* there, its outputs.

    *device_outputs* are the device's values of the model's outputs, in golden's order of axes. Of
    those *in_parts* only the damaged parts count, whose size says little beside that of the whole:
    the scores beside boxes in pixels.
    About *memory* bytes of introduced errors are kept in memory, the largest relative errors first.
    """

    def __init__(
        self,
        model: AdditiveRun,
        introduced: Sequence[Introduced],
        device_outputs: Mapping[str, Array],
        memory: int = 1 << 30,
        in_parts: Collection[str] = (),
    ) -> None:
        self.runs = 0
        self.items: dict[str, Introduced] = {}
        self.left_out: list[str] = []
        self.effects: dict[str, Array] = {}
        """By tensor the change its error makes alone, shortened, over the norm of the whole
        error."""
        self._model = model
        self._shortener = Shortener()
        self._held: dict[str, Array] = {}
        self._rounding: dict[str, Array] = {}
        self._hold(introduced, memory)
        outputs = self._run({})
        shared = [name for name in outputs if name in device_outputs]
        # Room for another device's kernels is as large as each kernel likes.
        names = [name for name in shared if outputs[name].size == device_outputs[name].size]
        self.left_out += [name for name in shared if name not in names]
        device = {name: device_outputs[name] for name in names}
        damaged = {
            name: tuple(damaged_parts(device[name].reshape(outputs[name].shape), outputs[name]))
            for name in names
            if name in in_parts
        }
        self.parts = {
            name: ", ".join(damage.part for damage in own) for name, own in damaged.items()
        }
        """By output the damaged parts of it that alone count."""
        masks = {name: mask_of(own, outputs[name].shape) for name, own in damaged.items() if own}
        self._golden = GoldenOutputs({name: outputs[name] for name in names}, masks)
        self.errors = self._golden.off(device)
        self._error = self._change(device)
        self.off = length(self._error)
        """The norm of the outputs' relative errors."""

    def _hold(self, introduced: Sequence[Introduced], memory: int) -> None:
        can = set(self._model.tensors)
        ranked = sorted(introduced, key=lambda item: -_importance(item))
        self.left_out = [item.tensor for item in ranked if item.tensor not in can]
        used = 0
        for item in ranked:
            if item.tensor not in can or item.error == 0.0:
                continue
            values = item.values()
            rounding = None if item.handed_on is None else item.handed_on()
            used += values.nbytes + (0 if rounding is None else rounding.nbytes)
            if used > memory:
                self.left_out.append(item.tensor)
                continue
            sum_so_far = self._held.get(item.tensor)
            # Two device tensors of one golden one (before and behind a Cast): both err.
            self._held[item.tensor] = values if sum_so_far is None else sum_so_far + values
            self.items.setdefault(item.tensor, item)
            if rounding is not None:
                self._rounding[item.tensor] = rounding

    @property
    def rounds(self) -> bool:
        """Whether the device rounds results to 16 bits."""
        return bool(self._rounding)

    @cached_property
    def _replayed(self) -> Change:
        return self._change(self._run(self._held))

    @property
    def unexplained(self) -> float:
        """The share of the error that all introduced errors together do not reproduce."""
        return length(minus(self._error, self._replayed)) / self.off if self.off else 0.0

    def alone(self, tensor: str) -> Alone:
        """What the error of *tensor* does if it is added alone."""
        change = self._change(self._run({tensor: self._held[tensor]}))
        powers = {name: size(error) for name, error in self._error.items()}
        along = {
            name: float(np.vdot(change[name], error).real) for name, error in self._error.items()
        }
        total = sum(powers.values())
        self.effects[tensor] = self._short(change)
        return Alone(
            share=sum(along.values()) / total if total else 0.0,
            size=length(change) / self.off if self.off else 0.0,
            left=length(minus(self._error, change)),
            by_output={
                name: along[name] / power if power else 0.0 for name, power in powers.items()
            },
        )

    def left(self, exact: Collection[str]) -> Left:
        """The error left in a replay with tensors *exact*, except for their final rounding."""
        base = length(self._replayed)
        added = {tensor: values for tensor, values in self._held.items() if tensor not in exact}
        added |= {name: self._rounding[name] for name in exact if name in self._rounding}
        off = self._change(self._run(added))
        return Left(length(off) / base if base else 0.0, self._short(off))

    def anew(self, exact: Collection[str]) -> float:
        """The share left if all other tensors err as much as they do alone, but independently."""
        sizes = {name: size(effect) for name, effect in self.effects.items()}
        total = sum(sizes.values())
        gained = sum(sizes[name] * self._gain(name) for name in exact if name in sizes)
        return float(np.sqrt(max(total - gained, 0.0) / total)) if total else 0.0

    def _gain(self, tensor: str) -> float:
        """How much of the squared error of *tensor* goes away if it is exact, except for its
        rounding."""
        lost, values = self._rounding.get(tensor), self._held[tensor]
        if lost is None or not np.isfinite(values).all():
            return 1.0  # an overflow goes away altogether
        return max(0.0, 1.0 - (norm(lost) / (norm(values) or 1.0)) ** 2)

    def imitation(self) -> Imitation | None:
        """The emulated device, if it reads quantised values; else None."""
        if not isinstance(self._model, QuantisedRun) or not self.off:
            return None
        opened = set(self._model.makers)
        reads = {
            name: item.reads for name, item in self.items.items() if opened.intersection(item.reads)
        }
        if not reads:
            return None
        beyond = {
            name: values
            for name, item in self.items.items()
            if (values := item.beyond() if item.beyond else self._held[name]) is not None
        }
        sizes = {
            name: norm(self._held[name]) / np.sqrt(self._held[name].size or 1) / item.error
            for name, item in self.items.items()
            if item.first and np.isfinite(item.error)
        }
        shapes = {name: self._held[name].shape for name in sizes}
        errs = Errs(beyond, self._rounding, reads, sizes)
        return Imitation(self._model, errs, self._golden, self._error, shapes, self._short)

    def _short(self, change: Change) -> Array:
        return self._shortener.short(flat(change)) / np.float32(self.off or 1.0)

    def _run(self, additions: Mapping[str, Array]) -> Mapping[str, Array]:
        self.runs += 1
        return self._model.run(additions)

    def _change(self, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """The differences from the golden outputs, each over the golden output's norm."""
        return self._golden.change(outputs)


def _importance(item: Introduced) -> float:
    """Errors that are not finite come first, then by relative size."""
    return item.error if np.isfinite(item.error) else np.inf
