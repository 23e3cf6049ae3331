"""A run as a short Markdown text, made for the comment of a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from divergraph.ask.origin_answers import OriginAnswer
from divergraph.ask.questions.verdict import worst_first
from divergraph.outcomes import outcome_of_verdict
from divergraph.present.report_words import tensor_text
from divergraph.present.run_report import RunReport
from divergraph.text.numbers import short
from divergraph.text.printable import printable
from divergraph.text.words import (
    REASON_WORDS,
    answers_text,
    counted,
    excuse_text,
    not_compared_text,
    note_text,
    observed_text,
    telling_figures,
    verdict_text,
)
from graphstore.model import Method, Note

_ORIGINS, _SUSPECTS, _WORST = 10, 5, 5
_MARKS = {0: "✅", 1: "❌"}
"""By exit code."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~@&])")


def markdown_report(report: RunReport) -> str:
    """Verdict, counts, where the error starts, the worst tensors, what was not compared."""
    run, counts = report.run, report.run.counts
    mark = _MARKS.get(outcome_of_verdict(run.verdict).exit_code, "⚠️")
    parts = [
        f"### {mark} {_plain(run.name)}: {verdict_text(run)}",
        f"{counted(counts.ops, 'op')}, {counted(counts.tensors, 'tensor')}: "
        f"{counts.compared} compared, **{counts.over} over a limit**, "
        f"{not_compared_text(run)}.",
        *(f"**{name.capitalize()}**: {_plain(text)}" for name, text in answers_text(run).items()),
        *([f"Observed: {_plain(text)}."] if (text := observed_text(run)) else []),
        *_origins(report),
        *_suspects(report.answer.suspects),
        *_worst(report),
        *_not_compared(report),
        *_written(report.notes),
        *_notes(run.warnings),
    ]
    return "\n\n".join(parts) + "\n"


def _origins(report: RunReport) -> list[str]:
    origins = report.answer.origins
    if not origins:
        return []
    split = report.run.method is Method.ROOT_CAUSE
    heading = ["", "op", "type", "cosine", "rel. error", "max\\|Δ\\|"]
    heading += ["suspicion", "why"] if split else []
    lines = []
    for one in origins[:_ORIGINS]:
        origin, metrics = one.origin, one.origin.metrics
        cells = [str(origin.rank), _code(f"{origin.op}:{origin.output}"), _code(origin.type)]
        cells += telling_figures(metrics)
        cells += [short(origin.suspicion), _plain(_why(one))] if split else []
        lines.append(cells)
    parts = ["**The error starts at**", _table(heading, lines, names=3)]
    if len(origins) > _ORIGINS:
        parts.append(f"and {len(origins) - _ORIGINS} more.")
    return parts


def _why(one: OriginAnswer) -> str:
    causes = [finding.sentence for finding in one.findings]
    sentences = [one.origin.cause or one.sentence, one.group_sentence]
    return "; ".join(dict.fromkeys(text for text in [*causes[:1], *sentences] if text))


def _suspects(answers: Sequence[OriginAnswer]) -> list[str]:
    if not answers:
        return []
    listed = ", ".join(
        f"{_code(one.origin.op)} ({short(one.origin.suspicion)})" for one in answers[:_SUSPECTS]
    )
    more = f" and {len(answers) - _SUSPECTS} more" if len(answers) > _SUSPECTS else ""
    return [f"Suspect, by the times their precision explains: {listed}{more}."]


def _worst(report: RunReport) -> list[str]:
    items = [item for item in worst_first(report.comparisons) if item.level != "pass"][:_WORST]
    if not items:
        return []
    lines = []
    for item in items:
        assert item.metrics is not None
        lines.append(
            [
                _code(tensor_text(item)),
                *telling_figures(item.metrics),
                "" if item.level is None else item.level.value,
                _plain(excuse_text(item)),
            ]
        )
    heading = ["tensor", "cosine", "rel. error", "max\\|Δ\\|", "level", "why"]
    return [_folded("Worst tensors", _table(heading, lines, names=1))]


def _not_compared(report: RunReport) -> list[str]:
    if not report.reasons:
        return []
    lines = [
        [
            str(group.count),
            REASON_WORDS[group.reason].replace("*", "\\*"),
            ", ".join(map(_code, group.examples)),
        ]
        for group in report.reasons
    ]
    count = report.run.counts.not_compared
    return [_folded(f"Not compared: {count}", _table(["tensors", "why", "such as"], lines))]


def _written(notes: Sequence[tuple[str, Note]]) -> list[str]:
    """What people wrote of ops."""
    lines = [
        f"- {_code(op)}: note on {_code(note.about)}: {_plain(note_text(note))}"
        for op, note in notes
    ]
    return ["\n".join(lines)] if lines else []


def _notes(warnings: Sequence[str]) -> list[str]:
    if not warnings:
        return []
    return [_folded("Notes", "\n".join(f"- {_plain(warning)}" for warning in warnings))]


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def _table(heading: Sequence[str], lines: Iterable[Sequence[str]], names: int = 0) -> str:
    """A table; columns after the first *names* hold numbers and are aligned right."""
    words = ("why", "level")
    rules = [
        "---" if place < names or not names or title in words else "---:"
        for place, title in enumerate(heading)
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heading, rules, *lines))


def _code(text: str) -> str:
    """*text* as code, whatever is in it, fit for a table."""
    plain = printable(text)
    longest = max(map(len, re.findall(r"`+", plain)), default=0)
    fence = "`" * (longest + 1)
    inner = f" {plain} " if longest else plain
    return f"{fence}{inner}{fence}".replace("|", "\\|") if plain.strip() else ""


def _plain(text: str) -> str:
    """*text* with everything escaped that Markdown or HTML would interpret."""
    return _SPECIAL.sub(r"\\\1", printable(" ".join(text.split())))
