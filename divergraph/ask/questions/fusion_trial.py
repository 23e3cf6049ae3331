"""Whether a fusion pass made an error: a run with fusion against one in which it was off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from divergraph.ask.facts import Facts, load_facts
from divergraph.ask.question import FLAT, Parameter, Question, RunName
from divergraph.ask.questions.fusion import FusedOp, fusion
from divergraph.text.words import counted
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.model import Method, OpState, Verdict


class TrialVerdict(StrEnum):
    """What a fused op's error was, after the trial without fusion."""

    THE_PASS = "the_pass"
    NOT_THE_PASS = "not_the_pass"
    STILL_FUSED = "still_fused"
    NOT_MEASURED = "not_measured"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class TriedOp:
    """A guilty op of the run with fusion, and what computes its originals without."""

    fused: Annotated[FusedOp, FLAT]
    verdict: TrialVerdict
    unfused: Annotated[tuple[str, ...], "ops of the other run that compute its originals"]
    still_guilty: Annotated[tuple[str, ...], "those of them at which an error starts"]
    sentence: str


@dataclass(frozen=True, slots=True)
class FusionTrial:
    """The guilty ops of run ``on`` one by one; ``off`` is the run in which passes were off."""

    on: str
    off: str
    is_the_pass: Annotated[bool, "a pass made an error"]
    sentence: str
    ops: tuple[TriedOp, ...]


@dataclass(frozen=True, slots=True)
class FusionTrialQuestion(Question[FusionTrial]):
    """Is the error of RUN gone in another run, made with fusion passes off?"""

    name = "fusion-trial"
    command = "fusion --against"
    path = "/runs/{run}/fusion/trial"

    run: RunName
    against: Annotated[str, Parameter("The run made with passes off.", is_run=True)]

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> FusionTrial:
        """What became of each guilty op.

        Raises:
            UnknownNameError: no such run.
            InputError: the runs have no original in common.
        """
        store.run(self.run)
        other = _OtherRun(store, self.against)
        guilty = [op for op in fusion(store, self.run).ops if op.guilty]
        tried = tuple(map(other.tried, guilty))
        if guilty and not any(op.unfused for op in tried):
            raise InputError(
                f"the runs {self.run!r} and {self.against!r} have no original of a guilty op in "
                "common",
                hint="both must have been compared with the same golden model",
            )
        is_the_pass = any(op.verdict is TrialVerdict.THE_PASS for op in tried)
        summary = _summary(tried, other.facts)
        return FusionTrial(self.run, self.against, is_the_pass, summary, tried)


QUESTION = FusionTrialQuestion


def _summary(tried: Iterable[TriedOp], other: Facts) -> str:
    assert other.run is not None
    by_pass = [op for op in tried if op.verdict is TrialVerdict.THE_PASS]
    names = list(dict.fromkeys(one.name for op in by_pass for one in op.fused.passes))
    ended = f"run {other.run.name} is {other.run.verdict.value}"
    if not by_pass:
        return f"no fusion pass is shown to make an error; {ended}"
    text = (
        f"the pass {' or '.join(names)}" if names else "fusion (the graph does not name the pass)"
    )
    alone = "" if other.run.verdict is Verdict.DIVERGED else " and no other error is left"
    return f"it was {text}: {ended} without it{alone}"


class _OtherRun:
    """The run without fusion, and which of its ops compute an original."""

    def __init__(self, store: GraphStore, name: str) -> None:
        store.run(name)
        self.facts = load_facts(store, name)
        self._store = store
        self._guilty = {origin.op for origin in self.facts.origins}
        self._devices: dict[str, set[str]] = {}
        self._originals: dict[str, set[str]] = {}
        for link in store.links(name):
            self._devices.setdefault(link.original, set()).add(link.device)
            self._originals.setdefault(link.device, set()).add(link.original)

    def tried(self, fused: FusedOp) -> TriedOp:
        """What came of a guilty op of the run with fusion."""
        number = self.facts.arrays.number
        ops = {op for name in fused.originals for op in self._devices.get(name, ())}
        unfused = tuple(sorted(ops, key=lambda op: number.get(op, -1)))
        guilty = tuple(op for op in unfused if op in self._guilty)
        verdict, why = self._verdict(fused, unfused, guilty)
        return TriedOp(fused, verdict, unfused, guilty, f"{fused.op}: {why}")

    def _verdict(
        self, fused: FusedOp, unfused: tuple[str, ...], guilty: tuple[str, ...]
    ) -> tuple[TrialVerdict, str]:
        if same := [op for op in unfused if self._is_as_fused(op, fused)]:
            return TrialVerdict.STILL_FUSED, (
                f"{same[0]} is fused alike in the other run, so its pass was not off there"
            )
        if guilty:
            return TrialVerdict.NOT_THE_PASS, (
                f"not the fusion: without it an error still starts at {', '.join(guilty)}"
            )
        states = {self.facts.rows[self.facts.arrays.number[op]].state for op in unfused}
        measured = states - {OpState.NOT_COMPARED, None}
        if not measured:
            return TrialVerdict.NOT_MEASURED, "none of its originals was compared in the other run"
        assert self.facts.run is not None
        if self.facts.run.method is Method.THRESHOLDS and measured & {
            OpState.INHERITED,
            OpState.BROKEN,
        }:
            return TrialVerdict.UNDECIDED, (
                "the other run brings an error from upstream; its root cause was not analysed"
            )
        parts = counted(len(unfused), "op")
        return TrialVerdict.THE_PASS, f"computed by {parts} without fusion, and the error is gone"

    def _is_as_fused(self, op: str, fused: FusedOp) -> bool:
        together = self._originals.get(op, set()) & set(fused.originals)
        return len(fused.originals) > 1 and together == set(fused.originals)
