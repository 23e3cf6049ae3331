"""The laws of functions of each value, and of what moves, joins, adds and scales tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from divergraph.thresholds.recorded.call_laws import (
    LAWS,
    GivenCall,
    StatisticBounds,
    Summary,
    UntoldError,
    joined,
    law,
    same,
    spread,
    times,
    total,
)

INCREASING: Mapping[str, Callable[[float], float]] = {
    "exp": math.exp, "log": math.log, "sqrt": math.sqrt, "tanh": math.tanh, "erf": math.erf,
    "log1p": math.log1p, "expm1": math.expm1, "atan": math.atan, "sinh": math.sinh,
    "asin": math.asin, "log2": math.log2, "log10": math.log10, "exp2": lambda x: 2.0**x,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "relu": lambda x: max(x, 0.0),
    "relu6": lambda x: min(max(x, 0.0), 6.0), "hardsigmoid": lambda x: min(max(x / 6 + 0.5, 0), 1),
    "logsigmoid": lambda x: min(x, 0.0) - math.log1p(math.exp(-abs(x))),
    "softsign": lambda x: x / (1 + abs(x)), "sign": lambda x: math.copysign(1.0, x) if x else 0.0,
    "floor": math.floor, "ceil": math.ceil,
}  # fmt: skip
DECREASING: Mapping[str, Callable[[float], float]] = {
    "neg": lambda x: -x, "rsqrt": lambda x: 1 / math.sqrt(x), "acos": math.acos,
}  # fmt: skip
GATED: Mapping[str, tuple[Callable[[float], float], float]] = {
    "gelu": (lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2, -0.1702),
    "fast_gelu": (lambda x: x / (1 + math.exp(-1.702 * x)), -0.1637),
    "silu": (lambda x: x / (1 + math.exp(-x)), -0.2785),
    "mish": (lambda x: x * math.tanh(math.log1p(math.exp(min(x, 80.0)))), -0.3089),
    "hardswish": (lambda x: x * min(max(x / 6 + 0.5, 0), 1), -0.375),
}
"""Functions that increase above zero and shrink what they read, with their least values."""
_BENT = 1e-3
"""By how much forms of gelu, one by the hyperbolic tangent, differ."""


def _steep(function: Callable[[float], float], at: float) -> float:
    """How large an error a rounding of what a function reads can be, as the size of its output."""
    step = max(abs(at), 1e-30) * 2.0**-8
    try:
        return abs(function(at) - function(at - step)) * 2**8
    except ValueError:
        raise UntoldError from None


def _monotone(function: Callable[[float], float], turn: bool) -> Callable[..., StatisticBounds]:
    def bounds(call: GivenCall, _: Summary) -> StatisticBounds:
        read = call.tensor(0)
        ends = function(read.maximum), function(read.minimum)
        high, low = ends[::-1] if turn else ends
        steep = max(_steep(function, read.maximum), _steep(function, read.minimum))
        element = max(abs(high), abs(low)) + steep
        return StatisticBounds((high, high), (low, low), (low, high), element=element, size=element)

    return bounds


LAWS.update({name: _monotone(function, False) for name, function in INCREASING.items()})
LAWS.update({name: _monotone(function, True) for name, function in DECREASING.items()})


@law(*GATED)
def _gated(call: GivenCall, _: Summary) -> StatisticBounds:
    read = call.tensor(0)
    function, lower = GATED[call.op.type.strip("_")]
    if read.maximum <= 0.0:
        return StatisticBounds((lower - _BENT, _BENT), (lower - _BENT, _BENT), element=1.0)
    high = function(read.maximum)
    return StatisticBounds(
        (high - _BENT, high + _BENT), (lower - _BENT, high), norm=(0.0, read.norm),
        element=abs(read.maximum), size=read.size,
    )  # fmt: skip


@law("leaky_relu", "elu", "softplus", "hardtanh", "clamp", "clip", "clamp_min", "clamp_max")
def _with_numbers(call: GivenCall, _: Summary) -> StatisticBounds:
    name = call.op.type.strip("_")
    if name == "leaky_relu":
        slope = call.number(1, "negative_slope", 0.01)
        function: Callable[[float], float] = lambda x: x if x > 0 else slope * x  # noqa: E731
    elif name == "elu":
        alpha = call.number(1, "alpha", 1.0)
        function = lambda x: x if x > 0 else alpha * math.expm1(x)  # noqa: E731
    elif name == "softplus":
        beta = call.number(1, "beta", 1.0)
        function = lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(beta * x))) / beta  # noqa: E731
    else:
        low, high = _limits(call, name)
        function = lambda x: min(max(x, low), high)  # noqa: E731
    return _monotone(function, False)(call, _)


def _limits(call: GivenCall, name: str) -> tuple[float, float]:
    if name == "hardtanh":
        return call.number(1, "min_val", -1.0), call.number(2, "max_val", 1.0)
    if any(call.has(at, word) for at, word in ((1, "min"), (2, "max"))):
        raise UntoldError  # limits that are tensors
    if name == "clamp_max":
        return -math.inf, call.number(1, "max")
    low = call.number(1, "min", -math.inf)
    return low, math.inf if name == "clamp_min" else call.number(2, "max", math.inf)


@law("transpose", "permute", "reshape", "view", "flatten", "unflatten", "squeeze", "unsqueeze",
     "contiguous", "clone", "detach", "movedim", "swapaxes", "t", "T", "mT", "roll", "flip",
     "ravel", "view_as", "reshape_as", "alias", "sort", "pixel_shuffle", "npu_format_cast",
     "Identity", "alpha_dropout")  # fmt: skip
def _moved(call: GivenCall, output: Summary) -> StatisticBounds:
    read = call.tensor(0)
    if read.count != output.count or "dropout" in call.op.type:
        raise UntoldError
    return same(read)


@law("expand", "expand_as", "broadcast_to", "repeat", "tile")
def _repeated(call: GivenCall, output: Summary) -> StatisticBounds:
    return same(spread(call.tensor(0), output.count))


@law("to", "float", "half", "bfloat16", "double", "type", "type_as", "npu", "cuda", "cpu")
def _cast(call: GivenCall, output: Summary) -> StatisticBounds:
    read = call.tensor(0)
    if output.unit == 0.0 or read.unit == 0.0:  # whole numbers are cut off
        raise UntoldError
    return same(read)


@law("cat", "concat", "concatenate", "stack")
def _joined(call: GivenCall, output: Summary) -> StatisticBounds:
    parts = joined(call.list(0))
    if parts.count != output.count:
        raise UntoldError
    return same(parts)


@law("chunk", "split", "split_with_sizes", "tensor_split", "unbind", of_all=True)
def _parted(call: GivenCall, output: Summary) -> StatisticBounds:
    return _moved(call, output)


@law("add", "radd", "sub", "rsub", "subtract")
def _added(call: GivenCall, output: Summary) -> StatisticBounds:
    one, other = call.operand(0, "input"), call.operand(1)
    other = times(other, call.number(2, "alpha", 1.0))
    name = call.op.type
    if "rsub" in name:
        one = times(one, -1.0)
    elif "sub" in name:
        other = times(other, -1.0)
    return total(one, other, output.count)


@law("lerp")
def _between(call: GivenCall, output: Summary) -> StatisticBounds:
    share = call.number(2, "weight")
    one, other = call.tensor(0), call.tensor(1, "end")
    return total(times(one, 1 - share), times(other, share), output.count)


@law("mul", "rmul", "multiply")
def _multiplied(call: GivenCall, output: Summary) -> StatisticBounds:
    one, other = (spread(call.operand(at, word), output.count) for at, word in _PAIR)
    return _product(one, other)


_PAIR = ((0, "input"), (1, "other"))


def _product(one: Summary, other: Summary) -> StatisticBounds:
    for number, tensor in ((one, other), (other, one)):
        if number.maximum == number.minimum:
            return same(times(tensor, number.maximum))
    ends = [a * b for a in (one.maximum, one.minimum) for b in (other.maximum, other.minimum)]
    inside = min(ends), max(ends)
    count = one.count
    upper = min(one.largest * other.norm, other.largest * one.norm)
    size = upper / math.sqrt(count)
    reach = one.norm * other.norm / count
    return StatisticBounds(inside, inside, (-reach, reach), (0.0, upper), max(map(abs, ends)), size)


@law("addcmul")
def _added_product(call: GivenCall, output: Summary) -> StatisticBounds:
    value = call.number(3, "value", 1.0)
    factors = [spread(call.tensor(at, f"tensor{at}"), output.count) for at in (1, 2)]
    product = _product(*factors)
    old = call.tensor(0)
    if factors[0].mark == factors[1].mark:  # a square, as in Adam
        largest, mean = factors[0].largest ** 2, factors[0].size ** 2
        square = replace(factors[0], maximum=largest, minimum=0.0, mean=mean, norm=0.0)
        bounds = total(old, times(square, value), output.count)
        return replace(bounds, minimum=None, maximum=None, norm=None, size=old.size + value * mean)
    assert product.norm is not None
    reach = abs(value) * product.norm[1]
    return StatisticBounds(
        norm=(max(old.norm - reach, 0.0), old.norm + reach),
        size=old.size + reach / math.sqrt(output.count),
    )


@law("div", "divide", "true_divide")
def _divided(call: GivenCall, output: Summary) -> StatisticBounds:
    one, other = call.operand(0, "input"), call.operand(1)
    if other.minimum <= 0.0 <= other.maximum:
        raise UntoldError
    ends = 1 / other.maximum, 1 / other.minimum
    size = max(map(abs, ends))
    inverse = Summary(
        0, other.count, max(ends), min(ends), sum(ends) / 2, size * math.sqrt(other.count), 0.0, ""
    )
    bounds = _product(spread(one, output.count), spread(inverse, output.count))
    if inverse.maximum == inverse.minimum:
        return bounds
    return replace(bounds, mean=None)


@law("abs", "square", "pow")
def _even(call: GivenCall, _: Summary) -> StatisticBounds:
    read = call.tensor(0)
    if call.op.type.strip("_") == "abs":
        return StatisticBounds(
            (read.largest, read.largest), (0.0, read.largest), (abs(read.mean), read.size),
            (read.norm, read.norm), read.largest, read.size,
        )  # fmt: skip
    if call.op.type.strip("_") == "pow" and call.number(1, "exponent") != 2.0:
        raise UntoldError
    largest, mean = read.largest**2, read.size**2
    return StatisticBounds(
        (largest, largest), (0.0, largest), (mean, mean), element=2 * largest, size=4 * mean
    )
