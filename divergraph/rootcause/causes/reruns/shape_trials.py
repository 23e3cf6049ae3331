"""An output of another shape, and what its op may have been run with instead. Nothing is known of
most ops: every attribute and every small constant is varied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations
from typing import TypeAlias

import numpy as np

from divergraph.rootcause.causes.evidence import Array
from graphstore.model import AttrValue, Op

NEAR = 0.05
"""How far a result of the device's own shape may be from its values, relatively, to be what the
device has: chance gives no shape and all values at once."""
MOST_VALUES = 8
"""Elements of the largest constant that says how an op works: axes, pads, sizes, scales; operands
of which every choice is tried."""

Shape: TypeAlias = tuple[int, ...]
Again: TypeAlias = Callable[[Op, Mapping[str, AttrValue], Mapping[str, Array]], "Array | None"]


@dataclass(frozen=True)
class ShapeFault:
    """An output whose shape is not that of the reference.

    ``again`` runs the group with other attributes of an op and other values of operands by name,
    and gives its output in whatever shape, None if it fails. ``inputs``, of the group and of the
    ops in it, and ``constants`` are by golden tensor name, as far as known.
    """

    device: Array
    reference: Array
    ops: Sequence[Op]
    inputs: Mapping[str, Array]
    constants: Mapping[str, Array]
    again: Again
    fed_alike: bool = True
    """Whether the device's inputs are those of the reference; else they may be of another batch,
    and what only depends on their shape says nothing."""


@dataclass(frozen=True)
class ShapeTrial:
    """Attributes and values of operands to run an op with, in words."""

    words: str
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    values: Mapping[str, Array] = field(default_factory=dict)


def trials_of(op: Op, fault: ShapeFault) -> Iterator[ShapeTrial]:
    """What *op* may have been run with instead, the likeliest first."""
    yield from _reduced(op, fault)
    yield from _of_attributes(op, fault)
    yield from _of_constants(op, fault)
    if fault.fed_alike:
        yield from _of_operands(op, fault)


# Attributes

_WINDOWED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("MaxPool", "AveragePool", "LpPool"), ("ceil_mode", "pads", "strides", "dilations")
    ),
    "Conv": ("pads", "strides", "dilations"),
    "ConvTranspose": ("pads", "strides", "dilations", "output_padding"),
}
_LEFT_OUT: Mapping[str, Mapping[str, AttrValue]] = {
    "Concat": {"axis": 0},
    "Gather": {"axis": 0},
    "Split": {"axis": 0},
    "Flatten": {"axis": 1},
    "ArgMax": {"axis": 0},
    "ArgMin": {"axis": 0},
    "TopK": {"axis": -1},
    "OneHot": {"axis": -1},
    "Gemm": {"transA": 0, "transB": 0},
    "GatherND": {"batch_dims": 0},
    "Shape": {"start": 0},
}
"""By op type the attributes that files may leave out, with their values then."""
_FLAGS = frozenset(("ceil_mode", "transA", "transB", "keepdims", "largest"))
_PLAIN = _FLAGS | {"output_padding"}
"""Tried first: what they do, pads can do as well."""
_AXES = frozenset(("axis", "start", "end"))
_PADDING: Mapping[str, tuple[str, ...]] = {
    "auto_pad": ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"),
    "padding": ("VALID", "SAME"),
}


def _of_attributes(op: Op, fault: ShapeFault) -> Iterator[ShapeTrial]:
    """Every other value of one attribute that an op is likely to be run with."""
    attrs: dict[str, AttrValue] = dict(_LEFT_OUT.get(op.type, {}))
    spatial = _spatial(op, fault)
    for name in _WINDOWED.get(op.type, ()) if spatial else ():
        one = 0 if name in ("pads", "output_padding") else 1
        attrs[name] = 0 if name == "ceil_mode" else (one,) * (2 if name == "pads" else 1) * spatial
    attrs |= op.attrs
    if op.type in _WINDOWED:
        attrs.setdefault("auto_pad", "NOTSET")
    rank = max((value.ndim for value in (fault.reference, *fault.inputs.values())), default=0)
    for name, own in sorted(attrs.items(), key=lambda attr: attr[0] not in _PLAIN):
        if name == "axes" and op.type.startswith("Reduce"):
            continue
        for value in dict.fromkeys(_others(name, own, rank)):
            if value != own:
                yield ShapeTrial(
                    f"with {name} {_said(value)} in place of {_said(own)}", {name: value}
                )


def _spatial(op: Op, fault: ShapeFault) -> int:
    """How many axes the window of an op has."""
    kernel = op.attrs.get("kernel_shape")
    if isinstance(kernel, tuple):
        return len(kernel)
    operands = (_operand(op, fault, place) for place in range(len(op.inputs)))
    return max((value.ndim - 2 for value in operands if value is not None), default=0)


def _others(name: str, own: AttrValue, rank: int) -> Iterator[AttrValue]:
    if isinstance(own, str):
        yield from _PADDING.get(name, ())
    elif isinstance(own, bool):
        yield not own
    elif isinstance(own, int):
        if name in _FLAGS:
            yield 1 - own
        elif name in _AXES:
            yield from range(rank + 1)
            yield from range(-rank, 0)
        else:
            yield from (own + 1, own - 1, 2 * own, own // 2, 1, 0)
    elif isinstance(own, tuple) and own and len(own) <= MOST_VALUES:
        if all(isinstance(number, int) for number in own):
            numbers = [int(number) for number in own if isinstance(number, int)]
            yield from (tuple(other) for other in _other_numbers(numbers))
        elif all(isinstance(number, float) for number in own):
            scales = [float(number) for number in own if isinstance(number, float)]
            yield from (tuple(other) for other in _other_scales(scales))


def _other_numbers(own: Sequence[int]) -> Iterator[Sequence[int]]:
    """Other values of pads, strides, sizes, axes, begins or ends: all at once, then one by one."""
    count = len(own)
    for value in (0, 1, 2):
        yield [value] * count
    yield own[::-1]
    for change in _CHANGES:
        yield [change(number) for number in own]
    if count % 2 == 0:  # begins and ends of pads
        half = count // 2
        for change in _CHANGES:
            yield [*map(change, own[:half]), *own[half:]]
            yield [*own[:half], *map(change, own[half:])]
            for at in range(half):
                yield [change(x) if n % half == at else x for n, x in enumerate(own)]
    for at in range(count):
        for change in _CHANGES:
            yield [change(number) if n == at else number for n, number in enumerate(own)]
    yield [sum(own) // count] * count  # sizes of parts
    for one, other in permutations(range(count), 2):
        yield [number + (n == one) - (n == other) for n, number in enumerate(own)]


_CHANGES: tuple[Callable[[int], int], ...] = (
    lambda n: n + 1,
    lambda n: n - 1,
    lambda _: 0,
    lambda _: 1,
    lambda n: 2 * n,
    lambda n: n // 2,
    lambda n: -n,
    lambda _: np.iinfo(np.int32).max,
)


def _other_scales(own: Sequence[float]) -> Iterator[Sequence[float]]:
    yield [1.0] * len(own)
    yield own[::-1]
    for change in (lambda x: 2 * x, lambda x: x / 2, lambda x: x + 1, lambda x: x - 1, _inverse):
        yield [number if number == 1.0 else change(number) for number in own]
        for at in range(len(own)):
            yield [change(number) if n == at else number for n, number in enumerate(own)]
    for at in range(len(own)):
        yield [1.0 if n == at else number for n, number in enumerate(own)]


def _inverse(value: float) -> float:
    return 1.0 / value if value else 0.0


def _said(value: AttrValue) -> str:
    return f"{list(value)}" if isinstance(value, tuple) else f"{value}"


# Axes that are reduced


def _reduced(op: Op, fault: ShapeFault) -> Iterator[ShapeTrial]:
    """Other axes of a reduction, those first that leave the device's shape."""
    x = _operand(op, fault, 0)
    if not _reduces(op, fault) or x is None or not x.ndim:
        return
    name = op.inputs[1].tensor if len(op.inputs) > 1 and op.inputs[1] is not None else None
    axes_value = (
        op.attrs.get("axes") if name is None else fault.constants.get(name, np.zeros(0, int))
    )
    kind = np.int64 if name is None or not isinstance(axes_value, np.ndarray) else axes_value.dtype
    axes_given = (
        int(axis) for axis in np.reshape(() if axes_value is None else np.asarray(axes_value), -1)
    )
    own = sorted(axis % x.ndim for axis in axes_given) or list(range(x.ndim))
    words = "all axes" if len(own) == x.ndim else f"axes {own}" if own[1:] else f"axis {own[0]}"
    for count in (x.ndim, *range(1, x.ndim)):
        for axes in combinations(range(x.ndim), count):
            if list(axes) == own:
                continue
            how = "all axes" if count == x.ndim else f"axes {list(axes)}"
            words_of_trial = (
                f"reduced over {how if axes[1:] else f'axis {axes[0]}'} in place of {words}"
            )
            if name is None:
                yield ShapeTrial(words_of_trial, {"axes": axes})
            else:
                yield ShapeTrial(words_of_trial, {}, {name: np.array(axes, kind)})


def _reduces(op: Op, fault: ShapeFault) -> bool:
    """Whether an op reduces axes. TensorFlow's read them; Max and Min of ONNX read no integers."""
    if op.type.startswith("Reduce"):
        return True
    axes = _operand(op, fault, 1)
    return op.type in _REDUCING and axes is not None and axes.dtype.kind == "i"


_REDUCING = frozenset(("Mean", "Sum", "Max", "Min", "Prod", "All", "Any", "EuclideanNorm"))


# Constants


def _of_constants(op: Op, fault: ShapeFault) -> Iterator[ShapeTrial]:
    """Every other value of a small constant that says how the op works: of axes, begins and ends,
    repeats, sizes, scales, pads."""
    for name in dict.fromkeys(ref.tensor for ref in op.inputs if ref is not None):
        own = fault.constants.get(name)
        if own is None or own.ndim > 1 or not 0 < own.size <= MOST_VALUES:
            continue
        if _reduces(op, fault) or own.dtype.kind not in "if":
            continue
        numbers = [number.item() for number in own.reshape(-1)]
        for value in _other_values(own, numbers, fault):
            if value == numbers or len(value) != len(numbers):
                continue
            words_of_trial = f"with {name} {list(value)} in place of {numbers}"
            yield ShapeTrial(
                words_of_trial, {}, {name: np.array(value, own.dtype).reshape(own.shape)}
            )


def _other_values(own: Array, numbers: Sequence[float], fault: ShapeFault) -> Iterator[list[float]]:
    shape = list(fault.device.shape)
    if own.dtype.kind == "i":
        yield [*shape]
    # What repeats or scales the first operand to the device's shape.
    for value in fault.inputs.values():
        if value.ndim == len(shape) and all(value.shape):
            ratio = [there / here for there, here in zip(shape, value.shape, strict=True)]
            if own.dtype.kind == "f":
                yield ratio
            elif all(factor == int(factor) for factor in ratio):
                yield [int(factor) for factor in ratio]
    if own.dtype.kind == "f":
        yield from map(list, _other_scales(numbers))
    else:
        yield from map(list, _other_numbers([int(number) for number in numbers]))


# Operands


def _of_operands(op: Op, fault: ShapeFault) -> Iterator[ShapeTrial]:
    """Operands with an axis of one slice lost or added, or the last two axes exchanged: what is
    broadcast, or summed over, is another axis then."""
    for name in dict.fromkeys(ref.tensor for ref in op.inputs if ref is not None):
        value = fault.inputs.get(name, fault.constants.get(name))
        if value is None or value.dtype.kind not in "biuf":
            continue
        for axis in range(value.ndim):
            if value.shape[axis] == 1:
                yield ShapeTrial(f"of {name} without axis {axis}", {}, {name: value.squeeze(axis)})
        for axis in range(value.ndim + 1):
            moved = np.expand_dims(value, axis)
            yield ShapeTrial(f"of {name} with another axis {axis}", {}, {name: moved})
        if value.ndim > 1:
            turned = np.ascontiguousarray(np.swapaxes(value, -1, -2))
            yield ShapeTrial(f"of {name} with its last two axes exchanged", {}, {name: turned})
        for axis, size in enumerate(value.shape):
            if size > 1:
                first = np.ascontiguousarray(np.take(value, [0], axis))
                yield ShapeTrial(
                    f"of the first slice of {name} along axis {axis}", {}, {name: first}
                )


def _operand(op: Op, fault: ShapeFault, place: int) -> Array | None:
    ref = op.inputs[place] if place < len(op.inputs) else None
    if ref is None:
        return None
    return fault.inputs.get(ref.tensor, fault.constants.get(ref.tensor))
