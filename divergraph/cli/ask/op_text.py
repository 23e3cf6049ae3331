"""Everything about one op as text, and the ops around it drawn as trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from divergraph.ask.answers import OpDetail, TensorRow
from divergraph.ask.fusion_passes import passes_of
from divergraph.ask.neighbourhood import NeighbourOp, OpsAround
from divergraph.cli.metric_text import metric_text
from divergraph.cli.say import say, say_each
from divergraph.text.numbers import short
from divergraph.text.words import REASON_WORDS, STATE_MARKS, counted, note_text, shape_text
from graphstore.model import AttrValue
from graphstore.op_row import OpRow

_MOST_LINES = 200
_MOST_NAMES = 6
_MOST_LETTERS = 160


def show_op(detail: OpDetail, *, everything: bool) -> None:
    """The op, its tensors and lineage; *everything* adds its attributes."""
    row = detail.row
    say(f"{_marked(row)} {row.id}  ({row.type})", bold=True)
    if detail.explanation:
        say(f"  {detail.explanation}")
    if row.metrics is not None:
        say(f"  {metric_text(row.metrics)}")
    say_each(_facts(detail))
    say_each(line for item in detail.inputs for line in _tensor(item, "input"))
    say_each(line for item in detail.outputs for line in _tensor(item, "output"))
    if everything:
        say()
        say("attributes")
        say_each(f"  {name}: {_value(value)}" for name, value in sorted(detail.attrs.items()))


def _facts(detail: OpDetail) -> Iterator[str]:
    row = detail.row
    place = f" of sub-graph {row.subgraph}" if row.subgraph else ""
    yield f"  op {row.topo}{place} in execution order"
    originals = [link.original for link in detail.links] or list(row.originals)
    if names := list(dict.fromkeys(originals)):
        yield f"  originals: {', '.join(names)}"
    if passes := passes_of(detail.attrs):
        yield f"  fusion passes: {', '.join(named_pass.name for named_pass in passes)}"
    yield from (f"  kernel: {name}" for name in kernel_names(detail.attrs))
    if detail.controls:
        yield f"  runs after: {', '.join(detail.controls)}"
    yield from (f"  {finding.sentence}" for finding in detail.findings)
    yield from (f"  note on {note.about}: {note_text(note)}" for note in row.notes)


def kernel_names(attrs: Mapping[str, AttrValue]) -> list[str]:
    """The names of the kernels that compute an op with these attributes."""
    names = (str(value) for name, value in attrs.items() if name.endswith("kernelname"))
    return list(dict.fromkeys(names))


def _tensor(item: TensorRow, side: str) -> Iterator[str]:
    form = " ".join(
        text
        for text in (
            "?" if item.dtype is None else item.dtype.value,
            item.layout or "",
            "" if item.shape is None else shape_text(item.shape),
        )
        if text
    )
    yield f"  {side:6} {item.port}  {form}  {_ends(item, side)}".rstrip()
    compared = item.comparison
    if compared is None:
        return
    if compared.metrics is None:
        reason = "" if compared.reason is None else REASON_WORDS[compared.reason]
        yield f"            not compared: {reason}"
        return
    level = "" if compared.level is None else compared.level.value
    yield f"            {metric_text(compared.metrics)}  {level}  golden {compared.golden}"
    if compared.figures is not None:
        sides = (("device", compared.figures.device), ("golden", compared.figures.golden))
        for name, values in sides:
            number = partial(short, form=".6g")
            yield (
                f"            {name} max {number(values.high)}, min {number(values.low)}, "
                f"mean {number(values.mean)}"
            )


def _ends(item: TensorRow, side: str) -> str:
    if side == "input":
        return f"<- {item.producer or item.tensor or 'not connected'}"
    more = len(item.consumers) - _MOST_NAMES
    names = ", ".join(item.consumers[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    return f"-> {names}" if names else ""


def _value(value: AttrValue) -> str:
    text = str(value)
    return (
        text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}... ({len(text)} letters)"
    )


def show_neighbourhood(around: OpsAround) -> None:
    """Two trees from the op: what it reads from, and what reads it."""
    ops = {op.row.id: op for op in around.ops}
    for heading, forward in (("reads", False), ("is read by", True)):
        say()
        say(f"{around.op} {heading}, {counted(around.depth, 'step')} far", bold=True)
        lines = list(_Tree(ops, forward).below(around.op, ""))
        say_each(lines[:_MOST_LINES] or ["  nothing"])
        if len(lines) > _MOST_LINES:
            say(f"  and {len(lines) - _MOST_LINES} lines more")
    if around.left_out:
        say(f"{around.left_out} ops farther away were left out")


class _Tree:
    """Lines of a tree; an op that several others lead to is opened once."""

    def __init__(self, ops: Mapping[str, NeighbourOp], forward: bool) -> None:
        self._ops = ops
        self._forward = forward
        self._opened: set[str] = set()

    def below(self, op: str, indent: str) -> Iterator[str]:
        """The lines below *op*."""
        waiting = [(indent, self._next(op))]
        while waiting:
            indent, names = waiting[-1]
            if not names:
                waiting.pop()
                continue
            name = names.pop(0)
            seen = name in self._opened
            self._opened.add(name)
            following = [] if seen else self._next(name)
            again = "  (above)" if seen and self._next(name) else ""
            row = self._ops[name].row
            branch = "|-- " if names else "`-- "
            yield f"{indent}{branch}{_marked(row)} {name}  ({row.type}){again}"
            waiting.append((indent + ("|   " if names else "    "), following))

    def _next(self, op: str) -> list[str]:
        """The neighbours one step further from the centre."""
        here = self._ops[op]
        names = here.read_by if self._forward else here.reads
        return [
            name
            for name in names
            if (self._ops[name].distance > 0) == self._forward and self._ops[name].distance != 0
        ]


def _marked(row: OpRow) -> str:
    return "o" if row.state is None else STATE_MARKS[row.state]
