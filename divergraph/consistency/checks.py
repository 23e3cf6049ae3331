"""Checks of a dump without a golden side: its own values must be consistent. Each finding names the
first op of the graph that shows a problem none of the nearest measured ops before it has; ops after
it are only counted."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from divergraph.consistency.first_ops import finding, first_ops
from divergraph.consistency.inputs import InputChecks, check_inputs
from divergraph.consistency.repeat import RepeatChecks, check_repeat
from divergraph.consistency.values import FLOAT16_MAX, Values, values_of
from divergraph.jobs.progress import NO_PROGRESS, Progress
from graphstore.model import DType, EvidenceValue, Finding, ModelGraph, Op, TensorIO
from graphstore.traverse.arrays import GraphArrays
from graphstore.traverse.topological_order import graph_arrays
from importers.dumps.index import DumpIndex

NAN = "nan_appears"
INFINITY = "infinity_appears"
SATURATED = "float16_saturated"
RECORDED = "overflow_recorded"
ALL_ZERO = "all_zero"
CONSTANT = "constant"

_FLOATS = frozenset(
    {DType.FLOAT16, DType.FLOAT32, DType.FLOAT64, DType.BFLOAT16, DType.FLOAT8_E4M3FN}
)
_FEW = 8
_NOTHING_BEFORE = 0.6
"""How sure it is that an op is the first of which nothing before was dumped."""
_MAKES_CONSTANTS = re.compile(
    r"(Const|Fill|Zeros|Ones|Shape|Size|Rank|Range|Variable|Data|Broadcast|Greater|Less|Equal|"
    r"NotEqual|Logical|IsFinite|IsNan|Sign|Floor|Clip|Dropout|DropOut)"
)
_MASKS = re.compile(r"(Const|Fill|Select|Where|Mask|Log)")


@dataclass(frozen=True, slots=True)
class ConsistencyReport:
    """What one dump, or two, show by themselves."""

    tensors: Annotated[int, "outputs looked at"]
    inputs: Annotated[int, "dumped inputs held against their producers' outputs"]
    inputs_skipped: Annotated[int, "those that could not be"]
    repeated: Annotated[int, "with --against, outputs in both dumps"]
    differing: Annotated[int, "those of them that are not equal"]
    findings: Annotated[tuple[Finding, ...], "one of confidence 0.5 or more makes the exit code 1"]


def check_consistency(
    graph: ModelGraph,
    dump: DumpIndex,
    against: DumpIndex | None = None,
    progress: Progress = NO_PROGRESS,
) -> ConsistencyReport:
    """Everything *dump* shows by itself, and compared *against* a second dump of the same graph.
    Findings are grouped by kind of check, in execution order; a confidence below 0.5 means that
    there is also a harmless explanation."""
    arrays = graph_arrays(graph)
    progress.stage("looking at values", len(dump.tensors))
    seen = _Seen(graph, arrays, dump, dict(_outputs(graph, dump, progress)))
    progress.stage("comparing inputs with their producers' outputs")
    inputs = check_inputs(graph, list(arrays.ids), dump)
    repeat = RepeatChecks((), 0, 0)
    if against is not None:
        progress.stage("comparing both dumps")
        repeat = check_repeat(graph, arrays, dump, against)
    return _report(dump, seen, inputs, repeat)


def _report(
    dump: DumpIndex, seen: _Seen, inputs: InputChecks, repeat: RepeatChecks
) -> ConsistencyReport:
    findings = (*inputs.findings, *repeat.findings, *recorded(dump), *seen.findings())
    return ConsistencyReport(
        len(seen.values), inputs.held, inputs.skipped, repeat.held, repeat.differing, findings
    )


def _outputs(
    graph: ModelGraph, dump: DumpIndex, progress: Progress
) -> Iterator[tuple[tuple[str, int], Values]]:
    ops = graph.op_index()
    for (op, io, port), ref in sorted(dump.tensors.items(), key=lambda item: item[0]):
        progress.step(note=op)
        if io is not TensorIO.OUTPUT:
            continue
        outputs = ops[op].outputs
        origin = outputs[port].origin if port < len(outputs) else None
        values = values_of(ref, None if origin is None else origin.layout)
        if values is not None:
            yield (op, port), values


def recorded(dump: DumpIndex) -> Iterator[Finding]:
    """The overflows the device recorded, the earliest first, one for each op."""
    named: set[str] = set()
    for record in dump.overflows:
        place = record.op or f"task {record.task} of stream {record.stream}"
        if place in named:
            continue
        named.add(place)
        yield finding(
            RECORDED,
            f"the device recorded an overflow in {place}: {record.text()}",
            (record.op or "", TensorIO.OUTPUT, -1),
            1.0,
            {
                "unit": record.unit,
                "status": record.status,
                "causes": list(record.causes),
                "timestamp": record.timestamp,
                "file": record.path.name,
            },
        )


@dataclass(frozen=True)
class _Seen:
    """The values of all dumped outputs of a graph, by (op, port)."""

    graph: ModelGraph
    arrays: GraphArrays
    dump: DumpIndex
    values: Mapping[tuple[str, int], Values]
    ops: Mapping[str, Op] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ops", self.graph.op_index())

    def findings(self) -> Iterator[Finding]:
        yield from self._births()
        yield from self._first(lambda _op, _port, seen: seen.saturated > 0, self._saturated)
        yield from self._first(self._is_flat, self._flat)

    def _births(self) -> Iterator[Finding]:
        """Where values that are no numbers appear: in an op that made them of numbers."""
        others = False
        for birth in self._first(lambda _op, _port, seen: seen.nonfinite > 0, self._nonfinite):
            if self._is_told(birth.op, math.inf) or self._holds_nonfinite(birth.op):
                continue
            if self._took(birth.op, lambda values: values.nonfinite > 0):
                continue
            if others and self.graph.has_guessed_edges and birth.confidence <= _NOTHING_BEFORE:
                continue  # no statistics join tensors without numbers: it may well be behind them
            others = True
            yield birth

    def _took(self, op: str, shows: Callable[[Values], bool]) -> bool:
        """Whether a dumped input of the op *shows* it, whatever made it."""
        for port in range(len(self.ops[op].inputs)):
            ref = self.dump.tensors.get((op, TensorIO.INPUT, port))
            values = None if ref is None else values_of(ref)
            if values is not None and shows(values):
                return True
        return False

    def _is_told(self, op: str, size: float) -> bool:
        """Whether an argument of a recorded call is a number of *size* or none: it is to make such
        values, as the fill value of a mask is."""
        arguments = self.ops[op].attrs.values() if self.graph.has_guessed_edges else ()
        return any(
            isinstance(value, float) and (math.isnan(value) or abs(value) >= size)
            for value in arguments
        )

    def _holds_nonfinite(self, op: str) -> bool:
        """Whether one of the calls inside of a call puts such values out: it is the one."""
        if not self.graph.has_guessed_edges:
            return False
        inside = f"{op}/"
        makers = (maker for (maker, _), seen in self.values.items() if seen.nonfinite)
        return any(maker.startswith(inside) for maker in makers)

    def _is_flat(self, op: Op, port: int, seen: Values) -> bool:
        dtype = op.outputs[port].dtype if port < len(op.outputs) else None
        return seen.constant and seen.count > _FEW and (dtype is None or dtype in _FLOATS)

    def _first(
        self,
        shows: Callable[[Op, int, Values], bool],
        describe: Callable[[Op, int, Values, int, bool], Finding | None],
    ) -> Iterator[Finding]:
        """What *describe* says of each first op with an output that *shows* the problem."""
        port_of: dict[str, int] = {}
        for (op, port), seen in self.values.items():
            if shows(self.ops[op], port, seen):
                port_of.setdefault(op, port)
        for first in first_ops(self.arrays, (op for op, _ in self.values), port_of):
            op, port = first.op, port_of[first.op]
            described = describe(
                self.ops[op], port, self.values[op, port], first.later, first.known
            )
            if described is not None:
                yield described

    def _inputs_vary(self, op: Op) -> bool:
        """Whether all inputs of *op* were dumped and none is constant."""
        refs = [ref.producer for ref in op.inputs if ref is not None]
        if not refs or None in refs:
            return False
        values = [self.values.get((ref.op, ref.port)) for ref in refs if ref is not None]
        return all(seen is not None and not seen.constant for seen in values)

    def _nonfinite(
        self, op: Op, port: int, seen: Values, after: int, has_measured_before: bool
    ) -> Finding:
        label, what = (NAN, "NaN") if seen.nans else (INFINITY, "infinity")
        before = (
            "the measured ops before it have none"
            if has_measured_before
            else "nothing before it was dumped"
        )
        many = f"{seen.nonfinite}" if seen.first >= 0 else f"at least {seen.nonfinite}"
        sentence = (
            f"{what} appears first in {op.id} ({op.type}): {many} of {seen.count} values "
            f"of output {port}; {before}"
        )
        confidence = 0.9 if has_measured_before else _NOTHING_BEFORE
        if not seen.nans and _MASKS.match(op.type):
            confidence, sentence = 0.4, f"{sentence}; possibly intended, as in a mask"
        return _finding(label, sentence, op, port, confidence, seen, after)

    def _saturated(
        self, op: Op, port: int, seen: Values, after: int, _has_measured_before: bool
    ) -> Finding | None:
        if self.graph.has_guessed_edges and (
            self._is_told(op.id, FLOAT16_MAX)
            or self._took(op.id, lambda values: values.saturated > 0)
        ):
            return None
        sentence = (
            f"{op.id} ({op.type}) reaches the largest float16, 65504, in {seen.saturated} of "
            f"{seen.count} values of output {port}: the true values are likely larger"
        )
        return _finding(SATURATED, sentence, op, port, 0.8, seen, after)

    def _flat(
        self, op: Op, port: int, seen: Values, after: int, has_measured_before: bool
    ) -> Finding | None:
        if not has_measured_before or not self._inputs_vary(op) or _MAKES_CONSTANTS.match(op.type):
            return None
        what = "all zero" if seen.zero else f"all {seen.low:g}"
        sentence = (
            f"the {seen.count} values of output {port} of {op.id} ({op.type}) are {what}, "
            "those before it are not; possibly intended, which the golden values would show"
        )
        return _finding(ALL_ZERO if seen.zero else CONSTANT, sentence, op, port, 0.3, seen, after)


def _finding(
    label: str, sentence: str, op: Op, port: int, confidence: float, seen: Values, after: int
) -> Finding:
    evidence: dict[str, EvidenceValue] = {
        "elements": seen.count,
        "lowest": seen.low,
        "highest": seen.high,
        "nans": seen.nans,
        "infinities": seen.infinities,
        "saturated": seen.saturated,
        "first": seen.first,
        "later_ops": after,
    }
    return finding(label, sentence, (op.id, TensorIO.OUTPUT, port), confidence, evidence)
