"""The texts of the overview."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from textual.content import Content

from divergraph.ask.answers import Overview
from divergraph.ask.sentences import limits_text, mismatch_sentence
from divergraph.text.printable import printable
from divergraph.text.words import answers_text, observed_text, reserve_text, verdict_word
from graphstore.model import Method, Metric, OpState
from tui.render.hanging import hung
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import cut_to, fit, width_of

_LABEL = 10
_SAID = 4
"""Lines of the sentence about an origin."""


def verdict(
    overview: Overview, glyphs: Glyphs, width: int, accused: int = 0, remedy: str = ""
) -> Content:
    """The verdict, the origin or suspect at place *accused* and what to do about it, what was
    compared with what, and how many tensors have which level."""
    run, counts = overview.run, overview.run.counts
    lines = [
        headline(overview, glyphs, width),
        *_reason_lines(overview, glyphs, width, accused),
        *(hung(fit("next", _LABEL, ""), remedy, width, theme.HEADING) if remedy else ()),
        Content(""),
    ]
    sides = (
        ("device", overview.device_name, overview.device_framework, overview.device_ops),
        ("golden", overview.golden_name, overview.golden_framework, overview.golden_ops),
    )
    for label, name, framework, ops in sides if overview.is_whole else ():
        tail = f"  {framework}  {wording.count(ops, 'op')}"
        short_name = cut_to(printable(name), max(8, width - _LABEL - len(tail)), glyphs.ellipsis)
        lines.append(_line(label, short_name, (tail, theme.QUIET)))
    matched = f"{overview.matched_ops} of {wording.count(overview.device_ops, 'op')}"
    originals = f"  ({overview.matched_originals} of {overview.golden_ops} originals)"
    if overview.is_whole:
        lines += [Content(""), _line("matched", matched, (originals, theme.QUIET))]
    for name, answer in answers_text(run).items():
        lines += hung(fit(name, _LABEL, ""), answer, width, theme.HEADING)[:_SAID]
    lines.append(_line("compared", *_compared(overview)))
    if observation := observed_text(run):
        lines.append(_line("observed", observation))
    missing = f"{wording.count(counts.not_compared, 'tensor')}, reasons below"
    if counts.not_compared:
        lines.append(_line("left out", missing))
    lines += [_line("made", wording.minute(run.created), (f"  by {run.method}", theme.QUIET))]
    if run.method is Method.ROOT_CAUSE and overview.answer is not None:
        head = fit("judged", _LABEL, "")
        lines += hung(head, limits_text(run.analysis), width, theme.HEADING, theme.QUIET)
    for warning in run.warnings:
        for at, text in enumerate(textwrap.wrap(printable(warning), max(20, width - _LABEL))):
            lines.append(_line("" if at else "note", (text, theme.QUIET)))
    return Content("\n").join(line.truncate(width) for line in lines)


def _reason_lines(overview: Overview, glyphs: Glyphs, width: int, accused: int) -> list[Content]:
    """Why no op is to blame, or what the *accused* one does, in a few lines."""
    answer = overview.answer
    if answer is None:
        return []
    mismatches = [mismatch_sentence(one) for one in answer.run.analysis.mismatches]
    split = answer.run.method is Method.ROOT_CAUSE
    listed = (*answer.origins, *answer.suspects) if split else ()
    doubts = [answer.run.analysis.doubt] if answer.run.analysis.doubt else []
    sentences = doubts or mismatches or [one.sentence for one in listed[accused : accused + 1]]
    style = theme.ERROR if doubts or mismatches else ""
    if not sentences:
        return []
    room = max(20, width)
    wrapped = textwrap.wrap(
        printable(sentences[0]), room, max_lines=_SAID, placeholder=glyphs.ellipsis
    )
    return [Content.styled(text, style) for text in wrapped]


def headline(overview: Overview, glyphs: Glyphs, width: int) -> Content:
    """The verdict and the first origin, whose name is the last that gives way to *width*."""
    run = overview.run
    words = f"{wording.verdict_mark(run.verdict, glyphs)} {verdict_word(run.verdict).upper()}"
    head = (words, f"$state-{wording.verdict_style(run.verdict)} bold")
    if not overview.origin_rows:
        reserve = reserve_text(run)
        return Content.assemble(head, (f"  {reserve}" if reserve else "", theme.QUIET))
    first = min(overview.origin_rows, key=lambda row: row.topo)  # by rank, where not known
    name = printable(first.id)
    room = max(10, width - len(words) - len("  first at ") - 2)
    places = (f"  topo {first.topo}/{overview.device_ops}", f"  topo {first.topo}")
    places = places if overview.is_whole else ("", "")
    place = next((place for place in places if width_of(name + place) <= room), "")
    name = cut_to(name, room, glyphs.ellipsis, "left")
    return Content.assemble(
        head,
        "  first at ",
        (f"{glyphs.origin} {name}", theme.STATE_STYLES[OpState.ORIGIN]),
        (place, theme.QUIET),
    )


def _compared(overview: Overview) -> list[str | tuple[str, str]]:
    counts = overview.run.counts
    parts: list[str | tuple[str, str]] = [
        f"{wording.count(counts.compared, 'tensor')} of {wording.thousands(counts.tensors)}"
    ]
    style = theme.STATE_STYLES[OpState.INHERITED] if counts.over else theme.QUIET
    parts.append((f"  {wording.thousands(counts.over)} over the limit", style))
    return parts


def origins_title(overview: Overview) -> str:
    """How many origins and suspects there are, and how many ops their error is in."""
    suspects = len(overview.suspects)
    if not overview.origins:
        title = f"No op is guilty; {wording.count(suspects, 'suspect')}"
        return title if suspects else "No origin; the largest deviations"
    origins = wording.count(len(overview.origins), "origin")
    inherited = overview.state_counts.get(OpState.INHERITED, 0)
    doubtful = f", {wording.count(suspects, 'suspect')}" if suspects else ""
    if not overview.is_whole:
        return f"Where the error starts: {origins}{doubtful}"
    broken = overview.state_counts.get(OpState.BROKEN, 0)
    after = [f"{inherited} inherit"] if inherited or not broken else []
    after += [f"{broken} broken"] if broken else []
    return f"Where the error starts: {origins}{doubtful}, {', '.join(after)}"


def status(overview: Overview, glyphs: Glyphs, width: int) -> Content:
    """How many ops are in which state, and the limits; in short where there is no room."""
    if not overview.is_whole:
        ops = wording.count(overview.device_ops, "op")
        return Content.styled(f"loading {ops}{glyphs.ellipsis}", theme.QUIET).truncate(width)
    words, marks = _states(overview, glyphs, words=True), _states(overview, glyphs, words=False)
    rules = f"   limits {limits(overview.run.thresholds, glyphs)}"
    line_content = Content.assemble(words, (rules, theme.QUIET))
    return next((line for line in (line_content, words) if line.cell_length <= width), marks)


def _states(overview: Overview, glyphs: Glyphs, *, words: bool) -> Content:
    parts: list[str | tuple[str, str]] = []
    for state in OpState:
        number = overview.state_counts.get(state, 0)
        if number:
            word = "origins" if state is OpState.ORIGIN and number > 1 else state.value
            text = f"{glyphs.state(state)} {wording.thousands(number)}"
            parts += [" ", (f"{text} {word}" if words else text, theme.STATE_STYLES[state])]
    return Content.assemble(*parts)


def limits(thresholds: Mapping[str, float], glyphs: Glyphs) -> str:
    """The limits of the two metrics every table shows."""
    names = ((Metric.COSINE_SIMILARITY, "cos"), (Metric.RELATIVE_EUCLIDEAN_DISTANCE, "rel.err"))
    limit_texts = []
    for metric, word in names:
        if metric.value in thresholds:
            sign = glyphs.at_least if metric is Metric.COSINE_SIMILARITY else glyphs.at_most
            limit_texts.append(f"{word} {sign} {thresholds[metric.value]:g}")
    more = sum(1 for name in thresholds if name in set(Metric)) - len(limit_texts)
    return ", ".join(limit_texts) + (f", {more} more" if more > 0 else "")


def _line(label: str, *parts: str | tuple[str, str]) -> Content:
    return Content.assemble((fit(label, _LABEL, ""), theme.HEADING), *parts)
