"""What two recorded runs say together: their layouts first, then the data, then calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from divergraph.metrics.statistics import BY_CHECKSUM
from divergraph.text.words import counted
from divergraph.thresholds.recorded.call_pairs import CallPairs
from divergraph.thresholds.recorded.call_structure import calls_of_one_side
from divergraph.thresholds.recorded.culprits import culprits
from divergraph.thresholds.recorded.errors import is_unequal
from divergraph.thresholds.recorded.layouts import layout_difference, model_difference
from graphstore.model import Comparison, Finding, Verdict
from importers.msprobe.job_names import UNREAD


@dataclass(frozen=True, slots=True)
class RecordedJudgement:
    """``causes`` has the calls an error starts at, in their order, and why ("" where that is not
    known). ``verdict`` is set where it follows from no origin, and ``doubt`` says why. ``note``
    says why what is over a limit is nobody's fault, or that the runs are proved equal. It is
    ``final`` where nothing that is run again can tell more."""

    causes: dict[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    verdict: Verdict | None = None
    doubt: str = ""
    note: str = ""
    final: bool = False


def _proof(comparisons: Sequence[Comparison]) -> str:
    """That checksums prove the runs equal, and how far; "" where they do not."""
    equal = sum(item.detail == BY_CHECKSUM for item in comparisons)
    if not equal or any(is_unequal(item) or item.over for item in comparisons):
        return ""
    rest = sum(item.compared for item in comparisons) - equal
    note = f"identical, proved by the checksums of {counted(equal, 'tensor')}, inputs and weights"
    return f"{note}; {counted(rest, 'more tensor')} had none" if rest else note


def judge_calls(pairs: CallPairs, excuse: Callable[[str], str]) -> RecordedJudgement:
    """Judge two recorded runs. *excuse* says why a call over a limit is no fault, or ""."""
    if difference := model_difference(pairs):
        return RecordedJudgement(verdict=Verdict.UNDECIDED, doubt=difference, final=True)
    if difference := layout_difference(pairs):
        return RecordedJudgement(verdict=Verdict.LAYOUTS_DIFFER, doubt=difference, final=True)
    if unread := pairs.golden.attrs.get(UNREAD):
        return RecordedJudgement(verdict=Verdict.INPUTS_DIFFER, doubt=str(unread))
    calls = culprits(pairs, excuse)
    findings = tuple(calls.findings)
    if calls.data:
        return RecordedJudgement(findings=findings, verdict=Verdict.INPUTS_DIFFER, doubt=calls.data)
    if calls.causes:
        return RecordedJudgement(calls.causes, findings)
    if calls.arrived:
        doubt = calls.arrived
        return RecordedJudgement(findings=findings, verdict=Verdict.INPUTS_DIFFER, doubt=doubt)
    if calls.unexplained:
        doubt = (
            f"{counted(len(calls.unexplained), 'call')} over a limit, and what was compared cannot "
            f"tell whether the error starts there (first: {calls.unexplained[0]}): dump values of "
            "the calls before it"
        )
        if structure := calls_of_one_side(pairs):
            doubt += f"; {structure}"
        return RecordedJudgement(findings=findings, verdict=Verdict.UNDECIDED, doubt=doubt)
    over = sum(item.over for item in pairs.comparisons)
    note = _proof(pairs.comparisons)
    if over:
        note = (
            f"{counted(over, 'tensor')} over a limit, but no call makes more than "
            f"{max(calls.largest, 1.0):.1f} times the error of what it reads: rounding that has "
            "grown from call to call"
        )
    return RecordedJudgement(findings=findings, note=note)
