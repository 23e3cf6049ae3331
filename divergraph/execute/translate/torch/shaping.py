"""Calls that move elements: views, copies, slices, lookups."""

from __future__ import annotations

import math

import numpy as np

from divergraph.execute.translate.piece import Expr, Outputs
from divergraph.execute.translate.torch.call import TorchCall, row, spelled

_SOURCE = "torch, indexing, slicing and joining ops"


@row("clone", "contiguous", "detach", "detach_", "Identity", "alias", "requires_grad_",
     source="torch.clone")  # fmt: skip
def _clone(call: TorchCall) -> Outputs:
    return [call.tensor()]


@row("to", "float", "double", "half", "bfloat16", "type", "type_as", "int", "long", "bool", "cpu",
     "cuda", "npu", source="torch.Tensor.to")  # fmt: skip
def _to(call: TorchCall) -> Outputs:
    return [call.cast(call.tensor())]


@row("copy_", source="torch.Tensor.copy_")
def _copy(call: TorchCall) -> Outputs:
    value = call.operand(1, "src", call.result)
    return [call.add("Expand", value, call.piece.ints(*call.shape()))]


@row("reshape", "view", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as",
     "ravel", "Flatten", *spelled("squeeze", "unsqueeze")[1::2], source=_SOURCE)  # fmt: skip
def _reshape(call: TorchCall) -> Outputs:
    # A lost or exchanged axis is judged by the shape; what lies in memory stays as it is.
    return [call.piece.reshape(call.tensor(), call.recorded_sizes())]


@row("permute", source="torch.permute")
@row("transpose", "transpose_", "swapaxes", "t", "t_", "T", "mT", source="torch.transpose")
def _transpose(call: TorchCall) -> Outputs:
    return [call.piece.transpose(call.tensor(), *order_of(call))]


def order_of(call: TorchCall) -> list[int]:
    """The order in which a call puts the axes of its tensor."""
    order = list(range(len(call.shape())))
    if call.type == "permute":
        return list(call.axes_of(call.rest(1, "dims")))
    if call.type == "T":
        return order[::-1]
    is_matrix = call.type in ("t", "t_", "mT")
    ends = (-2, -1) if is_matrix else (call.axis(1, "dim0"), call.axis(2, "dim1"))
    if len(order) > 1:
        order[ends[0]], order[ends[1]] = order[ends[1]], order[ends[0]]
    return order


@row("movedim", source="torch.movedim")
def _movedim(call: TorchCall) -> Outputs:
    sources, targets = (
        call.axes_of(call.integers(at, name)) for at, name in ((1, "source"), (2, "destination"))
    )
    rest = iter(axis for axis in range(len(call.shape())) if axis not in sources)
    moved = dict(zip(targets, sources, strict=True))
    order = [moved[at] if at in moved else next(rest) for at in range(len(call.shape()))]
    return [call.piece.transpose(call.tensor(), *order)]


@row("expand", "expand_as", "broadcast_to", source="torch.Tensor.expand")
def _expand(call: TorchCall) -> Outputs:
    return [call.add("Expand", call.tensor(), call.piece.ints(*call.recorded_sizes()))]


@row("repeat", "tile", source="torch.Tensor.repeat")
def _repeat(call: TorchCall) -> Outputs:
    counts, shape = call.rest(1, "repeats"), call.shape()
    counts = (1,) * (len(shape) - len(counts)) + counts
    value = call.piece.reshape(call.tensor(), (1,) * (len(counts) - len(shape)) + shape)
    return [call.add("Tile", value, call.piece.ints(*counts))]


@row("repeat_interleave", source="torch.repeat_interleave")
def _repeat_interleave(call: TorchCall) -> Outputs:
    axis, count = call.axis(2, "dim"), call.integer(1, "repeats")
    shape = call.shape()
    value = call.piece.reshape(call.tensor(), (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    tiles = [1] * (len(shape) + 1)
    tiles[axis + 1] = count
    spread = call.add("Tile", value, call.piece.ints(*tiles))
    return [call.piece.reshape(spread, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))]


@row("cat", "concat", "concatenate", source="torch.cat")
def _cat(call: TorchCall) -> Outputs:
    return [call.add("Concat", *call.tensors(0), axis=call.integer(1, "dim", 0))]


@row("stack", source="torch.stack")
def _stack(call: TorchCall) -> Outputs:
    names = call.tensors(0)
    rank = len(call.shape("0.0", "tensors.0")) + 1
    axis = call.integer(1, "dim", 0) % rank
    listed = call.piece.ints(axis)
    return [call.add("Concat", *(call.add("Unsqueeze", each, listed) for each in names), axis=axis)]


@row("split", "chunk", "unbind", "split_with_sizes", "tensor_split", source="torch.split")
def _split(call: TorchCall) -> Outputs:
    outputs = call.piece.op.outputs
    axis = call.axis(1 if call.type == "unbind" else 2, "dim", 0)
    result, begin = [], 0
    for tensor in outputs:
        shape = tensor.shape or ()
        size = 1 if call.type == "unbind" else int(shape[axis] or 0)
        part = _sliced(call, call.tensor(), axis, begin, begin + size)
        result.append(call.piece.reshape(part, [int(n or 0) for n in shape]))
        begin += size
    return result


@row("narrow", source="torch.narrow")
def _narrow(call: TorchCall) -> Outputs:
    axis, begin = call.axis(1, "dim"), call.integer(2, "start")
    return [_sliced(call, call.tensor(), axis, begin, begin + call.integer(3, "length"))]


@row("slice", source="aten::slice.Tensor")
def _slice(call: TorchCall) -> Outputs:
    axis = call.axis(1, "dim", 0)
    part = slice(*(_end(call, word) for word in ("start", "end", "step")))
    begin, end, step = part.indices(call.shape()[axis])
    ints = call.piece.ints
    return [call.add("Slice", call.tensor(), ints(begin), ints(end), ints(axis), ints(step))]


def _end(call: TorchCall, word: str) -> int | None:
    value = call.argument(None, word)
    return None if value is None else call.integer(None, word)


@row("select", source="torch.select")
def _select(call: TorchCall) -> Outputs:
    axis, at = call.axis(1, "dim"), np.array(call.integer(2, "index"), np.int64)
    return [call.add("Gather", call.tensor(), at, axis=axis)]


def _sliced(call: TorchCall, name: Expr, axis: int, begin: int, end: int) -> Expr:
    ints = call.piece.ints
    return call.add("Slice", name, ints(begin), ints(end), ints(axis))


@row("index_select", "embedding_renorm_", source="torch.index_select")
def _index_select(call: TorchCall) -> Outputs:
    return [call.add("Gather", call.tensor(), call.tensor(2, "index"), axis=call.axis(1, "dim"))]


@row("gather", "take_along_dim", source="torch.gather")
def _gather(call: TorchCall) -> Outputs:
    at = (1, 2) if call.type == "gather" else (2, 1)
    index, shape = call.tensor(at[1], "index"), call.shape(at[1], "index")
    axis = call.axis(at[0], "dim")
    value = call.tensor()
    for other, size in enumerate(shape):  # the index may be shorter in other axes
        if other != axis and size < call.shape()[other]:
            value = _sliced(call, value, other, 0, size)
    return [call.add("GatherElements", value, index, axis=axis)]


@row(*spelled("scatter", "scatter_add", "index_add", "index_copy"), source="torch.scatter")
def _scatter(call: TorchCall) -> Outputs:
    axis, index = call.axis(1, "dim"), call.tensor(2, "index")
    shape = call.shape(2, "index")
    adds = "add" in call.type or call.word(None, "reduce", "") == "add"
    values = call.find(3, "src" if "index" not in call.type else "source")
    if values is None:
        filling = call.operand(3, "value", call.result)
        values = call.add("Expand", filling, call.piece.ints(*shape))
    elif "index" in call.type:
        sizes = call.shape(3, "source")
        lined = call.piece.reshape(index, [-1 if at == axis else 1 for at in range(len(sizes))])
        index = call.add("Expand", lined, call.piece.ints(*sizes))
    else:
        for other, size in enumerate(shape):
            if size < call.shape(3, "src")[other]:
                values = _sliced(call, values, other, 0, size)
    kind = "add" if adds else None
    return [call.add("ScatterElements", call.tensor(), index, values, axis=axis, reduction=kind)]


@row(*spelled("masked_scatter"), source="torch.Tensor.masked_scatter")
def _masked_scatter(call: TorchCall) -> Outputs:
    """The places of the mask take the elements of the source in turn, as embeddings of images take
    those of their tokens."""
    ints, shape = call.piece.ints, call.piece.ints(*call.shape())
    mask = call.add("Expand", call.operand(1, "mask", np.dtype(np.bool_)), shape)
    counted = call.piece.cast(call.add("Reshape", mask, ints(-1)), np.int64)
    turn = call.add("CumSum", counted, np.array(0)) - ints(1)
    turn = turn.max(ints(0))  # before the first one, where nothing is taken
    source = call.add("Reshape", call.tensor(2, "source"), ints(-1))
    taken = call.add("Reshape", call.add("Gather", source, turn, axis=0), shape)
    return [call.add("Where", mask, taken, call.tensor())]


@row("diagonal", source="torch.diagonal")
def _diagonal(call: TorchCall) -> Outputs:
    rank, offset = len(call.shape()), call.integer(1, "offset", 0)
    pair = call.axis(2, "dim1", 0), call.axis(3, "dim2", 1)
    kept = [at for at in range(rank) if at not in pair]
    rows, columns = (call.shape()[axis] for axis in pair)
    places = [at * columns + at + offset for at in range(rows) if 0 <= at + offset < columns]
    flat = [*(call.shape()[at] for at in kept), rows * columns]
    lined = call.piece.reshape(call.piece.transpose(call.tensor(), *kept, *pair), flat)
    return [call.add("Gather", lined, np.array(places, np.int64), axis=-1)]


@row("triu", "tril", "triu_", "tril_", source="torch.triu")
def _triangle(call: TorchCall) -> Outputs:
    name, is_boolean = call.tensor(), call.dtype().kind == "b"
    if is_boolean:
        name = call.piece.cast(name, np.int64)
    at = np.array(call.integer(1, "diagonal", 0), np.int64)
    result = call.add("Trilu", name, at, upper=int(call.type.startswith("triu")))
    return [call.piece.cast(result, np.bool_) if is_boolean else result]


@row("flip", source="torch.flip")
def _flip(call: TorchCall) -> Outputs:
    axes = call.axes_of(call.rest(1, "dims"))
    ints = call.piece.ints
    ends = ints(*(-(1 << 62) for _ in axes))
    steps = ints(*(-1 for _ in axes))
    return [call.add("Slice", call.tensor(), ints(*(-1 for _ in axes)), ends, ints(*axes), steps)]


@row("roll", source="torch.roll")
def _roll(call: TorchCall) -> Outputs:
    result = call.tensor()
    shifts, axes = call.integers(1, "shifts"), call.axes_of(call.integers(2, "dims"))
    for shift, axis in zip(shifts, axes, strict=True):
        size = call.shape()[axis]
        cut = -shift % max(size, 1)
        parts = (
            _sliced(call, result, axis, cut, size),
            _sliced(call, result, axis, 0, cut),
        )
        result = call.add("Concat", *parts, axis=axis)
    return [result]


@row("pad", source="torch.nn.functional.pad")
def _pad(call: TorchCall) -> Outputs:
    pads, rank = call.integers(1, "pad"), len(call.shape())
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    mode = modes.get(call.word(2, "mode", "constant"))
    if mode is None:
        raise call.refused("pads in another way")
    begins, ends = [0] * rank, [0] * rank
    for at in range(len(pads) // 2):
        begins[rank - 1 - at], ends[rank - 1 - at] = pads[2 * at], pads[2 * at + 1]
    filling = call.constant(call.number(3, "value", 0.0), call.result)
    return [call.add("Pad", call.tensor(), call.piece.ints(*begins, *ends), filling, mode=mode)]


@row("one_hot", source="torch.nn.functional.one_hot")
def _one_hot(call: TorchCall) -> Outputs:
    depth = np.array(call.recorded_sizes()[-1], np.int64)
    return [call.add("OneHot", call.tensor(), depth, np.array([0, 1], np.int64), axis=-1)]


@row("zeros_like", "ones_like", "full_like", "zero_", "fill_", "zeros", "ones", "full",
     "scalar_tensor", source="torch.zeros_like")  # fmt: skip
def _filled(call: TorchCall) -> Outputs:
    at = 1 if call.type in ("full_like", "full", "fill_") else None
    keywords = {"full_like": "fill_value", "full": "fill_value", "scalar_tensor": "s"}
    keyword = keywords.get(call.type, "value")
    value = 1.0 if "ones" in call.type else call.number(at, keyword, 0.0)
    return [call.piece.const(np.full(call.recorded_sizes(), value, call.result))]


@row("arange", source="torch.arange")
def _arange(call: TorchCall) -> Outputs:
    count = math.prod(call.recorded_sizes())
    begin, step = call.number(None, "start", 0), call.number(None, "step", 1)
    return [call.piece.const((begin + step * np.arange(count)).astype(call.result))]
