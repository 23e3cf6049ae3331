"""Nets in Caffe's first format (V0): settings side by side, padding as a layer of its own."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from divergraph.execute.installed import open_here
from divergraph.execute.translate.caffe.executor import CaffeFactory
from graphstore.errors import ImportFormatError
from importers.proto.wire import BLOCK, FIXED32, VARINT, varint_bytes
from importers.registry import read_graph

FIRST = """
name: "net" input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
layers { layer { name: "pad1" type: "padding" pad: 1 } bottom: "data" top: "pad1" }
layers {
  layer { name: "conv1" type: "conv" num_output: 4 kernelsize: 3 stride: 2 biasterm: false }
  bottom: "pad1" top: "conv1"
}
layers { layer { name: "relu1" type: "relu" } bottom: "conv1" top: "conv1" }
layers { layer { name: "pad2" type: "padding" pad: 1 } bottom: "conv1" top: "pad2" }
layers {
  layer { name: "pool1" type: "pool" pool: AVE kernelsize: 3 stride: 2 } bottom: "pad2" top: "pool1"
}
layers {
  layer { name: "norm1" type: "lrn" local_size: 3 alpha: 0.5 beta: 0.5 }
  bottom: "pool1" top: "norm1"
}
layers { layer { name: "fc" type: "innerproduct" num_output: 5 } bottom: "norm1" top: "fc" }
layers { layer { name: "prob" type: "softmax" } bottom: "fc" top: "prob" }
"""
PRESENT = """
name: "net" input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
layer {
  name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 bias_term: false }
}
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer {
  name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }
}
layer {
  name: "norm1" type: "LRN" bottom: "pool1" top: "norm1"
  lrn_param { local_size: 3 alpha: 0.5 beta: 0.5 }
}
layer {
  name: "fc" type: "InnerProduct" bottom: "norm1" top: "fc" inner_product_param { num_output: 5 }
}
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""


def _block(number, content):
    return varint_bytes(number << 3 | BLOCK) + varint_bytes(len(content)) + content


def _blob(value):
    sizes = (1,) * (4 - value.ndim) + value.shape
    dims = b"".join(
        varint_bytes(at << 3 | VARINT) + varint_bytes(size) for at, size in enumerate(sizes, 1)
    )
    return dims + _block(5, value.astype("<f4").tobytes())


def _binary(weights):
    """A net of the first format with a convolution and its weights."""
    names = {1: b"conv1", 2: b"conv"}
    inner = b"".join(_block(number, text) for number, text in names.items())
    for number, value in ((3, 4), (4, 0), (8, 3), (10, 2), (7, 1)):
        inner += varint_bytes(number << 3 | VARINT) + varint_bytes(value)
    inner += varint_bytes(51 << 3 | FIXED32) + struct.pack("<f", 1.0)
    inner += b"".join(_block(50, _blob(each)) for each in weights)
    layer = _block(1, inner) + _block(2, b"data") + _block(3, b"conv1")
    return _block(1, b"net") + _block(2, layer)


@pytest.fixture
def written(tmp_path):
    def write(text, name="net.prototxt"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def _told(graph):
    return [
        (op.name, op.type, [ref.tensor for ref in op.inputs if ref], dict(op.attrs))
        for op in graph.ops
    ]


def test_it_is_read_as_the_present_one(written):
    assert _told(read_graph(written(FIRST))) == _told(read_graph(written(PRESENT, "new.prototxt")))


def test_weights_of_a_binary_net_go_with_it(written):
    weight = np.random.default_rng(1).normal(size=(4, 3, 3, 3)).astype(np.float32)
    beside = written("", "net.caffemodel")
    beside.write_bytes(_binary([weight]))
    (op,) = read_graph(beside).ops
    assert (op.name, op.type, op.attrs["convolution_param.kernel_size"]) == (
        "conv1",
        "Convolution",
        3,
    )
    assert op.attrs["convolution_param.bias_term"] is False
    text = FIRST.split('layers { layer { name: "relu1"')[0]
    model = written(text)
    executor = open_here(CaffeFactory(), model, read_graph(model), {})
    data = np.ones((1, 3, 8, 8), np.float32)
    ((_, made),) = executor.run({"data": data})
    assert made.shape == (1, 4, 4, 4)
    assert made[0, :, 1, 1] == pytest.approx(weight.sum((1, 2, 3)), rel=1e-5)


def test_only_convolutions_and_poolings_pad(written):
    text = FIRST.replace('type: "conv" num_output: 4', 'type: "innerproduct" num_output: 4')
    with pytest.raises(ImportFormatError, match="reads a padding layer"):
        read_graph(written(text))
