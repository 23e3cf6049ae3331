"""The laws of what reduces, normalises and chooses, and of losses and layers; with those of
functions the whole table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from divergraph.thresholds.recorded.call_laws import (
    GivenCall,
    StatisticBounds,
    Summary,
    UntoldError,
    among,
    joined,
    law,
    same,
    spread,
    times,
    with_zero,
)
from divergraph.thresholds.recorded.call_laws import broken_law as broken_law
from divergraph.thresholds.recorded.laws_of_functions import DECREASING, GATED, INCREASING

# reductions


@law("mean", "sum")
def _reduced(call: GivenCall, output: Summary) -> StatisticBounds:
    read = call.tensor(0)
    if output.unit == 0.0 or read.unit == 0.0:
        raise UntoldError
    share = 1.0 if call.op.type == "mean" else read.count / output.count
    mean = read.mean * share
    # rounded is what is added up, so relative to its size, not to that of the sum
    return StatisticBounds(mean=(mean, mean), size=read.size * share)


@law("amax", "max", "amin", "min")
def _extreme(call: GivenCall, _: Summary) -> StatisticBounds:
    read = call.tensor(0)
    if call.has(1, "other"):
        raise UntoldError
    end = read.maximum if "max" in call.op.type else read.minimum
    exactly, inside = (end, end), (read.minimum, read.maximum)
    if "max" in call.op.type:
        return StatisticBounds(exactly, inside, element=read.largest)
    return StatisticBounds(inside, exactly, element=read.largest)


@law("topk")
def _largest(call: GivenCall, _: Summary) -> StatisticBounds:
    read = call.tensor(0)
    inside = (read.minimum, read.maximum)
    if call.op.attrs.get("input.largest", call.op.attrs.get("input.3", True)) is False:
        return StatisticBounds(inside, (read.minimum, read.minimum), element=read.largest)
    return StatisticBounds((read.maximum, read.maximum), inside, element=read.largest)


@law("norm", "linalg_norm", "linalg_vector_norm", "vector_norm")
def _norm(call: GivenCall, output: Summary) -> StatisticBounds:
    read = call.tensor(0)
    if call.op.attrs.get("input.1", call.op.attrs.get("input.ord", 2)) not in (2, 2.0, "fro"):
        raise UntoldError
    return StatisticBounds(norm=(read.norm, read.norm), size=read.norm / math.sqrt(output.count))


@law("std", "var")
def _deviation(call: GivenCall, _: Summary) -> StatisticBounds:
    read = call.tensor(0)
    half = (read.maximum - read.minimum) / 2
    upper = half * math.sqrt(2.0) if call.op.type == "std" else half**2 * 2
    return StatisticBounds((0.0, upper), (0.0, upper), element=upper)


# shares and what is normalised


@law("softmax")
def _softmax(call: GivenCall, output: Summary) -> StatisticBounds:
    mean = 1.0 / call.axis(1, "dim", -1)
    size = output.count**0.5
    return StatisticBounds(
        (mean, 1.0), (0.0, mean), (mean, mean), (mean * size, math.sqrt(mean) * size), 1.0, mean
    )


@law("log_softmax")
def _log_softmax(call: GivenCall, _: Summary) -> StatisticBounds:
    lower = -math.log(call.axis(1, "dim", -1))
    lowest = call.tensor(0).minimum - call.tensor(0).maximum + lower
    return StatisticBounds((lower, 0.0), (lowest, lower), element=abs(lowest))


@law("one_hot")
def _one_hot(_: GivenCall, output: Summary) -> StatisticBounds:
    return StatisticBounds(mean=(1.0 / output.shape[-1],) * 2, size=1.0)


@law("normalize")
def _normalised(call: GivenCall, output: Summary) -> StatisticBounds:
    if call.number(1, "p", 2.0) != 2.0:
        raise UntoldError
    rows = output.count / call.axis(2, "dim", 1)
    return StatisticBounds((-1.0, 1.0), (-1.0, 1.0), norm=(0.0, math.sqrt(rows)), element=1.0,
                  size=math.sqrt(rows / output.count))  # fmt: skip


_NORMS: Mapping[str, tuple[int, int]] = {
    "layer_norm": (2, 3), "native_layer_norm": (2, 3), "rms_norm": (2, -1), "group_norm": (2, 3),
    "npu_rms_norm": (1, -1),
}  # fmt: skip


@law(*_NORMS)
def _scaled(call: GivenCall, output: Summary) -> StatisticBounds:
    # Each row has the norm sqrt(length) at most, and but for rms_norm the mean zero.
    return _normed(call, output, *_NORMS[call.op.type])


def _normed(call: GivenCall, output: Summary, at_weight: int, at_bias: int) -> StatisticBounds:
    read = call.tensor(0)
    has_weight, has_bias = call.has(at_weight, "weight"), call.has(at_bias, "bias")
    weight = call.tensor(at_weight, "weight") if has_weight else None
    bias = spread(call.tensor(at_bias, "bias"), output.count) if has_bias else None
    upper = (1.0 if weight is None else weight.largest) * math.sqrt(read.count)
    added = 0.0 if bias is None else bias.norm
    size = (upper + added) / math.sqrt(output.count)
    is_even = "rms" not in call.op.type and (weight is None or weight.maximum == weight.minimum)
    mean = (0.0 if bias is None else bias.mean,) * 2 if is_even else None
    return StatisticBounds(mean=mean, norm=(0.0, upper + added), size=size)


# what only chooses among what it reads


@law("max_pool1d", "max_pool2d", "max_pool3d", "index_select", "select", "narrow", "slice",
     "gather", "take_along_dim", "getitem", "adaptive_max_pool1d", "adaptive_max_pool2d",
     "adaptive_avg_pool1d", "adaptive_avg_pool2d")  # fmt: skip
def _chosen(call: GivenCall, _: Summary) -> StatisticBounds:
    return among(call.tensor(0))


@law("avg_pool1d", "avg_pool2d", "avg_pool3d", "tril", "triu", "interpolate", "upsample")
def _chosen_or_zero(call: GivenCall, _: Summary) -> StatisticBounds:
    if call.op.attrs.get("input.mode", call.op.attrs.get("input.3", "")) == "bicubic":
        raise UntoldError
    return among(with_zero(call.tensor(0)))


@law("embedding")
def _looked_up(call: GivenCall, _: Summary) -> StatisticBounds:
    return among(call.tensor(1, "weight"))


@law("pad")
def _padded(call: GivenCall, output: Summary) -> StatisticBounds:
    read = call.tensor(0)
    how = call.op.attrs.get("input.mode", call.op.attrs.get("input.2", "constant"))
    value = call.number(3, "value", 0.0)
    inside = among(read)
    if how != "constant" or value != 0.0:
        return inside if how != "constant" else StatisticBounds()
    if output.count < read.count:
        raise UntoldError
    mean = read.mean * read.count / output.count
    return replace(
        among(with_zero(read)), mean=(mean, mean), norm=(read.norm, read.norm), size=read.size
    )


@law("where")
def _either(call: GivenCall, _: Summary) -> StatisticBounds:
    return among(joined([call.operand(1, "input"), call.operand(2, "other")]))


@law("masked_fill")
def _filled(call: GivenCall, _: Summary) -> StatisticBounds:
    return among(joined([call.tensor(0), call.operand(2, "value")]))


@law("dropout")
def _dropped(call: GivenCall, _: Summary) -> StatisticBounds:
    read = call.tensor(0)
    share = call.number(1, "p", 0.5)
    if share == 0.0 or call.op.attrs.get("input.training", call.op.attrs.get("input.2")) is False:
        return same(read)
    if share >= 1.0:
        raise UntoldError
    return among(with_zero(times(read, 1 / (1 - share))))


@law("scaled_dot_product_attention")
def _attended(call: GivenCall, _: Summary) -> StatisticBounds:
    if call.op.attrs.get("input.dropout_p", call.op.attrs.get("input.4", 0.0)) != 0.0:
        raise UntoldError
    return among(call.tensor(2, "value"))


# what is bounded by norms


@law("linear")
def _linear(call: GivenCall, output: Summary) -> StatisticBounds:
    bias = call.tensor(2, "bias") if call.has(2, "bias") else None
    added = 0.0 if bias is None else spread(bias, output.count).norm
    upper = call.tensor(0).norm * call.tensor(1, "weight").norm + added
    return StatisticBounds(norm=(0.0, upper), size=upper / math.sqrt(output.count))


@law("mse_loss")
def _distance(call: GivenCall, output: Summary) -> StatisticBounds:
    one, other = call.tensor(0), call.tensor(1, "target")
    if output.count != 1 or call.op.attrs.get("input.reduction", "mean") != "mean":
        raise UntoldError
    ends = (one.size - other.size) ** 2, (one.size + other.size) ** 2
    return StatisticBounds(ends, ends, element=ends[1])


@law("l1_loss")
def _absolute(call: GivenCall, output: Summary) -> StatisticBounds:
    one, other = call.tensor(0), call.tensor(1, "target")
    if output.count != 1 or call.op.attrs.get("input.reduction", "mean") != "mean":
        raise UntoldError
    ends = abs(one.mean - other.mean), one.size + other.size
    return StatisticBounds(ends, ends, element=ends[1])


# batch_norm and instance_norm as in training: of each channel the mean is that of its bias


@law("batch_norm", "instance_norm")
def _scaled_channels(call: GivenCall, output: Summary) -> StatisticBounds:
    flag = "training" if call.op.type == "batch_norm" else "use_input_stats"
    if call.op.attrs.get("input.5", call.op.attrs.get(f"input.{flag}")) is not True:
        raise UntoldError  # scaled by the statistics of earlier steps
    return _normed(call, output, 3, 4)


IN_ANY_ORDER = frozenset(
    {*INCREASING, *DECREASING, *GATED, *_NORMS, "leaky_relu", "elu", "softplus", "hardtanh",
     "clamp", "clamp_min", "clamp_max", "softmax", "log_softmax", "abs", "square", "pow",
     "batch_norm", "instance_norm", "normalize", "norm", "linalg_vector_norm", "embedding",
     "amax", "amin", "max", "min", "sort", "topk", "cat", "stack", "dropout"}
)  # fmt: skip
"""Calls that make the same statistics of the same values in another order, or nearly so: what
normalises rows does not see where in a row a value is."""
