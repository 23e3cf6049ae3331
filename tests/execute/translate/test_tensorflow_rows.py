"""Every row of the table against TensorFlow, on shapes, types and paddings drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from divergraph.execute.translate.executor import TranslatedExecutor
from divergraph.execute.translate.tensorflow.rows import ROWS
from divergraph.execute.translate.tensorflow.step import tensorflow_program
from importers.registry import read_graph

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

Draw = Callable[[st.SearchStrategy[Any]], Any]
Array = np.ndarray[Any, Any]
Build = Callable[[Any, Draw, Callable[..., Any]], Any]
"""Makes ops of TensorFlow: given its raw ops, a way to draw, and one to feed a value."""

CASES: dict[str, Build] = {}
SIZES = st.integers(1, 5)


def case(*types: str) -> Callable[[Build], Build]:
    def put(build: Build) -> Build:
        for each in types:
            CASES[each] = build
        return build

    return put


def numbers(shape: Sequence[int], seed: int, kind: str = "f4", *, positive: bool = False) -> Array:
    rng = np.random.default_rng(seed)
    if kind == "b1":
        return rng.random(shape) < 0.5
    if kind.startswith(("i", "u")):
        return rng.integers(1 if positive else -6, 7, shape).astype(kind)
    # Few different values, so that ties and zeros come up.
    value = rng.integers(-8, 9, shape) / 4 if rng.random() < 0.5 else rng.standard_normal(shape)
    return np.asarray(np.abs(value) + 0.25 if positive else value, kind)


def shape_of(draw: Draw, least: int = 0, most: int = 4) -> tuple[int, ...]:
    return tuple(draw(st.lists(SIZES, min_size=least, max_size=most)))


def seed_of(draw: Draw) -> int:
    return int(draw(st.integers(0, 2**20)))


def partner(draw: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that is broadcast to *shape*, with fewer axes or sizes of one."""
    cut = shape[draw(st.integers(0, len(shape))) :]
    return tuple(1 if draw(st.booleans()) else size for size in cut)


_FLOAT_UNARY = (
    *("Neg", "Abs", "Sign", "Exp", "Erf", "Sin", "Cos", "Tanh", "Sigmoid", "Floor", "Ceil"),
    *("Round", "Rint", "Square", "Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign", "Expm1"),
    *("Atan", "Sinh", "Cosh", "Asinh", "Identity", "ZerosLike", "OnesLike", "IsNan", "IsInf"),
    *("IsFinite", "LeakyRelu", "Erfc", "L2Loss", "Shape", "Size", "Rank", "Snapshot"),
    *("StopGradient", "PreventGradient", "Tan"),
)
_INPUT = {
    **dict.fromkeys(("L2Loss",), "t"),
    **dict.fromkeys(("Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign"), "features"),
    "LeakyRelu": "features",
    **dict.fromkeys(("Identity", "Shape", "Size", "Rank", "Snapshot", "StopGradient"), "input"),
    "PreventGradient": "input",
}
_POSITIVE_UNARY = ("Log", "Log1p", "Sqrt", "Rsqrt", "Reciprocal", "Inv", "Acosh")
_BINARY = (
    *("Add", "AddV2", "Sub", "Mul", "RealDiv", "Div", "Maximum", "Minimum", "SquaredDifference"),
    *("FloorDiv", "FloorMod", "Greater", "GreaterEqual", "Less", "LessEqual", "Equal"),
    *("NotEqual", "DivNoNan", "MulNoNan", "Xdivy", "TruncateMod", "Mod"),
)
_INTEGER_BINARY = ("Add", "Sub", "Mul", "FloorDiv", "FloorMod", "TruncateDiv", "Maximum", "Less")
_GRADIENTS = {
    **dict.fromkeys(
        ("ReluGrad", "Relu6Grad", "LeakyReluGrad", "SoftplusGrad", "SoftsignGrad"),
        ("gradients", "features"),
    ),
    **dict.fromkeys(("EluGrad", "SeluGrad"), ("gradients", "outputs")),
    **dict.fromkeys(
        ("TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"),
        ("y", "dy"),
    ),
}


def _unary(kind: str, *, positive: bool = False) -> Build:
    def build(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
        x = feed(numbers(shape_of(draw), seed_of(draw), positive=positive))
        return getattr(ops, kind)(**{_INPUT.get(kind, "x"): x})

    return build


def _binary(kind: str, element: str) -> Build:
    def build(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
        shape = shape_of(draw)
        left = numbers(shape, seed_of(draw), element)
        right = numbers(partner(draw, shape), seed_of(draw), element, positive=element != "f4")
        if kind in ("FloorMod", "Mod", "TruncateMod", "RealDiv", "Div", "FloorDiv"):
            right = np.where(right == 0, np.ones_like(right), right)
        if kind == "SquaredDifference" and draw(st.booleans()):
            left, right = right, left
        x, y = feed(left), feed(right)
        return getattr(ops, kind)(x=x, y=y)

    return build


def _gradient(kind: str, names: tuple[str, str]) -> Build:
    def build(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
        shape = shape_of(draw)
        positive = kind in ("SqrtGrad", "RsqrtGrad")
        given_ = {
            name: feed(numbers(shape, seed_of(draw), positive=positive and name == "y"))
            for name in names
        }
        return getattr(ops, kind)(**given_)

    return build


for _kind in _FLOAT_UNARY:
    CASES[_kind] = _unary(_kind)
for _kind in _POSITIVE_UNARY:
    CASES[_kind] = _unary(_kind, positive=True)
for _kind in _BINARY:
    CASES[_kind] = _binary(_kind, "f4")
for _kind in _INTEGER_BINARY:
    CASES[f"{_kind} of integers"] = _binary(_kind, "i4")
for _kind, _names in _GRADIENTS.items():
    CASES[_kind] = _gradient(_kind, _names)


def _reduction(kind: str) -> Build:
    def build(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
        shape = shape_of(draw)
        element = "b1" if kind in ("All", "Any") else "f4"
        axes = (
            draw(st.lists(st.integers(-len(shape), len(shape) - 1), unique=True)) if shape else []
        )
        axes = list({axis % len(shape): axis for axis in axes}.values())
        return getattr(ops, kind)(
            input=feed(numbers(shape, seed_of(draw), element)),
            axis=np.array(axes, np.int32),
            keep_dims=draw(st.booleans()),
        )

    return build


for _kind in ("Sum", "Mean", "Prod", "Max", "Min", "All", "Any", "EuclideanNorm"):
    CASES[_kind] = _reduction(_kind)


@case("Cast")
def _cast(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    x = feed(numbers(shape_of(draw), seed_of(draw), draw(st.sampled_from(["f4", "i4", "b1"]))))
    return ops.Cast(x=x, DstT=draw(st.sampled_from(["float32", "int32", "int64", "bool"])))


@case("AddN")
def _add_n(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw)
    count = draw(st.integers(1, 4))
    return ops.AddN(inputs=[feed(numbers(shape, seed_of(draw))) for _ in range(count)])


@case("Pow")
def _pow(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw)
    x, y = numbers(shape, seed_of(draw), positive=True), numbers(partner(draw, shape), 1)
    return ops.Pow(x=feed(x), y=feed(y))


@case("ClipByValue")
def _clip(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    x = feed(numbers(shape_of(draw), seed_of(draw)))
    return ops.ClipByValue(t=x, clip_value_min=np.float32(-0.5), clip_value_max=np.float32(0.75))


@case("Select", "SelectV2")
def _select(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1)
    by_row = draw(st.booleans())
    condition = feed(numbers(shape[:1] if by_row else shape, seed_of(draw), "b1"))
    x, y = feed(numbers(shape, 1)), feed(numbers(shape, 2))
    if by_row or draw(st.booleans()):
        return ops.Select(condition=condition, x=x, y=y)
    return ops.SelectV2(condition=condition, t=x, e=y)


@case("LogicalAnd", "LogicalOr")
def _logical(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw)
    x, y = feed(numbers(shape, seed_of(draw), "b1")), feed(numbers(shape, seed_of(draw), "b1"))
    return [ops.LogicalAnd(x=x, y=y), ops.LogicalOr(x=x, y=y), ops.LogicalNot(x=x)]


@case("ArgMax", "ArgMin")
def _arg(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1)
    x = feed(numbers(shape, seed_of(draw)))
    axis = np.int32(draw(st.integers(-len(shape), len(shape) - 1)))
    kind = draw(st.sampled_from(["int32", "int64"]))
    return [
        ops.ArgMax(input=x, dimension=axis, output_type=kind),
        ops.ArgMin(input=x, dimension=axis, output_type=kind),
    ]


@case("Cumsum")
def _cumsum(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1)
    return ops.Cumsum(
        x=feed(numbers(shape, seed_of(draw))),
        axis=np.int32(draw(st.integers(-len(shape), len(shape) - 1))),
        exclusive=draw(st.booleans()),
        reverse=draw(st.booleans()),
    )


@case("MatMul")
def _mat_mul(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    m, k, n = (draw(SIZES) for _ in range(3))
    first, second = draw(st.booleans()), draw(st.booleans())
    a = feed(numbers((k, m) if first else (m, k), seed_of(draw)))
    b = feed(numbers((n, k) if second else (k, n), seed_of(draw)))
    return ops.MatMul(a=a, b=b, transpose_a=first, transpose_b=second)


@case("BatchMatMulV2", "Einsum")
def _batch(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    m, k, n, many = (draw(SIZES) for _ in range(4))
    first, second = draw(st.booleans()), draw(st.booleans())
    x = feed(numbers((many, k, m) if first else (many, m, k), seed_of(draw)))
    y = feed(numbers((1, n, k) if second else (1, k, n), seed_of(draw)))
    found = [ops.BatchMatMulV2(x=x, y=y, adj_x=first, adj_y=second)]
    if not first and not second:
        found.append(ops.Einsum(inputs=[x, ops.Squeeze(input=y, axis=[0])], equation="bik,kj->bij"))
    return found


@case("Reshape", "Squeeze", "ExpandDims", "Transpose")
def _shapes(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1)
    x = feed(numbers(shape, seed_of(draw)))
    order = draw(st.permutations(range(len(shape))))
    ones = [at for at, size in enumerate(shape) if size == 1]
    found = [
        ops.Reshape(tensor=x, shape=np.array([-1, shape[-1]], np.int32)),
        ops.ExpandDims(input=x, axis=np.int32(draw(st.integers(-len(shape) - 1, len(shape))))),
        ops.Transpose(x=x, perm=np.array(order, np.int32)),
        ops.InvertPermutation(x=np.array(order, np.int32)),
        ops.Squeeze(input=x),
        ops.ShapeN(input=[x, x]),
    ]
    return [*found, ops.Squeeze(input=x, axis=ones[:1])] if ones else found


@case("Pack", "Unpack", "ConcatV2", "Split", "SplitV", "Concat", "ConcatOffset")
def _joined(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1, 3)
    x, y = feed(numbers(shape, seed_of(draw))), feed(numbers(shape, seed_of(draw)))
    axis = draw(st.integers(0, len(shape) - 1))
    packed = ops.Pack(values=[x, y], axis=draw(st.integers(-len(shape) - 1, len(shape))))
    joined = ops.ConcatV2(values=[x, y], axis=np.int32(axis))
    return [
        packed,
        joined,
        ops.Concat(concat_dim=np.int32(axis), values=[x, y]),
        ops.Split(axis=np.int32(axis), value=joined, num_split=2),
        ops.SplitV(
            value=joined,
            size_splits=np.array([shape[axis] - 1, -1], np.int32),
            axis=np.int32(axis),
            num_split=2,
        ),
        ops.Unpack(value=x, num=shape[axis], axis=axis),
        ops.ConcatOffset(concat_dim=np.int32(axis), shape=[np.array(shape, np.int32)] * 2),
    ]


@case("Slice", "StridedSlice", "StridedSliceGrad")
def _slices(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1, 4)
    x = feed(numbers(shape, seed_of(draw)))
    begin = [draw(st.integers(0, size - 1)) for size in shape]
    size = [draw(st.sampled_from([-1, 1])) for _ in shape]
    count = draw(st.integers(1, len(shape)))
    first = [draw(st.integers(-n, n - 1)) for n in shape[:count]]
    last = [draw(st.integers(-n, n)) for n in shape[:count]]
    steps = [draw(st.sampled_from([1, 1, 2, -1])) for _ in range(count)]
    masks = {
        f"{name}_mask": draw(st.integers(0, 2**count - 1))
        for name in ("begin", "end", "shrink_axis", "new_axis")
    }
    masks["ellipsis_mask"] = draw(st.sampled_from([0, 0, 1]))
    for at in range(count):
        if masks["shrink_axis_mask"] >> at & 1:
            steps[at] = 1
    bounds = [np.array(each, np.int32) for each in (first, last, steps)]
    cut = ops.StridedSlice(input=x, begin=bounds[0], end=bounds[1], strides=bounds[2], **masks)
    back = ops.StridedSliceGrad(
        shape=np.array(shape, np.int32),
        begin=bounds[0],
        end=bounds[1],
        strides=bounds[2],
        dy=cut,
        **masks,
    )
    sliced = ops.Slice(input=x, begin=np.array(begin, np.int32), size=np.array(size, np.int32))
    return [cut, back, sliced]


@case("Tile", "Fill", "BroadcastTo", "Range", "LinSpace", "OneHot", "BroadcastGradientArgs")
def _made(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1, 3)
    x = feed(numbers(shape, seed_of(draw)))
    other = partner(draw, shape)
    times = np.array([draw(st.integers(1, 3)) for _ in shape], np.int32)
    ids = feed(np.random.default_rng(seed_of(draw)).integers(-1, 4, shape).astype(np.int32))
    args = ops.BroadcastGradientArgs(
        s0=np.array(shape, np.int32), s1=np.array(other, np.int32).reshape(-1)
    )
    return [
        ops.Tile(input=x, multiples=times),
        ops.Fill(dims=np.array(shape, np.int32), value=np.float32(0.5)),
        ops.BroadcastTo(input=x, shape=np.array((2, *shape), np.int32)),
        ops.Range(start=np.int32(1), limit=np.int32(9), delta=np.int32(draw(SIZES))),
        ops.LinSpace(start=np.float32(-1), stop=np.float32(2), num=np.int32(draw(SIZES))),
        ops.OneHot(
            indices=ids,
            depth=np.int32(3),
            on_value=np.float32(1),
            off_value=np.float32(-1),
            axis=draw(st.integers(-1, len(shape))),
        ),
        *args,
        ops.BroadcastArgs(s0=np.array(shape, np.int32), s1=np.array(other, np.int32).reshape(-1)),
    ]


@case("Pad", "PadV2", "MirrorPad", "ReverseV2")
def _padded(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = tuple(draw(st.integers(2, 4)) for _ in range(draw(st.integers(1, 3))))
    x = feed(numbers(shape, seed_of(draw)))
    widths = np.array([[draw(st.integers(0, 1)) for _ in "ab"] for _ in shape], np.int32)
    axes = draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    return [
        ops.Pad(input=x, paddings=widths),
        ops.PadV2(input=x, paddings=widths, constant_values=np.float32(2)),
        ops.MirrorPad(input=x, paddings=widths, mode="REFLECT"),
        ops.MirrorPad(input=x, paddings=widths, mode="SYMMETRIC"),
        ops.ReverseV2(tensor=x, axis=np.array(axes, np.int32)),
    ]


@case("SpaceToDepth", "DepthToSpace", "SpaceToBatchND", "BatchToSpaceND")
def _blocks(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    n, h, w, c = (draw(st.integers(1, 3)) for _ in range(4))
    deep = ops.SpaceToDepth(input=feed(numbers((n, 2 * h, 2 * w, c), 3)), block_size=2)
    pads = np.array([[1, 1], [0, 2]], np.int32)
    block = np.array([2, 2], np.int32)
    batch = ops.SpaceToBatchND(
        input=feed(numbers((n, 2 * h, 2 * w, c), 4)), block_shape=block, paddings=pads
    )
    return [
        deep,
        ops.DepthToSpace(input=deep, block_size=2),
        batch,
        ops.BatchToSpaceND(input=batch, block_shape=block, crops=pads),
    ]


@case("GatherV2", "GatherNd", "ScatterNd", "UnsortedSegmentSum", "SegmentSum", "Gather")
def _gathered(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1, 3)
    x = feed(numbers(shape, seed_of(draw)))
    rng = np.random.default_rng(seed_of(draw))
    axis = draw(st.integers(0, len(shape) - 1))
    ids = rng.integers(0, shape[axis], shape_of(draw, 0, 2)).astype(np.int32)
    places = np.stack([rng.integers(0, size, 5) for size in shape], axis=-1).astype(np.int32)
    rows = rng.integers(-1, 3, shape[0]).astype(np.int32)
    return [
        ops.GatherV2(params=x, indices=feed(ids), axis=np.int32(axis)),
        ops.Gather(params=x, indices=feed(rng.integers(0, shape[0], 3).astype(np.int32))),
        ops.GatherNd(params=x, indices=feed(places)),
        ops.ScatterNd(
            indices=feed(places), updates=feed(numbers((5,), 2)), shape=np.array(shape, np.int32)
        ),
        ops.UnsortedSegmentSum(data=x, segment_ids=feed(rows), num_segments=np.int32(3)),
        ops.SegmentSum(data=x, segment_ids=np.sort(np.abs(rows))),
    ]


@case("TopKV2", "Where", "DynamicStitch")
def _chosen(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    n = draw(st.integers(2, 5))
    x = feed(np.random.default_rng(seed_of(draw)).permutation(n * 3).reshape(n, 3).astype("f4"))
    first = np.array([0, n], np.int32)
    return [
        *ops.TopKV2(input=x, k=np.int32(2)),
        ops.Where(condition=feed(numbers((n, 2), seed_of(draw), "b1"))),
        ops.DynamicStitch(
            indices=[first, np.arange(n, dtype=np.int32)[::-1].copy()],
            data=[feed(numbers((2, 3), 5)), x],
        ),
    ]


def _image(draw: Draw, channels: int) -> Array:
    n, h, w = draw(st.integers(1, 2)), draw(st.integers(3, 9)), draw(st.integers(3, 9))
    return numbers((n, h, w, channels), seed_of(draw))


def _windows(draw: Draw) -> dict[str, Any]:
    strides = [1, draw(st.integers(1, 3)), draw(st.integers(1, 3)), 1]
    return {"strides": strides, "padding": draw(st.sampled_from(["SAME", "VALID"]))}


@case("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "BiasAdd", "BiasAddGrad")
def _convolved(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image = _image(draw, draw(st.integers(1, 3)))
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)), image.shape[3], draw(SIZES))
    x, filters = feed(image), feed(numbers(kernel, seed_of(draw)))
    said = _windows(draw)
    if draw(st.booleans()):
        said = {"strides": [1, 1, 1, 1], "padding": said["padding"], "dilations": [1, 2, 2, 1]}
        if min(image.shape[1:3]) < 5:
            said["padding"] = "SAME"
    out = ops.Conv2D(input=x, filter=filters, **said)
    if "dilations" in said:  # TensorFlow's CPU kernels have no gradients of these
        return out
    back = ops.Conv2DBackpropInput(
        input_sizes=np.array(image.shape, np.int32), filter=filters, out_backprop=out, **said
    )
    weights = ops.Conv2DBackpropFilter(
        input=x, filter_sizes=np.array(kernel, np.int32), out_backprop=out, **said
    )
    bias = feed(numbers((kernel[3],), 1))
    return [
        out,
        back,
        weights,
        ops.BiasAdd(value=out, bias=bias),
        ops.BiasAddGrad(out_backprop=out),
    ]


@case("Conv2D with explicit padding")
def _explicit(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    pads = [0, 0, *(draw(st.integers(0, 2)) for _ in range(4)), 0, 0]
    x, filters = feed(_image(draw, 2)), feed(numbers((3, 3, 2, 4), seed_of(draw)))
    strides = [1, draw(st.integers(1, 2)), draw(st.integers(1, 2)), 1]
    said = {"strides": strides, "padding": "EXPLICIT", "explicit_paddings": pads}
    return ops.Conv2D(input=x, filter=filters, **said)


_DEPTHWISE = "DepthwiseConv2dNative"


@case(_DEPTHWISE, f"{_DEPTHWISE}BackpropInput", f"{_DEPTHWISE}BackpropFilter")
def _depthwise(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image = _image(draw, draw(st.integers(1, 3)))
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)), image.shape[3], draw(SIZES))
    x, filters = feed(image), feed(numbers(kernel, seed_of(draw)))
    step = draw(st.integers(1, 2))
    said = {"strides": [1, step, step, 1], "padding": draw(st.sampled_from(["SAME", "VALID"]))}
    out = ops.DepthwiseConv2dNative(input=x, filter=filters, **said)
    return [
        out,
        ops.DepthwiseConv2dNativeBackpropInput(
            input_sizes=np.array(image.shape, np.int32), filter=filters, out_backprop=out, **said
        ),
        ops.DepthwiseConv2dNativeBackpropFilter(
            input=x, filter_sizes=np.array(kernel, np.int32), out_backprop=out, **said
        ),
    ]


@case("MaxPool", "MaxPoolGrad", "AvgPool", "AvgPoolGrad")
def _pooled(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image = _image(draw, draw(st.integers(1, 3)))
    x = feed(image)
    said = {**_windows(draw), "ksize": [1, draw(st.integers(1, 3)), draw(st.integers(1, 3)), 1]}
    largest, mean = ops.MaxPool(input=x, **said), ops.AvgPool(value=x, **said)
    return [
        largest,
        mean,
        ops.MaxPoolGrad(orig_input=x, orig_output=largest, grad=mean, **said),
        ops.AvgPoolGrad(orig_input_shape=np.array(image.shape, np.int32), grad=mean, **said),
    ]


@case("LRN")
def _lrn(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    return ops.LRN(
        input=feed(_image(draw, draw(SIZES))),
        depth_radius=draw(st.integers(1, 3)),
        bias=1.5,
        alpha=0.3,
        beta=0.75,
    )


@case("FusedBatchNormV3", "FusedBatchNormGradV3", "FusedBatchNorm", "FusedBatchNormGrad")
def _batch_norm(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image = _image(draw, draw(st.integers(1, 4)))
    channels = (image.shape[3],)
    training = draw(st.booleans())
    empty = np.zeros(0, np.float32)
    scale = feed(numbers(channels, 1))
    made = ops.FusedBatchNormV3(
        x=feed(image),
        scale=scale,
        offset=feed(numbers(channels, 2)),
        mean=empty if training else feed(numbers(channels, 3)),
        variance=empty if training else feed(numbers(channels, 4, positive=True)),
        epsilon=draw(st.sampled_from([1e-3, 1e-5])),
        is_training=training,
    )
    back = ops.FusedBatchNormGradV3(
        y_backprop=feed(numbers(image.shape, 5)),
        x=feed(image),
        scale=scale,
        reserve_space_1=feed(numbers(channels, 6)),
        reserve_space_2=feed(numbers(channels, 7, positive=True)),
        reserve_space_3=empty,
        epsilon=1e-3,
        is_training=training,
    )
    return [*made[:5], *back[:3]]


@case("Softmax", "LogSoftmax", "SoftmaxCrossEntropyWithLogits")
def _softmax(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 2, 2)
    x = feed(numbers(shape, seed_of(draw)))
    labels = feed(np.random.default_rng(1).dirichlet(np.ones(shape[1]), shape[0]).astype("f4"))
    return [
        ops.Softmax(logits=x),
        ops.LogSoftmax(logits=x),
        *ops.SoftmaxCrossEntropyWithLogits(features=x, labels=labels),
    ]


@case("SparseSoftmaxCrossEntropyWithLogits")
def _sparse(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 2, 2)
    labels = np.random.default_rng(seed_of(draw)).integers(0, shape[1], shape[0])
    kind = draw(st.sampled_from(["i4", "i8"]))
    return list(
        ops.SparseSoftmaxCrossEntropyWithLogits(
            features=feed(numbers(shape, seed_of(draw))), labels=feed(labels.astype(kind))
        )
    )


@case("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBilinearGrad")
def _resized(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image = _image(draw, 2)
    x = feed(image)
    wanted = np.array([draw(st.integers(1, 12)), draw(st.integers(1, 12))], np.int32)
    how = draw(st.sampled_from([{}, {"align_corners": True}, {"half_pixel_centers": True}]))
    bent = ops.ResizeBilinear(images=x, size=wanted, **how)
    copied = ops.ResizeNearestNeighbor(images=x, size=wanted, **how)
    back = np.array(image.shape[1:3], np.int32)
    return [
        bent,
        copied,
        ops.ResizeBilinearGrad(grads=bent, original_image=x, **how),
        ops.ResizeNearestNeighborGrad(grads=copied, size=back, **how),
    ]


@case("Unique", "UniqueWithCounts")
def _unique(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    x = feed(numbers(shape_of(draw, 1, 1), seed_of(draw), draw(st.sampled_from(["f4", "i4"]))))
    return [*ops.Unique(x=x), *ops.UniqueWithCounts(x=x)]


@case("SparseToDense")
def _sparse_to_dense(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    rows, columns = draw(SIZES), draw(SIZES)
    chosen = np.random.default_rng(seed_of(draw)).permutation(rows * columns)[: draw(SIZES)]
    places = np.sort(chosen)
    return ops.SparseToDense(
        sparse_indices=feed(np.stack(np.divmod(places, columns), 1).astype("i8")),
        output_shape=np.array([rows, columns], "i8"),
        sparse_values=feed(numbers((len(places),), seed_of(draw))),
        default_value=feed(np.float32(0.5)),
    )


def _boxes(draw: Draw, count: int) -> Array:
    rng = np.random.default_rng(seed_of(draw))
    first = rng.random((count, 2)) - 0.2
    return np.concatenate([first, first + rng.random((count, 2))], 1).astype(np.float32)


@case("NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4")
def _kept_boxes(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    count = draw(st.integers(1, 12))
    boxes = {
        "boxes": feed(_boxes(draw, count)),
        "scores": feed(numbers((count,), seed_of(draw))),
        "max_output_size": feed(np.int32(draw(st.integers(1, 8)))),
        "iou_threshold": feed(np.float32(draw(st.sampled_from([0.1, 0.5])))),
    }
    least = feed(np.float32(draw(st.sampled_from([-1.0, 0.1]))))
    return [
        ops.NonMaxSuppressionV2(**boxes),
        ops.NonMaxSuppressionV3(**boxes, score_threshold=least),
        *ops.NonMaxSuppressionV4(
            **boxes, score_threshold=least, pad_to_max_output_size=draw(st.booleans())
        ),
    ]


@case("CropAndResize")
def _cropped(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image, count = _image(draw, 2), draw(SIZES)
    of = np.random.default_rng(seed_of(draw)).integers(0, image.shape[0], count)
    return ops.CropAndResize(
        image=feed(image),
        boxes=feed(_boxes(draw, count)),
        box_ind=feed(of.astype(np.int32)),
        crop_size=np.array([draw(SIZES), draw(SIZES)], np.int32),
        method=draw(st.sampled_from(["bilinear", "nearest"])),
        extrapolation_value=0.25,
    )


def _named(build: Build) -> str:
    return next(name for name, each in CASES.items() if each is build)


BUILDS = dict.fromkeys(CASES.values())
"""Each way to make ops once; some make ops of several types."""


def options(examples: int) -> settings:
    return settings(
        max_examples=examples,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


@pytest.mark.parametrize("build", BUILDS, ids=_named)
@options(2)
@given(data=st.data())
def test_a_row_gives_what_tensorflow_gives(
    tmp_path: Path, build: Build, data: st.DataObject
) -> None:
    check_rows(tmp_path, build, data.draw)


@pytest.mark.exhaustive
@pytest.mark.parametrize("build", BUILDS, ids=_named)
@options(60)
@given(data=st.data())
def test_a_row_gives_it_in_all_cases(tmp_path: Path, build: Build, data: st.DataObject) -> None:
    check_rows(tmp_path, build, data.draw)


def check_rows(folder: Path, build: Build, draw: Draw) -> None:
    """Run the ops *build* makes by TensorFlow and by their rows."""
    import tensorflow as tf

    v1 = tf.compat.v1
    feeds: dict[str, Array] = {}

    def feed(value: Array) -> Any:
        placeholder = v1.placeholder(value.dtype, value.shape)
        feeds[placeholder.name] = value
        return placeholder

    graph = tf.Graph()
    with graph.as_default():
        build(tf.raw_ops, draw, feed)
        made = [
            tensor
            for op in graph.get_operations()
            if op.type not in ("Placeholder", "Const")
            for tensor in op.outputs
        ]
        with v1.Session() as session:
            wanted = dict(zip([t.name for t in made], session.run(made, feeds), strict=True))
    path = folder / "graph.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    read = read_graph(path)
    executor = TranslatedExecutor(tensorflow_program(read, "", {}, (), ()))
    used = {tensor.name for tensor in executor.inputs}
    given_ = {each: value for each, value in feeds.items() if each in used}
    found = dict(executor.run(given_))
    compared = 0
    for each, value in wanted.items():
        if each in found and not each.startswith("FusedBatchNormV3:5"):  # room nobody fills
            assert found[each].dtype == value.dtype, each
            assert found[each].shape == value.shape, each
            np.testing.assert_allclose(found[each], value, rtol=2e-5, atol=2e-5, err_msg=each)
            compared += 1
    assert compared, executor.unavailable
    types = {op.type for op in graph.get_operations()} - {"Placeholder", "Const"}
    assert types <= set(ROWS), types - set(ROWS)
