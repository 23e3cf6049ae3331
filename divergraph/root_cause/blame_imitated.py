"""A device that quantises, imitated: with some ops exact, all others round what they then read.

What a replay cannot tell, errors being added as they were: rounding is another as soon as
anything before it has changed. The golden model run with its readings quantised by the device's
own scales tells it. What such a reading does not explain of an op's error (a fault, weights
rounded in another way) is added as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from divergraph.execution.contract import Array, QuantisedRun
from divergraph.root_cause.blame_changes import Change, GoldenOutputs, flat, length, minus
from divergraph.root_cause.blame_keeping import Left

_ALIKE = 0.1
"""Up to this share of the error the imitation may be off the device."""
_NOISE = 0.01
"""How much the sample is changed for another one, relatively."""
_OTHERS = 2
_SEED = 7


@dataclass(frozen=True)
class Errs:
    """What ops err by beyond what they read: ``beyond`` by tensor, ``kept`` what is left of that
    where the op is exact. ``reads`` names by tensor the ops behind it that read quantised.
    ``sizes`` are the usual sizes of the values of tensors with none of the others before them.
    """

    beyond: Mapping[str, Array]
    kept: Mapping[str, Array]
    reads: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, float]


@dataclass(frozen=True)
class _Draw:
    """A sample: what is added to make it of the run's own, and what is golden for it."""

    noise: Mapping[str, Array]
    golden: GoldenOutputs
    whole: float


@dataclass
class Imitation:
    """The device on its own sample and on slightly other ones; ``runs`` counts the model's runs."""

    model: QuantisedRun
    errs: Errs
    golden: GoldenOutputs
    shapes: Mapping[str, tuple[int, ...]]
    short: Callable[[Array], Array]
    runs: int = 0
    _draws: list[_Draw] = field(default_factory=list)

    def fits(self, error: Change) -> bool:
        """Whether the imitation with no op exact is off the golden outputs by about *error*, as
        the device is; only then it is of use."""
        made = self.golden.change(self._made(frozenset(), {}))
        whole = length(made)
        if not whole or length(minus(made, error)) > _ALIKE * length(error):
            return False
        self._draws = [_Draw({}, self.golden, whole)]
        for number in range(_OTHERS if self.errs.sizes else 0):
            noise = self._noise(number)
            made_golden = self.model.run(noise)
            golden = GoldenOutputs({name: made_golden[name] for name in self.golden.values})
            off = length(golden.change(self._made(frozenset(), noise)))
            self.runs += 1
            if off:
                self._draws.append(_Draw(noise, golden, off))
        return True

    def left(self, exact: frozenset[str]) -> Left:
        """What is left of the error with tensors *exact*."""
        error = self._error(self._draws[0], exact)
        return Left(length(error) / self._draws[0].whole, self.short(flat(error)))

    def elsewhere(self, exact: frozenset[str]) -> float | None:
        """The share left on slightly other samples, as a root mean square; None without any."""
        shares = [length(self._error(each, exact)) / each.whole for each in self._draws[1:]]
        return float(np.sqrt(np.mean(np.square(shares)))) if shares else None

    def _error(self, draw: _Draw, exact: frozenset[str]) -> Change:
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
