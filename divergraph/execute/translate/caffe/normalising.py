"""Layers that normalise, and the products with a whole matrix."""

from __future__ import annotations

from divergraph.execute.translate.caffe.layer import CaffeLayer, row
from divergraph.execute.translate.caffe.shaping import count
from divergraph.execute.translate.caffe.windows import Windows, pooled

_SSD = "weiliu89/caffe (branch ssd), src/caffe/layers/{}_layer.cpp"


@row("InnerProduct", source="inner_product")
def _inner_product(layer: CaffeLayer) -> list[str]:
    shape = layer.shape()
    axis = layer.axis("inner_product_param.axis", 1)
    outputs, inputs = layer.integer("inner_product_param.num_output", 0), count(shape[axis:])
    turned = layer.flag("inner_product_param.transpose", False)
    weight = layer.weight(0, *((inputs, outputs) if turned else (outputs, inputs)))
    has_bias = layer.flag("inner_product_param.bias_term", True)
    bias = layer.weight(1, outputs) if has_bias else None
    rows = layer.reshape(layer.bottom(), (count(shape[:axis]), inputs))
    value = layer.add("Gemm", rows, weight, bias, transB=int(not turned))
    return [value if axis == 1 else layer.reshape(value, (*shape[:axis], outputs))]


@row("Softmax", source="softmax")
def _softmax(layer: CaffeLayer) -> list[str]:
    return [layer.add("Softmax", layer.bottom(), axis=layer.axis("softmax_param.axis", 1))]


@row("LRN", source="lrn")
def _lrn(layer: CaffeLayer) -> list[str]:
    size = layer.integer("lrn_param.local_size", 5)
    alpha, beta = layer.real("lrn_param.alpha", 1.0), layer.real("lrn_param.beta", 0.75)
    names = ("ACROSS_CHANNELS", "WITHIN_CHANNEL")
    if layer.choice("lrn_param.norm_region", names, names[0]) == names[0]:
        bias = layer.real("lrn_param.k", 1.0)
        return [layer.add("LRN", layer.bottom(), size=size, alpha=alpha, beta=beta, bias=bias)]
    square = layer.add("Mul", layer.bottom(), layer.bottom())
    pad = (size - 1) // 2
    windows_of_axes = [
        Windows(size_of_axis, size, 1, pad, size_of_axis + 2 * pad - size + 1)
        for size_of_axis in layer.shape()[2:]
    ]
    (mean,) = pooled(layer, square, windows_of_axes, "AVE")
    scale = layer.add("Add", layer.add("Mul", mean, layer.number(alpha)), layer.number(1))
    return [layer.add("Mul", layer.bottom(), layer.add("Pow", scale, layer.number(-beta)))]


@row("BatchNorm", source="batch_norm; five blobs as in NVIDIA/caffe")
def _batch_norm(layer: CaffeLayer) -> list[str]:
    shape = layer.shape()
    channels = shape[1] if len(shape) > 1 else 1
    across = (channels, *(1 for _ in shape[2:]))
    value = layer.bottom()
    if layer.flag("batch_norm_param.use_global_stats", not layer.is_training):
        mean, variance = layer.weight(0, *across), layer.weight(1, *across)
        if layer.weights > 2:
            by = _inverse(layer, layer.weight(2, 1))
            mean, variance = layer.add("Mul", mean, by), layer.add("Mul", variance, by)
        value = layer.add("Sub", value, mean)
    else:
        axes = layer.piece.ints(0, *range(2, len(shape)))
        value = layer.add("Sub", value, layer.add("ReduceMean", value, axes))
        variance = layer.add("ReduceMean", layer.add("Mul", value, value), axes)
    eps = layer.number(layer.real("batch_norm_param.eps", 1e-5))
    value = layer.add("Div", value, layer.add("Sqrt", layer.add("Add", variance, eps)))
    if layer.weights > 4:
        value = layer.add("Mul", value, layer.weight(3, *across))
        value = layer.add("Add", value, layer.weight(4, *across))
    return [value]


def _inverse(layer: CaffeLayer, factor: str) -> str:
    """1 / *factor*; 0 for a factor of 0, as in nets that were never trained."""
    nothing = layer.number(0)
    by = layer.add("Div", layer.number(1), factor)
    return layer.add("Where", layer.add("Equal", factor, nothing), nothing, by)


@row("MVN", source="mvn")
def _mvn(layer: CaffeLayer) -> list[str]:
    shape = layer.shape()
    start = 1 if layer.flag("mvn_param.across_channels", False) else 2
    axes = layer.piece.ints(*range(start, len(shape)))
    value = layer.add("Sub", layer.bottom(), layer.add("ReduceMean", layer.bottom(), axes))
    if not layer.flag("mvn_param.normalize_variance", True):
        return [value]
    variance = layer.add("ReduceMean", layer.add("Mul", value, value), axes)
    eps = layer.number(layer.real("mvn_param.eps", 1e-9))
    return [layer.add("Div", value, layer.add("Add", layer.add("Sqrt", variance), eps))]


@row("Normalize", source=_SSD.format("normalize"))
def _normalize(layer: CaffeLayer) -> list[str]:
    shape = layer.shape()
    across = layer.flag("norm_param.across_spatial", True)
    axes = layer.piece.ints(*(range(1, len(shape)) if across else (1,)))
    total = layer.add("ReduceSumSquare", layer.bottom(), axes)
    eps = layer.number(layer.real("norm_param.eps", 1e-10))
    value = layer.add("Div", layer.bottom(), layer.add("Sqrt", layer.add("Add", total, eps)))
    channels = 1 if layer.flag("norm_param.channel_shared", True) else shape[1]
    return [layer.add("Mul", value, layer.weight(0, channels, *(1 for _ in shape[2:])))]
