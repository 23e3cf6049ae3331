"""Ways back of calls whose last node of autograd is not the call, or that are cheaper by hand.

All others follow from the rows of their ways there (``reverse``).

A dump has for a call the gradients of the last node of autograd. Where a call is one node these are
its own. Where it is several (a linear call of three axes, a matmul of four) they are not, and that
their shapes are not those of the call's inputs, or that golden's entry is not what golden's inputs
give, shows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from divergraph.execute.translate.torch.call import TorchCall, row
from divergraph.execute.translate.torch.reverse import back_by_its_row

_SOURCE = "torch.autograd; derivatives of the functions of torch"


def _back(*types: str) -> tuple[str, ...]:
    return tuple(f"{each}.backward" for each in types)


@row(*_back("matmul", "bmm", "mm", "__matmul__"), source=_SOURCE)
def _matmul_back(call: TorchCall) -> Sequence[str | None]:
    ranks = len(call.shape()), len(call.shape(1, "other" if call.find(1, "other") else "mat2"))
    if not call.is_by_argument and (min(ranks) < 2 or ranks[0] != ranks[1]):
        raise call.refused("is of several nodes")
    return back_by_its_row(call)


@row(*_back("linear", "dense"), source=_SOURCE)
def _linear_back(call: TorchCall) -> Sequence[str | None]:
    if call.is_by_argument:
        return back_by_its_row(call)
    if len(call.shape()) != 2:
        raise call.refused("is of several nodes: its module has the gradient")
    # The node is a sum of a bias and a product with the weight turned, or the product alone.
    gradient, turned = call.gradient(), call.piece.transpose(call.tensor(), 1, 0)
    nodes = [call.add("MatMul", gradient, call.tensor(1, "weight"))]
    nodes.append(call.add("MatMul", turned, gradient))
    if call.find(2, "bias") is not None:
        nodes.insert(0, call.reduced("ReduceSum", gradient, (0,)))
    return call.gradients({str(at): name for at, name in enumerate(nodes)})


@row(*_back("repeat_interleave"), source=_SOURCE)
def _repeat_interleave_back(call: TorchCall) -> Sequence[str | None]:
    count, axis, shape = call.integer(1, "repeats"), call.axis(2, "dim"), call.shape()
    apart = (*shape[: axis + 1], count, *shape[axis + 1 :])
    total = call.reduced("ReduceSum", call.piece.reshape(call.gradient(), apart), [axis + 1])
    return call.gradients({"0": total})
