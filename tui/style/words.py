"""Numbers, shapes and names of things as the screens spell them."""

from __future__ import annotations

import math

from divergraph.outcomes import outcome_of_verdict
from divergraph.text.numbers import odd_word
from divergraph.text.words import REASON_WORDS, UNDEFINED, known, undefined
from graphstore.model import Comparison, Guilt, Metric, MetricSet, OpState, Reason, Role, Verdict
from tui.style.glyphs import Glyphs

STATE_WORDS = {
    OpState.ORIGIN: "an error starts here; what is measured before it has none",
    OpState.INHERITED: "over a limit, after an origin or an op over it",
    OpState.DRIFTING: "past a warning level only, or suspect",
    OpState.EXPLAINED: "over a limit, by no more than the precision of the ops explains",
    OpState.CLEAN: "within the warning level",
    OpState.BROKEN: "NaN, Inf or overflow",
    OpState.NOT_COMPARED: "no value on one side",
}

REASON_SHORT = {
    Reason.INSERTED: "inserted",
    Reason.NO_ORIGINAL: "no original",
    Reason.INNER_OF_SPLIT: "split",
    Reason.ADDEND: "addend",
    Reason.NO_OUTPUT: "no output",
    Reason.NO_TASK: "no task",
    Reason.NO_DEVICE_DUMP: "no dump",
    Reason.NO_GOLDEN_DUMP: "no golden",
    Reason.UNKNOWN_ORIGINAL: "unknown",
    Reason.UNMATCHED: "unmatched",
    Reason.LOW_CONFIDENCE: "uncertain",
    Reason.AMBIGUOUS_DUMP: "ambiguous",
    Reason.QUANTISED: "quantised",
    Reason.SHAPE_MISMATCH: "shape",
    Reason.LAYOUT_UNSUPPORTED: "layout",
    Reason.DTYPE_UNSUPPORTED: "dtype",
    Reason.UNREADABLE_DUMP: "damaged",
    Reason.STATISTICS_ONLY: "statistics",
}

ROLE_WORDS = {
    Role.INTRODUCES: "makes more error than it was given",
    Role.CARRIES: "passes on what it was given, 0.67 to 1.5 times as large",
    Role.AMPLIFIES: "leaves it more than 1.5 times as large",
    Role.ATTENUATES: "leaves it less than 0.67 times as large",
    Role.CLEAN: "neither makes nor carries a notable error",
    Role.UNKNOWN: "no reference could be run",
}

ROLE_STYLES = {
    Role.INTRODUCES: "origin",
    Role.CARRIES: "inherited",
    Role.AMPLIFIES: "alarm",
    Role.ATTENUATES: "clean",
    Role.CLEAN: "clean",
    Role.UNKNOWN: "unknown",
}
"""The cell style of each role; the word says the same."""

_WITH_DECIMAL, _IN_FULL = 999.5, 99999.5
"""Below these a gain has a decimal, is a whole number; above them a power of ten."""

GUILT_STYLES = {Guilt.NONE: "", Guilt.SUSPECT: "drifting", Guilt.GUILTY: "origin"}


_ENDING_STYLES = {0: "clean", 1: "origin"}


def verdict_style(verdict: Verdict) -> str:
    """The cell style of a verdict, by the exit code it gives."""
    return _ENDING_STYLES.get(outcome_of_verdict(verdict).exit_code, "unknown")


def verdict_mark(verdict: Verdict, glyphs: Glyphs) -> str:
    """The mark of a verdict."""
    marks = {"clean": glyphs.good, "origin": glyphs.bad, "unknown": glyphs.unknown}
    return marks[verdict_style(verdict)]


def cosine(value: float | None, glyphs: Glyphs) -> str:
    """A cosine with five decimals, which never rounds a number below 1 up to it."""
    if value is None:
        return glyphs.dash
    if not math.isfinite(value):
        return odd_word(value)
    if value < 1.0 and round(value, 5) == 1.0:
        return "0.99999"
    return f"{value:.5f}"


def small(value: float | None, glyphs: Glyphs) -> str:
    """An error with two digits: ``3.1e-01``."""
    if value is None:
        return glyphs.dash
    if not math.isfinite(value):
        return odd_word(value)
    return "0" if value == 0 else f"{value:.1e}"


def figure(metrics: MetricSet | None, metric: Metric, glyphs: Glyphs) -> str:
    """A cosine or an error for a cell, or that it has no value though all numbers are finite."""
    if metrics is not None and undefined(metrics, metric):
        return UNDEFINED
    value = known(metrics, metric)
    is_cosine = metric is Metric.COSINE_SIMILARITY
    return cosine(value, glyphs) if is_cosine else small(value, glyphs)


def precise(value: float) -> str:
    """A metric with six digits."""
    return f"{value:.6g}" if math.isfinite(value) else odd_word(value)


def gain(value: float | None, glyphs: Glyphs) -> str:
    """How many times the error grew, in at most six cells."""
    if value is None:
        return glyphs.dash
    if not math.isfinite(value):
        return glyphs.times + odd_word(value)
    if value < _WITH_DECIMAL:
        return f"{glyphs.times}{value:.1f}"
    return glyphs.times + (f"{value:.0f}" if value < _IN_FULL else f"{value:.0e}")


_SHORT_DTYPES = (("bfloat", "bf"), ("float", "fp"))


def dtype_text(dtype: str | None) -> str:
    """``fp16`` for ``float16``; ``?`` where the graph does not say."""
    if not dtype:
        return "?"
    for long, short in _SHORT_DTYPES:
        if dtype.startswith(long) and dtype[len(long) :].isdigit():
            return short + dtype[len(long) :]
    return dtype


def count(number: int, noun: str) -> str:
    """``1 op``, ``1 274 ops``."""
    return f"{thousands(number)} {noun}" + ("" if number == 1 else "s")


def thousands(number: int) -> str:
    """A number with its thousands apart."""
    return f"{number:,}".replace(",", " ")


def metric_text(metrics: MetricSet, metric: Metric) -> str:
    """One of the ten metrics with six digits; the four parts of the deviation in one."""
    value = metrics.value(metric)
    if isinstance(value, tuple):
        mean, deviation, *_ = value
        return f"{mean:.4g}; {deviation:.4g}"
    return precise(value)


def why_not_compared(comparison: Comparison) -> str:
    """The reason as a phrase, with what is special about this tensor."""
    if comparison.reason is None:
        return "not compared"
    words = REASON_WORDS[comparison.reason]
    return f"{words}: {comparison.detail}" if comparison.detail else words


def minute(created: str) -> str:
    """An ISO 8601 time without seconds and zone: ``2026-01-31 14:02``."""
    return created[:16].replace("T", " ")


def share(part: float) -> str:
    """A share of an error in whole per cent; one that lessens it a little is no share: ``0%``."""
    return f"{round(part, 2) + 0.0:.0%}"
