"""Match what names leave open, in waves outwards from what is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import itemgetter

from divergraph.execute.contract import DEFAULT_MEMORY, Executor
from divergraph.graphs.lineage import Lineage, Unmatched
from divergraph.graphs.lineage.golden_tensors import Counterpart, Outputs
from divergraph.graphs.lineage.linking import PASSING_ON, relinked
from divergraph.graphs.matching.axis_orders import with_axis_orders
from divergraph.graphs.matching.by_value import ValueLookup
from divergraph.graphs.matching.contradicted import contradicted
from divergraph.graphs.matching.judging import CounterpartChoice
from divergraph.graphs.matching.matched import Matched
from divergraph.graphs.matching.pins import NO_PINS, Pins
from divergraph.graphs.matching.swallowed import with_swallowed
from divergraph.graphs.matching.waves import Waves
from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.values.dumped_values import DumpedValues
from graphstore.model import (
    Framework,
    LineageLink,
    LineageRule,
    ModelGraph,
    Reason,
    TensorMatch,
    TensorRef,
)
from importers.dumps.index import DumpIndex


@dataclass(frozen=True, slots=True)
class MatchSources:
    """What matching uses besides the graphs: dumps, the user's pins, the golden model.
    ``open_executor`` is called if ops have to be re-run; it returns None if they cannot be. About
    ``memory`` bytes of values are held at once."""

    golden_dump: DumpIndex
    device_dump: DumpIndex
    open_executor: Callable[[], Executor | None] = lambda: None
    pins: Pins = NO_PINS
    memory: int = DEFAULT_MEMORY


def match_more(
    lineage: Lineage, device: ModelGraph, sources: MatchSources, progress: Progress = NO_PROGRESS
) -> Lineage:
    """*lineage* with counterparts for outputs that had none, where the evidence is strong enough.
    Otherwise the output stays unmatched, with the best guess in its detail."""
    if device.framework is Framework.ASCEND or lineage.recorded:
        return _pinned_only(
            lineage, sources.pins
        )  # attributes, or the order of calls, gave everything else
    memory = sources.memory // 4  # the rest is for re-running ops
    values = (DumpedValues(dump, memory) for dump in (sources.device_dump, sources.golden_dump))
    matched = Matched(lineage, device, sources.pins, *values)
    ordered = _order(lineage, device, matched)
    _apply(sources.pins, matched.outputs)
    matched.list_takers()
    open_tensors = [ref for op in device.ops for ref in op.makes if matched.is_open(ref)]
    if not open_tensors and not ordered and sources.pins is NO_PINS:
        return lineage
    if open_tensors:
        progress.stage("matching tensors by value", len(open_tensors))
        _by_values(matched, open_tensors, progress)
        progress.stage("matching tensors by re-execution")
        executor = sources.open_executor() if any(map(matched.is_open, open_tensors)) else None
        Waves(matched, device, open_tensors, executor, sources.memory // 2).run(progress)
    linked = relinked(matched.outputs, lineage.golden, device)
    return replace(
        linked, outputs={**linked.outputs, **dict(_unmatched_outputs(linked.outputs, matched))}
    )


def _pinned_only(lineage: Lineage, pins: Pins) -> Lineage:
    if pins is NO_PINS:
        return lineage
    outputs = dict(lineage.outputs)
    _apply(pins, outputs)
    links = [
        LineageLink(device.op, golden.op, LineageRule.PINNED, device.port, golden.port)
        for device, golden in pins.pinned.items()
    ]
    return replace(lineage, outputs=outputs, links=(*lineage.links, *links))


def _apply(pins: Pins, outputs: dict[TensorRef, Counterpart]) -> None:
    """Apply the user's pins to *outputs*."""
    for device, golden in pins.pinned.items():
        outputs[device] = TensorMatch(device, golden, LineageRule.PINNED)
    for ref, output in outputs.items():
        if isinstance(output, TensorMatch) and not pins.allows(ref, output.golden):
            outputs[ref] = Unmatched(Reason.UNMATCHED, "forbidden by a match file")


def _order(lineage: Lineage, device: ModelGraph, matched: Matched) -> bool:
    """Correct what names suggest about orders of axes and tensors; False if nothing changed."""
    values = matched.device_values, matched.golden_values
    moved_matches = with_axis_orders(lineage, device, *values)
    matched.outputs.update(moved_matches)
    wrong = contradicted(lineage, matched.outputs, *values)
    matched.outputs.update(wrong)
    swallowed = with_swallowed(lineage, matched.outputs, *values)
    matched.outputs.update(swallowed)
    return bool(moved_matches or wrong or swallowed)


def _by_values(matched: Matched, open_tensors: list[TensorRef], progress: Progress) -> None:
    """Match tensors whose values are those of exactly one golden tensor."""
    lookup = ValueLookup(matched.golden_values, matched.reach)
    judgements: list[tuple[float, int, CounterpartChoice]] = []
    for place, ref in enumerate(open_tensors):
        progress.step(note=ref.op)
        value = matched.device_values.of(ref)
        if value is None:
            continue
        candidates = lookup.candidates(value, blocked=_is_blocked(matched, ref))
        judgement = matched.judged(ref, candidates)
        if judgement is not None:
            judgements.append((judgement.best.apart, place, judgement))
    for _, place, judgement in sorted(judgements, key=itemgetter(0, 1)):
        ref = open_tensors[place]
        best = judgement.best
        if matched.is_worse_than_another(ref, best) or matched.belongs_to_input(ref, best):
            continue
        rule = LineageRule.SAME_VALUES
        if best.reorder is not None:
            rule = LineageRule.SAME_VALUES_REORDERED
        matched.settle(ref, rule, judgement)


def _unmatched_outputs(outputs: Outputs, matched: Matched) -> Iterator[tuple[TensorRef, Unmatched]]:
    """What is said of tensors that no rule matched."""
    for ref, output in outputs.items():
        if not isinstance(output, Unmatched) or ref.op in matched.device_constants:
            continue
        op = matched.device_ops[ref.op]
        source = op.source()
        if output.reason is Reason.INSERTED and op.type in PASSING_ON and source is not None:
            source_output = outputs.get(source)
            if isinstance(source_output, Unmatched) and source.op not in matched.device_constants:
                reason = f"{op.type} hands on {source}, for which no counterpart was found"
                yield ref, Unmatched(Reason.UNMATCHED, reason)
        elif output.reason is Reason.UNMATCHED and matched.device_values.has(ref):
            why = "no golden tensor has its values, and no original gives them"
            if matched.known(op) is None:
                why = "no golden tensor has its values, nor is it known what it is computed from"
            elif matched.device_values.of(ref) is None:
                why = "none of its values were dumped"
            elif not matched.is_unknown(ref):
                why = "it is one value all over, which tells nothing"
            yield ref, replace(output, detail=f"{output.detail}; {why}")


def _is_blocked(matched: Matched, ref: TensorRef) -> bool:
    output = matched.outputs[ref]
    blocked = isinstance(output, Unmatched) and output.reason is Reason.LAYOUT_UNSUPPORTED
    return blocked or matched.device_ops[ref.op].type == "ReorderInput"
