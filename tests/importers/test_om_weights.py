"""Weights of offline models: as the framework had them, and what is told of bad ones."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from offline_models import ABS, DATA, FLOAT16, const, model

from graphstore.errors import ImportFormatError
from graphstore.model import DType
from importers.layouts import from_layout
from importers.om.constants import weights
from importers.registry import read_graph

LAYOUTS = [
    ("FRACTAL_Z", "HWCN", (3, 3, 5, 20), 1),
    ("FRACTAL_Z", "NCHW", (7, 40, 2, 1), 1),
    ("FRACTAL_Z:3", "NCHW", (6, 4, 3, 3), 3),
    ("FRACTAL_NZ", "ND", (70, 33), 1),
    ("FRACTAL_NZ", "ND", (2, 3, 17, 16), 1),
    ("NC1HWC0", "NHWC", (2, 5, 6, 19), 1),
    ("FRACTAL_Z_3D", "DHWCN", (2, 3, 3, 4, 18), 1),
    ("NDC1HWC0", "NCDHW", (1, 20, 2, 3, 4), 1),
    ("ND", "ND", (4, 5), 1),
    ("NCHW", "NCHW", (1, 2, 3, 4), 1),
]


@pytest.mark.parametrize(("layout", "form", "shape", "groups"), LAYOUTS)
def test_weights_come_back_as_the_framework_had_them(om, ge_model, layout, form, shape, groups):
    golden = np.random.default_rng(3).normal(size=shape).astype(np.float16)
    stored = from_layout(golden, form, layout.partition(":")[0], groups=groups)
    before = 512
    ops = [
        const("w", stored.shape, layout, (shape, form), before, stored.nbytes),
        const("inline", (3,), "ND", dtype=7, data=np.arange(3, dtype=np.int32).tobytes()),
    ]
    path = om([(1, b"\xff" * before + stored.tobytes()), (0, model(ge_model, *ops))])
    found = weights(path)
    assert sorted(found) == ["inline", "w"]
    assert found["w"].dtype == np.float16
    assert found["w"].tobytes() == golden.tobytes()
    assert found["w"].shape == shape
    assert found.stored("w").shape == stored.shape
    assert found["inline"].tolist() == [0, 1, 2]
    op = read_graph(path).op_index()["w"]
    place = found.places["w"].span
    assert (op.attrs["weight_offset"], op.attrs["weight_bytes"]) == (place.offset, place.size)


def test_a_weight_that_needs_no_undoing_is_a_view_of_the_file(om, ge_model):
    data = np.arange(6, dtype=np.float16)
    path = om([(0, model(ge_model, const("w", (2, 3), "ND", None, 0, 12))), (1, data.tobytes())])
    found = weights(path)["w"]
    assert not found.flags.owndata
    assert not found.flags.writeable
    assert found.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_weights_flattened_by_the_compiler_get_their_shape_back(om, ge_model):
    data = np.arange(6, dtype=np.float16)
    op = const("w", (6,), "NCHW", ((1, 6, 1, 1), "NCHW"), 0, 12)
    assert weights(om([(0, model(ge_model, op)), (1, data.tobytes())]))["w"].shape == (1, 6, 1, 1)


def test_an_empty_partition_may_lie_anywhere(om, ge_model):
    path = om([(0, model(ge_model, DATA, ABS)), (1, b"")])
    data = bytearray(path.read_bytes())
    data[276:280] = b"\xff\xff\xff\x7f"
    path.write_bytes(data)
    assert len(read_graph(path).ops) == 2


def test_bfloat16_weights_come_as_float32(om, ge_model):
    data = np.array([1.0, -2.5], np.float32).view(np.uint32) >> 16
    ops = const("w", (2,), "ND", None, 0, 4, dtype=27)
    path = om([(0, model(ge_model, ops)), (1, data.astype(np.uint16).tobytes())])
    found = weights(path)
    assert found.places["w"].tensor.dtype is DType.BFLOAT16
    assert found["w"].tolist() == [1.0, -2.5]


@pytest.mark.parametrize(
    ("offset", "size", "what"),
    [
        (8, 12, "weights of 12 bytes at 8 in a partition of 16"),
        (-8, 12, "weights of 12 bytes at -8"),
        (0, 2**62, "in a partition of 16"),
        (2**63 - 1, 2**63 - 1, "in a partition of 16"),
    ],
)
def test_weights_outside_of_their_partition(om, ge_model, offset, size, what):
    op = const("w", (6,), "ND", None, offset, size)
    path = om([(0, model(ge_model, op)), (1, b"\0" * 16)])
    with pytest.raises(ImportFormatError, match=what) as caught:
        weights(path)
    assert caught.value.offset is not None


@pytest.mark.parametrize(
    ("shape", "dtype", "what"),
    [
        ((100,), FLOAT16, "16 bytes of weights where \\(100,\\) needs 200"),
        ((2**40, 2**40), FLOAT16, "16 bytes of weights"),
        ((-1,), FLOAT16, "cannot be read"),
        ((2,), 13, "weights of string"),
        ((2,), 0, "an unknown type"),
    ],
)
def test_weights_whose_shape_or_type_does_not_fit(om, ge_model, shape, dtype, what):
    op = const("w", shape, "ND", None, 0, 16, dtype=dtype)
    found = weights(om([(0, model(ge_model, op)), (1, b"\0" * 16)]))
    with pytest.raises(ImportFormatError, match=what) as caught:
        found["w"]
    assert caught.value.offset == found.places["w"].span.offset


def test_a_layout_that_does_not_fit_its_shape_is_told(om, ge_model):
    op = const("w", (1, 1, 16, 16), "FRACTAL_Z", ((9, 9, 9, 9), "NCHW"), 0, 512)
    found = weights(om([(0, model(ge_model, op)), (1, b"\0" * 512)]))
    with pytest.raises(ImportFormatError, match="w: FRACTAL_Z"):
        found["w"]


@pytest.mark.shared
def test_the_weights_of_a_real_model_are_those_of_the_framework(shared_data):
    """Every weight bit for bit, once the framework's is rounded to the stored type."""
    graph = tf_graph_class()()
    graph.ParseFromString((shared_data / "tf" / "autoencoder_hh.pb").read_bytes())
    golden = {node.name: framework_value(node) for node in graph.node if node.op == "Const"}
    found = weights(shared_data / "om" / "autoencoder_hh_om.om")
    assert len(found) == 17
    equal = {
        op: [
            name
            for name, value in golden.items()
            if value.shape == array.shape and value.astype(array.dtype).tobytes() == array.tobytes()
        ]
        for op, array in found.items()
    }
    assert [op for op, names in equal.items() if not names] == []
    assert equal["random_normal/shape"] == ["random_normal/shape"]
    layouts = [found.places[op].tensor.layout for op in found]
    assert (layouts.count("FRACTAL_Z"), layouts.count("FRACTAL_NZ")) == (4, 3)


def tf_graph_class():
    """TensorFlow's GraphDef with the values of constants, which the product never reads."""
    file = descriptor_pb2.FileDescriptorProto(name="tf_values.proto", package="dgv.values")
    for message, fields in {
        "Dim": [("size", 1, 1, 3)],
        "Shape": [("dim", 2, 3, "Dim")],
        "Tensor": [
            ("dtype", 1, 1, 5),
            ("tensor_shape", 2, 1, "Shape"),
            ("tensor_content", 4, 1, 12),
            ("float_val", 5, 3, 2),
            ("int_val", 7, 3, 5),
        ],
        "Value": [("tensor", 8, 1, "Tensor")],
        "Entry": [("key", 1, 1, 9), ("value", 2, 1, "Value")],
        "Node": [("name", 1, 1, 9), ("op", 2, 1, 9), ("entry", 5, 3, "Entry")],
        "Graph": [("node", 1, 3, "Node")],
    }.items():
        made = file.message_type.add(name=message)
        for name, number, label, kind in fields:
            field = made.field.add(name=name, number=number, label=label)
            if isinstance(kind, str):
                field.type, field.type_name = 11, f".dgv.values.{kind}"
            else:
                field.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("dgv.values.Graph"))


def framework_value(node):
    (tensor,) = [entry.value.tensor for entry in node.entry if entry.key == "value"]
    kind = {1: np.float32, 3: np.int32}[tensor.dtype]
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    if tensor.tensor_content:
        return np.frombuffer(tensor.tensor_content, kind).reshape(shape)
    values = tensor.float_val if kind is np.float32 else tensor.int_val
    return np.full(shape, values[0] if len(values) else 0, kind)
