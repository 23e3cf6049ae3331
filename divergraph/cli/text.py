"""How results look as plain text: short, aligned, the same words as everywhere."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

from divergraph.ask.memory.baselines import standing_text
from divergraph.ask.questions.between import BetweenAnswer
from divergraph.ask.questions.lineage import LineageAnswer
from divergraph.ask.questions.unmatched import UnmatchedDeviceOp, UnmatchedGoldenOp, UnmatchedOps
from divergraph.ask.questions.verdict import worst_first
from divergraph.ask.reasons import reason_groups
from divergraph.ask.sentences import origin_sentence
from divergraph.ask.trace_answers import TraceStep
from divergraph.cli.metric_text import metric_text
from divergraph.cli.say import say, say_beside, say_each
from divergraph.outcomes import gives_no_answer
from divergraph.text.words import (
    REASON_WORDS,
    STATE_MARKS,
    answers_text,
    counted,
    excuse_text,
    not_compared_text,
    note_text,
    observed_text,
    shape_text,
    verdict_text,
)
from graphstore.contract import GraphInfo, RunData
from graphstore.model import Comparison, Method, Origin, Run, RunStanding, TensorIO
from graphstore.op_row import OpRow

_SHOWN = 5
_AT_ONCE = 4096
_TYPE = 20  # longer types move the names of their own rows only


def show_run(data: RunData) -> None:
    """The verdict of a run and its two answers: counts, origins or suspects, worst tensors, what
    was not compared."""
    run, origins, comparisons = data.run, data.origins, data.comparisons
    counts = run.counts
    say(f"{run.name}: {verdict_text(run)}", bold=True)
    say(
        f"  {counted(counts.ops, 'op')}, {counted(counts.tensors, 'tensor')}: "
        f"{counts.compared} compared, "
        f"{counts.over} over a limit, {not_compared_text(run)}"
    )
    for name, answer in answers_text(run).items():
        if not (origins and name == "blame"):  # they are said below, with their causes
            say(f"  {name}: {answer}")
    if text := observed_text(run):
        say(f"  observed: {text}")
    if run.method is Method.THRESHOLDS and run.analysis.note:
        say(f"  origins by thresholds only: {run.analysis.note}")
    if origins:
        say()
        show_origins(origins, _sentences(run, origins, comparisons))
    elif data.suspects:
        say()
        say("suspect: more error than rounding explains, but it may be chance")
        suspects = data.suspects[:_SHOWN]
        _show_accused(suspects, _sentences(run, suspects, comparisons))
        if len(data.suspects) > _SHOWN:
            say(f"     and {len(data.suspects) - _SHOWN} more (divergraph origins {run.name})")
    bad = worst_first(comparisons)[:_SHOWN]
    if bad:
        say()
        say("worst tensors")
        for item in bad:
            level = item.level.value if item.level is not None else ""
            excuse = excuse_text(item)
            why = f"  ({excuse})" if excuse else ""
            say(f"  {metric_text(item.metrics)}  {level:4}  {item.op}:{item.port}{why}")
    groups = reason_groups(comparisons)
    if groups:
        say()
        say("not compared")
        for group in groups:
            examples = ", ".join(group.examples)
            say(f"  {group.count:5}  {REASON_WORDS[group.reason]:36}  {examples}")


def show_no_verdict(run: Run) -> None:
    """A line that says why the run gives no answer, where it gives none: what follows must not be
    read as one."""
    if gives_no_answer(run.verdict):
        say(f"{run.name}: {verdict_text(run)}", bold=True)


def _sentences(
    run: Run, origins: Iterable[Origin], comparisons: Iterable[Comparison]
) -> dict[str, str]:
    """What each origin does, in words: where the errors were split, or calls show the cause."""
    origins = list(origins)
    if run.method is not Method.ROOT_CAUSE:
        return {origin.op: f"cause: {origin.cause}" for origin in origins if origin.cause}
    starts = {(origin.op, origin.output): origin for origin in origins}
    precision = str(run.analysis.arithmetic)
    sentences = {}
    for item in comparisons:
        origin = starts.get((item.op, item.port))
        if origin is not None and item.io is TensorIO.OUTPUT:
            dtype = "" if item.device_dtype is None else item.device_dtype.value
            sentences[item.op] = origin_sentence(origin, item.split, precision or dtype)
    return sentences


def show_origins(origins: Iterable[Origin], sentences: Mapping[str, str]) -> None:
    """Where the error starts, one op and its originals each, with what is said of it."""
    items = list(origins)
    if not items:
        say("no origin: no op at which an error starts")
        return
    say("the error starts at")
    _show_accused(items, sentences)


def _show_accused(items: Iterable[Origin], sentences: Mapping[str, str]) -> None:
    for origin in items:
        say(
            f"  {origin.rank:2} # {origin.op}  ({origin.type}, output {origin.output})  "
            f"{metric_text(origin.metrics)}"
        )
        if origin.op in sentences:
            say(f"       {sentences[origin.op]}")
        if origin.golden:
            names = ", ".join(str(ref) if ref.port >= 0 else ref.op for ref in origin.golden)
            say(f"       golden {names}")


def show_rows(rows: Collection[OpRow], total: int | None = None) -> None:
    """The op table, of *total* ops in all; names come last, so that long ones move nothing."""
    columns = _Columns(rows)
    ahead = iter(rows)
    while some := list(islice(ahead, _AT_ONCE)):
        say_each(line for row in some for line in _row_lines(row, columns))
    total = len(rows) if total is None else total
    say(counted(total, "op") if total == len(rows) else f"{len(rows)} of {counted(total, 'op')}")


def show_between(answer: BetweenAnswer) -> None:
    """The ops of all paths, or that there is none."""
    if not answer.ops:
        say_beside(f"no path leads from {answer.start} to {answer.end}")
    show_rows(answer.ops)


def _row_lines(row: OpRow, columns: _Columns) -> Iterable[str]:
    yield f"{_mark(row)} {row.topo:5}  {columns.text(row)}  {row.id}"
    for note in row.notes:
        yield f"        note on {note.about}: {note_text(note)}"


def show_steps(steps: Sequence[TraceStep]) -> None:
    """Ops an error reaches, with their distance, metrics and gain."""
    columns = _Columns(step.row for step in steps)
    for step in steps:
        row = step.row
        gain = f"x{row.gain:.3g}" if row.gain is not None else ""
        say(f"{_mark(row)} {step.distance:4}  {columns.tail(row)}  {gain:>9}  {row.id}")


class _Columns:
    """The columns before an op's name, as wide as the rows need."""

    def __init__(self, rows: Iterable[OpRow]) -> None:
        self._tail = self._shape = self._dtype = self._type = 0
        for row in rows:
            self._tail = max(self._tail, len(_tail(row)))
            self._shape = max(self._shape, len(shape_text(row.shape)))
            self._dtype = max(self._dtype, len(row.dtype))
            self._type = max(self._type, len(row.type) if len(row.type) <= _TYPE else 0)

    def tail(self, row: OpRow) -> str:
        """Metrics, or why there are none."""
        return f"{_tail(row):{self._tail}}"

    def text(self, row: OpRow) -> str:
        """All columns of *row*."""
        fused = f"+{row.fused}" if row.fused > 1 else "*" if row.fused == 0 else ""
        return (
            f"{self.tail(row)}  {row.dtype:{self._dtype}}  {shape_text(row.shape):{self._shape}}  "
            f"{fused:2} {row.type:{self._type}}"
        )


def show_links(answer: LineageAnswer) -> None:
    """Lineage of an op, with the evidence of each link."""
    if not answer.links:
        say(f"{answer.op}: names no original (*)")
    for link in answer.links:
        device, original = link.device, link.original
        if link.device_port is not None:
            device += f":{link.device_port}"
        if link.original_port is not None:
            original += f":{link.original_port}"
        say(f"{device}  <-  {original}   [{link.rule.value}]")


def show_unmatched(unmatched: UnmatchedOps, most: int | None) -> None:
    """Ops without a counterpart, of the device side with the reason; *most* of each side."""
    for side, every in (("device", unmatched.device), ("golden", unmatched.golden)):
        ops = every[:most]
        cut = f", the first {len(ops)} of them" if len(ops) < len(every) else ""
        say(f"{side}: {counted(len(every), 'op')} without a counterpart{cut}", bold=True)
        width = min(max((len(op.type) for op in ops), default=0), _TYPE)
        for op in ops:
            say(f"  {op.type:{width}}  {op.op}  {_why(op)}".rstrip())


def _why(op: UnmatchedDeviceOp | UnmatchedGoldenOp) -> str:
    """Why *op* has no counterpart, each thing said once."""
    if isinstance(op, UnmatchedGoldenOp):
        return ""
    words = "" if op.reason is None else REASON_WORDS[op.reason]
    if op.detail and words.removesuffix(" (*)") in op.detail:
        return op.detail
    return f"{words}: {op.detail}" if op.detail else words


def show_runs(
    runs: Iterable[Run], graphs: Iterable[GraphInfo], standings: Mapping[str, RunStanding]
) -> None:
    """The runs and graphs of a store; below a run how it stands against its baseline."""
    say_each(line for run in runs for line in _run_lines(run, standings.get(run.name)))
    say_each(
        f"graph  {info.name:24} {info.created}  {info.format:12} "
        f"{counted(info.ops, 'op')}, {counted(info.edges, 'edge')}"
        for info in graphs
    )


def _run_lines(run: Run, standing: RunStanding | None) -> Iterable[str]:
    counts = run.counts
    yield (
        f"run    {run.name:24} {run.created}  {run.verdict.value:12} "
        f"{counts.compared} compared, {counts.over} over a limit"
    )
    if standing is not None:
        yield f"       {standing_text(standing)}"
        if standing.decides:
            yield f"       {standing.decides}"


def _mark(row: OpRow) -> str:
    return " " if row.state is None else STATE_MARKS[row.state]


def _tail(row: OpRow) -> str:
    return metric_text(row.metrics) if row.reason is None else REASON_WORDS[row.reason]
