"""One op in full: tensors, lineage, and one sentence about its state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from divergraph.ask.answers import OpDetail, TensorRow
from divergraph.ask.facts import find_run, resolve_op
from divergraph.ask.few_rows import rows_of
from divergraph.ask.memory.notes import with_notes
from divergraph.ask.origin_answers import OriginsAnswer, origins
from divergraph.ask.sentences import deed_sentence
from divergraph.text.words import REASON_WORDS, excuse_text
from divergraph.thresholds.verdicts import worst
from graphstore.contract import GraphStore
from graphstore.errors import UnknownNameError
from graphstore.model import (
    Comparison,
    Finding,
    LineageLink,
    LineageRule,
    Metric,
    Op,
    OpState,
    Reason,
    Run,
    Side,
    TensorIO,
)
from graphstore.op_row import OpRow
from graphstore.traverse.arrays import GraphArrays

_MANY = 100
"""Readers that are looked at one by one."""


@dataclass(frozen=True, slots=True)
class _OpFacts:
    """The graph and run of an op, and what the run says of where errors start, of this op only;
    None of a golden or imported graph."""

    arrays: GraphArrays
    side: Side
    run: Run | None
    answer: OriginsAnswer | None


def _facts_of(store: GraphStore, target: str, op: str, side: Side) -> _OpFacts:
    run, answer = find_run(store, target), None
    if run is not None and side is Side.DEVICE:
        answer = origins(store, target, next_dumps=False, op=op)
    return _OpFacts(store.arrays(target, side), side, run, answer)


def op_detail(store: GraphStore, target: str, op: str, side: Side = Side.DEVICE) -> OpDetail:
    """Everything about *op* of a run or imported graph.

    Raises:
        UnknownNameError: no such run, graph or op.
    """
    op_id = resolve_op(store, target, op, side)
    facts = _facts_of(store, target, op_id, side)
    rows = rows_of(store, target, [facts.arrays.number[op_id]], side)
    (row,) = with_notes(store, facts.run, rows)
    view = _Near(store, facts, target, op_id)
    value = view.ops[op_id]
    return OpDetail(
        row,
        value.attrs,
        tuple(_inputs(view, value)),
        tuple(_outputs(view, value)),
        value.control_inputs,
        tuple(store.links(target, op_id, side)) if facts.run is not None else (),
        _explain(facts, row, view.compared.get(op_id, ())),
        None if facts.answer is None else facts.answer.of(op_id),
        () if facts.answer is None else _about(facts.answer.findings, op_id),
    )


def _about(findings: Iterable[Finding], op: str) -> tuple[Finding, ...]:
    return tuple(one for one in findings if one.op == op)


class _Near:
    """An op with those it reads from and those that read it, and their comparisons."""

    def __init__(self, store: GraphStore, facts: _OpFacts, target: str, op: str) -> None:
        number, ids = facts.arrays.number[op], facts.arrays.ids
        before = [ids[other] for other in facts.arrays.predecessors(number).tolist()]
        self.ops = store.ops(target, list(dict.fromkeys([op, *before])), facts.side)
        after = [ids[other] for other in facts.arrays.successors(number).tolist()]
        self.readers = self._readers(store, facts, target, op, after)
        self.compared: dict[str, list[Comparison]] = {}
        if facts.run is not None and facts.side is Side.DEVICE:
            for item in store.comparisons(target, list(dict.fromkeys([op, *before]))):
                self.compared.setdefault(item.op, []).append(item)

    def _readers(
        self, store: GraphStore, facts: _OpFacts, target: str, op: str, after: list[str]
    ) -> dict[int, list[str]]:
        """The ops that read each output of *op*, of those *after* it."""
        if len(after) > _MANY and len(self.ops[op].outputs) == 1:
            columns = store.graph_columns(target, facts.side)
            if columns.exact and not columns.header.subgraphs:  # all of them read what it makes
                return {0: after}
        readers = store.ops(target, after, facts.side)
        readers_of: dict[int, dict[str, None]] = {}
        for reader in map(readers.__getitem__, after):
            for ref in reader.inputs:
                if ref is not None and ref.producer is not None and ref.producer.op == op:
                    readers_of.setdefault(ref.producer.port, {})[reader.id] = None
        return {port: list(names) for port, names in readers_of.items()}

    def comparison(self, op: str, io: TensorIO, port: int) -> Comparison | None:
        """The comparison of a tensor of the op, or of an op it reads from; None without one."""
        items = self.compared.get(op, ())
        return next((item for item in items if (item.io, item.port) == (io, port)), None)


def lineage(store: GraphStore, run: str, op: str) -> tuple[LineageLink, ...]:
    """The links of *op*, a device op or else a golden op of this name.

    In an imported graph they are what its attributes say, golden ops by name.

    Raises:
        UnknownNameError: no such run or graph, or neither side has the op.
    """
    if find_run(store, run) is None:
        return _named_originals(store, run, op)
    try:
        device = resolve_op(store, run, op)
    except UnknownNameError as error:
        try:
            original = resolve_op(store, run, op, Side.GOLDEN)
        except UnknownNameError:
            raise error from None
        return tuple(store.links(run, original, Side.GOLDEN))
    links = store.links(run, device)
    if op in store.arrays(run, Side.GOLDEN).number:
        links += store.links(run, op, Side.GOLDEN)
    return tuple(dict.fromkeys(links))


def _named_originals(store: GraphStore, target: str, name: str) -> tuple[LineageLink, ...]:
    ids = store.arrays(target).ids
    links = [
        LineageLink(ids[number], original, LineageRule.ORIGINAL_NAMES)
        for part in store.listed_ops(target)
        for number, names in enumerate(part.original_names, start=part.first)
        for original in names
    ]
    named = tuple(link for link in links if name in (link.device, link.original))
    if not named:
        resolve_op(store, target, name)
    return named


def _inputs(view: _Near, op: Op) -> Iterable[TensorRow]:
    for port, ref in enumerate(op.inputs):
        own = view.comparison(op.id, TensorIO.INPUT, port)
        if ref is None:
            yield TensorRow(port, "", None, (), None, None, None, own)
            continue
        source = None if ref.producer is None else view.ops.get(ref.producer.op)
        if source is None or ref.producer is None or ref.producer.port >= len(source.outputs):
            yield TensorRow(port, ref.tensor, ref.producer, (), None, None, None, own)
            continue
        tensor = source.outputs[ref.producer.port]
        produced = view.comparison(source.id, TensorIO.OUTPUT, ref.producer.port)
        yield TensorRow(
            port,
            ref.tensor,
            ref.producer,
            (),
            tensor.dtype,
            tensor.shape,
            tensor.layout,
            own or produced,
        )


def _outputs(view: _Near, op: Op) -> Iterable[TensorRow]:
    for port, tensor in enumerate(op.outputs):
        yield TensorRow(
            port,
            tensor.name,
            None,
            tuple(view.readers.get(port, ())),
            tensor.dtype,
            tensor.shape,
            tensor.layout,
            view.comparison(op.id, TensorIO.OUTPUT, port),
        )


def _explain(facts: _OpFacts, row: OpRow, compared: Iterable[Comparison]) -> str:
    item = worst(one for one in compared if one.io is TensorIO.OUTPUT)
    if row.state is None:
        return ""
    if row.state is OpState.NOT_COMPARED or item is None or item.metrics is None:
        words = REASON_WORDS[row.reason or Reason.NO_OUTPUT]
        return f"not compared: {words}{f': {row.detail}' if row.detail else ''}"
    text = _of_state(facts, row, item)
    return f"{text}; {item.detail}" if item.detail else text


def _of_state(facts: _OpFacts, row: OpRow, item: Comparison) -> str:
    """The sentence about a compared op by its state."""
    broken = _broken(facts, item)
    if row.split is not None and row.state in _OF_SPLIT:
        return _of_split(facts, row, item, broken)
    if row.state is OpState.ORIGIN:
        return f"{broken}; the nearest measured ops before it are within their limits"
    if row.state is OpState.BROKEN:
        return f"NaN or Inf the golden side does not have, after {_names(row.origins)}"
    if row.state is OpState.INHERITED:
        return f"{broken}; inherited from {_names(row.origins) or 'the ops of its bodies'}"
    if row.state is OpState.DRIFTING:
        return "within the limits, past a warning level"
    return "within every limit"


_OF_SPLIT = (OpState.ORIGIN, OpState.DRIFTING, OpState.EXPLAINED)


def _of_split(facts: _OpFacts, row: OpRow, item: Comparison, broken: str) -> str:
    """The sentence about an op whose error was split, and that carries none; a cause is left to the
    op's findings."""
    answer = None if facts.answer is None else facts.answer.of(row.id)
    if facts.answer is not None and answer is not None:
        if not answer.findings:
            return answer.sentence
        precision = str(facts.answer.run.analysis.arithmetic) or row.dtype
        return deed_sentence(answer.origin, answer.split, precision)
    if broken:
        return f"{broken}; {excuse_text(item)}"
    return "within the limits, past a warning level"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _broken(facts: _OpFacts, item: Comparison) -> str:
    """The metrics over their limits, and the deciding rule if it is about something else."""
    limits = ", ".join(_limit_text(facts, metric, item) for metric in item.failed)
    label, _, rule = item.limit.partition(": ")
    plain = label in ("", "default", "global") and rule.partition(" ")[0] in limits
    return limits if plain else f"{limits} ({item.limit})"


def _limit_text(facts: _OpFacts, metric: Metric, item: Comparison) -> str:
    assert item.metrics is not None
    value = item.metrics.value(metric)
    limit = None if facts.run is None else facts.run.thresholds.get(metric.value)
    if isinstance(value, tuple):
        return metric.value
    if limit is None:
        return f"{metric.value} {value:.6g}"
    sign = "<" if metric is Metric.COSINE_SIMILARITY else ">"
    return f"{metric.value} {value:.6g} {sign} {limit:g}"
