"""The words for what the model's values mean, the same in every front end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from divergraph.text.numbers import short
from divergraph.text.unlike_inputs import unlike_inputs_text
from graphstore.model import (
    TELLING_METRICS,
    Blamed,
    Comparison,
    Guilt,
    LineageRule,
    Method,
    Metric,
    MetricSet,
    Note,
    OpState,
    Reason,
    ResultState,
    Run,
    Verdict,
)

STATE_MARKS = {
    OpState.ORIGIN: "#",
    OpState.INHERITED: "v",
    OpState.DRIFTING: "^",
    OpState.EXPLAINED: "=",
    OpState.CLEAN: ".",
    OpState.BROKEN: "!",
    OpState.NOT_COMPARED: "-",
}
"""The marks of plain text."""

REASON_WORDS = {
    Reason.INSERTED: "inserted by the compiler (*)",
    Reason.NO_ORIGINAL: "names no original output",
    Reason.INNER_OF_SPLIT: "inner part of a split op",
    Reason.ADDEND: "one rank's addend of golden's",
    Reason.NO_OUTPUT: "has no output",
    Reason.NO_TASK: "runs no task on the device",
    Reason.NO_DEVICE_DUMP: "no device dump",
    Reason.NO_GOLDEN_DUMP: "no golden dump",
    Reason.UNKNOWN_ORIGINAL: "original is not in the golden graph",
    Reason.UNMATCHED: "no counterpart found",
    Reason.LOW_CONFIDENCE: "counterpart uncertain",
    Reason.AMBIGUOUS_DUMP: "dump file name fits several ops",
    Reason.QUANTISED: "quantised on the device",
    Reason.SHAPE_MISMATCH: "shapes differ",
    Reason.LAYOUT_UNSUPPORTED: "layout cannot be undone",
    Reason.DTYPE_UNSUPPORTED: "no metric for this type",
    Reason.UNREADABLE_DUMP: "dump file is damaged",
    Reason.STATISTICS_ONLY: "statistics that cannot be compared",
}

RULE_WORDS = {
    LineageRule.ORIGINAL_NAMES: "listed by the device graph",
    LineageRule.ORIGIN_OUTPUT: "named by the output",
    LineageRule.RENAMED: "renamed, its only original",
    LineageRule.SAME_NAME: "same name",
    LineageRule.SAME_TENSOR: "same tensor name",
    LineageRule.BETWEEN_TENSORS: "lies between matched tensors",
    LineageRule.FUSION_NAME: "by the fused op's name",
    LineageRule.THROUGH_INSERTED: "through an inserted op",
    LineageRule.PINNED: "pinned by a match file",
    LineageRule.SAME_VALUES: "same values",
    LineageRule.SAME_VALUES_REORDERED: "same values, other order",
    LineageRule.RE_EXECUTED: "by re-running the original",
    LineageRule.SAME_STRUCTURE: "same structure",
    LineageRule.SAME_PLACE: "same place",
}

_MEANINGS = {
    Verdict.CLEAN: "every compared tensor is within its limits",
    Verdict.WITHIN_ROUNDING: "small differences, and no op at which an error starts",
    Verdict.INPUTS_DIFFER: "the sides were fed different inputs",
    Verdict.LAYOUTS_DIFFER: "the sides split the job differently over their ranks",
    Verdict.NOT_COMPARED: "nothing could be compared",
}


NOT_KNOWN = "not known: the dump holds statistics only"
"""The note of a metric no statistic gives; its NaN is none of the tensor's."""


def known(metrics: MetricSet | None, metric: Metric) -> float | None:
    """*metric*, one with a single number; None without metrics or if nothing gives it."""
    if metrics is None or metrics.notes.get(metric) == NOT_KNOWN:
        return None
    return float(getattr(metrics, metric.value))


UNDEFINED = "undef"


def undefined(metrics: MetricSet, metric: Metric) -> bool:
    """Whether *metric* has no value though all values are finite: the cosine of zeros, or an error
    relative to zeros."""
    finite = not metrics.device_nonfinite and not metrics.golden_nonfinite
    value = known(metrics, metric)
    return finite and value is not None and math.isnan(value)


def figure_text(metrics: MetricSet, metric: Metric, form: str = ".3g") -> str:
    """*metric* in a few digits; ``undef`` where it has no value though all values are finite."""
    return UNDEFINED if undefined(metrics, metric) else short(known(metrics, metric), form)


def telling_figures(metrics: MetricSet) -> list[str]:
    """The texts of ``TELLING_METRICS``: cosine, relative error and the largest."""
    forms = {Metric.COSINE_SIMILARITY: ".6f"}
    return [figure_text(metrics, one, forms.get(one, ".3g")) for one in TELLING_METRICS]


def verdict_word(verdict: Verdict) -> str:
    """``within rounding``: the word of a verdict in a sentence, a list or a badge."""
    return verdict.value.replace("_", " ")


def verdict_text(run: Run) -> str:
    """The verdict of *run*, and what it means where the word does not say it."""
    meaning = _MEANINGS.get(run.verdict, "")
    if run.method is Method.ROOT_CAUSE and run.verdict is Verdict.WITHIN_ROUNDING:
        meaning = "no op makes more error than its precision explains"
    if run.verdict is Verdict.INPUTS_DIFFER:
        meaning = unlike_inputs_text(run.analysis.mismatches) or meaning
    text = ": ".join(filter(None, (verdict_word(run.verdict), meaning)))
    if doubt := run.analysis.doubt:
        text = f"{text}: {doubt}" if run.verdict is Verdict.UNDECIDED else f"{doubt}. Then {text}"
    reserve = reserve_text(run)
    return f"{text}; but {reserve}, nothing is known of the others" if reserve else text


_RESULTS = {
    ResultState.RIGHT: "right",
    ResultState.DAMAGED: "damaged",
    ResultState.NOT_KNOWN: "not known",
}
_BLAMED = {
    Blamed.OPS: "",
    Blamed.INPUTS: "the inputs",
    Blamed.INPUTS_OR_OPS: "the inputs or an op",
    Blamed.LAYOUT: "the layout of the job",
    Blamed.ARITHMETIC: "the device's arithmetic as a whole",
    Blamed.NOBODY: "nobody",
    Blamed.NOT_KNOWN: "not known",
}


def answers_text(run: Run) -> Mapping[str, str]:
    """The two answers beside the verdict in words, by name: ``result`` and ``blame``. Nothing for
    runs kept before there were any."""
    if not run.blame.because:
        return {}
    result = f"{_RESULTS[run.result.state]}: {run.result.because}"
    # The reason of a verdict is not told twice.
    is_covered = run.verdict is Verdict.INPUTS_DIFFER or run.blame.because == run.analysis.doubt
    reason = "" if is_covered else run.blame.because
    blame = ": ".join(filter(None, (_BLAMED[run.blame.on], reason)))
    return {"result": result, "blame": blame}


def excuse_text(item: Comparison) -> str:
    """Why an output over a limit is no fault of its op; "" for one that needs or has no excuse."""
    split = item.split
    if not item.over or split is None or split.guilt is Guilt.GUILTY:
        return ""
    if split.failure:
        return f"not judged: {split.failure}"
    if split.introduced is None or split.floor is None:
        return ""
    reason = f"its op adds {split.introduced:.2g}, rounding explains {split.floor:.2g}"
    return f"suspect: {reason}" if split.guilt is Guilt.SUSPECT else f"no fault of its op: {reason}"


def observed_text(run: Run) -> str:
    """What dumping changed in the device's run: ``same``, or by how much it differs and which fused
    ops are no longer there. Empty where nothing is known."""
    observed = run.analysis.observed
    if observed is None:
        return ""
    moved = [output for output in observed.outputs if output.moved is not None]
    farthest = max(moved, key=lambda output: output.moved or 0.0, default=None)
    text = "same"
    if not observed.same:
        text = "differs"
        if farthest is not None and farthest.moved:
            text += f" by {100 * farthest.moved:.2g} % in output {farthest.tensor}"
    groups = observed.kept + len(observed.regrouped)
    if groups:
        text += f"; {observed.kept} of {counted(groups, 'fused op')} stay"
    if observed.regrouped:
        ops = ", ".join(op.op for op in observed.regrouped[:3])
        more = len(observed.regrouped) - 3
        text += f", grouped otherwise: {ops}" + (f" and {more} more" if more > 0 else "")
    return text


def reserve_text(run: Run) -> str:
    """What takes from a good verdict: that fewer tensors were compared, or judged as parts of what
    was, than not. Empty where nothing does."""
    counts, inside = run.counts, run.analysis.inside
    judged, all_told = counts.compared + inside, counts.tensors - run.analysis.beside
    if run.verdict not in (Verdict.CLEAN, Verdict.WITHIN_ROUNDING) or 2 * judged >= all_told:
        return ""
    done = "judged" if inside else "compared"
    return f"only {judged} of {counted(all_told, 'tensor')} could be {done}"


def not_compared_text(run: Run) -> str:
    """How many tensors were not compared, and how many of these were judged all the same."""
    text, inside = f"{run.counts.not_compared} not compared", run.analysis.inside
    return f"{text} ({inside} judged as parts of others)" if inside else text


def counted(number: int, noun: str) -> str:
    """``1 op``, ``2 ops``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def first_names(names: Sequence[str]) -> str:
    """The first three of *names*, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def shape_text(shape: Sequence[int | None] | None) -> str:
    """``1,12,?,64``; ``scalar`` for rank 0, ``?`` for an unknown rank."""
    if shape is None:
        return "?"
    return ",".join("?" if size is None else str(size) for size in shape) or "scalar"


def note_text(note: Note) -> str:
    """What a note says, and who wrote it when."""
    kind = "bookmark" if note.bookmark and not note.text else " ".join(note.text.split())
    return f"{kind}  ({note.author}, {note.changed[:10]})"
