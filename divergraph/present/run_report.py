"""Everything the reports contain of a run, asked once through the questions of all front ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from divergraph.ask.facts import load_facts
from divergraph.ask.memory.notes import notes_by_op
from divergraph.ask.origin_answers import OriginsAnswer
from divergraph.ask.overview_answers import overview
from divergraph.ask.reasons import reason_groups
from divergraph.present.pictures.metric_curve import PLOTTED, MetricCurve, metric_curve
from graphstore.gc_paused import gc_paused
from graphstore.model import Comparison, Note, OpState, Run, Side, TensorIO
from graphstore.op_row import OpRow
from graphstore.schema.codec import plain_text
from graphstore.traverse.topological_order import topo_order

if TYPE_CHECKING:
    from divergraph.ask.answers import ReasonGroup
    from graphstore.contract import GraphStore, RunData


@dataclass(frozen=True)
class RunReport:
    """A run with the rows of its device ops in execution order and its device tensors.

    ``comparisons`` are in the order of their ops, of each op inputs first, then by port.
    """

    run: Run
    answer: OriginsAnswer
    rows: tuple[OpRow, ...]
    comparisons: tuple[Comparison, ...]
    golden_name: str
    device_name: str
    notes: tuple[tuple[str, Note], ...] = ()
    """What people wrote of ops, each with the device op it is about."""
    curves: tuple[MetricCurve, ...] = ()
    """What can be drawn of the ops along the execution order."""

    @cached_property
    def number(self) -> Mapping[str, int]:
        """The place of each device op in ``rows``, by id."""
        return {row.id: place for place, row in enumerate(self.rows)}

    @cached_property
    def tensors(self) -> tuple[Comparison, ...]:
        """The comparisons but for those that stand for ops without any output."""
        return tuple(item for item in self.comparisons if item.port >= 0)

    @cached_property
    def reasons(self) -> tuple[ReasonGroup, ...]:
        """Why tensors were not compared, the most frequent reason first."""
        return tuple(reason_groups(self.comparisons))


def stored_report(store: GraphStore, name: str, data: RunData | None = None) -> RunReport:
    """The report of the run *name*; pass *data* if the run was read already.

    Raises:
        UnknownNameError: no such run.
    """
    seen = overview(store, name)
    assert seen.answer is not None
    rows = tuple(load_facts(store, name).rows)
    written = notes_by_op(store, seen.run, rows)
    with gc_paused():
        comparisons = store.comparisons(name) if data is None else data.comparisons
    return RunReport(
        seen.run,
        seen.answer,
        rows,
        _in_order(_as_in_rows(comparisons), {row.id: row.topo for row in rows}),
        seen.golden_name,
        seen.device_name,
        tuple((op, note) for op, notes in written.items() for note in notes),
        tuple(curve for one in PLOTTED if len(curve := metric_curve(store, name, one))),
    )


def unkept_report(data: RunData) -> RunReport:
    """The report of a run that is in no store because nothing could be compared."""
    order = topo_order(data.device)
    place = {op: number for number, op in enumerate(order)}
    reasons = {item.op: item for item in reversed(data.comparisons) if item.reason is not None}
    ops = {op.id: op for op in data.device.ops}
    rows = []
    for number, op_id in enumerate(order):
        op, item = ops[op_id], reasons.get(op_id)
        names = op.original_names
        rows.append(
            OpRow(
                topo=number,
                id=op_id,
                name=op.name,
                type=op.type,
                side=Side.DEVICE,
                subgraph=op.subgraph,
                dtype="",
                shape=None,
                layout="",
                fused=1 if names is None else len(names),
                originals=names or (),
                state=data.states.get(op_id, OpState.NOT_COMPARED),
                reason=None if item is None else item.reason,
                detail="" if item is None else item.detail,
            )
        )
    answer = OriginsAnswer(data.run, (), (), data.findings)
    comparisons = _in_order(data.comparisons, place)
    return RunReport(data.run, answer, tuple(rows), comparisons, data.golden.name, data.device.name)


def _as_in_rows(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Them with the ids that rows have, which come from columns of a database: half surrogate
    pairs are escapes there."""
    plain = ((item, plain_text(item.op)) for item in comparisons)
    return tuple(item if item.op == op else replace(item, op=op) for item, op in plain)


def _in_order(
    comparisons: tuple[Comparison, ...] | list[Comparison], place: Mapping[str, int]
) -> tuple[Comparison, ...]:
    def key(item: Comparison) -> tuple[int, bool, int]:
        return place[item.op], item.io is not TensorIO.INPUT, item.port

    return tuple(sorted(comparisons, key=key))
