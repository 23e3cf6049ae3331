"""An output of another shape: how its values come from the op's operands or the expected values,
without running the op again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from divergraph.rootcause.causes.evidence import Array
from divergraph.rootcause.causes.reruns.shape_trials import MOST_VALUES, NEAR, Shape, ShapeFault
from divergraph.rootcause.shape_metrics import without_ones
from divergraph.rootcause.values import relative
from graphstore.model import Op


def relations_of(fault: ShapeFault) -> Iterator[str]:
    """What the device has, in words: the op's operands, or the expected values cut, repeated or
    reduced; the likeliest first."""
    d, r = fault.device, fault.reference
    if d.dtype.kind not in "biuf" or r.dtype.kind not in "biuf" or not d.size or not r.size:
        return
    for op in fault.ops:
        yield from _joined(op, fault)
    for name, value in fault.inputs.items():
        if _same(d, value):
            yield f"what its operand {name} holds: the op did nothing"
    if d.ndim != r.ndim:
        return
    changed = [axis for axis in range(d.ndim) if d.shape[axis] != r.shape[axis]]
    yield from _cut(d, r, changed)
    yield from _repeated(d, r, changed)
    yield from _summed(d, r, changed)


def _same(one: Array, other: Array) -> bool:
    return without_ones(one.shape) == without_ones(other.shape) and _close(one, other)


def _close(one: Array, other: Array) -> bool:
    return relative(np.ascontiguousarray(one), np.ascontiguousarray(other)) <= NEAR**2


def _joined(op: Op, fault: ShapeFault) -> Iterator[str]:
    """Some operands of a Concat only."""
    names = [ref.tensor for ref in op.inputs if ref is not None]
    operands = [fault.inputs.get(name, fault.constants.get(name)) for name in names]
    parts = [value for value in operands if value is not None]
    axis = op.attrs.get("axis", 0)
    if "Concat" not in op.type or len(parts) != len(names) or not isinstance(axis, int):
        return
    for count in range(1, len(parts)):
        for parts_left in (
            combinations(range(len(parts)), count) if len(parts) <= MOST_VALUES else ()
        ):
            if _same(fault.device, np.concatenate([parts[n] for n in parts_left], axis)):
                lost = [names[n] for n in range(len(parts)) if n not in parts_left]
                yield f"the other operands only: {', '.join(lost)} {_is(lost)} missing"


def _is(names: Sequence[str]) -> str:
    return "are" if names[1:] else "is"


def _cut(d: Array, r: Array, changed: Sequence[int]) -> Iterator[str]:
    """A part of the expected values, or these and more."""
    for small, large, here in ((d, r, True), (r, d, False)):
        if any(small.shape[axis] >= large.shape[axis] for axis in changed):
            continue
        for where, places in _windows(small.shape, large.shape, changed):
            if _close(small, large[places]):
                axes = ", ".join(
                    f"{small.shape[a]} of {large.shape[a]} along axis {a}" for a in changed
                )
                more = "of the expected slices" if here else "of its slices as expected, and more"
                yield f"only the {where} {axes} {more}" if here else f"the {where} {axes} {more}"


def _windows(
    small: Shape, large: Shape, changed: Sequence[int]
) -> Iterator[tuple[str, tuple[slice, ...]]]:
    begins: Mapping[str, Callable[[int, int], slice]] = {
        "first": lambda s, _: slice(0, s),
        "last": lambda s, n: slice(n - s, n),
        "middle": lambda s, n: slice((n - s) // 2, (n - s) // 2 + s),
        "evenly spaced": lambda s, n: slice(0, None, -(-n // s)),
    }
    for where, begin in begins.items():
        cut = [
            begin(s, n) if axis in changed else slice(None)
            for axis, (s, n) in enumerate(zip(small, large, strict=True))
        ]
        places = tuple(cut)
        if np.empty(large, np.bool_)[places].shape == small:
            yield where, places


def _repeated(d: Array, r: Array, changed: Sequence[int]) -> Iterator[str]:
    if all(d.shape[axis] % r.shape[axis] == 0 for axis in changed):
        times = [there // here for there, here in zip(d.shape, r.shape, strict=True)]
        if _close(d, np.tile(r, times)):
            yield f"the expected values over and over: {' x '.join(map(str, times))} times"


def _summed(d: Array, r: Array, changed: Sequence[int]) -> Iterator[str]:
    if any(d.shape[axis] != 1 for axis in changed):
        return
    axes = tuple(changed)
    reductions: Iterable[tuple[str, Callable[..., Array]]] = (
        ("sum", np.sum),
        ("mean", np.mean),
        ("largest", np.max),
        ("smallest", np.min),
    )
    for what, reduction in reductions:
        if _close(d, np.asarray(reduction(r.astype(np.float64), axis=axes, keepdims=True))):
            yield f"the {what} of the expected values over axes {list(axes)}"
