"""What changed from one run to another: which ops make more error of their own, and which less.

Ops are matched by the golden tensors their outputs were held against, so the two device graphs may
name and fuse their ops differently. Introduced errors do not depend on what happens upstream;
without them, only what arrives at each op can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from divergraph.ask.gate.judged_outputs import JudgedOutput, JudgedOutputs, judged_outputs
from divergraph.ask.question import Parameter, Question
from divergraph.ask.sentences import times_text
from divergraph.outcomes import DIVERGED, FINE, Outcome
from divergraph.text.numbers import small_number
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.model import ErrorSplit, Guilt, Method, Run

TIMES = 2.0
"""Introduced errors that changed by less than this factor count as the same."""


class ChangeKind(StrEnum):
    """How an op changed, in the order they are listed."""

    NEWLY_GUILTY = "newly guilty"
    NEWLY_SUSPECT = "newly suspect"
    WORSE = "worse"
    STILL_GUILTY = "still guilty"
    GONE = "gone"
    """Was guilty; the new run compares no such output."""
    BETTER = "better"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class ErrorOfRun:
    """The error of an output in one of the runs."""

    error: Annotated[float | None, "introduced; the relative error if the method is thresholds"]
    split: ErrorSplit | None


@dataclass(frozen=True, slots=True)
class OpChange:
    """One op whose introduced error changed, or that is guilty in both runs."""

    kind: Annotated[
        ChangeKind,
        "gone: was guilty, is not compared now; kinds are listed in this order",
    ]
    op: Annotated[
        str | None, Parameter("in the new run; null where there is no such output", op_of="new")
    ]
    old_op: Annotated[
        str | None, Parameter("in the old run; null where there is no such output", op_of="old")
    ]
    golden: str
    type: str
    times: Annotated[float | None, "the new error over the old one"]
    sentence: str
    old: ErrorOfRun
    new: ErrorOfRun
    regrouped: Annotated[
        bool, "other originals are fused, or measured together, than in the old run"
    ]

    @property
    def newly_guilty(self) -> bool:
        """True if this is a reason not to take the new one."""
        return self.kind is ChangeKind.NEWLY_GUILTY


@dataclass(frozen=True, slots=True)
class RunChanges:
    """The changes from run ``old`` to run ``new``, regressions first."""

    old: Run
    new: Run
    method: Annotated[Method, "thresholds if one of the runs has no root-cause analysis"]
    matched: Annotated[int, "golden tensors compared by both runs"]
    only_old: Annotated[int, "golden tensors compared by the old run only"]
    only_new: Annotated[int, "golden tensors compared by the new run only"]
    newly_guilty: Annotated[int, "if it is not 0 the exit code is 1"]
    changes: tuple[OpChange, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangesQuestion(Question[RunChanges]):
    """Which ops make more error of their own in run NEW than in run OLD, and which make less?

    Ops are matched by the originals they stand for, so names and fusion may differ: runs of
    an old and a new compiler, driver or precision setting. What an op makes itself does not
    depend on what happens upstream.

    Exit code 0: no op is newly guilty, 1: some op is.
    """

    name = "compare-runs"
    example = "divergraph compare-runs old new --times 3"
    path = "/changes"
    picture: ClassVar[Mapping[str, str]] = {"run": "{new}", "against": "{old}"}

    old: Annotated[str, Parameter("The older run.", is_run=True)]
    new: Annotated[str, Parameter("The newer run.", is_run=True)]
    times: Annotated[
        float,
        Parameter("Errors that changed by less than this factor are the same.", above=1),
    ] = TIMES

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> RunChanges:
        """What changed by the factor ``times`` or more.

        Raises:
            UnknownNameError: no such run.
            InputError: the runs have no original tensor in common.
        """
        runs = store.run(self.old), store.run(self.new)
        by_split = all(run.method is Method.ROOT_CAUSE for run in runs)
        before, after = (
            JudgedOutputs(judged_outputs(store, run, by_split=by_split)) for run in runs
        )
        common = before.golden & after.golden
        if not common:
            raise InputError(
                f"the runs {self.old!r} and {self.new!r} have no original tensor in common",
                hint="both must have been compared with the same golden model",
            )
        suspect = max(run.analysis.suspect for run in runs)
        changes = changes_between(before, after, self.times, suspect)
        return RunChanges(
            *runs,
            Method.ROOT_CAUSE if by_split else Method.THRESHOLDS,
            len(common),
            len(before.golden - after.golden),
            len(after.golden - before.golden),
            sum(change.newly_guilty for change in changes),
            changes,
            tuple(_notes(runs, by_split=by_split)),
        )

    def outcome(self, answer: RunChanges) -> Outcome:
        """Diverged if an op is newly guilty."""
        return DIVERGED if answer.newly_guilty else FINE


QUESTION = ChangesQuestion


def changes_between(
    before: JudgedOutputs, after: JudgedOutputs, times: float, suspect: float
) -> tuple[OpChange, ...]:
    """The changes, regressions first; *suspect* is the suspicion from which an op is suspect."""
    return tuple(sorted(_changes(before, after, times, suspect / 2), key=_rank))


def _notes(runs: Sequence[Run], *, by_split: bool) -> Iterable[str]:
    if not by_split:
        unsplit = [run.name for run in runs if run.method is not Method.ROOT_CAUSE]
        yield (
            f"{' and '.join(unsplit)}: judged by thresholds only, so errors that came in from "
            "upstream count too"
        )
    if runs[0].golden != runs[1].golden:
        yield "the runs were compared with different golden graphs; matched by original names"


def _changes(
    before: JudgedOutputs, after: JudgedOutputs, times: float, limit: float
) -> Iterable[OpChange]:
    seen: set[int] = set()
    for new in after.all:
        old, regrouped = before.counterpart(new)
        if regrouped and old is not None and _RANKS[new.guilt] < max(1, _RANKS[old.guilt]):
            continue  # the guilt of one group says nothing of an op in another group
        if old is not None:
            seen.add(id(old))
        kind = _kind(old, new, times, limit)
        if kind is not None:
            yield _change(kind, old, new, regrouped=regrouped)
    for was in before.all:
        if id(was) in seen or was.guilt is not Guilt.GUILTY:
            continue
        now, regrouped = after.counterpart(was)
        if now is None:
            yield _change(ChangeKind.GONE, was, None, regrouped=False)
        elif now.guilt is not Guilt.GUILTY and not _still_over(now):
            yield _change(ChangeKind.FIXED, was, now, regrouped=regrouped)


def _kind(
    old: JudgedOutput | None, new: JudgedOutput, times: float, limit: float
) -> ChangeKind | None:
    was = Guilt.NONE if old is None else old.guilt
    if new.guilt is Guilt.GUILTY:
        return ChangeKind.STILL_GUILTY if was is Guilt.GUILTY else ChangeKind.NEWLY_GUILTY
    if was is Guilt.GUILTY and not _still_over(new):
        return ChangeKind.FIXED
    if new.guilt is Guilt.SUSPECT and was is Guilt.NONE:
        return ChangeKind.NEWLY_SUSPECT
    ratio = _ratio(None if old is None else old.error, new.error)
    if old is None or ratio is None or not (_counts(new, limit) or _counts(old, limit)):
        return None
    if ratio >= times:
        return ChangeKind.WORSE
    return ChangeKind.BETTER if ratio <= 1 / times else None


def _still_over(output: JudgedOutput) -> bool:
    """Whether an op judged by thresholds is still over a limit, although no longer the first
    one."""
    return not output.by_split and output.weight[0] > 0


def _counts(output: JudgedOutput, limit: float) -> bool:
    """True if the error is more than healthy ops have: twice the noise is still noise."""
    return output.weight[1] > limit if output.by_split else output.weight[0] > 0


def _ratio(old: float | None, new: float | None) -> float | None:
    if old is None or new is None or math.isnan(old) or math.isnan(new) or old == new:
        return None
    if math.isinf(old):
        return 0.0
    return math.inf if old == 0 else new / old


def _change(
    kind: ChangeKind,
    old: JudgedOutput | None,
    new: JudgedOutput | None,
    *,
    regrouped: bool,
) -> OpChange:
    output = new if new is not None else old
    assert output is not None
    return OpChange(
        kind,
        None if new is None else new.op,
        None if old is None else old.op,
        str(output.golden),
        output.type,
        None if old is None or new is None else _ratio(old.error, new.error),
        _sentence(kind, output.op, old, new),
        _of_run(old),
        _of_run(new),
        regrouped,
    )


def _of_run(output: JudgedOutput | None) -> ErrorOfRun:
    return ErrorOfRun(None, None) if output is None else ErrorOfRun(output.error, output.split)


def _sentence(kind: ChangeKind, op: str, old: JudgedOutput | None, new: JudgedOutput | None) -> str:
    was, now = _error_words(old), _error_words(new)
    split = any(one is not None and one.by_split for one in (old, new))
    what = "introduced error" if split else "relative error"
    if new is None:
        return f"{op} was guilty ({what} {was}); the new run compares no such output"
    if old is None:
        return f"{op} is {kind.value} ({what} {now}); the old run compares no such output"
    ratio = _ratio(old.error, new.error)
    grown = "" if ratio is None else f", {times_text(ratio)}"
    return f"{op} is {kind.value}: {what} {now}, was {was}{grown}"


def _error_words(output: JudgedOutput | None) -> str:
    if output is None or output.error is None:
        return "not known"
    return small_number(output.error)


_RANKS = {Guilt.NONE: 0, Guilt.SUSPECT: 1, Guilt.GUILTY: 2}
_ORDER = {kind: number for number, kind in enumerate(ChangeKind)}


def _rank(change: OpChange) -> tuple[int, float, str]:
    split = change.new.split if change.new.split is not None else change.old.split
    weight = split.suspicion if split is not None else change.new.error
    return _ORDER[change.kind], -(weight or 0.0), change.golden
