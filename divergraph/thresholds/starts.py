"""Where errors over a limit start, and which of them are no op's fault."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from divergraph.thresholds.recorded.call_pairs import CallPairs
from divergraph.thresholds.recorded.judgement import RecordedJudgement, judge_calls
from divergraph.thresholds.recorded.statistics_only import DumpedStatistics
from divergraph.thresholds.verdicts import worst
from graphstore.model import (
    UNIT_ROUNDOFF,
    Comparison,
    DType,
    Figures,
    LineageLink,
    ModelGraph,
    Op,
    SideFigures,
    TensorIO,
)
from graphstore.traverse.algorithms import ancestors, descendants, first_diverging
from graphstore.traverse.arrays import GraphArrays
from graphstore.traverse.measured_ops import measured_ops, over_ops
from importers.msprobe.job_names import bodies_of

_GROWN = 3.0
_GROWN_AT_LEAST = 0.15
_BUILT_IN = "default"


@dataclass(frozen=True, slots=True)
class Starts:
    """``origins`` in execution order. ``choices`` are ops that would be origins if they had not
    chosen between nearly equal values, with the explanation; ``grown`` are origins after such an
    op, where the error exceeds what a few different choices explain. ``recorded`` says more of two
    recorded runs."""

    origins: tuple[str, ...] = ()
    choices: Mapping[str, str] = field(default_factory=dict)
    grown: frozenset[str] = frozenset()
    recorded: RecordedJudgement = field(default_factory=RecordedJudgement)

    def notes(self, ops: Mapping[str, Op]) -> Iterator[str]:
        """The choices as sentences."""
        for op, why in self.choices.items():
            yield f"{op} ({ops[op].type}): {why}"
        if self.recorded.note:
            yield self.recorded.note


def starts_by_limits(
    arrays: GraphArrays,
    graph: ModelGraph,
    comparisons: Sequence[Comparison],
    outputs: Mapping[str, Sequence[Comparison]],
    golden: ModelGraph | None = None,
    links: Iterable[LineageLink] = (),
    statistics: DumpedStatistics | None = None,
) -> Starts:
    """The ops that are over a limit while none of their nearest measured ancestors is. Of two
    recorded runs, *golden* with *links*, the calls that make more error than they read, or break
    laws by their own *statistics*."""
    if golden is not None and golden.has_guessed_edges and graph.has_guessed_edges:
        return calls_by_limits(CallPairs(graph, golden, links, comparisons, statistics))
    measured, over = measured_ops(arrays, comparisons), over_ops(arrays, comparisons)
    first = [arrays.ids[number] for number in first_diverging(arrays, measured, over)]
    inputs = [one for one in comparisons if one.compared and one.io is TensorIO.INPUT]
    is_over = {item.op for item in comparisons if item.over}
    fed = ((one.op, one.over) for one in inputs)
    return starts_among(arrays, graph, first, is_over, outputs, fed)


def starts_among(
    arrays: GraphArrays,
    graph: ModelGraph,
    first: Iterable[str],
    over: Collection[str],
    outputs: Mapping[str, Sequence[Comparison]],
    inputs: Iterable[tuple[str, bool]],
) -> Starts:
    """Those of the *first* ops over a limit that are no choice, and where more grows of one that
    is. *over* are all ops with a tensor over a limit; *inputs* says of the op of each compared
    input whether that is."""
    explained = owners_around(graph, over)
    ops = graph.op_index()
    fed = _inputs_over(inputs) if graph.has_guessed_edges else {}
    origins: set[str] = set()
    choices: dict[str, str] = {}
    for op in first:
        if op in explained or (origins and graph.has_guessed_edges and fed.get(op, True)):
            continue
        why = _why(ops[op].type, outputs.get(op, ()))
        if why:
            choices[op] = why
        else:
            origins.add(op)
    grown = {
        inherited_from
        for op in choices
        if (inherited_from := _grown(arrays, ops, outputs, op)) is not None
    }
    starting: set[str] = set()
    for op in sorted(grown - origins, key=arrays.number.__getitem__):
        if not _follows(arrays, op, origins | starting):
            starting.add(op)
    in_order = sorted(origins | starting, key=arrays.number.__getitem__)
    return Starts(tuple(in_order), choices, frozenset(starting))


def calls_by_limits(pairs: CallPairs, right: Collection[str] = ()) -> Starts:
    """The calls of two recorded runs that make more error than they read, but for those that were
    run again and are *right*: they make it of what they read, as a choice does."""
    choices: dict[str, str] = {}

    def excuse(op: str) -> str:
        if op in right:
            return "it gives what its own inputs give"
        call = pairs.ops[op]
        inside = [
            tensor.dtype for before in pairs.before(call) for tensor in pairs.ops[before].outputs
        ]
        if why := _why(call.type, pairs.outputs.get(op, ()), inside):
            choices[op] = why
        return why

    judgement = judge_calls(pairs, excuse)
    return Starts(tuple(judgement.causes), choices, recorded=judgement)


def _inputs_over(inputs: Iterable[tuple[str, bool]]) -> dict[str, bool]:
    """Whether a dumped input of an op is over a limit; without the ops that have none. Where edges
    are guessed from values they break just where values differ: the inputs say what edges cannot.
    """
    inputs_over: dict[str, bool] = {}
    for op, is_over in inputs:
        inputs_over[op] = inputs_over.get(op, False) or is_over
    return inputs_over


def _why(op_type: str, outputs: Sequence[Comparison], inside: Sequence[DType | None] = ()) -> str:
    """Why no output over a limit is a fault, or None. A limit set by the user always counts.
    *inside* are types it was computed in, which autocast makes others than that of the output."""
    reason = ""
    for item in outputs:
        if item.over:
            built_in = item.limit.startswith(_BUILT_IN)
            reason = chose_otherwise(op_type, item, outputs) if built_in else ""
            reason = reason or (_cancelled(op_type, item, outputs, inside) if built_in else "")
            if not reason:
                return ""
    return reason


def _grown(
    arrays: GraphArrays,
    ops: Mapping[str, Op],
    outputs: Mapping[str, Sequence[Comparison]],
    start: str,
) -> str | None:
    """The first op after *start* whose error a few different choices do not explain."""
    item = worst(one for one in outputs[start] if one.over)
    assert item is not None
    assert item.metrics is not None
    limit = max(_GROWN * item.metrics.relative_euclidean_distance, _GROWN_AT_LEAST)
    for number in descendants(arrays, [arrays.number[start]]):
        op: str = arrays.ids[number]
        later = worst(outputs.get(op, ()))
        if later is None or later.metrics is None or not later.over:
            continue
        error = later.metrics.relative_euclidean_distance
        if not error <= limit:
            if not _why(ops[op].type, outputs[op]):
                return op
            limit = _GROWN * error  # what that choice made goes on, too
    return None


def _follows(arrays: GraphArrays, op: str, others: set[str]) -> bool:
    before = set(ancestors(arrays, [arrays.number[op]]).tolist())
    return any(arrays.number[other] in before for other in others)


def owners_around(graph: ModelGraph, inner: Collection[str]) -> set[str]:
    """The ops in whose bodies, at any depth, an op of *inner* is."""
    owners = {body.name: body.owner for body in graph.subgraphs}
    if not owners:
        return set()
    bodies = {op.id: bodies_of(op) for op in graph.ops}
    around: set[str] = set()
    waiting = [*inner]
    while waiting:
        outer = {owners.get(body, "") for body in bodies.get(waiting.pop(), ())} - {"", *around}
        around |= outer
        waiting += outer
    return around


# The gradient of max pooling goes to one of the values that were largest, that of ReLU through
# those above zero; sorting, rounding and comparing choose, too. Where two values are equal but
# for rounding, the device may choose the other: few elements are then quite different, and no
# op made a mistake.

_RANKS = re.compile(r".*(TopK|topk|Sort|sort$|NonMaxSuppression|MaxPoolWithArgmax|ArgMaxWithValue)")
_MOVES = re.compile(r"MaxPool.*Grad|.*MaxPool.*Backward|ReduceMax.*Grad|.*max_pool\w*\.backward")
_GATES = re.compile(
    r".*(Relu|ReLU|Threshold|Hardtanh|Clip|Abs|Maximum|Minimum).*(Grad|Backward)|"
    r".*(relu|threshold|hardtanh|clamp|abs|maximum|minimum)\w*\.backward"
)
_DECIDES = re.compile(
    r"(argmax|argmin|(__)?(gt|lt|ge|le|eq|ne)(__)?$|sign$|round|floor|ceil|"
    r"ArgMax|ArgMin|Greater|Less|Equal|NotEqual|Sign|Round|Rint|Floor|Ceil|NonMaxSuppression|"
    r"Quantize|AscendQuant|OneHot|InTopK)"
)
_SATURATES = re.compile(r".*(Tanh|Sigmoid|Erf|Softsign)(?!.*(Grad|Backward))")
_TWO_ENDS = 0.9
"""Share of the largest possible variance, (high - mean) (mean - low) by Bhatia and Davis, from
which nearly all values are at one of the two ends."""
_FEW = 0.005
_AT_LEAST = 2
_NOT_TINY = 64
_HALF = 0.5
_INDICES = frozenset({DType.INT32, DType.INT64, DType.UINT32, DType.UINT16, DType.UINT64})


def chose_otherwise(op_type: str, item: Comparison, outputs: Sequence[Comparison] = ()) -> str:
    """Why the difference of an output can be a choice between near equals, in words; empty
    if it cannot: the op does not choose, more than 0.5 % of the elements differ (two of
    64 may), or they differ in another way than a choice makes them. Indices may all differ if the
    values they stand for, among the *outputs* of the same op, are right."""
    figures, metrics = item.figures, item.metrics
    if figures is None or metrics is None or metrics.device_nonfinite or not figures.bad:
        return ""
    if _RANKS.match(op_type) and item.device_dtype in _INDICES and _values_hold(outputs):
        return "it gives other indices of values that are the same, as when values tie"
    allowed = _AT_LEAST if metrics.elements >= _NOT_TINY else 0
    if figures.bad > max(allowed, _FEW * metrics.elements):
        return ""
    amount = f"{figures.bad} of {metrics.elements} elements"
    if _MOVES.match(op_type) and _only_moved(figures, metrics.elements):
        return f"{amount} hold what golden has in other places, as when two values tie"
    if _GATES.match(op_type) and 0.0 in (figures.worst_device, figures.worst_golden):
        return f"{amount} are let through on one side only, as when a value is close to zero"
    if _DECIDES.match(op_type):
        return f"{amount} were decided otherwise, as when a value is close to the border"
    if _SATURATES.match(op_type) and _all_at_two_ends(figures.golden):
        return f"{amount} differ where all others are at either end, as when a value is near zero"
    return ""


def _cancelled(
    op_type: str,
    item: Comparison,
    outputs: Sequence[Comparison],
    inside: Sequence[DType | None],
) -> str:
    """Why the difference of a weight's gradient can be rounding alone, in words: softmax does not
    see the bias of keys, so its gradient is a sum in which nothing but rounding is left."""
    types = (item.device_dtype, item.golden_dtype, *inside)
    units = [UNIT_ROUNDOFF.get(dtype) for dtype in types if dtype]
    if not op_type.endswith(".parameters_grad") or item.metrics is None or None in units:
        return ""
    largest = max(map(_golden_size, outputs), default=0.0)
    if not item.metrics.max_absolute_error <= max(filter(None, units), default=0.0) * largest:
        return ""
    return (
        "off by no more than one rounding of the layer's other gradients, as sums that cancel are"
    )


def _golden_size(item: Comparison) -> float:
    """The largest golden value by size; of statistics three standard deviations: few are more."""
    if item.figures is not None:
        return max(abs(item.figures.golden.low), abs(item.figures.golden.high))
    deviation = item.metrics.standard_deviation[3] if item.metrics is not None else 0.0
    return 3 * deviation if deviation > 0.0 else 0.0


def _all_at_two_ends(side: SideFigures) -> bool:
    largest_variance = (side.high - side.mean) * (side.mean - side.low)
    return largest_variance > 0.0 and side.std * side.std >= _TWO_ENDS * largest_variance


def _values_hold(outputs: Sequence[Comparison]) -> bool:
    values = [one for one in outputs if one.compared and one.device_dtype not in _INDICES]
    return bool(values) and not any(one.over for one in values)


def _only_moved(figures: Figures, elements: int) -> bool:
    """What left one place came to another: the sum is the same, where a lost or invented
    value would change it."""
    device, golden = figures.device, figures.golden
    one = abs(figures.worst_device - figures.worst_golden)
    return (
        abs(device.zeros - golden.zeros) <= figures.bad
        and abs(device.mean - golden.mean) * elements <= _HALF * one
    )
