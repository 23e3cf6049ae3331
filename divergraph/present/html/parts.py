"""The parts of the HTML report that need no script: verdict, origins, findings, notes."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from divergraph.ask.answers import ReasonGroup
from divergraph.ask.origin_answers import OriginAnswer, OriginsAnswer
from divergraph.ask.questions.verdict import worst_first
from divergraph.ask.sentences import (
    limits_text,
    mismatch_sentence,
    numbers_text,
    share_text,
    thresholds_text,
)
from divergraph.present.report_words import tensor_text
from divergraph.present.run_report import RunReport
from divergraph.text.numbers import short, signed_percent
from divergraph.text.printable import printable
from divergraph.text.words import (
    REASON_WORDS,
    answers_text,
    counted,
    excuse_text,
    note_text,
    observed_text,
    telling_figures,
    verdict_text,
)
from graphstore.model import Finding, FindingKind, Method, MetricSet, Note, Run

OpLink: TypeAlias = Callable[[str], str]
"""The name of an op as HTML that leads to it."""

_ORIGINS = 6
_WORST = 10
_SHARES, _LEAST_SHARE = 10, 0.0005
"""So many shares are listed, none that would read as 0.0 %."""
_KINDS = {
    FindingKind.CAUSE: "cause",
    FindingKind.ADVICE: "advice",
    FindingKind.CONSISTENCY: "consistency",
}


def head(run: Run, device: str, golden: str) -> str:
    """Name, verdict and sizes of a run, and the names of its models."""
    counts = run.counts
    numbers = (
        (counts.ops, "ops", ""),
        (counts.tensors, "tensors", ""),
        (counts.compared, "compared", ""),
        (counts.over, "over a limit", "bad" if counts.over else ""),
        (counts.not_compared, "not compared", ""),
    )
    cards = "".join(
        f'<li class="{kind}"><b>{number:,}</b> <span>{word}</span></li>'
        for number, word, kind in numbers
    )
    created = run.created[:19].replace("T", " ")
    return (
        f'<header class="{run.verdict.value}"><p class="brand">Divergraph</p>'
        f"<h1>{shown(run.name)}</h1>"
        f'<p class="verdict">{shown(verdict_text(run))}</p>'
        f"{_answers(run)}{_observed(run)}"
        f'<p class="sides"><span>device</span> {shown(device)} '
        f"<span>golden</span> {shown(golden)} "
        f"<span>compared</span> <time>{shown(created)}</time> UTC</p>"
        f'<ul class="counts">{cards}</ul></header>'
    )


def _answers(run: Run) -> str:
    return "".join(
        f'<p class="sides"><span>{name}</span> {shown(answer)}</p>'
        for name, answer in answers_text(run).items()
    )


def _observed(run: Run) -> str:
    text = observed_text(run)
    return f'<p class="sides"><span>observed</span> {shown(text)}</p>' if text else ""


def origins(answer: OriginsAnswer, link: OpLink | None = None) -> str:
    """Where the error starts, each with its cause and numbers; then the suspects."""
    link = link or op_link
    parts = [
        f'<p class="mismatch">{shown(mismatch_sentence(one))}</p>'
        for one in answer.run.analysis.mismatches
    ]
    if answer.origins:
        parts.append(_listed(answer.origins[:_ORIGINS], link))
        if more := answer.origins[_ORIGINS:]:
            title = f"<summary>and {len(more)} more</summary>"
            parts.append(f'<details class="more">{title}{_listed(more, link)}</details>')
    else:
        parts.append('<p class="none">No op is to blame.</p>')
    if answer.suspects:
        parts.append(
            f"<details><summary>{counted(len(answer.suspects), 'suspect')}: more error than "
            f"precision explains, may be chance</summary>{_listed(answer.suspects, link)}</details>"
        )
    split = answer.run.method is Method.ROOT_CAUSE
    limits = limits_text(answer.run.analysis) if split else thresholds_text(answer.run.analysis)
    parts.append(f'<p class="how">{shown(limits)}</p>')
    return _section("origins", "Where the error starts", "".join(parts))


def _listed(answers: Sequence[OriginAnswer], link: OpLink) -> str:
    return f'<ol class="origins">{"".join(_origin(one, link) for one in answers)}</ol>'


def _origin(one: OriginAnswer, link: OpLink) -> str:
    origin = one.origin
    golden = ", ".join(str(ref) if ref.port >= 0 else ref.op for ref in origin.golden[:6])
    paragraphs = [f"<p>{shown(one.sentence)}</p>"]
    if one.group_sentence:
        paragraphs.append(f"<p>{shown(one.group_sentence)}</p>")
    paragraphs += [
        f'<p class="cause">{shown(finding.sentence)}</p>'
        for finding in one.findings
        if finding.sentence not in one.sentence
    ]
    if one.split is not None and numbers_text(one.split):
        paragraphs.append(f'<p class="how">{shown(numbers_text(one.split))}</p>')
    if one.share is not None:
        paragraphs.append(f'<p class="how">{shown(share_text(one.share))}</p>')
    numbers = _numbers(origin.metrics)
    if origin.suspicion is not None:
        numbers.insert(0, ("suspicion", short(origin.suspicion)))
    terms = "".join(f"<div><dt>{word}</dt><dd>{value}</dd></div>" for word, value in numbers)
    return (
        f'<li><h3><span class="rank">{origin.rank}</span> {link(origin.op)} '
        f"<small>{shown(origin.type)}, output {origin.output}</small></h3>{''.join(paragraphs)}"
        + (f'<p class="golden">held against {shown(golden)}</p>' if golden else "")
        + f"<dl>{terms}</dl></li>"
    )


def _numbers(metrics: MetricSet) -> list[tuple[str, str]]:
    words = ("cosine", "relative error", "max |Δ|")
    return list(zip(words, telling_figures(metrics), strict=True))


def findings(found: Sequence[Finding], link: OpLink | None = None) -> str:
    """All findings of a run; empty without any."""
    if not found:
        return ""
    items = "".join(_finding(one, link or op_link) for one in found)
    return _section("findings", "Findings", f'<ul class="findings">{items}</ul>')


def _finding(finding: Finding, link: OpLink) -> str:
    where = f" {link(finding.op)}" if finding.op else ""
    return (
        f'<li><span class="kind">{_KINDS[finding.kind]}</span> <b>{shown(finding.label)}</b>'
        f'{where}<p>{shown(finding.sentence)}</p><span class="how">confidence '
        f"{finding.confidence:.0%}</span></li>"
    )


def notes(written: Sequence[tuple[str, Note]]) -> str:
    """What people wrote of ops; empty if nobody did."""
    if not written:
        return ""
    items = "".join(
        f"<li>{op_link(op)}<p>note on {shown(note.about)}: {shown(note_text(note))}</p></li>"
        for op, note in written
    )
    return _section("notes", "Notes", f'<ul class="findings">{items}</ul>')


def blame(run: Run, link: OpLink | None = None) -> str:
    """The ops that made the error at the outputs; empty if blame was not asked for."""
    link, blamed = link or op_link, run.analysis.blame
    if not blamed.shares:
        return ""
    ordered = sorted(blamed.shares.items(), key=lambda item: -abs(item[1]))
    largest = [item for item in ordered[:_SHARES] if abs(item[1]) >= _LEAST_SHARE] or ordered[:1]
    more = len(ordered) - len(largest)
    lines = "".join(
        f"<tr><td>{link(op)}</td><td class=num>{signed_percent(share)}</td>"
        # a browser draws it red: the best share of an error is none
        '<td class="bar"><meter min="0" max="1" low="0.0005" high="0.001" optimum="0" '
        f'value="{min(abs(share), 1):.4f}">{share:.1%}</meter></td></tr>'
        for op, share in largest
    )
    less = f"<p>And {counted(more, 'op')} with less each.</p>"
    unexplained = round(blamed.unexplained or 0, 2)
    of_none = f"<p>{unexplained:.0%} is of no op.</p>"
    rest = (less if more else "") + (of_none if unexplained else "")
    table = (
        f"<table><thead><tr><th>op<th colspan=2>share</tr></thead><tbody>{lines}</tbody></table>"
    )
    return _section("blame", "Whose error is at the outputs", table + rest)


def worst(report: RunReport) -> str:
    """The worst tensors as a plain table, for browsers without scripts."""
    items = worst_first(report.comparisons)[:_WORST]
    lines = []
    for item in items:
        assert item.metrics is not None
        cells = "".join(f"<td class=num>{value}</td>" for _, value in _numbers(item.metrics))
        level = "" if item.level is None else item.level.value
        why = shown(excuse_text(item))
        lines.append(
            f"<tr><td>{shown(tensor_text(item))}</td>{cells}<td>{level}</td><td>{why}</td></tr>"
        )
    return (
        "<p>The plot and the table of all tensors need JavaScript. The worst tensors:</p>"
        "<table><thead><tr><th>tensor<th>cosine<th>relative error<th>max |Δ|<th>level<th>why</tr>"
        "</thead>"
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def not_compared(reasons: Sequence[ReasonGroup], link: OpLink | None = None) -> str:
    """Why tensors have no numbers; empty if all have."""
    if not reasons:
        return ""
    link = link or op_link
    lines = "".join(
        f"<tr><td class=num>{group.count:,}</td><td>{shown(REASON_WORDS[group.reason])}</td>"
        f"<td>{', '.join(map(link, group.examples))}</td></tr>"
        for group in reasons
    )
    table = f"<table><thead><tr><th>tensors<th>why<th>such as</tr></thead><tbody>{lines}"
    return _section("not-compared", "Not compared", f"{table}</tbody></table>")


def about(run: Run) -> str:
    """How the run was made: notes, limits, inputs."""
    parts = [_list(run.warnings)] if run.warnings else []
    limits = [(name, f"{bound:.6g}") for name, bound in run.thresholds.items()]
    for title, pairs in (
        ("Limits", limits),
        ("Inputs", [pair for pair in run.inputs.items() if pair[1]]),
    ):
        if pairs:
            parts.append(f"<h3>{title}</h3>{_pairs(pairs)}")
    version = f"<p class=how>Written by Divergraph {shown(run.version)}</p>"
    return _section("about", "How it was compared", "".join([*parts, version]))


def shown(text: str) -> str:
    """*text* escaped for HTML."""
    return html.escape(printable(text))


def op_link(op: str) -> str:
    """The name of an op; the script shows its row when it is clicked."""
    return f'<a class="op" data-op="{shown(op)}">{shown(op)}</a>'


def _section(name: str, title: str, body: str) -> str:
    return f'<section id="{name}"><h2>{title}</h2>{body}</section>'


def _list(texts: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{shown(text)}</li>' for text in texts)}</ul>"


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    lines = "".join(
        f"<tr><td>{shown(name)}</td><td>{shown(value)}</td></tr>" for name, value in pairs
    )
    return f"<table><tbody>{lines}</tbody></table>"
