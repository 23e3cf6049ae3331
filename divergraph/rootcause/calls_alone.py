"""Recorded runs as root cause takes them: each call stands alone on what it read itself.

A recorded run says not which tensor went where, but has the inputs of every call. So a call is a
group of one op that is fed the device's own recorded inputs, and needs no edge.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from divergraph.execute.contract import Array
from divergraph.execute.translate.torch.alone import PARAMETER, CallsAlone, calls_alone, input_name
from divergraph.rootcause import calibration
from divergraph.rootcause.groups.group_runs import GroupRuns
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.run_inputs import RunInputs
from divergraph.rootcause.values import is_numeric, relative, same_shape
from graphstore.contract import RunData
from graphstore.model import AttrValue, DumpTensorRef, ModelGraph, Op
from importers.msprobe.calls_between import is_size


def is_recorded(data: RunData) -> bool:
    """Whether both sides are recorded calls."""
    return data.golden.has_guessed_edges and data.device.has_guessed_edges


def standing_alone(inputs: RunInputs) -> RunInputs:
    """*inputs*, of two recorded runs, with graphs in which no call feeds another; what calls read
    are inputs of the graph, under golden's names in both dumps."""
    sources, recorded = inputs.sources, inputs.data.golden
    data = replace(inputs.data, golden=golden_as_run(inputs.data))
    pairs = zip(data.golden.ops, recorded.ops, strict=True)
    resized = {op.id for op, before in pairs if op is not before}
    golden, device = calls_alone(data.golden), calls_alone(data.device)
    own: dict[str, DumpTensorRef] = {}
    fed: dict[str, DumpTensorRef] = {}
    for name, device_name in _pairs(data, golden, device):
        ref = sources.device_dump.tensors.get(device.sources[device_name])
        other = sources.golden_dump.tensors.get(golden.sources[name])
        if ref is None or ref.statistics is not None:
            continue
        own[name] = ref
        if golden.sources[name][0] in resized:
            continue
        # Of another shape it is measured against nothing, and the device's alone is run on.
        if other is not None and other.statistics is None and _shape(other) == _shape(ref):
            fed[name] = other
    return replace(
        inputs,
        data=replace(data, golden=golden.graph, device=device.graph),
        sources=replace(
            sources,
            golden_dump=replace(sources.golden_dump, graph_inputs=fed),
            device_dump=replace(sources.device_dump, graph_inputs=own),
        ),
    )


def golden_as_run(data: RunData) -> ModelGraph:
    """The golden graph as its calls are run on what the device's read."""
    resized = _resized(data)
    ops = tuple(resized.get(op.id, op) for op in data.golden.ops)
    return replace(data.golden, ops=ops) if resized else data.golden


def _resized(data: RunData) -> dict[str, Op]:
    """Golden's exchanges between ranks that give other numbers of rows to these than the device's
    do, with the device's numbers: they follow from what was chosen before, as inputs do."""
    calls, originals = data.device.op_index(), data.golden.op_index()
    found: dict[str, Op] = {}
    for link in data.links:
        op, twin = originals.get(link.original), calls.get(link.device)
        if op is None or twin is None:
            continue
        own, other = _sizes(twin), _sizes(op)
        if own != other:
            rest = {key: value for key, value in op.attrs.items() if key not in other}
            found[op.id] = replace(op, attrs={**rest, **own})
    return found


def _sizes(op: Op) -> dict[str, AttrValue]:
    return {key: value for key, value in op.attrs.items() if is_size(op, key)}


def _pairs(data: RunData, golden: CallsAlone, device: CallsAlone) -> list[tuple[str, str]]:
    """The inputs of golden calls, each with the same argument of the device's call."""
    calls = golden.graph.op_index()
    found: list[tuple[str, str]] = []
    for link in data.links:
        twin = calls.get(link.original)
        for ref in () if twin is None else twin.inputs:
            assert ref is not None
            place = ref.tensor.removeprefix(input_name(link.original, ""))
            name = input_name(link.device, place)
            if name in device.sources:
                found.append((ref.tensor, name))
    return found


def call_weights(given: Mapping[str, Array]) -> dict[str, Array]:
    """What a call read besides its first argument: a weight, as a rule, that causes try in other
    orders and forms. *given* has its inputs by name."""
    places = {name: name.rpartition(" < ")[2] for name in given}
    return {
        name: given[name]
        for name, place in places.items()
        if place in ("1", "weight") or place.startswith(PARAMETER)
    }


def _shape(ref: DumpTensorRef) -> tuple[int, ...] | None:
    return ref.original_shape or ref.shape


def confirmed(runs: GroupRuns, groups: Sequence[Group]) -> list[Group]:
    """*groups* of one call each, with the error that golden's call has when it is run on golden's
    own inputs (``golden_error``).

    One that does not give golden's output is not run again: the dump does not say all it did, as of
    calls that draw numbers, or of gradients that are not those of the call.
    """
    found: dict[int, Group] = {}
    numbers = [number for number, group in enumerate(groups) if group.ops and not group.failure]
    for chunk in runs.chunks([groups[number] for number in numbers]):
        fed = [_golden_feeds(runs, group) for group in chunk]
        ready = [number for number, given in enumerate(fed) if given is not None]
        made = runs.references(
            [chunk[number] for number in ready], [fed[number] or {} for number in ready]
        )
        references = dict(zip(ready, made, strict=True))
        for number, group in enumerate(chunk):
            found[numbers[len(found)]] = _confirmed(runs, group, references.get(number))
    return [found.get(number, group) for number, group in enumerate(groups)]


def _golden_feeds(runs: GroupRuns, group: Group) -> dict[str, Array] | None:
    """What golden's call read; None where that is not known."""
    given: dict[str, Array] = {}
    for feed in group.feeds:
        value = runs.values.golden_input(feed.tensor)
        if value is None:
            return None
        given[feed.tensor] = value
    return given


def _confirmed(runs: GroupRuns, group: Group, reference: Array | str | None) -> Group:
    if reference is None:
        return group  # what golden read is not known or of another shape: the device's is
    if isinstance(reference, str):
        return replace(group, failure=reference)
    golden = runs.values.golden(group.golden)
    fitting = None if golden is None else same_shape(golden, reference.shape)
    if fitting is None or not (is_numeric(fitting) and is_numeric(reference)):
        return replace(group, failure="golden's output has another shape than its call gives")
    error = relative(fitting, reference)
    if not error <= calibration.LEAST_LIMIT:
        far = f"off by {error:.2g}" if math.isfinite(error) else "not finite"
        said = f"golden's call, run on golden's inputs, does not give golden's output ({far})"
        return replace(group, failure=said)
    return replace(group, golden_error=error)
