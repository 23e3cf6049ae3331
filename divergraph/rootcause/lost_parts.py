"""Parts of results that hold nothing any more: one value where golden's vary, or stuck to a limit.

Rounding explains such a part as well, if a step is wider than all that is in it: class scores on
the scale of boxes in pixels, or 0.3 added to 65504 in half precision. No op makes more error than
its arithmetic does then, yet the result is lost. So outputs of the model, and the operands of each
Concat, are held against golden; where one is lost, it is followed back to the op that was given it
and did not give it on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from divergraph.execute.contract import Array
from divergraph.results.damage import VISIBLE, one_valued_slices
from divergraph.rootcause.causes.limits import SURE
from divergraph.rootcause.causes.words import ranges_text
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.groups.op_graph import Source
from divergraph.rootcause.prepared import PreparedRun
from divergraph.rootcause.run_inputs import Splits
from divergraph.rootcause.values import same_shape
from divergraph.text.numbers import small_number
from graphstore.model import ErrorSplit, Finding, FindingKind, Guilt, Op, Role, TensorRef
from graphstore.traverse.algorithms import descendants
from graphstore.traverse.topological_order import graph_arrays

LABEL = "lost_part"
_LEAST_VALUES = 4
"""Fewer elements may hold one value by chance, and the largest of a part is no limit."""
_EXACT = 2.0**-20
"""The least spread of a part on the way to a result, relative to its size: float32 keeps it."""
_OWN_USE = 1 / 64
"""The least range of one slice, as a share of that of its tensor, that may not be lost: 8 bits on a
scale that fits the tensor have 127 steps to each side, so what is within one of them is rounding.
Operands of a Concat are other quantities, of any size. Changes the verdict of healthy detectors in
8 bits, whose rarest class is all zero."""
_STUCK = 0.95
"""The share of elements on two values from which the others do not count."""
_CUT = 0.05
"""The least share of elements at a limit for a part to be cut off there: calibration cuts off one
per cent or less."""
_CUT_ERROR = 0.3
"""The least error of these elements, relative to the spread of the part."""
_LARGEST_AXIS = 4096


@dataclass(frozen=True, slots=True)
class LostPart:
    """Slices of an axis that are lost, of the whole for no axis. ``operand`` is the number of the
    operand of a Concat that they are."""

    how: str
    axis: int | None = None
    slices: tuple[int, ...] = ()
    operand: int | None = None

    def of(self, value: Array) -> Array:
        """The part of *value*."""
        return value if self.axis is None else np.take(value, self.slices, self.axis)


def with_lost_parts(run: PreparedRun, splits: Splits) -> Splits:
    """*splits* with the ops guilty that lose parts of results, though their arithmetic explains it.

    What is lost behind an op that is guilty already is a consequence of that.
    """
    arrays = graph_arrays(run.inputs.data.device)
    for end in _ends(run, splits):
        guilty = {ref.op for ref, split in splits.by_output.items() if split.guilt is Guilt.GUILTY}
        starts = [arrays.number[op] for op in guilty]
        later_ops = guilty | {arrays.ids[number] for number in descendants(arrays, starts)}
        culprit = None if end.op in later_ops else _culprit(run, splits, end)
        if culprit is not None and culprit[0].op not in later_ops:
            splits = _convicted(run, splits, *culprit)
    return splits


def _ends(run: PreparedRun, splits: Splits) -> list[TensorRef]:
    """The outputs of the model, and of each Concat, in which something is lost."""
    results = set(run.inputs.data.device.outputs)
    arrays = graph_arrays(run.inputs.data.device)
    ends = [
        ref
        for ref in splits.by_output
        if ref in run.compared
        and (ref in results or _concat(run, ref) is not None)
        and _lost_of_golden(run, ref, visible=True)
    ]
    return sorted(ends, key=lambda ref: (arrays.number[ref.op], ref.port))


def _concat(run: PreparedRun, ref: TensorRef) -> Op | None:
    """The golden Concat whose output a device output stands for."""
    item = run.compared.get(ref)
    op = None if item is None or item.golden is None else run.golden.ops[item.golden.op]
    return op if op is not None and "Concat" in op.type else None


def _lost_of_golden(run: PreparedRun, ref: TensorRef, *, visible: bool) -> list[LostPart]:
    item = run.compared[ref]
    device = run.values.device(ref)
    golden = None if item.golden is None else run.values.golden(item.golden)
    if device is None or golden is None or np.array_equal(device, golden):
        return []
    if golden.shape != device.shape and (golden := same_shape(golden, device.shape)) is None:
        return []
    sizes = _operand_sizes(run, ref, golden)
    return list(lost_parts(device, golden, sizes, visible=visible))


def _operand_sizes(run: PreparedRun, ref: TensorRef, value: Array) -> tuple[int, list[int]] | None:
    """The axis of a Concat, and how many slices each operand has."""
    op = _concat(run, ref)
    axis = None if op is None else op.attrs.get("axis", op.attrs.get("concat_dim"))
    if op is None or not isinstance(axis, int) or not -value.ndim <= axis < value.ndim:
        return None
    sizes: list[int] = []
    for op_input in op.inputs:
        shape = None
        if op_input is not None and op_input.producer is not None:
            operand = run.values.golden(op_input.producer)
            shape = None if operand is None else operand.shape
        if shape is None or len(shape) != value.ndim:
            return None
        sizes.append(shape[axis])
    return (axis % value.ndim, sizes) if sum(sizes) == value.shape[axis] else None


def lost_parts(
    device: Array,
    expected: Array,
    operands: tuple[int, Sequence[int]] | None = None,
    *,
    visible: bool = False,
) -> Iterator[LostPart]:
    """The parts of *device* in which nothing is left of what is *expected*: all of it, operands of
    a Concat (its axis, and their numbers of slices), or single slices of an axis.

    With *visible* only parts that vary by more than a few per cent.
    """
    if device.dtype.kind not in "biuf" or expected.dtype.kind not in "biuf":
        return
    d, r = device.astype(np.float64), expected.astype(np.float64)
    if d.size < _LEAST_VALUES or not (np.isfinite(d).all() and np.isfinite(r).all()):
        return
    how = _lost(d, r, visible=visible)
    if how:
        yield LostPart(how)
        return
    operand_slices: set[int] = set()
    if operands is not None:
        axis, sizes = operands
        start = 0
        for number, size in enumerate(sizes):
            slices = tuple(range(start, start + size))
            start += size
            part = LostPart("", axis, slices, number)
            if how := _lost(part.of(d), part.of(r), visible=visible):
                operand_slices |= set(slices)
                yield replace(part, how=how)
    for axis in range(d.ndim):
        if not 2 <= d.shape[axis] <= _LARGEST_AXIS or d.size // d.shape[axis] < _LEAST_VALUES:
            continue
        lost_before = operand_slices if operands is not None and operands[0] == axis else set()
        lost = np.flatnonzero(one_valued_slices(d, r, axis, _least(visible=visible)))
        slices = tuple(n for n in lost.tolist() if n not in lost_before)
        if slices:
            yield LostPart("one value each", axis, slices)


def _least(*, visible: bool) -> float:
    return VISIBLE if visible else _EXACT


def _lost(d: Array, r: Array, *, visible: bool) -> str:
    """How a part is lost; "" if it is not."""
    spread, size = float(np.std(r)), float(np.sqrt(np.mean(np.square(r))))
    if d.size < _LEAST_VALUES or spread <= size * _least(visible=visible):
        return ""
    if np.ptp(d) == 0.0:
        return "one value"
    values, counts = np.unique(d, return_counts=True)
    if np.sort(counts)[-2:].sum() >= _STUCK * d.size:
        others = np.sort(np.unique(r, return_counts=True)[1])[-2:].sum()
        if others < d.size / 2 and np.sqrt(np.mean(np.square(d - r))) > spread / 2:
            return "hardly more than two values"
    for limit, sign in ((values[-1], 1.0), (values[0], -1.0)):
        stuck = d == limit
        beyond = np.where(stuck, np.maximum(sign * (r - limit), 0.0), 0.0)
        error = float(np.sqrt(np.mean(np.square(beyond))))
        several = np.count_nonzero(beyond) >= max(_LEAST_VALUES, _CUT * d.size)
        if several and error > _CUT_ERROR * spread:
            return "cut off"
    return ""


def _culprit(
    run: PreparedRun, splits: Splits, end: TensorRef
) -> tuple[TensorRef, LostPart, Array, Array] | None:
    """The output on the way to *end* whose op was given the lost part and does not give it on, with
    the part, the device's values and the reference."""
    seen: set[TensorRef] = set()
    waiting = [end]
    while waiting:
        ref = waiting.pop(0)
        group = splits.groups.get(ref)
        if ref in seen or group is None:
            continue
        seen.add(ref)
        reference, device = _reference(run, group), run.values.device(ref)
        if reference is None or device is None:
            continue
        reference = same_shape(reference, device.shape)
        if reference is None:
            continue
        sizes = _operand_sizes(run, ref, device)
        lost = lost_parts(device, reference, sizes)
        parts = [part for part in lost if _matters(part, reference, device.dtype)]
        if parts:
            return ref, parts[0], device, reference
        sources = group.measured if group.is_passthrough is None else (group.is_passthrough,)
        waiting += (
            source
            for source in sources
            if source in run.compared and _lost_of_golden(run, source, visible=False)
        )
    return None


def _matters(part: LostPart, reference: Array, dtype: np.dtype[Any]) -> bool:
    """Whether a part may not be lost of a tensor of type *dtype*: what is no larger than the least
    step of that may, as gradients in float16 are, and slices within a step of the whole tensor."""
    values = reference.astype(np.float64)
    size = np.sqrt(np.mean(np.square(part.of(values))))
    if dtype.kind == "f" and size < np.finfo(dtype).smallest_subnormal:
        return False
    if part.axis is None or part.operand is not None:
        return True
    rest = tuple(n for n in range(reference.ndim) if n != part.axis)
    return bool(np.max(np.ptp(part.of(values), axis=rest)) >= _OWN_USE * np.ptp(values))


def _reference(run: PreparedRun, group: Group) -> Array | None:
    """What the original ops give of the device's inputs, or what was handed in."""
    if group.is_passthrough is not None:
        return run.values.device(group.is_passthrough)
    if group.failure or group.source is Source.ENTRY:  # it read what nobody knows
        return None
    feeds, missing = run.runs.feeds(group)
    if missing:
        return None
    (reference,) = run.runs.references([group], [feeds])
    return None if isinstance(reference, str) else reference


def _convicted(
    run: PreparedRun,
    splits: Splits,
    output: TensorRef,
    part: LostPart,
    device: Array,
    reference: Array,
) -> Splits:
    split = splits.by_output[output]
    guilty: ErrorSplit = replace(
        split, role=Role.INTRODUCES, guilt=Guilt.GUILTY, suspicion=math.inf
    )
    finding = Finding(
        FindingKind.CAUSE,
        LABEL,
        _sentence(run, output, part, device, reference),
        output.op,
        port=output.port,
        confidence=SURE,
        evidence=_evidence(part, device),
    )
    about = output.op, output.port
    other_findings = tuple(
        finding for finding in splits.findings if (finding.op, finding.port) != about
    )
    return replace(
        splits, by_output={**splits.by_output, output: guilty}, findings=(*other_findings, finding)
    )


def _evidence(part: LostPart, device: Array) -> Mapping[str, bool | int | float | list[int] | None]:
    lost = part.of(device)
    return {
        "axis": part.axis,
        "slices": list(part.slices[:64]),
        "operand": part.operand,
        "low": float(lost.min()),
        "high": float(lost.max()),
    }


def _sentence(
    run: PreparedRun, output: TensorRef, part: LostPart, device: Array, reference: Array
) -> str:
    lost, right = part.of(device), part.of(reference.astype(np.float64))
    where = "the output" if part.axis is None else _slices_text(part)
    step = _step(run, output, device, right)
    text = _held_text(part, lost)
    span = _span(right)
    if part.how == "cut off":
        return f"{where} {text}, where values of {span} are right: the range is too small"
    what = f"{where} {text}, where values of {span} are right"
    if part.operand is not None and step:
        all_values = reference.astype(np.float64)
        sizes = [float(np.max(np.abs(values))) for values in (all_values, right)]
        largest, own = (small_number(size) for size in sizes)
        return f"one step of {small_number(step)} for parts of up to {largest} and {own}: {what}"
    return f"{what}: one step is {small_number(step)} there" if step else what


def _span(right: Array) -> str:
    """The values of a part, by how far they are apart where that is little of their size."""
    low, high = float(right.min()), float(right.max())
    if high - low < VISIBLE * max(abs(low), abs(high)):
        return f"{high - low:.3g} around {small_number((low + high) / 2)}"
    return f"{small_number(low)} to {small_number(high)}"


def _slices_text(part: LostPart) -> str:
    many = len(part.slices) > 1
    operand = "" if part.operand is None else f" (input {part.operand})"
    slices = f"slice{'s' if many else ''} {ranges_text(list(part.slices))}"
    return f"{slices} of axis {part.axis}{operand}"


def _held_text(part: LostPart, lost: Array) -> str:
    many = len(part.slices) > 1
    if np.ptp(lost.astype(np.float64)) == 0.0:
        value = float(lost.reshape(-1)[0])
        text = "all zero" if value == 0.0 else f"all {small_number(value)}"
        return f"{'are' if many else 'is'} {text}"
    return f"{'hold' if many else 'holds'} {part.how}"


def _step(run: PreparedRun, output: TensorRef, device: Array, right: Array) -> float | None:
    """How far apart the device's values can be there: by its quantiser, by its element type, else
    by its other values."""
    item = run.compared[output]
    name = "" if item.golden is None else run.golden.name(item.golden)
    quantiser = run.quantisers.behind(output, name)
    if quantiser is not None:
        return float(np.max(np.abs(quantiser.scale)))
    if device.dtype.kind != "f":
        return None
    if device.dtype == np.float16:
        largest = np.minimum(np.max(np.abs(right)), np.finfo(np.float16).max).astype(np.float16)
        return float(largest - np.nextafter(largest, np.float16(0)))
    levels = np.unique(device)
    return float(np.diff(levels).min()) if 1 < levels.size <= 1 << 16 else None
