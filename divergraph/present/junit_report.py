"""A run as JUnit XML: a test suite for the run, a test case for each device op. One fault is one
red case: ops that only inherit an error pass, and stand as properties and in the case it starts in.

The file follows the strictest of the schemas in use (Ant's, where the root has no attributes),
which all CI servers read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree as Xml

from divergraph.outcomes import gives_no_answer
from divergraph.present.report_words import reason_text, tensor_text
from divergraph.present.run_report import RunReport
from divergraph.text.printable import printable
from divergraph.text.words import (
    REASON_WORDS,
    answers_text,
    counted,
    observed_text,
    telling_figures,
    verdict_text,
)
from divergraph.thresholds.verdicts import worst
from graphstore.model import Comparison, OpState, TensorIO, Verdict
from graphstore.op_row import OpRow

_FAILING = (OpState.ORIGIN, OpState.INHERITED, OpState.BROKEN)
_PORTS_SHOWN = 20
_HEIRS_SHOWN = 200


def junit_report(report: RunReport) -> bytes:
    """The XML. An op fails if an error starts there, or nobody knows where that of it starts, and
    only in a run that diverged, so that file and exit code say the same; an op that was not
    compared is skipped, with the reason. A run in which nothing could be compared or decided gets
    one more test case, in error."""
    run = report.run
    suites = Xml.Element("testsuites")
    suite = Xml.SubElement(
        suites, "testsuite", id="0", package="divergraph", name=printable(run.name)
    )
    suite.set("timestamp", run.created[:19] or "1970-01-01T00:00:00")
    suite.set("hostname", "localhost")  # the report is the same wherever it was made
    heirs = _heirs(report)
    properties = Xml.SubElement(suite, "properties")
    for name, value in _properties(report, len(heirs)).items():
        Xml.SubElement(properties, "property", name=printable(name), value=printable(value))
    tally = _cases(suite, report, heirs)
    for name, number in tally.items():
        suite.set(name, str(number))
    suite.set("time", "0.000")
    Xml.SubElement(suite, "system-out").text = _lines(_summary(report))
    Xml.SubElement(suite, "system-err").text = _lines(run.warnings)
    Xml.indent(suites)
    text: bytes = Xml.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _properties(report: RunReport, inherited: int) -> Mapping[str, str]:
    run = report.run
    return {
        "verdict": run.verdict.value,
        "result": run.result.state.value,
        "blame": run.blame.on.value,
        "method": run.method.value,
        "golden": report.golden_name,
        "device": report.device_name,
        "compared": str(run.counts.compared),
        "over": str(run.counts.over),
        "not_compared": str(run.counts.not_compared),
        "divergraph": run.version,
        "inherited": str(inherited),
    } | {f"limit.{name}": f"{bound:g}" for name, bound in run.thresholds.items()}


def _heirs(report: RunReport) -> dict[str, tuple[str, ...]]:
    """Of each op that is wrong by errors which start in others, the origins of these errors."""
    origins = {one.origin.op for one in report.answer.origins}
    return {
        row.id: row_origins
        for row in report.rows
        if row.state in (OpState.INHERITED, OpState.BROKEN) and row.id not in origins
        if (row_origins := tuple(origin for origin in row.origins if origin in origins))
    }


def _cases(
    suite: Xml.Element, report: RunReport, heirs: Mapping[str, tuple[str, ...]]
) -> dict[str, int]:
    tensors: dict[str, list[Comparison]] = {}
    for item in report.comparisons:
        tensors.setdefault(item.op, []).append(item)
    sentences = {one.origin.op: one.sentence for one in report.answer.origins}
    tally = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    if gives_no_answer(report.run.verdict):
        case = _case(suite, "divergraph", report.run.name)
        Xml.SubElement(
            case,
            "error",
            type=report.run.verdict.value.replace("_", " "),
            message=verdict_text(report.run),
        )
        tally["tests"] = tally["errors"] = 1
    diverged = report.run.verdict is Verdict.DIVERGED
    inherits: dict[str, list[str]] = {}
    for heir, origins in heirs.items():
        for origin in origins:
            inherits.setdefault(origin, []).append(heir)
    for row in report.rows:
        case = _case(suite, row.type, row.id)
        items = tensors.get(row.id, ())
        tally["tests"] += 1
        if row.state in _FAILING and diverged and row.id not in heirs:
            tally["failures"] += 1
            _failure(case, row, items, sentences.get(row.id, ""), inherits.get(row.id, ()))
        elif row.state is OpState.NOT_COMPARED or row.state is None:
            tally["skipped"] += 1
            Xml.SubElement(case, "skipped", message=printable(_why_skipped(row, items)))
    return tally


def _case(suite: Xml.Element, kind: str, name: str) -> Xml.Element:
    return Xml.SubElement(
        suite, "testcase", classname=printable(kind) or "op", name=printable(name), time="0.000"
    )


def _failure(
    case: Xml.Element,
    row: OpRow,
    items: Sequence[Comparison],
    sentence: str,
    heirs: Sequence[str],
) -> None:
    assert row.state is not None
    item = worst([one for one in items if one.io is TensorIO.OUTPUT])
    numbers = "" if item is None else _numbers(item)
    message = f"{row.state.value}: {sentence or numbers}"
    lines = [_line(one) for one in items[:_PORTS_SHOWN]]
    if heirs:
        more = ", …" if len(heirs) > _HEIRS_SHOWN else ""
        named = ", ".join(heirs[:_HEIRS_SHOWN])
        lines.append(f"{counted(len(heirs), 'op')} inherit it: {named}{more}")
    failure = Xml.SubElement(case, "failure", type=row.state.value, message=printable(message))
    failure.text = _lines(lines)


def _line(item: Comparison) -> str:
    if not item.compared:
        return f"{tensor_text(item)}: not compared: {reason_text(item)}"
    level = "" if item.level is None else f" {item.level.value}"
    limit = f" ({item.limit})" if item.limit else ""
    golden = "" if item.golden is None else f" against {item.golden}"
    return f"{tensor_text(item)}{golden}:{level}{limit} {_numbers(item)}"


def _numbers(item: Comparison) -> str:
    metrics = item.metrics
    if metrics is None:
        return ""
    words = ("cosine", "relative error", "largest error")
    pairs = zip(words, telling_figures(metrics), strict=True)
    return ", ".join(f"{word} {figure}" for word, figure in pairs)


def _why_skipped(row: OpRow, items: Sequence[Comparison]) -> str:
    if row.reason is not None:
        words = REASON_WORDS[row.reason]
        return f"{words}: {row.detail}" if row.detail else words
    return next(filter(None, map(reason_text, items)), "it has no output to compare")


def _summary(report: RunReport) -> list[str]:
    run, counts = report.run, report.run.counts
    lines = [
        f"{run.name}: {verdict_text(run)}",
        f"{counted(counts.ops, 'op')}, {counted(counts.tensors, 'tensor')}: "
        f"{counts.compared} compared, {counts.over} over a limit, "
        f"{counts.not_compared} not compared",
    ]
    lines += [f"{name}: {answer}" for name, answer in answers_text(run).items()]
    if text := observed_text(run):
        lines.append(f"observed: {text}")
    lines += [f"{one.origin.rank}. {one.sentence}" for one in report.answer.origins]
    lines += [f"suspect: {one.sentence}" for one in report.answer.suspects]
    return lines + [finding.sentence for finding in report.answer.findings]


def _lines(lines: Iterable[str]) -> str:
    """*lines*, none of them with characters XML cannot hold."""
    return "\n".join(map(printable, lines))
