"""The search for the smallest failing parts, guided by what the dumps already say.

Suspects are tried alone first; mostly that ends it. If none fails alone, the part grows
around the best one by doubling until it fails, and only what is needed of that is kept.
Every part is convex by construction. Method: the project's study of minimal submodels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from divergraph.submodel.minimize.prober import Prober, StoppedError
from divergraph.submodel.minimize.space import Space, Units
from divergraph.submodel.minimize.verdicts import Probe, Variant
from divergraph.text.words import counted
from graphstore.model import PartVerdict

WHOLE_PASSES = "even the whole passes: the oracle does not show the failure"
"""Why nothing was found, where no part that was tried fails."""

_TOP = 3
_PASSES_IN_A_ROW = 3
_TRIMS = 24


@dataclass(frozen=True, slots=True)
class SuspectUnits:
    """Units that may be to blame, with the place of the measured op among them first.

    ``over``: the evidence alone makes them suspect.
    """

    units: tuple[int, ...]
    name: str
    score: float
    over: bool
    measure: str = "suspicion"
    """What the score is."""


@dataclass(frozen=True, slots=True)
class Found:
    """A failing part. ``minimal``: it passes without any one unit at its edge; ``why``
    says how it was found."""

    units: Units
    variant: Variant
    minimal: bool
    why: str
    probe: int


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """What the search found. ``stopped`` says why it ended early, ``note`` why it found
    nothing."""

    found: tuple[Found, ...]
    stopped: str = ""
    note: str = ""


class PartSearch:
    """Finds the minimal failing parts of *space*.

    *ranking* is in order of suspicion. *variants* are the inputs to try, best first.
    """

    def __init__(
        self,
        space: Space,
        prober: Prober,
        ranking: Sequence[SuspectUnits],
        variants: Sequence[Variant] = (Variant.GOLDEN,),
    ) -> None:
        self._space = space
        self._prober = prober
        self._ranking = [
            candidate for candidate in ranking if set(candidate.units) <= space.everything
        ]
        self._variants = tuple(variants)
        self._variant = self._variants[0]
        self._weight = {
            unit: candidate.score
            for candidate in reversed(self._ranking)
            for unit in candidate.units
        }
        self._found: list[Found] = []
        self._failing: dict[Variant, list[Probe]] = {}
        self._parent: int | None = None

    def run(self) -> SearchOutcome:
        """Search until all is found, a limit is reached or the user stops it."""
        try:
            note = self._run()
        except StoppedError as stopped:
            return SearchOutcome((*self._found, *self._best_so_far()), str(stopped))
        return SearchOutcome(tuple(self._found), note=note)

    def verify(self) -> SearchOutcome:
        """Only ask whether the whole fails."""
        try:
            fails = self._whole_fails()
        except StoppedError as stopped:
            return SearchOutcome((), str(stopped))
        return SearchOutcome((), note="" if fails else "the whole passes")

    def _run(self) -> str:
        self._sweep()
        if self._found:
            return ""
        for variant in self._variants:
            self._variant, self._parent = variant, None
            first = variant is self._variants[0]
            if (first or self._whole_fails()) and self._grow():
                return ""
        unknown = [p for p in self._prober.probes if p.verdict is PartVerdict.UNKNOWN]
        if unknown and all(p.verdict is not PartVerdict.PASS for p in self._prober.probes):
            return f"no part could be judged: {unknown[0].judgement.detail}"
        return WHOLE_PASSES

    # several culprits: each alone

    def _sweep(self) -> None:
        over = [candidate for candidate in self._ranking if candidate.over]
        waiting = over or self._ranking[:_TOP]
        passed, place, jobs = 0, 0, self._prober.limits.jobs
        while place < len(waiting) and passed < _PASSES_IN_A_ROW:
            batch = waiting[place : place + min(jobs, _PASSES_IN_A_ROW - passed)]
            place += len(batch)
            batch = [candidate for candidate in batch if not self._explained(candidate)]
            for candidate, probe in zip(batch, self._alone(batch), strict=True):
                if probe.verdict is not PartVerdict.FAIL:
                    passed += 1
                    continue
                passed = 0
                self._shrink_candidate(candidate, probe)

    def _explained(self, candidate: SuspectUnits) -> bool:
        return any(set(candidate.units) & part.units for part in self._found)

    def _alone(self, batch: Sequence[SuspectUnits]) -> list[Probe]:
        self._parent = None
        parts = [self._space.hull(candidate.units) for candidate in batch]
        why = [
            f"{candidate.name} alone"
            + (f", {candidate.measure} {candidate.score:.3g}" if candidate.over else "")
            for candidate in batch
        ]
        probes = self._ask_all(parts, why, self._variants[0])
        for variant in self._variants[1:]:
            # A fault may need the device's own values.
            passing = [n for n, probe in enumerate(probes) if probe.verdict is PartVerdict.PASS]
            again = self._ask_all(
                [parts[n] for n in passing],
                [f"{why[n]}, on {variant} inputs" for n in passing],
                variant,
            )
            for n, probe in zip(passing, again, strict=True):
                probes[n] = probe if probe.verdict is PartVerdict.FAIL else probes[n]
        return probes

    def _shrink_candidate(self, candidate: SuspectUnits, probe: Probe) -> None:
        self._variant, self._parent = probe.variant, probe.number
        part = probe.units
        if len(part) > 1:
            first = {candidate.units[0]}
            part = self._needed(first, self._near(first, part), part)
        self._finish(part, f"{candidate.name} was tried alone and fails")

    # one culprit that needs company

    def _grow(self) -> bool:
        everything = self._space.everything
        if not everything:
            return False
        start = next(iter(self._ranking), None)
        if start is not None:
            core = set(start.units)
            for what, shells in (
                ("before", self._space.above(core)),
                ("behind", self._space.below(core)),
            ):
                part = self._grown(core, shells, f"{start.name} with {{}} of the ops {what} it")
                if part is not None:
                    self._finish(part, f"{start.name} fails together with ops {what} it")
                    return True
        if not self._whole_fails():
            return False
        if start is not None:
            part = self._needed(core, self._near(core, everything), everything)
            reason = f"{start.name} fails together with ops around it"
        else:
            part = self._needed(set(), self._space.layers(everything), everything)
            reason = "the whole was halved again and again"
        self._finish(part, reason)
        return True

    def _grown(self, core: set[int], shells: list[list[int]], why: str) -> Units | None:
        """As :meth:`_needed`, where it is not known that anything fails; None if nothing does."""
        if core and self._fails(hull := self._space.hull(core), "what is suspected"):
            return hull
        shell = self._shell(core, shells, None, why)
        return None if shell is None else self._needed(core, shells, shell[1], shell[0])

    def _needed(
        self, core: set[int], shells: list[list[int]], failing: Units, place: int = 0
    ) -> Units:
        """The smallest failing part that holds *core* and more of *shells*, nearest first.

        *failing* is known to fail with all of them, or with the first *place*. Each round
        finds the one unit that is needed farthest out, so it takes as many rounds as units
        are needed, each of about log2(distance) questions.
        """
        core = set(core)
        while True:
            if core and self._fails(hull := self._space.hull(core), "only what is needed so far"):
                return hull
            if not place:
                shell = self._shell(core, shells, failing, "with {} of the ops around it")
                if shell is None:
                    return failing
                place, failing = shell
            one, failing = self._farthest(
                core.union(*shells[: place - 1]), shells[place - 1], failing
            )
            core.add(one)
            if len(core) == 1:
                shells = self._near(core, failing)  # they were not in order of distance to it
            else:
                nearer = sorted(shells[place - 1], key=self._rank)
                shells = [*shells[: place - 1], nearer[: nearer.index(one)]]
                shells = [level for level in shells if level]
            place = 0

    def _farthest(self, base: set[int], shell: Sequence[int], failing: Units) -> tuple[int, Units]:
        """The unit of a shell that is needed besides *base*, the most suspicious if any would
        do, and the part that fails then."""
        ordered = sorted(shell, key=self._rank)

        def part(count: int) -> Units:
            return self._space.hull(base.union(ordered[:count]))

        count, failing = self._smallest(part, len(ordered), failing, "with half of the farthest")
        return ordered[count - 1], failing

    def _rank(self, unit: int) -> tuple[float, int]:
        return -self._weight.get(unit, 0.0), unit

    def _shell(
        self, core: set[int], shells: Sequence[Sequence[int]], failing: Units | None, why: str
    ) -> tuple[int, Units] | None:
        """How many of *shells* it takes to fail, by doubling, and the part that fails then."""
        if not shells:
            return None

        def part(count: int) -> Units:
            return self._space.hull(core.union(*shells[:count]))

        steps = [1 << n for n in range(len(shells).bit_length()) if 1 << n < len(shells)]
        steps.append(len(shells))
        passed = 0
        jobs = self._prober.limits.jobs
        for start in range(0, len(steps), jobs):
            batch = steps[start : start + jobs]
            if failing is not None and batch[-1] == len(shells):
                batch = batch[:-1]
            words = [why.format(counted(count, "step")) for count in batch]
            for count, probe in zip(
                batch, self._ask_all([part(n) for n in batch], words), strict=True
            ):
                if probe.verdict is PartVerdict.FAIL:
                    self._parent = probe.number
                    return self._smallest(part, count, probe.units, "halved", passed)
                passed = max(passed, count)
        if failing is None:
            return None
        return self._smallest(part, len(shells), failing, "halved", passed)

    def _smallest(
        self, part: Callable[[int], Units], fails: int, failing: Units, why: str, passes: int = 0
    ) -> tuple[int, Units]:
        """The smallest n above *passes* for which ``part(n)`` fails, as *fails* does."""
        jobs = self._prober.limits.jobs
        while fails - passes > 1:
            inner = min(jobs, fails - passes - 1)
            points = [passes + (fails - passes) * k // (inner + 1) for k in range(1, inner + 1)]
            points = sorted({min(max(point, passes + 1), fails - 1) for point in points})
            probes = self._ask_all([part(n) for n in points], [why] * len(points))
            for point, probe in zip(points, probes, strict=True):
                if probe.verdict is PartVerdict.FAIL:
                    self._parent = probe.number
                    fails, failing = point, probe.units
                    break
                passes = point
        return fails, failing

    # nothing at the edge may be taken away

    def _finish(self, part: Units, why: str) -> None:
        part, minimal = self._trimmed(part)
        probe = next((p.number for p in reversed(self._prober.probes) if p.units == part), -1)
        self._found.append(Found(part, self._variant, minimal, why, probe))

    def _trimmed(self, part: Units) -> tuple[Units, bool]:
        needed: set[int] = set()
        calls_left = _TRIMS
        while len(part) > 1:
            edges = [unit for unit in self._space.edges(part) if unit not in needed]
            if not edges:
                return part, True
            calls = self._prober.calls
            unit = min(edges, key=lambda unit: (self._weight.get(unit, 0.0), unit))
            smaller = part - {unit}
            fails = self._fails(smaller, "without one op at the edge")
            calls_left -= self._prober.calls - calls
            if not fails:
                needed.add(unit)
            else:
                part = self._halved(smaller, needed & smaller)
                needed &= part
            if calls_left <= 0:
                return part, False
        return part, True

    def _halved(self, part: Units, needed: set[int]) -> Units:
        """More of a failing part taken away, in halves."""
        if len(part) == 1:
            return part
        shells = self._near(needed, part) if needed else self._space.layers(part)
        return self._needed(needed, shells, part)

    def _near(self, core: set[int], part: Units) -> list[list[int]]:
        """All of *part* but *core*, nearest first."""
        shells = self._space.around(core, part)
        far = sorted(part - core - {unit for level in shells for unit in level})
        return [*shells, far] if far else shells

    # asking

    def _whole_fails(self) -> bool:
        return self._fails(self._space.everything, "the whole, to verify that it fails")

    def _fails(self, part: Units, why: str) -> bool:
        (probe,) = self._ask_all([part], [why])
        if probe.verdict is PartVerdict.FAIL:
            self._parent = probe.number
        return probe.verdict is PartVerdict.FAIL

    def _ask_all(
        self, parts: Sequence[Units], why: Sequence[str], variant: Variant | None = None
    ) -> list[Probe]:
        if not parts:
            return []
        tried = variant or self._variant
        probes = self._prober.verdicts(parts, tried, self._parent, why)
        self._failing.setdefault(tried, []).extend(
            probe for probe in probes if probe.verdict is PartVerdict.FAIL
        )
        return probes

    def _best_so_far(self) -> list[Found]:
        """The smallest part known to fail that is not among those found."""
        parts_units = [part.units for part in self._found]
        failing = [
            probe
            for probes in self._failing.values()
            for probe in probes
            if not any(units & probe.units for units in parts_units)
        ]
        if not failing:
            return []
        best = min(failing, key=lambda probe: len(probe.units))
        return [Found(best.units, best.variant, False, "the search was stopped", best.number)]
