"""What a wrong tensor stands for, told by what follows from it.

Nothing reproduces the output of a faulty op. But the ops behind it compute rightly from what they
are given: if the original ops behind a golden tensor, run on the wrong values, give a device tensor
that was computed from them, these values stand for that golden tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from divergraph.execute.contract import Executor
from divergraph.graphs.lineage.split_originals import HANDING_ON
from divergraph.graphs.matching.by_value import family_of, is_telling
from divergraph.graphs.matching.golden_reach import ReachedPart
from divergraph.graphs.matching.judging import Candidate
from divergraph.graphs.matching.matched import Matched
from divergraph.graphs.matching.re_execution import ReExecution, Rerun, apart
from divergraph.values.array_types import Array
from divergraph.values.closeness import FAR, distance, only_order
from graphstore.model import LineageRule, Op, TensorMatch, TensorRef

_DEPTH = 12
"""The longest chain of device ops one original op may be written as."""
_MOST = 24
"""Device tensors looked at behind one."""
_MOST_PARTS = 12
"""Golden tensors computed behind one."""
_TIMES_THE_MODEL = 30
"""How many ops are run at most for all guesses, in runs of the whole model."""
_CONTRAST = 3.0
"""What follows must be nearer to the device than to the golden values by this factor: what does
not change with the tensor tells nothing of it."""


@dataclass(frozen=True, slots=True)
class GuessedMatch:
    """A device tensor and a golden one it may stand for; ``following`` are the device tensors that
    are computed from it and from known ones."""

    device: TensorRef
    golden: TensorRef
    following: frozenset[TensorRef]


class Consequences:
    """Tries golden tensors in the place of device tensors that nothing reproduces."""

    def __init__(
        self, matched: Matched, readers: Mapping[TensorRef, Sequence[Op]], rerun: ReExecution
    ) -> None:
        self._matched = matched
        self._readers = readers
        self._rerun = rerun
        self._left = _TIMES_THE_MODEL * len(matched.reach.ops)

    def following(self, ref: TensorRef) -> frozenset[TensorRef]:
        """The open device tensors that *ref* and known ones determine, some ops behind *ref*; those
        that only hand on its values are left out."""
        derived, computed = {ref}, set[TensorRef]()
        level = [ref]
        for _ in range(_DEPTH):
            later: list[TensorRef] = []
            for op in (op for ref in level for op in self._readers.get(ref, ())):
                if any(ref not in derived and self._matched.is_unknown(ref) for ref in op.takes):
                    continue
                new = [ref for ref in op.makes if ref not in derived]
                derived.update(new)
                later += new
                if op.type not in HANDING_ON:
                    computed.update(filter(self._matched.is_unknown, new))
            level = later
            if len(computed) > _MOST:
                break
        return frozenset(computed)

    def tried(
        self,
        executor: Executor,
        guesses: Sequence[GuessedMatch],
        images: Mapping[TensorRef, TensorMatch],
    ) -> dict[TensorRef, list[Candidate]]:
        """By device tensor the golden ones from which follows what the device has."""
        runs: dict[str, Rerun] = {}
        owners: dict[str, int] = {}
        for place, guess in enumerate(guesses):
            matches = {**images, guess.golden: self._as_match(guess)}
            for part in self._parts(guess, matches):
                self._left -= len(part.ops)
                if self._left < 0:
                    break
                key = str(len(runs))
                runs[key] = Rerun(part, matches)
                owners[key] = place
        best: dict[int, float] = {}
        for key, value in self._rerun.results(executor, runs):
            off = self._off(guesses[owners[key]], runs[key].part.output, value)
            best[owners[key]] = min(off, best.get(owners[key], FAR))
        candidates: dict[TensorRef, list[Candidate]] = {}
        families: list[Array] = []
        for place, off in best.items():
            match = self._as_match(guesses[place])
            right = self._matched.golden_values.of(match.golden)
            family = -1 - place if right is None else family_of(families, right)
            candidate = Candidate(match.golden, off, match.reorder, family)
            candidates.setdefault(match.device, []).append(candidate)
        return candidates

    def _as_match(self, guess: GuessedMatch) -> TensorMatch:
        here = self._matched.device_values.shape(guess.device)
        there = self._matched.golden_values.shape(guess.golden)
        order = None
        if here is not None and there is not None and here != there:
            order = only_order(here, there)
        return TensorMatch(guess.device, guess.golden, LineageRule.RE_EXECUTED, reorder=order)

    def _off(self, guess: GuessedMatch, golden: TensorRef, value: Array) -> float:
        """How far *value* is from the nearest tensor that follows; ``FAR`` if it would be there
        without the guess."""
        own = self._matched.device_values.of(guess.device)
        if not is_telling(value) or (own is not None and distance(value, own) == 0.0):
            return FAR  # a mask of ones hands on what it is given
        right = self._matched.golden_values.of(golden)
        changed = FAR if right is None else distance(value, right)
        nearest = FAR
        for ref in guess.following:
            own_value = self._matched.device_values.of(ref)
            if own_value is not None and own_value.size == value.size:
                nearest = min(nearest, apart(own_value, value)[0])
        return nearest if nearest * _CONTRAST < changed else FAR

    def _parts(
        self, guess: GuessedMatch, matches: Mapping[TensorRef, TensorMatch]
    ) -> Iterator[ReachedPart]:
        reach, values = self._matched.reach, self._matched.device_values
        sizes = {values.size(ref) for ref in guess.following}
        computing = (
            part
            for part in reach.behind((guess.golden,), matches.keys())
            if self._matched.golden_values.size(part.output) in sizes
            and any(reach.ops[op].type not in HANDING_ON for op in part.ops)
        )
        return islice(computing, _MOST_PARTS)
