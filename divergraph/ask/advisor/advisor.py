"""Sums a finished run up in the three detections MindStudio users know.

Float16 overflow, inconsistent inputs, and the consistency of the whole network: a problem node, a
single-point error, or consistent. Unlike that advisor, this one follows the graph instead of the
row order, uses the origins (of the root-cause analysis if it ran), ignores what golden shows as
well, and does not report rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from divergraph.ask.advisor.inputs import INPUT_INCONSISTENT, inconsistent_inputs
from divergraph.ask.advisor.view import RunView
from divergraph.ask.fusion_passes import NamedPass, passes_of, switch_text
from divergraph.ask.next_calls import advice, has_next_calls
from divergraph.metrics.limits import notes as comparison_notes
from divergraph.metrics.limits.exceptions import NEGLIGIBLE
from divergraph.text.words import counted, reserve_text
from divergraph.thresholds.starts import Starts
from divergraph.thresholds.verdicts import worst
from graphstore.contract import GraphStore, RunData
from graphstore.gc_paused import gc_paused
from graphstore.model import (
    Comparison,
    DType,
    EvidenceValue,
    Finding,
    FindingKind,
    Level,
    Method,
    Metric,
    Op,
    Origin,
    Verdict,
)
from graphstore.traverse.algorithms import first_diverging

OVERFLOW = "fp16_overflow"
PROBLEM_NODE = "problem_node"
SINGLE_POINT = "single_point_error"
CONSISTENT = "consistent"
NOT_COMPARED = "not_compared"
DOUBTFUL = "doubtful"

PROBLEMS = frozenset({DOUBTFUL, OVERFLOW, INPUT_INCONSISTENT, PROBLEM_NODE, SINGLE_POINT})
"""The labels that ask for something to be done."""

_LISTED = 20

_HARDLY_ANY = 0.3
"""Confidence that all is well where fewer tensors were compared than not."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What the advisor found, most important first, never empty."""

    findings: tuple[Finding, ...]

    @property
    def first(self) -> Finding:
        """The finding to act on, as the summary file names it."""
        return self.findings[0]

    @property
    def quiet(self) -> bool:
        """True if nothing has to be done."""
        return self.first.label not in PROBLEMS


def stored_advice(store: GraphStore, name: str) -> Advice:
    """The advice on a run in *store*.

    Raises:
        UnknownNameError: no such run.
    """
    with gc_paused():
        return _advise(RunView.stored(store, name))


def advise(data: RunData) -> Advice:
    """The advice on a finished run."""
    return _advise(RunView.of(data))


def _advise(view: RunView) -> Advice:
    """First an overflow that no other error explains, then different inputs, then origins whose
    error reaches the network's results, then those whose error dies out."""
    run = view.run
    if not run.counts.compared:
        return Advice((_nothing_compared(),))
    inputs = list(inconsistent_inputs(view))
    fed = [str(finding.evidence.get("seen_at") or finding.op) for finding in inputs]
    fed = [op for op in fed if op in view.ops]
    overflows = list(_overflows(view, fed))
    origins, notes = _origins(view, fed)
    overflowing = {finding.op for finding in overflows}
    starts = [pair for pair in origins if pair[0].op not in overflowing]
    nodes = [_node(view, item, origin, len(starts)) for item, origin in starts[:_LISTED]]
    nodes.sort(key=lambda finding: finding.label != PROBLEM_NODE)
    findings = _behind_the_first(view, [*overflows, *inputs, *nodes])
    if doubt := run.analysis.doubt:
        if run.verdict is Verdict.UNDECIDED and view.recorded and has_next_calls(view.recorded):
            doubt = f"{doubt}. {advice(view.recorded)}"
        findings.insert(0, Finding(FindingKind.ADVICE, DOUBTFUL, doubt))
    if not findings:
        findings.append(_consistent(view, notes))
    return Advice(tuple(findings))


def _behind_the_first(view: RunView, findings: list[Finding]) -> list[Finding]:
    """*findings*, those behind the first problem said to be that: it may explain them."""
    first = next((finding.op for finding in findings if finding.op in view.ops), None)
    if first is None:
        return findings
    after, number = view.after(first), view.arrays.number
    return [
        replace(
            finding,
            sentence=f"{finding.sentence}. It comes after {first} and may follow from that: "
            "look at it after that is repaired",
            evidence={**finding.evidence, "behind": first},
        )
        if finding.op != first and finding.op in number and after[number[finding.op]]
        else finding
        for finding in findings
    ]


def _nothing_compared() -> Finding:
    return Finding(
        FindingKind.ADVICE,
        NOT_COMPARED,
        "nothing could be compared, so nothing can be said: the reasons are in the report",
        confidence=1.0,
    )


def _overflows(view: RunView, fed: Sequence[str]) -> Iterator[Finding]:
    """The first ops that leave float16's range where golden does not, unless an origin
    before them made the values large."""
    over = view.marks.mask(len(view.arrays.ids), view.marks.overflow & view.marks.over)
    if not over.any():
        return
    causes = [*(origin.op for origin in view.origins), *fed]
    first = view.names(first_diverging(view.arrays, view.measured, over))
    view.outputs.load(first)
    for op in first:
        earlier = [cause for cause in causes if cause != op]
        if op not in causes and view.reaches(earlier, op):
            continue
        yield _overflow(view, next(one for one in view.outputs[op] if one.overflow and one.over))


def _overflow(view: RunView, item: Comparison) -> Finding:
    figures, metrics = item.figures, item.metrics
    assert metrics is not None
    reach, cure = "", against_overflow(view, item)
    if figures is not None:
        reach = f", golden goes up to {max(abs(figures.golden.low), abs(figures.golden.high)):.6g}"
    broken = metrics.device_nonfinite
    what = "values at 65504, float16's largest"
    if broken:
        what = counted(broken, "NaN or infinite value")
    return Finding(
        FindingKind.ADVICE,
        OVERFLOW,
        f"{item.op} ({view.type_of(item.op)}) overflows: output {item.port} has {what}{reach}. "
        + cure,
        item.op,
        item.io,
        item.port,
        0.9,
        {
            **_numbers(view, item),
            "device_nonfinite": broken,
            "detail": item.detail,
            "remedy": cure,
        },
    )


def _origins(
    view: RunView, fed: Sequence[str]
) -> tuple[list[tuple[Comparison, Origin | None]], list[str]]:
    """The outputs where an error starts that no input explains, and why others are not errors."""
    items: list[tuple[Comparison, Origin | None]] = []
    starts = view.starts if _by_thresholds(view) else Starts()
    notes = [*starts.notes(view.ops)]
    view.outputs.load(origin.op for origin in view.origins)
    for origin in view.origins:
        if view.reaches(fed, origin.op):
            continue
        outputs = view.outputs.get(origin.op, ())
        item = next((one for one in outputs if one.port == origin.output), None)
        if item is None or item.metrics is None:
            continue
        if _negligible(item):
            notes.append(f"{origin.op} ({origin.type}): noise where golden is zero")
            continue
        if origin.op not in starts.choices:
            items.append((item, None if origin.op in starts.grown else origin))
    return items, notes


def _negligible(item: Comparison) -> bool:
    """Whether golden is zero and the device nearly so: any relative error is noise then."""
    assert item.metrics is not None
    note = item.metrics.notes.get(Metric.RELATIVE_EUCLIDEAN_DISTANCE, "")
    is_zero = note in (comparison_notes.GOLDEN_ZERO, comparison_notes.BOTH_ZERO)
    return is_zero and item.metrics.max_absolute_error <= NEGLIGIBLE


def _by_thresholds(view: RunView) -> bool:
    return view.run.method is Method.THRESHOLDS


def _node(view: RunView, item: Comparison, origin: Origin | None, starts: int) -> Finding:
    """The problem node, or single-point error, whose output *item* is."""
    after = view.after(item.op)
    reached = [end for end in view.ends if after[view.arrays.number[end.op]]]
    damaged = {output.op for output in view.run.result.damaged}  # in a part, perhaps
    spoilt = [end for end in reached if end.over or end.op in damaged]
    label = PROBLEM_NODE if spoilt else SINGLE_POINT
    confidence = 0.9 if origin is not None and item.level is Level.FAIL else 0.5
    evidence = {
        **_numbers(view, item),
        "results_over": len(spoilt),
        "results": len(view.ends),
        "later_ops_over": int(np.count_nonzero(view.over & after)) - 1,
        "originals": [ref.op for ref in origin.golden] if origin is not None else [],
        "suspicion": None if origin is None else origin.suspicion,
        "origins": starts,
        "method": view.run.method.value,
    }
    sentence = f"{item.op} ({view.type_of(item.op)}) is where the error starts"
    if origin is None:
        sentence = (
            f"from {item.op} ({view.type_of(item.op)}) on the error is too large for rounding"
        )
    sentence += _seen(item)
    causes = [one for one in view.findings if _is_cause(one, item.op)]
    if causes:
        sentence += f". Likely cause: {causes[0].sentence}"
        evidence["cause"] = causes[0].label
    elif origin is not None and origin.cause:
        evidence["cause"] = origin.cause
    if spoilt:
        evidence["remedy"] = remedy(view, item, causes)
        sentence += f". {_reach(view, spoilt)}. {evidence['remedy']}"
    else:
        sentence += f". {_mild(reached)}"
        if view.recorded and has_next_calls(view.recorded):
            sentence += f" {advice(view.recorded)}"
    return Finding(
        FindingKind.ADVICE, label, sentence, item.op, item.io, item.port, confidence, evidence
    )


def _is_cause(finding: Finding, op: str) -> bool:
    return finding.kind is FindingKind.CAUSE and finding.op == op


def _seen(item: Comparison) -> str:
    assert item.metrics is not None
    metrics = item.metrics
    sentence = f": cosine {metrics.cosine_similarity:.6f}, "
    sentence += f"relative error {metrics.relative_euclidean_distance:.3g}"
    if metrics.device_nonfinite > metrics.golden_nonfinite:
        sentence = f": {counted(metrics.device_nonfinite, 'NaN or infinite value')}"
    if metrics.shapes_differ:
        sentence = ": it has another shape"
    where = "" if item.figures is None else item.figures.where_bad
    return f"{sentence} in output {item.port}{f', bad in {where}' if where else ''}"


def _reach(view: RunView, spoilt: Sequence[Comparison]) -> str:
    worst_end = worst(spoilt)
    assert worst_end is not None
    return f"It reaches {len(spoilt)} of {len(view.ends)} results ({worst_end.op} is worst)"


def _mild(reached: Sequence[Comparison]) -> str:
    """What to do about an error that leaves all *reached* results within their limits."""
    end = worst(reached)
    error = math.nan
    if end is not None and end.metrics is not None:
        error = end.metrics.relative_euclidean_distance
    if end is None or math.isnan(error):
        return "Every result that was dumped is within its limits"
    return (
        f"Every result that was dumped is within its limits; the worst it reaches, {end.op}, has "
        f"a relative error of {error:.3g}. Look into it only if that, or this op's own output, "
        "matters"
    )


def _consistent(view: RunView, notes: Sequence[str]) -> Finding:
    failed = int(np.count_nonzero(view.marks.over))
    sentence = "both sides are consistent: no op shows an error beyond its rounding"
    if notes:
        more = f"; and {len(notes) - 3} more" if len(notes) > 3 else ""
        sentence += f". Not counted as an error: {'; '.join(notes[:3])}{more}"
    elif failed:
        sentence += (
            f". {counted(failed, 'tensor')} over a limit all the same: rounding added up, or what "
            "follows from differences that are no fault"
        )
    confidence = 0.9 if not failed else 0.7
    reserve = reserve_text(view.run)
    if reserve:
        sentence += f". But {reserve}: dump more of them, an error may start at any other"
        confidence = min(confidence, _HARDLY_ANY)
    else:
        sentence += ". If the final result is still wrong, check what comes after the network"
    return Finding(
        FindingKind.ADVICE,
        CONSISTENT,
        sentence,
        confidence=confidence,
        evidence={
            "compared": view.run.counts.compared,
            "over": failed,
            "choices": list(notes),
            "method": view.run.method.value,
        },
    )


def _numbers(view: RunView, item: Comparison) -> dict[str, EvidenceValue]:
    assert item.metrics is not None
    return {
        "index": view.index(item.op),
        "type": view.type_of(item.op),
        "cosine_similarity": item.metrics.cosine_similarity,
        "max_absolute_error": item.metrics.max_absolute_error,
        "relative_euclidean_distance": item.metrics.relative_euclidean_distance,
        "limit": item.limit,
        "before": view.names(view.before(item.op)[:5]),
    }


_SHORT = frozenset({DType.FLOAT16, DType.BFLOAT16})
_OF_PRECISION = frozenset(
    (
        *("unclassified", "rounding", "rounded_weights", "quantised_grid", "few_values"),
        *("overflow", "saturation", "flush_to_zero", "sum_cut_short", "nan_origin", "nonfinite"),
    )
)
"""Causes that more precision can undo; a bias that was not added stays so in any."""


def remedy(view: RunView, item: Comparison, causes: list[Finding]) -> str:
    """What to do about the op whose output *item* is, one of *causes* being likely."""
    op = view.ops[item.op]
    if view.recorded and has_next_calls(view.recorded):
        return advice(view.recorded)
    passes = passes_of(op.attrs)
    if passes:
        return f"{_standing(view, op)}{_switched_off(passes)}, and compare again"
    if op.is_fused:
        return f"{_standing(view, op)}switch that fusion off and compare again"
    alone = "Run this op alone on golden's inputs"
    if any(cause.label == "lost_part" for cause in causes):
        if is_short(view, item):
            return "Keep this op, and what splits its result again, in float32"
        return "Give the parts scales or outputs of their own, or keep this op in higher precision"
    if is_short(view, item) and all(cause.label in _OF_PRECISION for cause in causes):
        return f"{alone}, or keep it in float32, and compare again"
    return f"{alone}: `divergraph submodel` cuts it out with its data"


def against_overflow(view: RunView, item: Comparison) -> str:
    """What to do about an overflow in *item*."""
    if is_short(view, item):
        return "Keep this op in float32 (or bfloat16), or scale its inputs down"
    return "Scale its inputs down, or look at what makes them that large"


def is_short(view: RunView, item: Comparison) -> bool:
    """Whether the op computes in 16 bits, so that float32 would be more."""
    arithmetic = view.run.analysis.arithmetic
    if item.op in arithmetic.fp32_ops:
        return False
    return item.device_dtype in _SHORT or arithmetic.precision in ("fp16", "bf16")


def _standing(view: RunView, op: Op) -> str:
    count = len(set(view.originals_of(op.id))) or len(op.original_names or ())
    return f"The op stands for {counted(count, 'original')}: " if count > 1 else ""


def _switched_off(passes: Sequence[NamedPass]) -> str:
    names = ", ".join(dict.fromkeys(named_pass.name for named_pass in passes))
    return f"switch the fusion pass {names} off (fusion switch file: {switch_text(passes)})"
