"""Products of matrices, attention and embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.piece import Expr, Outputs
from divergraph.execute.translate.torch.call import TorchCall, row


def _linear(call: TorchCall, weight: Expr, bias: Expr | None, rank: int) -> Expr:
    if rank != 2:
        raise call.refused(f"has a weight of {rank} axes")
    result = call.tensor() @ call.piece.transpose(weight, 1, 0)
    return result if bias is None else (result + bias)


@row("linear", "dense", source="torch.nn.functional.linear")
def _linear_call(call: TorchCall) -> Outputs:
    rank = len(call.shape(1, "weight"))
    return [_linear(call, call.tensor(1, "weight"), call.find(2, "bias"), rank)]


@row("Linear", "Dense", "ColumnParallelLinear", "RowParallelLinear", source="torch.nn.Linear")
def _linear_module(call: TorchCall) -> Outputs:
    if call.type != "Linear":
        raise call.refused("is a part of a product on several ranks")
    weight = call.tensor("parameters.weight", "")
    rank = len(call.shape("parameters.weight", ""))
    return [_linear(call, weight, call.parameter("bias"), rank)]


@row("matmul", "bmm", "mm", "mv", "dot", "__matmul__", "__rmatmul__", "inner",
     source="torch.matmul")  # fmt: skip
def _matmul(call: TorchCall) -> Outputs:
    one, other = call.tensor(), call.tensor(1, "other" if call.find(1, "other") else "mat2")
    if call.type == "__rmatmul__":
        one, other = other, one
    if call.type == "inner":
        rank = len(call.shape(1, "other"))
        order = (*range(rank - 2), rank - 1, rank - 2) if rank > 1 else (0,)
        other = call.piece.transpose(other, *order)
    return [one @ other]


@row("_grouped_mm", source="torch._grouped_mm")
def _grouped(call: TorchCall) -> Outputs:
    """Rows in groups, each times a matrix of its own, as those that go to one expert are."""
    weights = matrices(call)
    return [
        joined(call, [x @ w for x, w in zip(grouped(call, call.tensor()), weights, strict=True)])
    ]


def matrices(call: TorchCall) -> list[Expr]:
    """The matrix of each group of rows.

    Raises:
        NotTranslatedError: the operands are no rows and a matrix for each group.
    """
    shape = call.shape(1, "mat2")
    if len(shape) != 3 or len(call.shape(0, "self")) != 2 or call.find(2, "offs") is None:
        raise call.refused("has groups along another axis")
    weights, places = call.tensor(1, "mat2"), range(shape[0])
    return [call.add("Gather", weights, np.array(at, np.int64), axis=0) for at in places]


def grouped(call: TorchCall, rows: Expr) -> list[Expr]:
    """The *rows* of each group: the call says where each ends."""
    ends = call.piece.cast(call.tensor(2, "offs"), np.int64)
    starts = call.add("Concat", call.piece.ints(0), ends, axis=0)
    return [
        call.add(
            "Slice",
            rows,
            *(call.add("Gather", places, call.piece.ints(at), axis=0) for places in (starts, ends)),
            call.piece.ints(0),
        )
        for at in range(call.shape(1, "mat2")[0])
    ]


def joined(call: TorchCall, groups: Sequence[Expr]) -> Expr:
    """Groups of rows one after the other, zeros where the call has rows of none."""
    ends = call.piece.cast(call.tensor(2, "offs"), np.int64)
    count = call.piece.ints(call.shape()[0])
    surplus = call.add("Sub", count, call.add("Gather", ends, call.piece.ints(-1), axis=0))
    pads = call.add("Concat", call.piece.ints(0, 0), surplus, call.piece.ints(0), axis=0)
    return call.add("Pad", call.add("Concat", *groups, axis=0), pads)


@row("addmm", "addmm_", "baddbmm", "addmv", source="torch.addmm")
def _addmm(call: TorchCall) -> Outputs:
    alpha, beta = call.number(None, "alpha", 1), call.number(None, "beta", 1)
    product = call.tensor(1, "mat1") @ call.tensor(2, "mat2")
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return [product]
    bias = call.tensor()
    bias = bias if beta == 1 else (bias * beta)
    return [product + bias]


@row("einsum", source="torch.einsum")
def _einsum(call: TorchCall) -> Outputs:
    equation = call.word(0, "equation", "")
    listed = any(call.find(f"1.{at}") for at in range(4))
    names = call.tensors(1, "operands") if listed else [
        name for at in range(1, 9) if (name := call.find(at)) is not None
    ]  # fmt: skip
    return [call.add("Einsum", *names, equation=equation.replace(" ", ""))]


@row("outer", "ger", source="torch.outer")
def _outer(call: TorchCall) -> Outputs:
    column = call.piece.reshape(call.tensor(), (call.shape()[0], 1))
    return [column * call.tensor(1, "vec2")]


@row("tensordot", source="torch.tensordot")
def _tensordot(call: TorchCall) -> Outputs:
    one, other, count = call.shape(0, "a"), call.shape(1, "b"), call.integer(2, "dims", 2)
    summed = other[:count]
    rows = call.piece.reshape(call.tensor(0, "a"), (-1, math.prod(summed)))
    columns = call.piece.reshape(call.tensor(1, "b"), (math.prod(summed), -1))
    made = (*one[: len(one) - count], *other[count:])
    return [call.piece.reshape(rows @ columns, made)]


@row("bilinear", source="torch.nn.functional.bilinear")
def _bilinear(call: TorchCall) -> Outputs:
    operands = (call.tensor(0, "input1"), call.tensor(2, "weight"), call.tensor(1, "input2"))
    letters = "zyxwvuts"[: len(call.shape(0, "input1")) - 1]
    equation = f"{letters}i,oij,{letters}j->{letters}o"
    result, bias = call.add("Einsum", *operands, equation=equation), call.find(3, "bias")
    return [result if bias is None else (result + bias)]


@row("cross", "linalg_cross", source="torch.cross")
def _cross(call: TorchCall) -> Outputs:
    of_three = call.shape().index(3) if call.type == "cross" else -1
    axis = call.axis(2, "dim", of_three)
    one, other = call.tensor(), call.tensor(1, "other")
    (a, b), (c, d) = (
        [call.add("Gather", name, np.array(order), axis=axis) for order in ((1, 2, 0), (2, 0, 1))]
        for name in (one, other)
    )
    return [a * d - b * c]


@row("embedding", source="torch.nn.functional.embedding")
def _embedding(call: TorchCall) -> Outputs:
    return [call.add("Gather", call.tensor(1, "weight"), call.tensor(), axis=0)]


@row("Embedding", source="torch.nn.Embedding")
def _embedding_module(call: TorchCall) -> Outputs:
    return [call.add("Gather", call.tensor("parameters.weight", ""), call.tensor(), axis=0)]


INSIDE = "rounded_inside"
"""The attribute with which attention rounds what it hands on inside: ``fp16`` or ``bf16``."""
SHIFT = "mask_shift"
"""The attribute with which attention allows so many later positions than its mask does."""
_NARROW = {"fp16": 10, "bf16": 16}
"""As ONNX numbers its element types."""


class Attention:
    """scaled_dot_product_attention of a call: ``weights`` are the softmax of its scores, ``query``,
    ``key`` and ``value`` its operands with as many heads each."""

    def __init__(self, call: TorchCall) -> None:
        self.call = call
        if call.number(4, "dropout_p", 0.0):
            raise call.refused("draws random numbers")
        self.query, key = call.tensor(0, "query"), call.tensor(1, "key")
        self.groups = self._groups()
        self.key = self._repeated(key, call.shape(1, "key"))
        self.value = self._repeated(call.tensor(2, "value"), call.shape(2, "value"))
        shape = call.shape(0, "query")
        self.rank = len(shape)
        self.scale = call.number(6, "scale", 1.0 / math.sqrt(shape[-1]))
        scores = self.query @ self.turned(self.key)
        scores = scores * self.scale
        self.weights = self.rounded(call.add("Softmax", self._masked(scores), axis=-1))

    def rounded(self, name: Expr) -> Expr:
        """*name* as a kernel holds it between its two products, if it is to round there."""
        inside = self.call.piece.op.attrs.get(INSIDE)
        if inside is None:
            return name
        narrow = self.call.add("Cast", name, to=_NARROW[str(inside)])
        return self.call.piece.cast(narrow, self.call.working)

    def turned(self, name: Expr) -> Expr:
        """A matrix with its last two axes exchanged."""
        order = (*range(self.rank - 2), self.rank - 1, self.rank - 2)
        return self.call.piece.transpose(name, *order)

    def _groups(self) -> int:
        heads = self.call.shape(0, "query"), self.call.shape(1, "key")
        if not self.call.flag(7, "enable_gqa") or len(heads[0]) < 3:
            return 1
        return heads[0][-3] // max(heads[1][-3], 1)

    def _repeated(self, name: Expr, shape: tuple[int, ...]) -> Expr:
        """Each head of keys and values as often as queries share it."""
        if self.groups == 1:
            return name
        *lead, heads, length, width = shape
        spread = self.call.piece.reshape(name, (*lead, heads, 1, length, width))
        tiles = [1] * len(lead) + [1, self.groups, 1, 1]
        tiled = self.call.add("Tile", spread, self.call.piece.ints(*tiles))
        return self.call.piece.reshape(tiled, (*lead, heads * self.groups, length, width))

    def _masked(self, scores: Expr) -> Expr:
        call = self.call
        shift = int(str(call.piece.op.attrs.get(SHIFT, 0)))
        columns = call.shape(1, "key")[-2]
        if call.flag(5, "is_causal"):
            rows = call.shape(0, "query")[-2]
            allowed = np.tril(np.ones((rows, columns), np.bool_), shift)
            return call.add("Where", call.piece.const(allowed), scores, -np.inf)
        mask = call.find(3, "attn_mask")
        if mask is None:
            return scores
        if shift:
            moved = np.clip(np.arange(columns) - shift, 0, columns - 1)
            mask = call.add("Gather", mask, call.piece.ints(*moved.tolist()), axis=-1)
        if call.dtype(3, "attn_mask").kind == "b":
            return call.add("Where", mask, scores, -np.inf)
        return scores + mask


@row("scaled_dot_product_attention", source="torch.nn.functional.scaled_dot_product_attention")
def _attention(call: TorchCall) -> Outputs:
    result = Attention(call)
    return [result.weights @ result.value]


@row("npu_rotary_mul", source="torch_npu.npu_rotary_mul")
def _rotary(call: TorchCall) -> Outputs:
    if call.word(3, "rotary_mode", "half") != "half":
        raise call.refused("turns neighbours")
    value = call.tensor()
    low, high = call.piece.add_many("Split", 2, value, axis=-1, num_outputs=2)
    turned = call.add("Concat", -high, low, axis=-1)
    return [value * call.tensor(1, "r1") + turned * call.tensor(2, "r2")]
