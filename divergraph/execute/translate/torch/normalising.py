"""Softmax and normalisations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.piece import Expr, Outputs
from divergraph.execute.translate.torch.call import TorchCall, row

EPS = 1e-5
USUAL_GROUPS = 32
"""Of GroupNorm in most models, as its paper has them (Wu and He, 2018)."""
"""What layers add to a variance unless they are told otherwise."""
_BEGIN = 2
"""The first axis behind batch and channels."""


@row("softmax", "log_softmax", "softmin", "_softmax", source="torch.nn.functional.softmax")
def _softmax(call: TorchCall) -> Outputs:
    kind = "LogSoftmax" if call.type == "log_softmax" else "Softmax"
    value = call.operand(0, "input", call.result)
    value = (-value) if call.type == "softmin" else value
    return [call.add(kind, value, axis=call.axis(1, "dim"))]


@row("Softmax", "LogSoftmax", source="torch.nn.Softmax")
def _softmax_module(call: TorchCall) -> Outputs:
    # The dump says no axis: golden's own output shows whether it is the last.
    return [call.add(call.type, call.tensor(), axis=-1)]


def _scaled(value: Expr, weight: Expr | None, bias: Expr | None) -> Expr:
    result = value if weight is None else (value * weight)
    return result if bias is None else (result + bias)


def normalised(call: TorchCall, value: Expr, axes: Sequence[int], eps: float) -> tuple[Expr, Expr]:
    """*value* less its mean along *axes*, over the root of variance and *eps*; and that root."""
    mean = call.reduced("ReduceMean", value, axes, keep=True)
    apart = value - mean
    square = call.reduced("ReduceMean", apart * apart, axes, keep=True)
    root = (square + eps).sqrt()
    return apart / root, root


def _last(call: TorchCall, count: int) -> tuple[int, ...]:
    rank = len(call.shape())
    return tuple(range(rank - count, rank))


@row("layer_norm", "native_layer_norm", source="torch.nn.functional.layer_norm")
def _layer_norm(call: TorchCall) -> Outputs:
    axes = _last(call, len(call.integers(1, "normalized_shape")))
    result, root = normalised(call, call.tensor(), axes, call.number(4, "eps", EPS))
    scaled = _scaled(result, call.find(2, "weight"), call.find(3, "bias"))
    if call.type == "layer_norm":
        return [scaled]
    return [scaled, call.reduced("ReduceMean", call.tensor(), axes, keep=True), root.reciprocal()]


@row("LayerNorm", source="torch.nn.LayerNorm")
def _layer_norm_module(call: TorchCall) -> Outputs:
    weight = call.parameter("weight")
    axes = _last(call, len(call.shape("parameters.weight", "")) if weight else 1)
    result = normalised(call, call.tensor(), axes, call.number(None, "eps", EPS))[0]
    return [_scaled(result, weight, call.parameter("bias"))]


@row("rms_norm", source="torch.nn.functional.rms_norm")
def _rms_norm(call: TorchCall) -> Outputs:
    axes = _last(call, len(call.integers(1, "normalized_shape")))
    unit = float(np.finfo(np.float32).eps)
    result, _ = _of_root_mean_square(call, axes, call.number(3, "eps", unit))
    return [_scaled(result, call.find(2, "weight"), None)]


@row("npu_rms_norm", source="torch_npu.npu_rms_norm")
def _npu_rms_norm(call: TorchCall) -> Outputs:
    axes = _last(call, len(call.shape(1, "gamma")))
    result, scale = _of_root_mean_square(call, axes, call.number(2, "epsilon", 1e-6))
    return [_scaled(result, call.tensor(1, "gamma"), None), scale]


@row("RMSNorm", "LlamaRMSNorm", "Qwen2RMSNorm", source="torch.nn.RMSNorm")
def _rms_norm_module(call: TorchCall) -> Outputs:
    axes = _last(call, len(call.shape("parameters.weight", "")))
    result, _ = _of_root_mean_square(call, axes, call.number(None, "eps", 1e-6))
    return [_scaled(result, call.parameter("weight"), None)]


def _of_root_mean_square(call: TorchCall, axes: Sequence[int], eps: float) -> tuple[Expr, Expr]:
    """The input over its root mean square, and one over that."""
    value = call.tensor()
    square = call.reduced("ReduceMean", value * value, axes, keep=True)
    root = (square + eps).sqrt()
    return value / root, root.reciprocal()


def _by_channel(call: TorchCall, name: Expr | None) -> Expr | None:
    """A parameter with one value a channel, as it is spread over batch and places."""
    rank = len(call.shape())
    return None if name is None else call.piece.reshape(name, (1, -1, *(1,) * (rank - _BEGIN)))


@row("batch_norm", source="torch.nn.functional.batch_norm")
def _batch_norm(call: TorchCall) -> Outputs:
    names = ("running_mean", "running_var", "weight", "bias")
    values = [call.find(at, name) for at, name in enumerate(names, start=1)]
    eps, in_training = call.number(7, "eps", EPS), call.flag(5, "training")
    return [_batch_normalised(call, values, eps, in_training=in_training)]


@row("instance_norm", *(f"InstanceNorm{axes}d" for axes in (1, 2, 3)),
     source="torch.nn.functional.instance_norm")  # fmt: skip
def _instance_norm(call: TorchCall) -> Outputs:
    if not call.flag(5, "use_input_stats", default=True):
        raise call.refused("takes what was seen before, of which the dump has only the end")
    axes = tuple(range(_BEGIN, len(call.shape())))
    result = normalised(call, call.tensor(), axes, call.number(7, "eps", EPS))[0]
    return [_scaled_by_channel(call, result, (3, 4))]


@row("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", source="torch.nn.BatchNorm2d")
def _batch_norm_module(call: TorchCall) -> Outputs:
    names = tuple(map(call.parameter, ("running_mean", "running_var", "weight", "bias")))
    eps = call.number(None, "eps", EPS)
    return [_batch_normalised(call, names, eps, in_training=names[0] is None)]


def _batch_normalised(call: TorchCall, names: Outputs, eps: float, *, in_training: bool) -> Expr:
    value, (mean, spread, weight, bias) = call.tensor(), (_by_channel(call, each) for each in names)
    if in_training or mean is None or spread is None:
        axes = (0, *range(_BEGIN, len(call.shape())))
        result = normalised(call, value, axes, eps)[0]
    else:
        result = (value - mean) / (spread + eps).sqrt()
    return _scaled(result, weight, bias)


@row("_native_batch_norm_legit_no_training",
     source="aten::_native_batch_norm_legit_no_training")  # fmt: skip
def _native_batch_norm(call: TorchCall) -> Outputs:
    names = ("running_mean", "running_var", "weight", "bias")
    own = [call.find(name) for name in names]
    result = _batch_normalised(call, own, call.number(6, "eps", EPS), in_training=False)
    nothing = call.constant(np.zeros(0))  # no statistics are saved outside of training
    return [result, nothing, nothing]


@row("group_norm", source="torch.nn.functional.group_norm")
def _group_norm(call: TorchCall) -> Outputs:
    result, _, _ = _normalised_in_groups(call, call.integer(1, "num_groups"))
    return [result]


@row("GroupNorm", source="torch.nn.GroupNorm")
def _group_norm_module(call: TorchCall) -> Outputs:
    # The usual number of groups; golden's own output shows whether it is the right one.
    channels = call.shape()[1]
    groups = USUAL_GROUPS if channels % USUAL_GROUPS == 0 else 1
    result, _, _ = _normalised_in_groups(call, groups)
    return [result]


@row("native_group_norm", source="aten::native_group_norm")
def _native_group_norm(call: TorchCall) -> Outputs:
    groups = call.integer(6, "group")
    result, value, root = _normalised_in_groups(call, groups)
    mean = call.reduced("ReduceMean", value, (2,))
    return [result, mean, call.piece.reshape(root.reciprocal(), (-1, groups))]


def _normalised_in_groups(call: TorchCall, groups: int) -> tuple[Expr, Expr, Expr]:
    """The normalised input; the input with a row for each group, and the root it was divided by."""
    shape = call.shape()
    value = call.piece.reshape(call.tensor(), (shape[0], groups, -1))
    result, root = normalised(call, value, (2,), call.number(4, "eps", EPS))
    result = call.piece.reshape(result, shape)
    return _scaled_by_channel(call, result, (2, 3)), value, root


def _scaled_by_channel(call: TorchCall, value: Expr, places: tuple[int, int]) -> Expr:
    """*value* by the weight and plus the bias, arguments in these *places* or a module's own."""
    weight, bias = (
        _by_channel(call, call.find(at, name) or call.parameter(name))
        for at, name in zip(places, ("weight", "bias"), strict=True)
    )
    return _scaled(value, weight, bias)


@row("weight_norm", source="torch.nn.utils.parametrizations.weight_norm")
def _weight_norm(call: TorchCall) -> Outputs:
    rank, axis = len(call.shape(0, "v")), call.axis(2, "dim", 0, len(call.shape(0, "v")))
    value = call.tensor(0, "v")
    size = call.reduced("ReduceL2", value, [at for at in range(rank) if at != axis], keep=True)
    return [value * (call.tensor(1, "g") / size)]
