"""The first rule that is sure names the cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from divergraph.rootcause.causes.contract import CauseRule, CauseStage, cause_rules, most_confidence
from divergraph.rootcause.causes.evidence import (
    Cause,
    FaultEvidence,
    RunsSpentError,
    SampledTensors,
)
from divergraph.rootcause.causes.limits import GUESS
from divergraph.rootcause.causes.line_fits import beyond_noise
from divergraph.rootcause.causes.reruns.in_bodies import to_be_dumped
from divergraph.rootcause.causes.words import turn_text
from divergraph.rootcause.values import correlation
from graphstore.model import EvidenceValue, Finding, FindingKind

_FAR_LESS = 0.1
"""The share of what a cause leaves that a later one may leave to be said instead."""


def explain(case: FaultEvidence) -> Finding | None:
    """Why the op's output is not what its own inputs should give.

    Decided by the device's values and the reference on the device's inputs, never by golden
    values. None where there is nothing to explain: no error, different shapes, or values that are
    not real numbers. Otherwise the label is ``unclassified`` if no rule is sure.
    """
    if case.device.shape != case.reference.shape or case.device.size == 0:
        return None
    if case.device.dtype.kind not in "fiub" or case.reference.dtype.kind not in "fiub":
        return None
    with np.errstate(all="ignore"):  # values may be anything, infinities among them
        view = SampledTensors(case)
        cause = _first(view, numbers=False)
        if cause is None:
            if view.error == 0.0:
                return None  # the finite values are equal, so only NaN could be wrong
            view, cause = _of_numbers(view)
        return _finding(view.case, view, cause or to_be_dumped(unclassified(view), view))


def _of_numbers(view: SampledTensors) -> tuple[SampledTensors, Cause | None]:
    """The cause that finite values show, and where it is seen: in all of them, or in the few slices
    that stand out of the noise. An error no larger than the noise is looked for in these first:
    of the whole only the noise would be told."""
    for sampled in _views(view):
        cause = _first(sampled, numbers=True)
        if cause is not None:
            return sampled, cause
    return view, None


def _views(view: SampledTensors) -> Iterator[SampledTensors]:
    if view.visible:
        yield view
    alone = beyond_noise(view)
    if alone is not None:
        yield SampledTensors(alone)
    if not view.visible:
        yield view


def _first(view: SampledTensors, *, numbers: bool) -> Cause | None:
    """The first cause of those rules that look at finite *numbers*, or of the others. One that
    leaves more than noise gives way to a later one that predicts the device and leaves far less."""
    close_cause: Cause | None = None
    for rule in cause_rules():
        if (rule.stage > CauseStage.NO_NUMBER) is not numbers:
            continue
        if close_cause is not None and rule.stage > CauseStage.LINE:
            break
        cause = _asked(rule, view)
        if cause is None:
            continue
        if close_cause is not None and _left(cause) <= _FAR_LESS * _left(close_cause):
            return cause
        if close_cause is None and _left(cause) * view.error <= view.exactness:
            return cause
        close_cause = close_cause or cause
    return close_cause


def _asked(rule: CauseRule, view: SampledTensors) -> Cause | None:
    """The cause a rule finds within its budget of op runs."""
    budget = view.case.budget
    if budget is not None:
        budget.begin()
    try:
        return rule.explain(view)
    except RunsSpentError:
        return None  # a later rule may need fewer


def _left(cause: Cause) -> float:
    """The share of the error that a cause says it leaves; 0 where it does not say."""
    error_left = cause.evidence.get("left")
    return error_left if isinstance(error_left, float) else 0.0


def _finding(case: FaultEvidence, view: SampledTensors, cause: Cause) -> Finding:
    where, turns = turn_text(view)
    evidence = {**cause.evidence, **turns, "floor": case.floor}
    confidence = cause.confidence
    exact = "function" in evidence or "explanations" in evidence
    if len(case.ops) > 1 and not exact:
        confidence = min(confidence, most_confidence()[cause.label])
    if view.sampled:
        evidence["sampled_elements"] = int(view.d.size)
    return Finding(
        kind=FindingKind.CAUSE,
        label=cause.label,
        sentence=cause.sentence + where,
        op=case.op,
        port=case.port,
        confidence=confidence,
        evidence={key: _plain(value) for key, value in evidence.items()},
    )


def _plain(value: EvidenceValue) -> EvidenceValue:
    """A JSON value."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    if isinstance(value, Mapping):
        return {name: _plain(element) for name, element in value.items()}
    return value


def unclassified(view: SampledTensors) -> Cause:
    """The cause if no rule fits: the size of the error and its correlation."""
    link = correlation(view.d, view.r)
    relative = view.error / view.size if view.size else float("inf")
    evidence: dict[str, EvidenceValue] = {
        "relative_error": relative,
        "correlation": link,
        "largest_error": float(np.abs(view.e).max()) if view.e.size else 0.0,
        "mean_error": float(view.e.mean()) if view.e.size else 0.0,
    }
    guess = " (weights, pads or window?)" if view.case.linear else ""
    sentence = (
        f"unclassified{guess}: an error of {100 * relative:.3g} % without a simple pattern "
        f"(correlation {link:.4f})"
    )
    if view.d.size == 1 and view.r.item():
        times = view.d.item() / view.r.item()
        sentence = (
            f"its only value is {view.d.item():.6g} in place of {view.r.item():.6g}, {times:.4g} "
            "times it: one value cannot tell more"
        )
    return Cause("unclassified", sentence, GUESS, evidence)
