"""What happened to tensors between recorded calls: views, casts, parts, sums of gradients.

msprobe records calls of modules, functions and tensor methods, but no view, cast, index or
``stack``, and nothing that autograd adds up. So many an input equals no earlier output as it is.
Where it came from then follows from its values, and on the way back from the way there: the
gradient of a tensor is the sum of what the ways back of its readers gave.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphstore.model import DType, Shape, TensorIO, TensorRef
from importers.msprobe.calls import CallName, CallTensor, Extent

Distinct: TypeAlias = NDArray[np.generic]
"""The values of a tensor, each once, in order."""
Values: TypeAlias = Callable[[str, TensorIO, int], Distinct | None]
"""The values of a tensor of a call; None where only statistics were dumped."""

VIEW, CAST, REPEATED, PART, JOINED = "view", "cast", "repeated", "part", "joined"
COMPUTED, INSIDE = "computed between", "computed inside"
SCALED, GRADIENT, KEPT = "scaled gradient", "gradient", "kept on the way there"

_NEAR = 2.0**-8
"""Rounding to bfloat16 moves a norm by no more; the extremes are equal then, rounded."""
_WINDOW = 64
"""So many of the latest outputs are looked into for parts: a view is taken of what is at hand."""
_SAMPLE = 256
_LEAST, _LEAST_COARSE = 8, 32
"""So many distinct values must all lie in another tensor. A chance hit of one value of 16 bits is
common, of 32 bits it is not."""
_LOW_BITS = 0x1FFF
"""The bits of a float32 that are zero where it holds a value of 16 bits."""
_MOST_CODES = 4096
"""A tensor of 16-bit values with more distinct ones holds nearly all there are in its range."""
_PARTS = 4
_PLAIN = (0.0, 1.0, -1.0)
_NARROW = {DType.BFLOAT16: "bfloat16", DType.FLOAT16: "float16"}
_FLOATS = frozenset({*_NARROW, DType.FLOAT32, DType.FLOAT64})
_COUNTS = frozenset({DType.INT32, DType.INT64})
"""Whole numbers that are cast to floats, as how many words went to each expert."""


@dataclass(frozen=True, slots=True)
class Brought:
    """An output an input came from, and how."""

    ref: TensorRef
    how: str


@dataclass(frozen=True, slots=True)
class _Output:
    ref: TensorRef
    call: str
    dtype: DType | None
    count: int
    extent: Extent


class Unrecorded:
    """The outputs so far, to be asked where an input came from that equals none of them."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._by_extremes: dict[tuple[float, float], list[_Output]] = defaultdict(list)
        self._by_extreme: dict[tuple[str, float], deque[_Output]] = defaultdict(
            lambda: deque(maxlen=_PARTS)
        )
        self._latest: deque[_Output] = deque(maxlen=_WINDOW)
        self._gradients: dict[Shape, list[tuple[float, int, _Output]]] = defaultdict(list)
        self._scalars: list[tuple[float, int, TensorRef]] = []

    def add(self, tensor: CallTensor, ref: TensorRef, name: CallName) -> None:
        """*tensor* is the output *ref* of the call *name*."""
        extent, count = tensor.extent, tensor.count
        if extent is None or not count or tensor.dtype not in _FLOATS | _COUNTS:
            return
        made = _Output(ref, name.full, tensor.dtype, count, extent)
        if tensor.dtype in _COUNTS:  # of which msprobe has the extremes alone
            if extent.maximum > extent.minimum:
                self._by_extremes[extent.maximum, extent.minimum].append(made)
            return
        if count == 1:
            insort(self._scalars, (extent.maximum, len(self._scalars), ref))
            return
        if extent.maximum == extent.minimum:
            return
        for maximum, minimum in {_rounded(extent, to) for to in (None, *_NARROW.values())}:
            self._by_extremes[maximum, minimum].append(made)
        self._by_extreme["most", extent.maximum].append(made)
        self._by_extreme["least", extent.minimum].append(made)
        self._latest.append(made)
        if name.way in ("backward", "parameters_grad") and tensor.shape is not None and extent.norm:
            found = self._gradients[tensor.shape]
            insort(found, (extent.maximum / extent.norm, len(found), made))

    def sources(self, tensor: CallTensor, name: CallName, port: int) -> list[Brought]:
        """Where *tensor*, input *port* of *name*, came from; empty where values cannot tell."""
        extent, count = tensor.extent, tensor.count
        if extent is None or tensor.dtype not in _FLOATS or extent.maximum == extent.minimum:
            return []
        same = self._by_extremes.get((extent.maximum, extent.minimum), ())
        for made in reversed(same):
            if made.count == count and _is_alike(extent, made.extent, 1.0):
                return [Brought(made.ref, VIEW if made.dtype is tensor.dtype else CAST)]
        for made in reversed(same):
            if _is_alike(extent, made.extent, count / made.count):
                return [Brought(made.ref, REPEATED if count > made.count else PART)]
        values = self._values(name.full, TensorIO.INPUT, port)
        return (
            self._scaled(tensor, extent)
            or self._parts(values, extent, count)
            or self._of_scalars(extent)
        )

    def _scaled(self, tensor: CallTensor, extent: Extent) -> list[Brought]:
        """The gradient that *tensor* is times a number, as gradients are clipped; and the number,
        if it was made by a call."""
        known = self._gradients.get(tensor.shape or (), [])
        if not known or not extent.norm or not math.isfinite(extent.norm):
            return []
        share, other = extent.maximum / extent.norm, extent.minimum / extent.norm
        near = 2 * _NEAR  # two statistics, each rounded on both sides
        off = abs(share) * near
        fitting = [
            (abs(of_made - share), made)
            for of_made, _, made in known[_place(known, share - off) : _place(known, share + off)]
            if made.extent.norm
            and abs(made.extent.minimum / made.extent.norm - other) <= abs(other) * near
        ]
        if not fitting:
            return []
        _, nearest = min(fitting, key=lambda each: each[0])
        found = [Brought(nearest.ref, SCALED)]
        factor = extent.norm / (nearest.extent.norm or 1.0)
        least, most = factor * (1 - near), factor * (1 + near)
        scalars = self._scalars[_place(self._scalars, least) : _place(self._scalars, most)]
        if scalars:
            found.append(Brought(max(scalars, key=lambda each: each[1])[2], SCALED))
        return found

    def _of_scalars(self, extent: Extent) -> list[Brought]:
        """The calls whose single numbers *extent* is of, stacked: those of its extremes."""
        found = []
        for value in extent[:2]:
            equal = self._scalars[_place(self._scalars, value) :][:1]
            found += [Brought(ref, JOINED) for known, _, ref in equal if known == value]
        return found if len(found) == 2 else []

    # parts

    def _parts(self, values: Distinct | None, extent: Extent, count: int) -> list[Brought]:
        most = self._by_extreme.get(("most", extent.maximum), ())
        least = self._by_extreme.get(("least", extent.minimum), ())
        if values is not None:
            candidates = (*reversed(most), *reversed(least), *reversed(self._latest))
            return self._covering(values, {made.ref: made for made in candidates}.values())
        for one in reversed(most):
            for other in reversed(least):
                if one.count + other.count == count and _is_sum(extent, one.extent, other.extent):
                    return [Brought(one.ref, JOINED), Brought(other.ref, JOINED)]
        for made in sorted((*most, *least), key=lambda made: made.count):
            if made.count > count and made.count % count == 0 and _is_within(extent, made.extent):
                return [Brought(made.ref, PART)]
        return []

    def _covering(self, values: Distinct, candidates: Iterable[_Output]) -> list[Brought]:
        """The outputs whose values *values* all are: one that it is a part of, or those that it
        was joined of."""
        telling = values[np.isfinite(values) & ~np.isin(values, _PLAIN)]
        if len(telling) < (_LEAST_COARSE if _is_coarse(telling) else _LEAST):
            return []
        sample = telling[np.linspace(0, len(telling) - 1, _SAMPLE).astype(int)]
        sample = np.unique(sample)
        partial: list[tuple[_Output, NDArray[np.bool_]]] = []
        for made in candidates:
            if sample[0] > made.extent.maximum or sample[-1] < made.extent.minimum:
                continue
            other = self._values(made.call, TensorIO.OUTPUT, made.ref.port)
            if other is None or (len(other) > _MOST_CODES and _is_coarse(other)):
                continue
            hits = _is_in(sample, other)
            if hits.all():
                return [Brought(made.ref, PART)]
            if hits.mean() >= 1 / (2 * _PARTS):
                partial.append((made, hits))
        return _joined(partial, len(sample))


def _place(ordered: Sequence[tuple[float, int, Any]], value: float) -> int:
    return bisect_left(ordered, (value,))


def _joined(partial: list[tuple[_Output, NDArray[np.bool_]]], size: int) -> list[Brought]:
    missing = np.ones(size, dtype=np.bool_)
    found: list[Brought] = []
    while partial and missing.any() and len(found) < _PARTS:
        made, hits = max(partial, key=lambda each: int(np.count_nonzero(each[1] & missing)))
        if not (hits & missing).any():
            break
        missing &= ~hits
        found.append(Brought(made.ref, JOINED))
    return [] if missing.any() else found


def _is_coarse(values: Distinct) -> bool:
    bits = values.astype(np.float32, copy=False).view(np.uint32)
    return not (bits & _LOW_BITS).any()


def _is_in(sample: Distinct, values: Distinct) -> NDArray[np.bool_]:
    places = np.minimum(np.searchsorted(values, sample), len(values) - 1)
    found: NDArray[np.bool_] = values[places] == sample
    return found


def _rounded(extent: Extent, to: str | None) -> tuple[float, float]:
    if to is None:
        return extent.maximum, extent.minimum
    import ml_dtypes  # graphs of other formats need not load it

    kind = getattr(ml_dtypes, to, None) or np.dtype(to)
    with np.errstate(over="ignore"):  # beyond the narrower type's range it is infinite there too
        most, least = np.array([extent.maximum, extent.minimum]).astype(kind).astype(float)
    return float(most), float(least)


def _is_alike(extent: Extent, other: Extent, times: float) -> bool:
    """Whether *extent* is of *times* as many values as *other*, spread alike."""
    norm, known = extent.norm, other.norm
    if norm is None or known is None or not (math.isfinite(norm) and math.isfinite(known)):
        return times == 1.0
    fits = abs(norm**2 - times * known**2) <= 2 * _NEAR * norm**2
    return fits and abs(extent.mean - other.mean) <= _NEAR * max(map(abs, extent[:2]))


def _is_sum(extent: Extent, *parts: Extent) -> bool:
    if extent.norm is None or any(part.norm is None for part in parts):
        return False
    return abs(extent.norm**2 - sum((part.norm or 0.0) ** 2 for part in parts)) <= (
        2 * _NEAR * extent.norm**2
    )


def _is_within(extent: Extent, other: Extent) -> bool:
    return other.minimum <= extent.minimum and extent.maximum <= other.maximum


def _add_up(parts: Sequence[CallTensor], whole: CallTensor) -> bool:
    """Whether the means of *parts* add up to that of *whole*."""
    extent, extents = whole.extent, [part.extent for part in parts]
    if extent is None:
        return False
    means = [each.mean for each in extents if each is not None]
    # Each mean is rounded to the type of its tensor, and so was each value that was added.
    near = _NEAR * sum(map(abs, (extent.mean, *means))) + _NEAR**2 * max(map(abs, extent[:2]))
    return len(means) == len(parts) and abs(sum(means) - extent.mean) <= near


class WaysBack:
    """Who read each output on the way there, to say whose ways back gave its gradient."""

    def __init__(self, inside: Callable[[str, str], bool]) -> None:
        self._inside = inside
        self._readers: dict[TensorRef | str, list[tuple[str, str]]] = defaultdict(list)
        self._reads: dict[str, list[TensorRef | str]] = defaultdict(list)
        self._given: dict[str, list[tuple[str, TensorRef]]] = defaultdict(list)
        self._gradients: dict[TensorRef, CallTensor] = {}
        self._latest: deque[str] = deque(maxlen=_WINDOW)
        self._ids: dict[str, str] = {}

    def add_call(self, name: CallName, op: str) -> None:
        """The call *name* is the op *op*."""
        self._ids[name.full] = op

    def add_reader(self, source: TensorRef | str, name: CallName, place: str) -> None:
        """The call *name* read *source*, an output or the name of a weight, at *place*."""
        if name.way == "forward":
            self._readers[source].append((name.full, place))
            self._reads[name.full].append(source)

    def add_given(self, name: CallName, place: str, ref: TensorRef, tensor: CallTensor) -> None:
        """The way back *name* gave *tensor*, *ref*, as the gradient of the argument at *place*."""
        self._given[name.full].append((place, ref))
        self._gradients[ref] = tensor
        self._latest.extend(name.before[:1])

    def sources(self, name: CallName, port: int) -> list[Brought]:
        """What adds up to the gradient of the output *port*, for its way back *name*."""
        there = self._ids.get(name.before[0], "") if name.before else ""
        found = dict.fromkeys(self._of(TensorRef(there, port), set())) if there else {}
        return [Brought(ref, GRADIENT) for ref in found]

    def added_up(self, tensor: CallTensor) -> list[Brought]:
        """Gradients given of late that add up to *tensor*, which no way back reads: what autograd
        adds up, a call between ranks sums over them."""
        sources = (source for there in reversed(self._latest) for source in self._reads[there])
        for source in dict.fromkeys(sources):
            given = dict.fromkeys(self._of(source, set()))
            alike = [ref for ref in given if self._gradients[ref].shape == tensor.shape]
            parts = [ref for ref in alike if not self._is_within(ref, alike)]
            if len(parts) > 1 and _add_up([self._gradients[ref] for ref in parts], tensor):
                return [Brought(ref, GRADIENT) for ref in parts]
        return []

    def _is_within(self, ref: TensorRef, others: Iterable[TensorRef]) -> bool:
        """Whether a module around the way back of *ref* gave one of *others*."""
        owners = (other.op.rpartition("/")[2] for other in others if other.op != ref.op)
        return any(self._inside(ref.op, owner) for owner in owners)

    def added_inside(self, name: CallName) -> list[Brought]:
        """What the ways back of calls inside a module gave for what it read: adds up to what its
        way back *name* gives."""
        module = name.before[0] if name.before else ""
        found = dict.fromkeys(
            ref
            for source in self._reads.get(module, ())
            for reader, place in self._readers[source]
            if reader != module and self._inside(self._ids[reader], module)
            for at, ref in self._given.get(CallName.of(reader).backward, ())
            if at == place
        )
        return [Brought(ref, INSIDE) for ref in found]

    def way_there(self, name: CallName) -> list[Brought]:
        """The way there of the way back *name*, which uses what was read and made there."""
        there = self._ids.get(name.before[0]) if name.before else None
        return [] if there is None else [Brought(TensorRef(there, 0), KEPT)]

    def of_weight(self, weight: str) -> list[Brought]:
        """What adds up to the gradient of a parameter, by its name."""
        return [Brought(ref, GRADIENT) for ref in dict.fromkeys(self._of(weight, set()))]

    def _of(self, source: TensorRef | str, seen: set[TensorRef | str]) -> Iterator[TensorRef]:
        seen.add(source)
        for reader, place in self._readers.get(source, ()):
            given = self._given.get(CallName.of(reader).backward, ())
            exact = [ref for at, ref in given if at == place] or [ref for _, ref in given[:1]]
            yield from exact
            passed = TensorRef(self._ids.get(reader, ""), 0)
            is_around = isinstance(source, TensorRef) and self._inside(source.op, reader)
            if not exact and is_around and passed not in seen:  # a module gives it out as its own
                yield from self._of(passed, seen)
