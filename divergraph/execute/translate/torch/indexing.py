"""Rows of what stands between brackets: numbers, slices, new axes, places and bits."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import TypeAlias

import numpy as np

from divergraph.execute.translate.piece import Expr, Outputs
from divergraph.execute.translate.torch.call import TorchCall, row
from graphstore.model import AttrValue

_SLICE = re.compile(r"slice\((\S+), (\S+), (\S+)\)|(-?\d*):(-?\d*):?(-?\d*)")


@dataclass(frozen=True, slots=True)
class _Places:
    """A tensor of whole numbers that says places along one axis, with its number of axes."""

    name: Expr
    rank: int


Plain: TypeAlias = "slice | int | EllipsisType | None"
"""One part of an index that is no tensor; None is a new axis."""
Part: TypeAlias = "Plain | _Places"


@row("__getitem__", source="torch, tensor indexing")
def _getitem(call: TorchCall) -> Outputs:
    return [_taken(call, call.tensor())]


@row("__setitem__", source="torch, tensor indexing")
def _setitem(call: TorchCall) -> Outputs:
    """What was there, with the value in the places of the index; a smaller one is repeated."""
    shape = call.shape()
    places = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    flat = call.piece.ints(-1)
    region = _taken(call, call.piece.const(places))
    value = call.add("Expand", call.operand(2, "value"), call.add("Shape", region))
    operands = (call.add("Reshape", operand, flat) for operand in (call.tensor(), region, value))
    return [call.piece.reshape(call.add("ScatterElements", *operands, axis=0), shape)]


@row("__getitem__.backward", source="torch, tensor indexing")
def _getitem_back(call: TorchCall) -> Outputs:
    """Each number of the gradient goes to the place that was taken, which may be taken twice."""
    shape = call.shape()
    places = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    flat = call.piece.ints(-1)
    taken = call.add("Reshape", _taken(call, call.piece.const(places)), flat)
    gradient = call.piece.cast(call.add("Reshape", call.gradient(), flat), np.float64)
    nothing = np.zeros(places.size)
    total = call.add("ScatterElements", nothing, taken, gradient, axis=0, reduction="add")
    return call.gradients({"0": call.piece.reshape(call.cast(total), shape)})


def _taken(call: TorchCall, value: Expr) -> Expr:
    """What the call's index takes of *value*, a tensor of the shape of its first argument."""
    parts = _parts(call)
    rank = len(call.shape())
    taken = sum(part is not None and part is not ... for part in parts)
    at = parts.index(...) if ... in parts else len(parts)
    parts = [*parts[:at], *[slice(None)] * (rank - taken), *parts[at + 1 :]]
    return _gathered(call, *_cut(call, value, parts))


@row("nonzero", "argwhere", source="torch.nonzero")
def _nonzero(call: TorchCall) -> Outputs:
    if call.flag(None, "as_tuple"):
        return _places_of_bits(call, call.tensor(), len(call.shape()))
    return [call.add("Transpose", call.add("NonZero", call.tensor()), perm=[1, 0])]


def places_where(call: TorchCall) -> Outputs:
    """The places where the first argument is true, a tensor for each axis."""
    place = "0" if call.find("0") is not None else "condition"
    return _places_of_bits(call, call.tensor(place, "condition"), len(call.shape(place)))


def _places_of_bits(call: TorchCall, name: Expr, rank: int) -> list[Expr]:
    result = call.add("NonZero", name)
    return [call.add("Gather", result, np.array(axis, np.int64), axis=0) for axis in range(rank)]


def _parts(call: TorchCall) -> list[Part]:
    """The parts of the index, whether the dump has them as text, one by one or as a tensor."""
    places = call.places(1)
    if places:
        return [part for place in places for part in _of_place(call, place)]
    if call.find(1) is not None:
        return _of_place(call, "1")
    at = call.argument(1, "")
    texts = at.split(", ") if isinstance(at, str) else [at]
    return [_plain(call, text) for text in texts]


def _of_place(call: TorchCall, place: str) -> list[Part]:
    name = call.find(place)
    if name is None:
        return [_plain(call, call.argument(None, place))]
    rank = len(call.shape(place))
    if call.dtype(place).kind == "b":
        return [_Places(axis, 1) for axis in _places_of_bits(call, name, rank)]
    return [_Places(name, rank)]


def _plain(call: TorchCall, value: AttrValue | None) -> Plain:
    try:
        return index_part(value)
    except ValueError as error:
        raise call.refused(str(error)) from None


def index_part(value: AttrValue | None) -> Plain:
    """A part as a dump has it: ``1:``, ``slice(1, None, None)``, ``...``, ``-1``, ``None``.

    Raises:
        ValueError: it is none of these.
    """
    if value is None or value == "None":
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = str(value)
    if text in ("...", "Ellipsis"):
        return ...
    if text.removeprefix("-").isdecimal():
        return int(text)
    ends = _SLICE.fullmatch(text)
    if ends is None:
        raise ValueError(f"takes {text} of a tensor")
    numbers = ends.groups()[:3] if ends[1] else ends.groups()[3:]
    return slice(*(None if end in ("", "None", None) else int(end) for end in numbers))


def _cut(call: TorchCall, value: Expr, parts: Sequence[Part]) -> tuple[Expr, list[Part]]:
    """*value* with all slices cut and new axes put in, and what is left to be taken of each of
    its axes: all of it (a slice), or places."""
    axis, left = 0, list[Part]()
    shape, ints = call.shape(), call.piece.ints
    for part in parts:
        if isinstance(part, slice) and part != slice(None):
            begin, end, step = part.indices(shape[axis])
            end = end if end >= 0 else -(1 << 62)  # backwards to the front
            value = call.add("Slice", value, ints(begin), ints(end), ints(axis), ints(step))
        axis += part is not None
        left.append(slice(None) if isinstance(part, slice) else part)
    added = [at for at, part in enumerate(left) if part is None]
    if added:
        value = call.add("Unsqueeze", value, ints(*added))
    return value, [slice(None) if part is None else part for part in left]


def _gathered(call: TorchCall, value: Expr, parts: Sequence[Part]) -> Expr:
    """*value* with places taken along some axes. Where these stand side by side, so do the axes of
    what was taken; else these come first."""
    axes = [axis for axis, part in enumerate(parts) if isinstance(part, int | _Places)]
    if not axes:
        return value
    ranks = [part.rank for part in parts if isinstance(part, _Places)]
    if not ranks:  # from behind, so that the axes in front keep their numbers
        for axis in reversed(axes):
            value = call.add("Gather", value, np.array(parts[axis], np.int64), axis=axis)
        return value
    order = [*axes, *(axis for axis in range(len(parts)) if axis not in axes)]
    taken = call.add("GatherND", call.piece.transpose(value, *order), _together(call, parts))
    front = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    rank = max(ranks)
    others = len(parts) - len(axes)
    if not front:
        return taken
    placed = [*range(rank, rank + front), *range(rank), *range(rank + front, rank + others)]
    return call.piece.transpose(taken, *placed)


def _together(call: TorchCall, parts: Sequence[Part]) -> Expr:
    """The places along all axes, spread to one shape, side by side in a last axis."""
    names = [part.name for part in parts if isinstance(part, _Places)]
    nothing = np.array(0, np.int64)
    spread = names[0] * nothing
    for name in names[1:]:
        spread = spread + name * nothing
    listed = [
        spread + (part.name if isinstance(part, _Places) else np.array(part, np.int64))
        for part in parts
        if isinstance(part, int | _Places)
    ]
    last = call.piece.ints(-1)
    return call.add("Concat", *(call.add("Unsqueeze", one, last) for one in listed), axis=-1)
