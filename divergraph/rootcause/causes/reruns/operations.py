"""Another operation on the same operands gives what the device has.

Operands swapped, a vector broadcast along another axis, a product in place of a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from divergraph.rootcause.causes.evidence import Array, Cause, Floats, SampledTensors
from divergraph.rootcause.causes.reruns.operands import LARGEST
from graphstore.model import Op

Named: TypeAlias = Sequence[tuple[str, Floats]]
_Binary: TypeAlias = Callable[[Floats, Floats], Array]

_BINARY: Mapping[str, _Binary] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Max": np.maximum,
    "Min": np.minimum,
    "Pow": np.power,
}
_ONE_WAY = frozenset(("Sub", "Div", "Pow"))
_SCORES = frozenset(("Softmax", "LogSoftmax"))


def wrong_operation(view: SampledTensors) -> Cause | None:
    """The only op of the group computed something else, as numpy computes it of its operands."""
    case = view.case
    if len(case.ops) != 1 or view.sampled or not view.visible:
        return None
    op, arrays = case.ops[0], {**case.inputs, **case.constants}
    names = [ref.tensor for ref in op.inputs if ref is not None]
    if any(name not in arrays or arrays[name].size > LARGEST for name in names):
        return None
    operands = [(name, np.asarray(arrays[name], np.float64)) for name in names]
    for words, candidate in _guesses(op, operands, view.d.shape):
        if (
            candidate.shape == view.d.shape
            and np.isfinite(candidate).all()
            and view.fits(candidate)
        ):
            sure, how = view.told(candidate, view.sure)
            return Cause(
                "wrong_operation",
                f"the device has {how} what comes out of {words}, where {op.type} is expected",
                sure,
                {"op": op.id, "left": view.left(candidate)},
            )
    return None


def _guesses(op: Op, operands: Named, shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    if op.type in _BINARY and len(operands) == 2:
        yield from _pairs(op.type, operands, shape)
    if op.type == "Where" and len(operands) == 3:
        (_, test), (_, yes), (_, no) = operands
        yield "its choices the other way round", np.where(test != 0, no, yes)
    if op.type in _SCORES and operands:
        yield from _scores(op, operands[0][1])
    if op.type == "MatMul" and len(operands) == 2:
        yield from _products(operands)


def _pairs(kind: str, operands: Named, shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    (first, a), (second, b) = operands
    own = _BINARY[kind]
    if kind in _ONE_WAY:
        yield f"{kind} with its operands the other way round", own(b, a)
    for other, function in _BINARY.items():
        if other != kind:
            yield f"{other} of the same operands", function(a, b)
            if other in _ONE_WAY:
                yield f"{other} of the same operands the other way round", function(b, a)
    for name, vector, wide, swapped in ((first, a, b, False), (second, b, a, True)):
        if wide.shape != shape or not 1 < vector.size == max(vector.shape) < wide.size:
            continue
        for how, spread in _spread(vector.reshape(-1), shape):
            output = own(wide, spread) if swapped else own(spread, wide)
            yield f"{kind} with {name} taken {how}", output


def _spread(vector: Floats, shape: tuple[int, ...]) -> Iterator[tuple[str, Floats]]:
    for axis, length in enumerate(shape):
        if length == vector.size:
            as_axis = vector.reshape([-1 if n == axis else 1 for n in range(len(shape))])
            yield f"along axis {axis}", np.broadcast_to(as_axis, shape)
    for axis, length in enumerate(shape):
        if length != vector.size:
            as_axis = np.resize(vector, length)
            as_axis = as_axis.reshape([-1 if n == axis else 1 for n in range(len(shape))])
            yield f"along axis {axis}, over and over", np.broadcast_to(as_axis, shape)
    yield "in the order of memory, over and over", np.resize(vector, shape)


def _scores(op: Op, x: Floats) -> Iterator[tuple[str, Array]]:
    """Softmax over several axes together (as ONNX defined it before opset 13), or LogSoftmax in
    place of Softmax and the reverse."""
    own = op.attrs.get("axis", -1)
    axis = int(own) % x.ndim if isinstance(own, int) and x.ndim else 0
    logarithm = op.type == "LogSoftmax"
    for first in range(x.ndim):
        axes = tuple(range(first, x.ndim))
        if axes != (axis,):
            words = f"{op.type} over axes {', '.join(map(str, axes))} together"
            yield words, _softmax(x, axes, logarithm)
    yield "Softmax" if logarithm else "LogSoftmax", _softmax(x, (axis,), not logarithm)


def _softmax(x: Floats, axes: tuple[int, ...], logarithm: bool) -> Floats:
    shifted = x - x.max(axis=axes, keepdims=True, initial=-np.inf)
    powers = np.exp(shifted)
    sums = powers.sum(axis=axes, keepdims=True)
    return np.asarray(shifted - np.log(sums) if logarithm else powers / sums)


def _products(operands: Named) -> Iterator[tuple[str, Array]]:
    (first, a), (second, b) = operands
    if a.ndim < 2 or b.ndim < 2:
        return
    for words, one, right in (
        (f"the product with {second} transposed", a, b.swapaxes(-1, -2)),
        (f"the product with {first} transposed", a.swapaxes(-1, -2), b),
        ("the product of its operands the other way round", b, a),
    ):
        if one.shape[-1] == right.shape[-2] and one.shape[:-2] == right.shape[:-2]:
            yield words, one @ right
