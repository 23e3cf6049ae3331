"""Weights that do not lie in their file in one piece."""

from __future__ import annotations

import numpy as np
import pytest

from importers.proto.wire import BLOCK, FIXED32, varint_bytes
from tests.execute.caffe.conftest import field, layer

PARAMS = "inner_product_param { num_output: 2 bias_term: false }"


def one_by_one(weight):
    key = varint_bytes(5 << 3 | FIXED32)
    values = b"".join(key + value.tobytes() for value in weight.ravel())
    return values + field(7, field(1, bytes(weight.shape)))


def in_halves(weight):
    halves = np.split(weight.ravel(), 2)
    return b"".join(field(5, half.tobytes()) for half in halves) + field(
        7, field(1, bytes(weight.shape))
    )


def in_double(weight):
    content = weight.astype("<f8").tobytes()
    return (
        varint_bytes(8 << 3 | BLOCK)
        + varint_bytes(len(content))
        + content
        + field(7, field(1, bytes(weight.shape)))
    )


@pytest.mark.parametrize("written", [one_by_one, in_halves, in_double])
def test_weights_written_otherwise(nets, rng, tmp_path, written):
    x, weight = rng(3, 4), rng(2, 4)
    file = tmp_path / "apart.caffemodel"
    file.write_bytes(field(100, field(1, b"y") + field(7, written(weight))))
    made = nets.run(layer("InnerProduct", PARAMS), {"x0": x}, weights_file=file)["y"]
    assert np.allclose(made, x @ weight.T, atol=1e-5)


def test_weights_in_text(nets, rng, tmp_path):
    x, weight = rng(3, 4), rng(2, 4)
    values = " ".join(f"data: {value!r}" for value in weight.ravel().tolist())
    blob = f"blobs {{ {values} shape {{ dim: 2 dim: 4 }} }}"
    file = tmp_path / "trained.prototxt"
    file.write_text(f'layer {{ name: "y" type: "InnerProduct" {blob} }}')
    made = nets.run(layer("InnerProduct", PARAMS), {"x0": x}, weights_file=file)["y"]
    assert np.allclose(made, x @ weight.T, atol=1e-5)
