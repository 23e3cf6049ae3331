"""Layers of Caffe's first format (V0) as those of the next one.

A V0 layer keeps all its settings side by side; what they belong to follows from its type. Padding
was a layer of its own, which the convolution or pooling behind it takes over. Source:
UpgradeV0LayerParameter and UpgradeV0PaddingLayers of BVLC/caffe, src/caffe/util/upgrade_proto.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from importers.caffe.net import Layer
from importers.proto.literals import is_string
from importers.proto.values import Fields, Value, message, text, word

PADDING = "padding"
TYPES = {
    "accuracy": "Accuracy",
    "bnll": "BNLL",
    "concat": "Concat",
    "conv": "Convolution",
    "data": "Data",
    "dropout": "Dropout",
    "euclidean_loss": "EuclideanLoss",
    "flatten": "Flatten",
    "hdf5_data": "HDF5Data",
    "hdf5_output": "HDF5Output",
    "im2col": "Im2col",
    "images": "ImageData",
    "infogain_loss": "InfogainLoss",
    "innerproduct": "InnerProduct",
    "lrn": "LRN",
    "pool": "Pooling",
    "relu": "ReLU",
    "multinomial_logistic_loss": "MultinomialLogisticLoss",
    "sigmoid": "Sigmoid",
    "softmax": "Softmax",
    "softmax_loss": "SoftmaxWithLoss",
    "split": "Split",
    "tanh": "TanH",
    "window_data": "WindowData",
    PADDING: PADDING,
}
"""The types of V0 layers, and what they are called today."""
_CONV, _POOL, _FULL = b"convolution_param", b"pooling_param", b"inner_product_param"
_LRN, _TRANSFORM = b"lrn_param", b"transform_param"
_SOURCES = {
    "data": b"data_param",
    "hdf5_data": b"hdf5_data_param",
    "images": b"image_data_param",
    "window_data": b"window_data_param",
    "infogain_loss": b"infogain_loss_param",
}
_WINDOWS = {"conv": _CONV, "pool": _POOL}
_ANY = ""
_PLACES: Mapping[bytes, tuple[bytes, Mapping[str, bytes]]] = {
    b"num_output": (b"num_output", {"conv": _CONV, "innerproduct": _FULL}),
    b"biasterm": (b"bias_term", {"conv": _CONV, "innerproduct": _FULL}),
    b"weight_filler": (b"weight_filler", {"conv": _CONV, "innerproduct": _FULL}),
    b"bias_filler": (b"bias_filler", {"conv": _CONV, "innerproduct": _FULL}),
    b"pad": (b"pad", _WINDOWS),
    b"kernelsize": (b"kernel_size", _WINDOWS),
    b"stride": (b"stride", _WINDOWS),
    b"group": (b"group", {"conv": _CONV}),
    b"pool": (b"pool", {"pool": _POOL}),
    b"dropout_ratio": (b"dropout_ratio", {"dropout": b"dropout_param"}),
    **{name: (name, {"lrn": _LRN}) for name in (b"local_size", b"alpha", b"beta", b"k")},
    b"source": (b"source", _SOURCES),
    b"batchsize": (b"batch_size", _SOURCES),
    b"rand_skip": (b"rand_skip", _SOURCES),
    b"scale": (b"scale", {_ANY: _TRANSFORM}),
    b"meanfile": (b"mean_file", {_ANY: _TRANSFORM}),
    b"cropsize": (b"crop_size", {_ANY: _TRANSFORM}),
    b"mirror": (b"mirror", {_ANY: _TRANSFORM}),
    b"shuffle_images": (b"shuffle", _SOURCES),
    b"new_height": (b"new_height", _SOURCES),
    b"new_width": (b"new_width", _SOURCES),
    b"concat_dim": (b"concat_dim", {"concat": b"concat_param"}),
}
_NUMBERS = """
    1:name:text 2:type:text 3:num_output 4:biasterm:flag 7:pad 8:kernelsize 9:group 10:stride
    11:pool 12:dropout_ratio:real
    13:local_size 14:alpha:real 15:beta:real 16:source:text 17:scale:real
    18:meanfile:text 19:batchsize 20:cropsize 21:mirror:flag 22:k:real 51:blobs_lr:real
    52:weight_decay:real 53:rand_skip 62:new_height 63:new_width 64:shuffle_images:flag
    65:concat_dim
""".split()
BINARY: Mapping[int, tuple[bytes, str]] = {
    int(number): (name.encode(), kind or "whole")
    for number, _, rest in (entry.partition(":") for entry in _NUMBERS)
    for name, _, kind in (rest.partition(":"),)
}
"""The fields of a binary V0 layer by number: their names, and what kind of scalar they hold."""


def is_first(fields: Fields) -> bool:
    """Whether a block ``layers`` is of the first format: its settings are in a block inside."""
    return any(name == b"layer" for name, _ in fields)


def upgraded(fields: Fields) -> Fields:
    """The fields of a V0 layer as those of a V1 layer.

    Raises:
        ValueError: a field is of a wrong kind.
    """
    new_fields: list[tuple[bytes, Value]] = []
    for name, value in fields:
        if name != b"layer":
            new_fields.append((name, value))
            continue
        inner = message(value)
        kind = next((_type_text(content) for field, content in inner if field == b"type"), "")
        new_fields += [_placed(field, content, kind) for field, content in inner]
    return new_fields


def _type_text(value: Value) -> str:
    return text(value) if isinstance(value, bytes) and is_string(value) else word(value)


def _placed(name: bytes, value: Value, kind: str) -> tuple[bytes, Value]:
    if name == b"type":
        return name, TYPES.get(kind, kind).encode()
    if name not in _PLACES:
        return name, value
    new, blocks = _PLACES[name]
    block = blocks.get(kind, blocks.get(_ANY))
    return (name, value) if block is None else (block, [(new, value)])


def without_padding(layers: Sequence[Layer]) -> list[Layer]:
    """*layers* without those that only pad: what reads them pads itself.

    Raises:
        ValueError: another layer than a convolution or a pooling reads one.
    """
    padded: dict[str, Layer] = {}
    merged: list[Layer] = []
    for layer in layers:
        if layer.type == PADDING:
            padded |= dict.fromkeys(layer.tops, layer)
            continue
        sources = [padded[bottom] for bottom in layer.bottoms if bottom in padded]
        merged.append(_padding(layer, sources[0]) if sources else layer)
        padded = {
            top: padding_layer for top, padding_layer in padded.items() if top not in layer.tops
        }
    return merged


def _padding(layer: Layer, source: Layer) -> Layer:
    block = {"Convolution": _CONV, "Pooling": _POOL}.get(layer.type)
    if block is None or len(layer.bottoms) != 1:
        raise ValueError(
            f"the layer {layer.name!r} of type {layer.type} reads a padding layer; only "
            "convolutions and poolings pad"
        )
    pad = source.attrs.get("pad", 0)
    attrs = {**layer.attrs, f"{block.decode()}.pad": pad}
    return replace(layer, bottoms=source.bottoms[:1], attrs=attrs)
