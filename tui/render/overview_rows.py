"""The small lists of the overview as rows."""

from __future__ import annotations

from collections.abc import Sequence

from divergraph.ask.answers import ModuleRow, Overview
from divergraph.ask.op_order import STARTS_FIRST
from divergraph.ask.origin_answers import OriginAnswer
from divergraph.ask.sentences import reason_text
from divergraph.text.words import REASON_WORDS
from graphstore.model import Guilt, Method, Metric, OpState
from graphstore.op_row import OpRow
from tui.render.op_table import state_style
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.cells import width_of
from tui.widgets.columns import ListColumn
from tui.widgets.rows import Cell, FixedRows


def origins(overview: Overview, glyphs: Glyphs) -> FixedRows:
    """The origins in rank order, then suspects; the largest deviations where there are none."""
    if overview.answer is not None and overview.run.method is Method.ROOT_CAUSE:
        accused_ops = (*overview.answer.origins, *overview.answer.suspects)
        if accused_ops:
            return _guilty(accused_ops, listed(overview), glyphs)
    rows = listed(overview)
    accused = (*overview.origins, *overview.suspects)
    ranks = [origin.rank for origin in accused] or list(range(1, len(rows) + 1))
    causes = {origin.op: origin.cause for origin in accused if origin.cause}
    cells = [_origin(rank, row, causes, glyphs) for rank, row in zip(ranks, rows, strict=True)]

    columns = [
        ListColumn("rank", "#", 4, align="right", sortable=False),
        ListColumn("op", "op", 14, cut="name", sortable=False),
        ListColumn("type", "type", 10, 16, priority=7, sortable=False),
        ListColumn("cos", "cos", 8, align="right", sortable=False),
        ListColumn("rel", "rel.err", 8, align="right", priority=3, sortable=False),
        ListColumn("why", "over in", 7, priority=2, sortable=False),
    ]
    return FixedRows(columns, cells)


def listed(overview: Overview) -> tuple[OpRow, ...]:
    """The ops that list shows: origins and suspects, or the worst ones."""
    return (*overview.origin_rows, *overview.suspect_rows) or overview.worst


def _guilty(answers: Sequence[OriginAnswer], rows: Sequence[OpRow], glyphs: Glyphs) -> FixedRows:
    """Origins and suspects of a run whose errors were split."""
    cells = [_accused(one, row, glyphs) for one, row in zip(answers, rows, strict=True)]
    shares = any(one.share is not None for one in answers)

    columns = [
        ListColumn("rank", "#", 4, align="right", sortable=False),
        ListColumn("op", "op", 14, cut="name", sortable=False),
        ListColumn("type", "type", 8, 16, priority=7, sortable=False),
        ListColumn("susp", "susp", 6, 7, align="right", sortable=False),
        ListColumn("rel", "rel.err", 7, align="right", priority=8, sortable=False),
        ListColumn("share", "share", 5, align="right", priority=3, sortable=False),
        ListColumn("why", "why", 12, priority=2, sortable=False),
    ]
    if not shares:
        del columns[5]
        cells = [(*row[:5], row[6]) for row in cells]
    return FixedRows(columns, cells)


def _accused(one: OriginAnswer, row: OpRow, glyphs: Glyphs) -> tuple[Cell, ...]:
    guilty = one.guilt is Guilt.GUILTY
    style = wording.GUILT_STYLES[one.guilt]
    mark = glyphs.state(OpState.ORIGIN) if guilty else "?"
    tail = f" {glyphs.fused}{row.fused}" if row.fused > 1 else ""
    error = None if row.metrics is None else row.metrics.relative_euclidean_distance
    return (
        Cell(f"{one.origin.rank} {mark}", style),
        Cell(row.id, style, tail, "fused"),
        Cell(row.type),
        Cell(wording.gain(one.origin.suspicion, glyphs), style),
        Cell(wording.small(error, glyphs)),
        Cell(glyphs.dash if one.share is None else wording.share(one.share)),
        Cell(_why(one)),
    )


def _why(one: OriginAnswer) -> str:
    if one.split is None:
        return one.origin.cause or one.guilt.value
    return reason_text(one.origin, one.split, one.group_sentence)


def _origin(rank: int, row: OpRow, causes: dict[str, str], glyphs: Glyphs) -> tuple[Cell, ...]:
    style = state_style(row.state)
    tail = f" {glyphs.fused}{row.fused}" if row.fused > 1 else ""
    over = " ".join(metric.short for metric in row.failed)
    metrics = row.metrics
    return (
        Cell(f"{rank} {glyphs.state(row.state)}", style),
        Cell(row.id, style if row.state is OpState.ORIGIN else "", tail, "fused"),
        Cell(row.type),
        Cell(wording.figure(metrics, Metric.COSINE_SIMILARITY, glyphs)),
        Cell(wording.figure(metrics, Metric.RELATIVE_EUCLIDEAN_DISTANCE, glyphs)),
        Cell(causes.get(row.id) or over or glyphs.dash),
    )


def modules(overview: Overview, glyphs: Glyphs) -> FixedRows:
    """Name spaces, the worst first."""
    rows = [_module(module, glyphs) for module in overview.modules]

    columns = (
        ListColumn("state", "", 2, sortable=False),
        ListColumn("module", "module", 12, cut="name", sortable=False),
        ListColumn("ops", "ops", _widest(rows, 2), align="right", priority=3, sortable=False),
        ListColumn("cos", "worst cos", 9, align="right", sortable=False),
        ListColumn("over", "over", _widest(rows, 4), align="right", priority=2, sortable=False),
    )
    return FixedRows(columns, rows)


def _module(module: ModuleRow, glyphs: Glyphs) -> tuple[Cell, ...]:
    worst = next((state for state in STARTS_FIRST if module.states.get(state)), None)
    state = worst or OpState.NOT_COMPARED
    over = sum(module.states.get(state, 0) for state in STARTS_FIRST[:3])
    return (
        Cell(glyphs.state(state), state_style(state)),
        Cell(module.name),
        Cell(wording.thousands(module.ops)),
        Cell(wording.cosine(module.worst_cosine, glyphs)),
        Cell(wording.thousands(over) if over else glyphs.dash),
    )


def _widest(rows: Sequence[Sequence[Cell]], column: int) -> int:
    """Room for every number of the column: a number cut short would be another number."""
    return max(5, *(width_of(row[column].text) for row in rows), 0)


def reasons(overview: Overview) -> FixedRows:
    """Why tensors were not compared, with some of their ops."""
    rows = [
        (
            Cell(wording.thousands(group.count), "quiet"),
            Cell(REASON_WORDS[group.reason]),
            Cell(", ".join(group.examples), "quiet"),
        )
        for group in overview.reasons
    ]

    columns = (
        ListColumn("count", "", _widest(rows, 0), align="right", sortable=False),
        ListColumn("why", "why", 16, sortable=False),
        ListColumn("ops", "for example", 12, priority=1, sortable=False),
    )
    return FixedRows(columns, rows)
