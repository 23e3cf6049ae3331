"""Ways back of calls whose last node of autograd is not the call, or that are cheaper by hand.

All others follow from the rows of their ways there (``derivatives``).

A dump has for a call the gradients of the last node of autograd. Where a call is one node these are
its own. Where it is several (a linear call of three axes, a matmul of four) they are not, and that
their shapes are not those of the call's inputs, or that golden's entry is not what golden's inputs
give, shows it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.torch.call import TorchCall, row

_SOURCE = "torch.autograd; derivatives of the functions of torch"


def _back(*types: str) -> tuple[str, ...]:
    return tuple(f"{each}.backward" for each in types)


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
