"""Sentences about which op makes an error and which carries it, the same in every front end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from divergraph.text.numbers import small_number
from divergraph.text.unlike_inputs import unlike_input_text
from divergraph.text.words import REASON_WORDS, counted
from graphstore.model import (
    ErrorSplit,
    FaultOf,
    Guilt,
    InputMismatch,
    MetricSet,
    OpState,
    Origin,
    Role,
    RunAnalysis,
)

if TYPE_CHECKING:
    from divergraph.ask.error_paths.path_steps import PathStep

ROLE_WORDS = {
    Role.INTRODUCES: "makes more error than it was given",
    Role.CARRIES: "passes on the error it was given",
    Role.AMPLIFIES: "increases the error it was given",
    Role.ATTENUATES: "reduces the error it was given",
    Role.CLEAN: "makes and carries no notable error",
    Role.UNKNOWN: "no reference could be run",
}

FAULT_WORDS = {
    FaultOf.KERNEL: "the device op is wrong by its own definition, too: a fault of its kernel",
    FaultOf.COMPILER: "the device op is right by its own definition, which is not the original's: "
    "a fault of the compiler (fusion, attributes, operands)",
}

SPLIT_LABELS = {
    "suspicion": "suspicion (introduced error over floor)",
    "introduced": "introduced error",
    "propagated": "propagated error",
}
"""The names of a split's numbers where they are plotted."""

_HALF = 0.5
_SHORT_DTYPES = (("bfloat", "bf"), ("float", "fp"))


def times(value: float) -> str:
    """``87x``; one digit after the point below ten."""
    if math.isinf(value):
        return "infinitely many times"
    if value >= 1e5:
        return f"{value:.1e}x"
    return f"{value:.0f}x" if value >= 10 else f"{value:.1f}x"


def precision_text(dtype: str) -> str:
    """``fp16`` for ``float16``."""
    for long, short in _SHORT_DTYPES:
        if dtype.startswith(long) and dtype[len(long) :].isdigit():
            return short + dtype[len(long) :]
    return dtype


def origin_sentence(origin: Origin, split: ErrorSplit | None, dtype: str = "") -> str:
    """A sentence on what *origin* does, and its cause if that is known; *dtype* is the type it
    computes in."""
    text = deed_sentence(origin, split, dtype)
    return f"{text}; cause: {origin.cause}" if origin.cause else text


def deed_sentence(origin: Origin, split: ErrorSplit | None, dtype: str = "") -> str:
    """A sentence on what *origin* does, without its cause."""
    suspicion = origin.suspicion
    if split is not None and suspicion is None:
        suspicion = split.suspicion
    if split is None and suspicion is None:
        return (
            f"{origin.op} is over a limit and nothing measured before it is; how much of the error "
            "it makes itself was not measured"
        )
    if split is not None and split.failure:
        return (
            f"{origin.op} stands out by how much the error grows there; no reference could be "
            f"run: {split.failure}"
        )
    precision = precision_text(dtype)
    arithmetic = f"its {precision} arithmetic" if precision else "its arithmetic"
    who = _subject(origin, split)
    if origin.metrics.shapes_differ:
        return f"{who} gives another shape than the original op does of the same inputs"
    if split is not None and _loses(split):
        return f"{who} loses a part of the result, within what {arithmetic} can hold"
    if split is not None and _makes_no_numbers(split):
        return f"{who} makes NaN or Inf of finite inputs"
    if suspicion is None or math.isinf(suspicion):
        return f"{who} introduces an error that {arithmetic} does not explain at all"
    if split is not None and split.guilt is Guilt.NONE:  # its weight or argument is another
        return f"{who} computes correctly from what it was given"
    return f"{who} introduces {times(suspicion)} the error {arithmetic} explains"


def _makes_no_numbers(split: ErrorSplit) -> bool:
    """Whether the error is unbounded: NaN or Inf. An error where the reference is 0 throughout is
    not, although it is no share of it."""
    if split.introduced is None or not math.isinf(split.introduced):
        return False
    return split.suspicion is None or math.isinf(split.suspicion)


def _loses(split: ErrorSplit) -> bool:
    """Whether an op is guilty though its arithmetic explains its error: a step is too wide."""
    finite = split.introduced is not None and math.isfinite(split.introduced)
    boundless = split.suspicion is not None and math.isinf(split.suspicion)
    return split.role is Role.INTRODUCES and boundless and finite and bool(split.floor)


def _subject(origin: Origin, split: ErrorSplit | None) -> str:
    if split is None or len(split.group) < 2:
        return origin.op
    inside = {ref.op for ref in origin.golden}
    if inside.issuperset(split.group):
        return f"{origin.op} ({len(split.group)} originals in one)"
    return f"one of the {len(split.group)} ops that end in {origin.op}"


def reason_text(origin: Origin, split: ErrorSplit, group_sentence: str) -> str:
    """Why *origin* is accused, short enough for the column of a table."""
    if origin.cause:
        return origin.cause
    if split.introduced is None:
        return group_sentence or numbers_text(split)
    if _makes_no_numbers(split):
        return "makes NaN or Inf of finite inputs"
    if math.isinf(split.introduced):
        return group_sentence or "makes numbers where the original op makes 0 only"
    return group_sentence or f"makes {small_number(split.introduced)} of its own"


def limits_text(analysis: RunAnalysis) -> str:
    """The limits, arithmetic and reference by which suspicion is judged in the run."""
    how = f"suspect above {analysis.suspect:g}, guilty above {analysis.guilty:g}"
    arithmetic = str(analysis.arithmetic)
    floor = f"floors of {arithmetic}" if arithmetic else ""
    by = f"reference run by {analysis.executor}" if analysis.executor else ""
    return "; ".join(part for part in (f"suspicion: {how}", floor, by) if part)


def thresholds_text(analysis: RunAnalysis) -> str:
    """A note that origins were found by thresholds, and why not by root-cause analysis."""
    why = f" ({analysis.note})" if analysis.note else ""
    return (
        f"found by thresholds only{why}: these are the first ops over a limit, which need not be "
        "those that make the error"
    )


def mismatch_sentence(mismatch: InputMismatch) -> str:
    """A sentence on an input that differs between the sides."""
    return f"{unlike_input_text(mismatch)}: no op is to blame for that"


def numbers_text(split: ErrorSplit) -> str:
    """The split in short: ``introduced 0.131, propagated 0.00012, floor 0.00021``."""
    if split.failure:
        return f"no reference: {split.failure}"
    numbers = (
        ("introduced", split.introduced),
        ("propagated", split.propagated),
        ("floor", split.floor),
    )
    return ", ".join(
        f"{name} {small_number(value)}" for name, value in numbers if value is not None
    )


def step_note(step: PathStep, *, first: bool = False) -> str:
    """A note on an op on an error's path; empty if it only carries the error."""
    row, notes = step.row, []
    split = row.split
    guilty = split is not None and split.guilt is not Guilt.NONE
    if first:
        starts = row.state is OpState.ORIGIN or guilty
        notes.append("starts here" if starts else "start")
    elif guilty or row.state is OpState.ORIGIN:
        notes.append("adds an error of its own")
    if step.other_origins:
        notes.append(f"the error of {names(step.other_origins)} joins")
    if step.joins:
        notes.append(f"joined by {names(step.joins)}")
    if step.healed:
        notes.append("healed")
    elif step.diluted:
        notes.append("diluted by an input without error")
    if row.metrics is None and row.reason is not None and not notes:
        notes.append(REASON_WORDS[row.reason])
    return "; ".join(notes)


def share_text(share: float) -> str:
    """The op's part of the error at the outputs; errors of several ops can cancel."""
    if share < 0:
        return f"its error takes {-share:.0%} off the error at the outputs"
    return f"{share:.0%} of the error at the outputs"


def names(texts: tuple[str, ...], limit: int = 2) -> str:
    """The first few of *texts*, and how many more there are."""
    more = len(texts) - limit
    return ", ".join(texts[:limit]) + (f" and {more} more" if more > 0 else "")


def group_text(group: tuple[str, ...], *, fused: bool) -> str:
    """``1 of these 3 ops: a, b, c``."""
    listed = ", ".join(group[:6]) + (f" and {len(group) - 6} more" if len(group) > 6 else "")
    if fused:
        return f"{counted(len(group), 'original')} in one device op: {listed}"
    return f"1 of these {len(group)} ops: {listed}"


def times_text(ratio: float) -> str:
    """``620x as much``, ``0.9x as much``, ``1/40 of it``."""
    if math.isinf(ratio):
        return "from nothing"
    if ratio > _HALF:
        return f"{times(ratio)} as much"
    part = 1 / ratio if ratio > 0 else math.inf
    return f"1/{times(part).removesuffix('x')} of it" if math.isfinite(part) else "nothing left"


def error_text(metrics: MetricSet | None) -> str:
    """The relative error of an output in short."""
    return "" if metrics is None else small_number(metrics.relative_euclidean_distance)
