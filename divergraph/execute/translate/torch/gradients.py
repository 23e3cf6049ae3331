"""Ways back: the gradients by what a call took, of the gradient by what it made.

A dump has for a call the gradients of the last node of autograd. Where a call is one node these are
its own. Where it is several (a linear call of three axes, a matmul of four) they are not, and that
their shapes are not those of the call's inputs, or that golden's entry is not what golden's inputs
give, shows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from divergraph.execute.translate.torch.call import TorchCall, row, spelled
from divergraph.execute.translate.torch.matrices import Attention
from divergraph.execute.translate.torch.shaping import order_of

_SOURCE = "torch.autograd; derivatives of the functions of torch"
_Slope: TypeAlias = Callable[[TorchCall, str], str]
"""The derivative, of the call's input or its output."""


def _back(*types: str) -> tuple[str, ...]:
    return tuple(f"{each}.backward" for each in types)


def _of_slope(slope: _Slope, *, by_output: bool) -> Callable[[TorchCall], Sequence[str | None]]:
    def made(call: TorchCall) -> Sequence[str | None]:
        value = call.made() if by_output else call.operand(0, "input")
        return call.gradients({"0": call.add("Mul", call.gradient(), slope(call, value))})

    return made


def _silu(call: TorchCall, value: str) -> str:
    gate, one = call.add("Sigmoid", value), call.constant(1.0)
    rest = call.add("Mul", value, call.add("Sub", one, gate))
    return call.add("Mul", gate, call.add("Add", one, rest))


def _gelu(call: TorchCall, value: str) -> str:
    one, half = call.constant(1.0), call.constant(0.5)
    if call.word(None, "approximate", "none") == "tanh":
        factor, cubic = call.constant(math.sqrt(2.0 / math.pi)), call.constant(0.044715)
        square = call.add("Mul", value, value)
        inner = call.add("Add", one, call.add("Mul", cubic, square))
        bent = call.add("Tanh", call.add("Mul", factor, call.add("Mul", value, inner)))
        rise = call.add("Mul", call.constant(3 * 0.044715), square)
        rise = call.add("Mul", factor, call.add("Add", one, rise))
        slope = call.add("Mul", call.add("Sub", one, call.add("Mul", bent, bent)), rise)
        slope = call.add("Mul", half, call.add("Mul", value, slope))
        return call.add("Add", call.add("Mul", half, call.add("Add", one, bent)), slope)
    share = call.add("Erf", call.add("Mul", value, call.constant(math.sqrt(0.5))))
    share = call.add("Mul", half, call.add("Add", one, share))
    square = call.add("Mul", call.constant(-0.5), call.add("Mul", value, value))
    density = call.add("Mul", call.add("Exp", square), call.constant(1.0 / math.sqrt(2 * math.pi)))
    return call.add("Add", share, call.add("Mul", value, density))


def _above_zero(call: TorchCall, value: str) -> str:
    return call.cast(call.add("Greater", value, call.constant(0.0)))


def _pow(call: TorchCall, value: str) -> str:
    exponent = call.number(1, "exponent")
    lowered = call.add("Pow", value, call.constant(exponent - 1.0))
    return call.add("Mul", lowered, call.constant(exponent))


def _rsqrt(call: TorchCall, made: str) -> str:
    return call.add("Mul", call.add("Pow", made, call.constant(3.0)), call.constant(-0.5))


def _tanh(call: TorchCall, made: str) -> str:
    return call.add("Sub", call.constant(1.0), call.add("Mul", made, made))


def _sigmoid(call: TorchCall, made: str) -> str:
    return call.add("Mul", made, call.add("Sub", call.constant(1.0), made))


_BY_INPUT: tuple[tuple[tuple[str, ...], _Slope], ...] = (
    ((*spelled("silu"), "SiLU"), _silu),
    (("gelu", "GELU"), _gelu),
    ((*spelled("relu"), "ReLU"), _above_zero),
    ((*spelled("pow"), "__pow__"), _pow),
    (("softplus", "Softplus"), lambda call, value: call.add("Sigmoid", value)),
    (spelled("log"), lambda call, value: call.add("Reciprocal", value)),
    (spelled("sin"), lambda call, value: call.add("Cos", value)),
    (spelled("cos"), lambda call, value: call.add("Neg", call.add("Sin", value))),
    (("neg", "__neg__"), lambda call, _: call.constant(-1.0)),
    (("abs", "__abs__"), lambda call, value: call.add("Sign", value)),
)
_BY_OUTPUT: tuple[tuple[tuple[str, ...], _Slope], ...] = (
    (spelled("rsqrt"), _rsqrt),
    ((*spelled("tanh"), "Tanh"), _tanh),
    ((*spelled("sigmoid"), "Sigmoid"), _sigmoid),
    (spelled("exp"), lambda _, made: made),
    (spelled("sqrt"), lambda call, made: call.add("Div", call.constant(0.5), made)),
    (("reciprocal",), lambda call, made: call.add("Neg", call.add("Mul", made, made))),
)
for _table, _is_by_output in ((_BY_INPUT, False), (_BY_OUTPUT, True)):
    for _types, _slope in _table:
        row(*_back(*_types), source=_SOURCE)(_of_slope(_slope, by_output=_is_by_output))


def _both(call: TorchCall, one: str, other: str) -> Sequence[str | None]:
    """Gradients of the shape of the output, by the first two arguments, added up to their shapes.

    Of a weight that was spread over a batch the sum is what autograd hands on.
    """
    shape = call.gradient_shape()
    found = {}
    for place, name, keyword in (("0", one, "input"), ("1", other, "other")):
        if call.find(place, keyword) is not None:
            found[place] = call.summed_to(name, shape, call.shape(place, keyword))
    return call.gradients(found)


@row(*_back("__add__", "__radd__", "__iadd__", *spelled("add")), source=_SOURCE)
def _add_back(call: TorchCall) -> Sequence[str | None]:
    alpha, gradient = call.number(None, "alpha", 1), call.gradient()
    scaled = gradient if alpha == 1 else call.add("Mul", gradient, call.constant(alpha))
    return _both(call, gradient, scaled)


@row(*_back("__sub__", "__isub__", *spelled("sub")), source=_SOURCE)
def _sub_back(call: TorchCall) -> Sequence[str | None]:
    alpha, gradient = call.number(None, "alpha", 1), call.gradient()
    return _both(call, gradient, call.add("Mul", gradient, call.constant(-alpha)))


@row(*_back("__rsub__"), source=_SOURCE)
def _rsub_back(call: TorchCall) -> Sequence[str | None]:
    return _both(call, call.add("Neg", call.gradient()), call.gradient())


@row(*_back("__mul__", "__rmul__", "__imul__", *spelled("mul")), source=_SOURCE)
def _mul_back(call: TorchCall) -> Sequence[str | None]:
    gradient = call.gradient()
    one = call.add("Mul", gradient, call.operand(1, "other"))
    return _both(call, one, call.add("Mul", gradient, call.operand(0, "input")))


@row(*_back("__truediv__", "__itruediv__", "__div__", *spelled("div")), source=_SOURCE)
def _div_back(call: TorchCall) -> Sequence[str | None]:
    gradient, other = call.gradient(), call.operand(1, "other")
    one = call.add("Div", gradient, other)
    made = call.add("Div", call.operand(0, "input"), call.add("Mul", other, other))
    return _both(call, one, call.add("Neg", call.add("Mul", gradient, made)))


@row(*_back(*spelled("masked_fill")), source=_SOURCE)
def _masked_fill_back(call: TorchCall) -> Sequence[str | None]:
    mask = call.operand(1, "mask", np.dtype(np.bool_))
    return call.gradients({"0": call.add("Where", mask, call.constant(0.0), call.gradient())})


@row(*_back("where"), source=_SOURCE)
def _where_back(call: TorchCall) -> Sequence[str | None]:
    asked, zero, gradient = call.tensor(0, "condition"), call.constant(0.0), call.gradient()
    shape, found = call.gradient_shape(), {}
    for at, (keyword, pair) in enumerate(
        (("input", (gradient, zero)), ("other", (zero, gradient)))
    ):
        if call.find(at + 1, keyword) is not None:  # the condition has no gradient and no place
            name = call.add("Where", asked, *pair)
            found[str(at)] = call.summed_to(name, shape, call.shape(at + 1, keyword))
    return call.gradients(found)


@row(*_back("sum", "mean"), source=_SOURCE)
def _sum_back(call: TorchCall) -> Sequence[str | None]:
    shape, axes = call.shape(), call.axes(1, "dim")
    kept = [1 if axis in axes else size for axis, size in enumerate(shape)]
    gradient = call.piece.reshape(call.gradient(), kept)
    if call.type == "mean":
        count = float(np.prod([shape[axis] for axis in axes], dtype=np.int64))
        gradient = call.add("Div", gradient, call.constant(count))
    return call.gradients({"0": call.add("Expand", gradient, call.piece.ints(*shape))})


@row(*_back("softmax", "log_softmax", "Softmax"), source=_SOURCE)
def _softmax_back(call: TorchCall) -> Sequence[str | None]:
    axes = (call.axis(1, "dim", -1),)
    gradient, made = call.gradient(), call.made()
    if call.type == "log_softmax":
        total = call.reduced("ReduceSum", gradient, axes, keep=True)
        found = call.add("Sub", gradient, call.add("Mul", call.add("Exp", made), total))
        return call.gradients({"0": found})
    product = call.add("Mul", gradient, made)
    total = call.reduced("ReduceSum", product, axes, keep=True)
    return call.gradients({"0": call.add("Mul", made, call.add("Sub", gradient, total))})


@row(*_back("scaled_dot_product_attention"), source=_SOURCE)
def _attention_back(call: TorchCall) -> Sequence[str | None]:
    found, gradient = Attention(call), call.gradient()
    if found.groups > 1:
        raise call.refused("shares keys among queries")
    by_value = call.add("MatMul", found.turned(found.weights), gradient)
    by_weights = call.add("MatMul", gradient, found.turned(found.value))
    product = call.add("Mul", by_weights, found.weights)
    total = call.reduced("ReduceSum", product, (found.rank - 1,), keep=True)
    by_scores = call.add("Mul", found.weights, call.add("Sub", by_weights, total))
    by_scores = found.rounded(call.add("Mul", by_scores, call.constant(found.scale)))
    by_query = call.add("MatMul", by_scores, found.key)
    by_key = call.add("MatMul", found.turned(by_scores), found.query)
    return call.gradients({"0": by_query, "1": by_key, "2": by_value})


@row(*_back("matmul", "bmm", "mm", "__matmul__"), source=_SOURCE)
def _matmul_back(call: TorchCall) -> Sequence[str | None]:
    keyword = "other" if call.find(1, "other") else "mat2"
    shapes = call.shape(), call.shape(1, keyword)
    is_one_node = len(shapes[0]) == len(shapes[1])
    if min(map(len, shapes)) < 2 or not (is_one_node or call.is_by_argument):
        raise call.refused("is of several nodes")
    one, other = (
        call.piece.transpose(name, *range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        for name, shape in zip((call.tensor(), call.tensor(1, keyword)), shapes, strict=True)
    )
    gradient, wide = call.gradient(), call.gradient_shape()[:-2]
    by_one, by_other = (call.add("MatMul", *pair) for pair in ((gradient, other), (one, gradient)))
    return call.gradients(
        {
            "0": call.summed_to(by_one, (*wide, *shapes[0][-2:]), shapes[0]),
            "1": call.summed_to(by_other, (*wide, *shapes[1][-2:]), shapes[1]),
        }
    )


@row(*_back("linear", "dense"), source=_SOURCE)
def _linear_back(call: TorchCall) -> Sequence[str | None]:
    if not (len(call.shape()) == 2 or call.is_by_argument):
        raise call.refused("is of several nodes: its module has the gradient")
    weight = call.shape(1, "weight")
    by_value = call.add("MatMul", call.gradient(), call.tensor(1, "weight"))
    gradient = call.piece.reshape(call.gradient(), (-1, weight[0]))
    value = call.piece.reshape(call.tensor(), (-1, weight[1]))
    by_bias = call.reduced("ReduceSum", gradient, (0,))
    if call.is_by_argument:
        by_weight = call.add("MatMul", call.piece.transpose(gradient, 1, 0), value)
        return call.gradients(
            {"0": by_value, "1": by_weight, "weight": by_weight, "2": by_bias, "bias": by_bias}
        )
    # The node is a sum of a bias and a product with the weight turned, or the product alone.
    nodes = [by_value, call.add("MatMul", call.piece.transpose(value, 1, 0), gradient)]
    if call.find(2, "bias") is not None:
        nodes.insert(0, by_bias)
    return call.gradients({str(at): name for at, name in enumerate(nodes)})


@row(*_back("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "ravel",
            "reshape_as", "contiguous", "clone", "float", "double", "half", "bfloat16", "to",
            "type", "type_as", "Flatten", "Identity", "alias"), source=_SOURCE)  # fmt: skip
def _view_back(call: TorchCall) -> Sequence[str | None]:
    return call.gradients({"0": call.cast(call.piece.reshape(call.gradient(), call.shape()))})


@row(*_back("permute", "transpose", "swapaxes", "t", "T", "mT"), source=_SOURCE)
def _transpose_back(call: TorchCall) -> Sequence[str | None]:
    order = [int(axis) for axis in np.argsort(order_of(call))]
    return call.gradients({"0": call.piece.transpose(call.gradient(), *order)})


@row(*_back("expand", "expand_as", "broadcast_to"), source=_SOURCE)
def _expand_back(call: TorchCall) -> Sequence[str | None]:
    found = call.summed_to(call.gradient(), call.gradient_shape(), call.shape())
    return call.gradients({"0": found})


@row(*_back("cat", "concat", "concatenate"), source=_SOURCE)
def _cat_back(call: TorchCall) -> Sequence[str | None]:
    axis, begin, parts = call.axis(1, "dim", 0, len(call.gradient_shape())), 0, list[str]()
    ints = call.piece.ints
    for place in call.places(0):
        end = begin + call.shape(place)[axis]
        parts.append(call.add("Slice", call.gradient(), ints(begin), ints(end), ints(axis)))
        begin = end
    numbered = {str(at): part for at, part in enumerate(parts)}
    return call.gradients(numbered | {f"0.{at}": part for at, part in numbered.items()})


@row(*_back("repeat_interleave"), source=_SOURCE)
def _repeat_interleave_back(call: TorchCall) -> Sequence[str | None]:
    count, axis, shape = call.integer(1, "repeats"), call.axis(2, "dim"), call.shape()
    apart = (*shape[: axis + 1], count, *shape[axis + 1 :])
    total = call.reduced("ReduceSum", call.piece.reshape(call.gradient(), apart), [axis + 1])
    return call.gradients({"0": total})


@row(*_back("Linear", "Dense"), source="torch.nn.Linear")
def _linear_module_back(call: TorchCall) -> Sequence[str | None]:
    weight = call.tensor("parameters.weight", "")
    return call.gradients({"0": call.add("MatMul", call.gradient(), weight)})


@row("Linear.parameters_grad", "Dense.parameters_grad", source="torch.nn.Linear")
def _linear_parameters(call: TorchCall) -> Sequence[str | None]:
    weight = call.shape("parameters.weight", "")
    gradient = call.piece.reshape(call.gradient(), (-1, weight[0]))
    value = call.piece.reshape(call.tensor(), (-1, weight[1]))
    turned = call.piece.transpose(gradient, 1, 0)
    return call.gradients(
        {
            "weight": call.add("MatMul", turned, value),
            "bias": call.reduced("ReduceSum", gradient, (0,)),
        }
    )


def _of_rows(call: TorchCall, shape: Sequence[int]) -> str:
    """The gradient by an embedding's table of *shape*: what came in for each row, added up."""
    index = call.piece.reshape(call.tensor(), (-1, 1))
    gradient = call.piece.reshape(call.gradient(), (-1, shape[1]))
    wide = call.piece.cast(gradient, np.float64)
    zeros = call.piece.const(np.zeros(shape, np.float64))
    found = call.add("ScatterND", zeros, index, wide, reduction="add")
    return call.cast(found)


@row(*_back("embedding"), source=_SOURCE)
def _embedding_back(call: TorchCall) -> Sequence[str | None]:
    # What is looked up has no gradient, so the table's is the only one.
    return call.gradients({"0": _of_rows(call, call.shape(1, "weight"))})


@row("Embedding.parameters_grad", source="torch.nn.Embedding")
def _embedding_parameters(call: TorchCall) -> Sequence[str | None]:
    return call.gradients({"weight": _of_rows(call, call.shape("parameters.weight", ""))})


@row(*_back("mse_loss", "l1_loss"), source=_SOURCE)
def _distance_back(call: TorchCall) -> Sequence[str | None]:
    apart = call.add("Sub", call.operand(0, "input"), call.operand(1, "target"))
    how = call.word(4, "reduction", "mean")
    share = 1.0 / max(int(np.prod(call.shape(), dtype=np.int64)), 1) if how == "mean" else 1.0
    is_square = call.type == "mse_loss"
    slope = call.add("Mul", apart, call.constant(2.0)) if is_square else call.add("Sign", apart)
    found = call.add("Mul", call.add("Mul", slope, call.constant(share)), call.gradient())
    return call.gradients({"0": found, "1": call.add("Neg", found)})
