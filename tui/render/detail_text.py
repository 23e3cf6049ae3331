"""The text of the panes about one op."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.content import Content

from divergraph.ask.answers import OpDetail, TensorRow
from divergraph.ask.sentences import ROLE_WORDS, numbers_text
from divergraph.text.printable import printable
from divergraph.text.words import NOT_KNOWN, RULE_WORDS, shape_text
from graphstore.model import Comparison, Level, Metric, Side
from graphstore.op_row import OpRow
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import cut_to, fit, width_of

LABEL = 10
METRIC_CELLS = 40
"""Cells of a metric's name and value together; the limit follows."""
MIN_FOLD = 20
_GENERAL = ("", "default", "global")
"""Labels of the rule whose limits are those of the whole run."""
SHOWN_TENSORS, SHOWN_LINKS, SHOWN_ATTRS = 4, 4, 6


class _Lines:
    """Lines of text with a label column, cut to one width; with *whole*, folded instead."""

    def __init__(self, glyphs: Glyphs, width: int, *, whole: bool) -> None:
        self.glyphs, self.width, self.whole = glyphs, width, whole
        self.lines: list[Content] = []

    def add(self, label: str, *parts: str | tuple[str, str]) -> None:
        if not self.whole:
            line = Content.assemble((fit(label, LABEL, ""), theme.HEADING), *parts)
            self.lines.append(line.truncate(self.width))
            return
        for text in Content.assemble(*parts).wrap(max(MIN_FOLD, self.width - LABEL)):
            head = (fit(label, LABEL, ""), theme.HEADING)
            self.lines.append(Content.assemble(head, text))
            label = ""

    def add_unlabelled(self, line: Content) -> None:
        self.lines += (
            line.wrap(max(MIN_FOLD, self.width)) if self.whole else [line.truncate(self.width)]
        )

    def name(self, text: str, room: int) -> str:
        text = printable(text)
        return text if self.whole else cut_to(text, max(8, room), self.glyphs.ellipsis, "left")

    def content(self) -> Content:
        return Content("\n").join(self.lines)


def facts(detail: OpDetail, glyphs: Glyphs, width: int, *, whole: bool = False) -> Content:
    """What the op is, what it reads and feeds, where it comes from, why it has its state.

    With *whole* nothing is shortened; else long lists end with how many more there are.
    """
    lines = _Lines(glyphs, width, whole=whole)
    row = detail.row
    if whole:
        lines.add("op", printable(row.id))
    if row.state is not None:
        mark = f"{glyphs.state(row.state)} {row.state.value}"
        lines.add("state", (mark, theme.STATE_STYLES[row.state]))
        for text in _wrapped(printable(detail.explanation), width - LABEL):
            lines.add("", text)
    _split(lines, detail)
    for note in row.notes:
        words = f"{note.text or 'marked'} ({note.author}, {note.changed[:10]})"
        for at, text in enumerate(_wrapped(printable(words), width - LABEL)):
            lines.add("" if at else "bookmark" if note.bookmark else "note", text)
    kind = f"{printable(row.type)}   topo {row.topo}   {wording.dtype_text(row.dtype)}"
    lines.add("type", f"{kind} {shape_text(row.shape)} {printable(row.layout)}".rstrip())
    _tensors(lines, "inputs", detail.inputs, row)
    _tensors(lines, "outputs", detail.outputs, row)
    _links(lines, detail)
    attrs = list(detail.attrs.items())
    for name, value in attrs if whole else attrs[:SHOWN_ATTRS]:
        label = "attrs" if (name, value) == attrs[0] else ""
        lines.add(label, (f"{printable(name)}=", theme.QUIET), printable(_attr_text(value)))
    if not whole and len(attrs) > SHOWN_ATTRS:
        lines.add("", (f"{len(attrs) - SHOWN_ATTRS} more: enter shows all", theme.QUIET))
    if detail.controls and whole:
        lines.add("after", ", ".join(map(printable, detail.controls)))
    return lines.content()


def tensors(detail: OpDetail, glyphs: Glyphs, width: int) -> Content:
    """What the op reads and what reads it, with types, shapes and layouts."""
    lines = _Lines(glyphs, width, whole=False)
    _tensors(lines, "inputs", detail.inputs, detail.row)
    _tensors(lines, "outputs", detail.outputs, detail.row)
    return lines.content()


def _split(lines: _Lines, detail: OpDetail) -> None:
    """What the op does to the error, of which ops it is one, what was found."""
    split, answer = detail.row.split, detail.answer
    if split is not None:
        style = theme.GUILT_STYLES[split.guilt]
        suspicion = wording.gain(split.suspicion, lines.glyphs)
        head = f"{split.role.value}  {suspicion} its floor" if split.suspicion else split.role.value
        words = f"  {ROLE_WORDS[split.role]}" if lines.whole else ""
        lines.add("role", (head, style), (words, theme.QUIET))
        for text in _wrapped(numbers_text(split), lines.width - LABEL):
            lines.add("", (text, theme.QUIET))
    label = "group"
    for text in _wrapped(printable(answer.group_sentence), lines.width - LABEL) if answer else ():
        if text:
            lines.add(label, text)
            label = ""
    for finding in detail.findings:
        label = finding.kind.value
        sure = f"{finding.sentence} ({finding.confidence:.0%} sure)"
        for text in _wrapped(printable(sure), lines.width - LABEL):
            lines.add(label, text)
            label = ""


def _tensors(lines: _Lines, label: str, tensors: tuple[TensorRow, ...], row: OpRow) -> None:
    g = lines.glyphs
    rows = tensors if lines.whole else tensors[:SHOWN_TENSORS]
    for tensor in rows:
        what, layout = shape_text(tensor.shape), printable(tensor.layout or "")
        if lines.whole or tensor.dtype != row.dtype or (tensor.layout or "") != row.layout:
            what = f"{wording.dtype_text(tensor.dtype)} {what} {layout}".rstrip()
        state = _tensor_state(tensor.comparison, g)
        if tensor.shape is None and tensor.dtype is None:
            what = layout  # a constant or input of which the graph says no more
        feeds = "" if tensor.producer is not None or not tensor.consumers else f"{g.feeds} "
        used_width = (
            LABEL + 3 + len(feeds) + 2 + len(what) + 2 + sum(len(text) for text, _ in state)
        )
        name = lines.name(_partner(tensor), lines.width - used_width)
        lines.add(label, (f"{tensor.port:<2} ", theme.QUIET), f"{feeds}{name}  {what}  ", *state)
        label = ""
    if len(rows) < len(tensors):
        lines.add("", (f"{len(tensors) - len(rows)} more: enter shows all", theme.QUIET))


def _partner(tensor: TensorRow) -> str:
    if tensor.producer is not None:
        return str(tensor.producer)
    if tensor.consumers:
        more = f" +{len(tensor.consumers) - 1}" if len(tensor.consumers) > 1 else ""
        return f"{tensor.consumers[0]}{more}"
    return tensor.tensor or "not connected"


def _tensor_state(comparison: Comparison | None, glyphs: Glyphs) -> list[tuple[str, str]]:
    if comparison is None:
        return []
    if comparison.metrics is None:
        reason = comparison.reason
        word = "not compared" if reason is None else wording.REASON_SHORT[reason]
        return [(f"{glyphs.unknown} {word}", theme.QUIET)]
    value = wording.figure(comparison.metrics, Metric.COSINE_SIMILARITY, glyphs)
    level = comparison.level or Level.PASS
    mark = {Level.PASS: glyphs.good, Level.WARN: glyphs.drifting, Level.FAIL: glyphs.bad}[level]
    return [(f"cos {value} {mark}", theme.LEVEL_STYLES[level])]


def _links(lines: _Lines, detail: OpDetail) -> None:
    row = detail.row
    if not detail.links and row.originals:
        lines.add("originals", ", ".join(map(printable, row.originals)))
    elif row.state is not None and not detail.links and row.fused == 0:
        lines.add("originals", ("none: the compiler inserted this op", theme.QUIET))
    merged: dict[str, list[str]] = {}
    for link in detail.links:
        other = link.device if link.original == row.id and link.device != row.id else link.original
        words = RULE_WORDS[link.rule]
        if link.original_port is not None:
            words += f" :{link.original_port}"
        merged.setdefault(other, []).append(words)
    label = "originals" if detail.row.side is Side.DEVICE else "device"
    link_rules = list(merged.items()) if lines.whole else list(merged.items())[:SHOWN_LINKS]
    for name, rules in link_rules:
        evidence = ", ".join(dict.fromkeys(rules))
        room = lines.width - LABEL - len(evidence) - 2
        lines.add(label, (lines.name(name, room), theme.FUSED), (f"  {evidence}", theme.QUIET))
        label = ""
    if len(link_rules) < len(merged):
        lines.add("", (f"{len(merged) - len(link_rules)} more: enter shows all", theme.QUIET))


def metrics(
    comparison: Comparison | None,
    thresholds: Mapping[str, float],
    glyphs: Glyphs,
    width: int,
    *,
    whole: bool = False,
) -> Content:
    """The ten metrics of one tensor with their limits, or why there are none."""
    lines = _Lines(glyphs, width, whole=whole)
    if comparison is None:
        return Content.styled("no comparison of this op's outputs is stored", theme.QUIET)
    golden = comparison.golden
    if golden is not None:
        lines.add("golden", lines.name(str(golden), width - LABEL))
    if comparison.metrics is None:
        for text in _wrapped(printable(wording.why_not_compared(comparison)), width):
            lines.lines.append(Content.styled(text, theme.QUIET))
    else:
        lines.lines.append(_types(comparison))
        if comparison.limit:
            style = theme.LEVEL_STYLES[comparison.level or Level.PASS]
            for at, text in enumerate(_wrapped(printable(comparison.limit), width - LABEL)):
                lines.add("" if at else "rule", (text, style))
        _metric_lines(lines, comparison, thresholds)
        if comparison.detail:
            for text in _wrapped(printable(comparison.detail), width):
                lines.lines.append(Content.styled(text, theme.QUIET))
    if whole:
        for label, path in (("device", comparison.device_path), ("golden", comparison.golden_path)):
            if path:
                lines.add(label, (printable(path), theme.QUIET))
    return lines.content()


def _types(comparison: Comparison) -> Content:
    shape = shape_text(comparison.shape)
    device = wording.dtype_text(comparison.device_dtype)
    golden = wording.dtype_text(comparison.golden_dtype)
    elements = comparison.metrics.elements if comparison.metrics is not None else 0
    count = f"  {wording.count(elements, 'element')}" if elements else ""
    return Content.assemble(
        (fit("compared", LABEL, ""), theme.HEADING), f"{device} with {golden}  {shape}{count}"
    )


def _metric_lines(lines: _Lines, comparison: Comparison, thresholds: Mapping[str, float]) -> None:
    g, values = lines.glyphs, comparison.metrics
    assert values is not None
    label, _, decided = comparison.limit.partition(": ")
    general = label in _GENERAL  # else the limits of the run are not those of this tensor
    named, _, bound = decided.partition(" ")
    for metric in Metric:
        words = metric.words + " "
        room = METRIC_CELLS - width_of(words)
        unknown = values.notes.get(metric) == NOT_KNOWN
        text = g.dash if unknown else wording.metric_text(values, metric)
        text = fit(text, room, g.ellipsis, "right")
        over = metric in comparison.failed
        style = theme.LEVEL_STYLES[Level.FAIL] if over else ""
        limit = thresholds.get(metric.value) if general and not unknown else None
        sign = g.at_least if metric is Metric.COSINE_SIMILARITY else g.at_most
        rule = "" if limit is None else f"  {g.bad if over else g.good} {sign} {limit:g}"
        if not general and named == metric.value:
            rule = f"  {g.bad if over else g.drifting} {printable(bound)}"
        note = values.notes.get(metric)
        line = Content.assemble(
            (words, theme.HEADING if over else ""),
            (text, style),
            (rule, style or theme.QUIET),
            (f"  {printable(note)}" if note else "", theme.QUIET),
        )
        lines.add_unlabelled(line)
    bad = values.device_nonfinite
    if bad or values.golden_nonfinite:
        text = f"NaN or Inf: {bad} on the device side, {values.golden_nonfinite} golden"
        lines.lines.append(Content.styled(text, theme.LEVEL_STYLES[Level.FAIL]))
    recorded = "overflow recorded" in comparison.detail
    if comparison.overflow and not recorded:  # the detail says what the device recorded
        text = "float16 overflow: a value reached 65504"
        lines.lines.append(Content.styled(text, theme.LEVEL_STYLES[Level.FAIL]))


def shown_comparison(detail: OpDetail) -> Comparison | None:
    """The comparison the op's row shows: that of its worst output, else its first one."""
    comparisons = [tensor.comparison for tensor in detail.outputs if tensor.comparison is not None]
    worst = [item for item in comparisons if item.port == detail.row.output]
    return next(iter(worst or comparisons), None)


def _attr_text(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ",".join(_attr_text(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _wrapped(text: str, width: int) -> Iterable[str]:
    import textwrap

    return textwrap.wrap(text, max(20, width)) or [""]


def whole(detail: OpDetail, thresholds: Mapping[str, float], glyphs: Glyphs, width: int) -> Content:
    """Everything about one op: facts, then the metrics of each of its tensors."""
    parts = [facts(detail, glyphs, width, whole=True)]
    for word, tensors in (("Output", detail.outputs), ("Input", detail.inputs)):
        for tensor in tensors:
            if tensor.comparison is None or (
                word == "Input" and tensor.comparison.op != detail.row.id
            ):
                continue
            title = f"{word} {tensor.port}  {printable(tensor.tensor)}"
            parts += [Content(""), Content.styled(title, theme.HEADING)]
            parts.append(metrics(tensor.comparison, thresholds, glyphs, width, whole=True))
    return Content("\n").join(parts)
