"""Tensors of ops that ran in slices (FFTS+ threads, L1 slices), put together again.

The dump's op attribute is JSON: ``threadMode`` (0 manual, 1 automatic),
``slice_instance_num``, ``input_tensor_slice`` and ``output_tensor_slice``
(``[thread][tensor][{lower, higher} for each axis]``), ``inputCutList`` and
``outputCutList`` (for each tensor, into how many parts each axis is cut).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from graphstore.model import DumpTensorRef, Reason, TensorIO, TensorPart
from importers.dumps.index import DamagedError

_MAX_SLICES = 4096


@dataclass(frozen=True, slots=True)
class Slicing:
    """How the tensors of one op were cut, as the dump's attribute tells it."""

    count: int
    ranges: Mapping[TensorIO, Sequence[Any]]
    cuts: Mapping[TensorIO, Sequence[Any]]


def read_slicing(attributes: Mapping[str, str]) -> Slicing | None:
    """The slicing in an op's attributes, or None if it ran in one piece or none is told."""
    for value in attributes.values():
        if not value.lstrip().startswith("{"):
            continue
        try:
            content = json.loads(value)
        except (ValueError, RecursionError):
            continue  # some other attribute; that nothing tells the slices is said later
        if isinstance(content, dict) and "threadMode" in content:
            count = content.get("slice_instance_num")
            return Slicing(
                count if type(count) is int else 0,
                _both(content, "input_tensor_slice", "output_tensor_slice"),
                _both(content, "inputCutList", "outputCutList"),
            )
    return None


def join(
    slices: Mapping[int, DumpTensorRef], number: int, slicing: Slicing | None
) -> DumpTensorRef:
    """One tensor of its *slices* by thread or slice number; it is the *number*-th input
    or output of its op.

    Raises:
        DamagedError: the slices do not make a whole, or nothing says how they lie.
    """
    refs = [slices[index] for index in sorted(slices)]
    first = refs[0]
    if len(refs) > _MAX_SLICES:
        raise _unclear(f"{len(refs)} slices are too many")
    if slicing is None:
        raise _unclear(f"the op ran in {len(refs)} slices and its dump does not say how they lie")
    if slicing.count > len(refs):
        raise _unclear(f"only {len(refs)} of {slicing.count} slices were dumped")
    if any((ref.dtype, ref.layout) != (first.dtype, first.layout) for ref in refs):
        raise _unclear(f"the {len(refs)} slices differ in type or layout")
    parts = _by_range(slices, number, slicing) or _by_cut(refs, number, slicing)
    if parts is None:
        raise _unclear(f"the op ran in {len(refs)} slices and its dump does not say how they lie")
    shape = _hull(parts)
    if sum(prod(part.tensor.shape or ()) for part in parts) < prod(shape):
        raise _unclear(f"the slices leave gaps in a tensor of shape {list(shape)}")
    return replace(first, shape=shape, nbytes=sum(ref.nbytes for ref in refs), parts=parts)


def _by_range(
    slices: Mapping[int, DumpTensorRef], number: int, slicing: Slicing
) -> tuple[TensorPart, ...] | None:
    """The parts placed by the element ranges of each thread, if those are told."""
    parts: list[TensorPart] = []
    for index in sorted(slices):
        ref = slices[index]
        axes = _at(_at(slicing.ranges[ref.io], index), number)
        part = _in_range(ref, axes) if isinstance(axes, list) else None
        if part is None:
            return None
        parts.append(part)
    return tuple(parts)


def _in_range(ref: DumpTensorRef, axes: list[Any]) -> TensorPart | None:
    starts: list[int] = []
    shape: list[int] = []
    for axis in axes:
        low, high = (axis.get("lower"), axis.get("higher")) if isinstance(axis, dict) else (0, 0)
        if type(low) is not int or type(high) is not int or not 0 <= low < high < 1 << 62:
            return None
        starts.append(low)
        shape.append(high - low)
    if prod(shape) != prod(ref.shape or ()):
        return None
    return TensorPart(replace(ref, shape=tuple(shape)), tuple(starts))


def _by_cut(
    refs: Sequence[DumpTensorRef], number: int, slicing: Slicing
) -> tuple[TensorPart, ...] | None:
    """The parts in a row along the one axis that is cut; the first if none is."""
    first = refs[0].shape or ()
    cuts = _at(slicing.cuts[refs[0].io], number)
    if not isinstance(cuts, list) or len(cuts) != len(first):
        return None
    axes = [axis for axis, parts in enumerate(cuts) if parts != 1]
    if not axes:  # every thread holds the whole
        return (TensorPart(refs[-1], (0,) * len(first)),)
    if len(axes) > 1:
        return None
    (axis,) = axes
    parts: list[TensorPart] = []
    at = 0
    for ref in refs:
        shape = ref.shape or ()
        if len(shape) != len(first) or any(
            have != want
            for place, (have, want) in enumerate(zip(shape, first, strict=True))
            if place != axis
        ):
            return None
        parts.append(TensorPart(ref, tuple(at if i == axis else 0 for i in range(len(shape)))))
        at += shape[axis]
    return tuple(parts)


def _hull(parts: Sequence[TensorPart]) -> tuple[int, ...]:
    ends = [
        [start + size for start, size in zip(part.start, part.tensor.shape or (), strict=True)]
        for part in parts
    ]
    return tuple(map(max, zip(*ends, strict=True))) if ends[0] else ()


def _both(
    content: Mapping[str, Any], inputs_key: str, outputs_key: str
) -> dict[TensorIO, Sequence[Any]]:
    return {
        TensorIO.INPUT: _list(content.get(inputs_key)),
        TensorIO.OUTPUT: _list(content.get(outputs_key)),
    }


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _at(values: object, index: int) -> object:
    return values[index] if isinstance(values, list) and index < len(values) else None


def _unclear(what: str) -> DamagedError:
    return DamagedError(f"{what}, so they are not put together", Reason.LAYOUT_UNSUPPORTED)
