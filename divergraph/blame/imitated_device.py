"""A device that quantises, emulated: with some ops exact, all others round what they then read. A
replay, which adds errors as they were, cannot show that: rounding changes as soon as anything
before it does. So the golden model is run with its operands quantised by the device's own scales.
The part of an op's error that this does not explain (a fault, weights rounded in another way) is
added as it was."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from divergraph.blame.output_changes import Change, GoldenOutputs, length, minus, root_mean_square
from divergraph.blame.search import Left
from divergraph.execute.contract import Array, QuantisedRun

ALIKE = 0.1
"""How far the emulation may be from the device, as a share of the error, to be used at all."""
_NOISE = 0.01
"""The relative change that makes another sample of the given one."""
_OTHERS = 2
_SEED = 7


@dataclass(frozen=True)
class Errs:
    """The errors of ops beyond quantised operands: ``beyond`` by tensor, and ``kept`` what is left
    of it if the op is exact. ``reads`` gives by tensor the ops of its group that read quantised.
    ``sizes`` are the typical magnitudes of tensors that have none of the others before them."""

    beyond: Mapping[str, Array]
    kept: Mapping[str, Array]
    reads: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, float]


@dataclass(frozen=True)
class _Draw:
    """A sample: what is added to the run's own inputs, and the golden outputs for it."""

    noise: Mapping[str, Array]
    golden: GoldenOutputs
    whole: float


@dataclass
class Imitation:
    """The emulated device on its own sample and on slightly different ones; ``runs`` counts runs of
    the model."""

    model: QuantisedRun
    errs: Errs
    golden: GoldenOutputs
    error: Change
    shapes: Mapping[str, tuple[int, ...]]
    short: Callable[[Change], Array]
    runs: int = 0

    @cached_property
    def off(self) -> float:
        """How far the emulation with no exact op is from the device, as a share of the device's
        ``error``."""
        return length(minus(self._with_none_exact, self.error)) / length(self.error)

    @cached_property
    def _with_none_exact(self) -> Change:
        return self.golden.change(self._made(frozenset(), {}))

    @cached_property
    def _draws(self) -> list[_Draw]:
        """The sample itself, then the others."""
        draws = [_Draw({}, self.golden, length(self._with_none_exact))]
        for number in range(_OTHERS if self.errs.sizes else 0):
            noise = self._noise(number)
            values = self.model.run(noise)
            golden = GoldenOutputs(
                {name: values[name] for name in self.golden.values}, self.golden.masks
            )
            damage = length(golden.change(self._made(frozenset(), noise)))
            self.runs += 1
            if damage:
                draws.append(_Draw(noise, golden, damage))
        return draws

    def left(self, exact: Collection[str]) -> Left:
        """The error left with tensors *exact*."""
        error = self._error(self._draws[0], exact)
        return Left(length(error) / self._draws[0].whole, self.short(error))

    def anew(self, exact: Collection[str]) -> float:
        """The share left on slightly different samples, as a root mean square."""
        draws = self._draws[1:] or self._draws
        return root_mean_square(length(self._error(draw, exact)) / draw.whole for draw in draws)

    def _error(self, draw: _Draw, exact: Collection[str]) -> Change:
        return draw.golden.change(self._made(exact, draw.noise))

    def _made(self, exact: Collection[str], noise: Mapping[str, Array]) -> Mapping[str, Array]:
        errs = self.errs
        added = {name: value for name, value in errs.beyond.items() if name not in exact}
        added |= {name: errs.kept[name] for name in exact if name in errs.kept}
        for name, value in noise.items():
            added[name] = added[name] + value if name in added else value
        self.runs += 1
        ops = {op for name in exact for op in errs.reads.get(name, ())}
        return self.model.run_quantised(added, ops)

    def _noise(self, number: int) -> dict[str, Array]:
        draws = np.random.default_rng(_SEED + number)
        return {
            name: (draws.standard_normal(self.shapes[name]) * _NOISE * size).astype(np.float32)
            for name, size in self.errs.sizes.items()
        }
