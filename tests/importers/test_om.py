"""Offline models: containers of all ages, compressed attributes, weights, damage."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from graphstore.errors import ImportFormatError
from graphstore.model import DType
from importers import read_graph
from importers.layouts import from_layout
from importers.om import weights
from importers.om.compression import Tables, read_tables
from importers.registry import detect

FLOAT16 = 2


def const(name, stored, layout, origin=None, offset=0, size=None, dtype=FLOAT16, data=b""):
    desc = {
        "dtype": dtype,
        "shape": {"dim": list(stored)},
        "layout": layout,
        "data_offset": offset,
        "weight_size": size or 0,
    }
    if origin:
        shape, form = origin
        desc["attr"] = {
            "origin_shape": {"list": {"i": list(shape), "val_type": 2}},
            "origin_format": {"s": form.encode()},
        }
    return {
        "name": name,
        "type": "Const",
        "attr": {"value": {"t": {"desc": desc, "data": data}}},
        "output_desc": [{"dtype": dtype, "shape": {"dim": list(stored)}, "layout": layout}],
    }


def model(ge_model, *ops, name="g", **attrs):
    return ge_model(graph=[{"name": name, "op": list(ops)}], attr=attrs).SerializeToString()


ABS = {"name": "abs", "type": "Abs", "input": ["x:0"]}
DATA = {"name": "x", "type": "Data", "input": [""]}


@pytest.fixture
def om(tmp_path, om_bytes):
    def write(*models, **options):
        path = tmp_path / "model.om"
        path.write_bytes(om_bytes(*models, **options))
        return path

    return write


@pytest.mark.parametrize("ending", [".om", ".onnx", ".txt", ""])
def test_the_first_bytes_tell(tmp_path, om_bytes, ge_model, ending):
    path = tmp_path / f"model{ending}"
    path.write_bytes(om_bytes([(0, model(ge_model, DATA, ABS))]))
    ((importer, found), *others) = detect(path)
    assert (importer.name, found.confidence) == ("om", 2)
    assert "IMOD" in found.reason
    assert not [each for each in others if each[1].confidence == 2]


@pytest.mark.parametrize(
    "options",
    [{}, {"wide": True}, {"version": 0x10000000}, {"wide": True, "model_type": 3}],
    ids=["32 bit", "64 bit", "header version 1", "flow header"],
)
def test_containers_of_every_kind(om, ge_model, options):
    tasks, kernels = b"T" * 7, b"\x7fELF" * 3
    parts = [(0, model(ge_model, DATA, ABS)), (1, b""), (3, kernels), (2, tasks)]
    graph = read_graph(om(parts, **options))
    assert [op.id for op in graph.ops] == ["x", "abs"]
    assert graph.ops[1].inputs[0].producer.op == "x"
    size = len(parts[0][1])
    table = 4 + 4 * 12 if not options.get("wide") else 8 + 4 * 24
    start = 256 + table
    assert graph.attrs["om_partitions"] == (
        f"model definition: {size} bytes at {start}",
        f"weights: 0 bytes at {start + size}",
        f"kernels: 12 bytes at {start + size}",
        f"tasks: 7 bytes at {start + size + 12}",
    )
    assert graph.attrs["om_platform_version"] == "1.11"


def test_binaries_stay_in_the_file(om, ge_model):
    attrs = {"tasks": {"bt": b"\0" * 5000}, "long": {"s": b"x" * 50_000}}
    op = {**ABS, "attr": {"_tbe_kernel_buffer": {"bt": b"\1" * 300}}}
    graph = read_graph(om([(0, model(ge_model, DATA, op, **attrs))]))
    assert graph.attrs["tasks"] == "5000 bytes, left out"
    assert graph.attrs["long"] == "text of 50000 characters, left out"
    assert graph.ops[1].attrs["_tbe_kernel_buffer"] == "300 bytes, left out"


# --- weights


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
    assert found.places["w"].dtype is DType.BFLOAT16
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


# --- several models and compression


def code(index):
    digits = []
    while True:
        index, digit = divmod(index, 127)
        digits.append(digit + 1)
        if not index:
            return "\0" + bytes(digits).decode()


NAMES = [f"key{number}" for number in range(300)]
NAMES[2] = "_datadump_original_op_names"
NAMES[129] = "_datadump_origin_name"
NAMES[130] = "_parent_node_index"


def compressed(names, texts, flags):
    return {
        "om_compress_version": {"i": 1},
        "attr_name_enum": {"list": {"s": [name.encode() for name in names]}},
        "attr_value_enum": {"list": {"s": texts}},
        "attrs_use_string_value": {"list": {"b": flags}},
    }


def test_compressed_attributes_are_what_they_were(om, ge_model):
    flags = [index in (2, 129, 200) for index in range(300)]
    desc = {"dtype": 1, "attr": {code(129): {"i": 1}, "origin_format": {"s": b"NHWC"}}}
    op = {
        "name": "fused",
        "type": "Conv2D",
        "attr": {
            code(2): {"list": {"i": [1, 0]}},
            code(200): {"i": 2},
            code(299): {"i": -4},
            "plain": {"b": True},
        },
        "output_desc": [desc],
    }
    tables = compressed(NAMES, [b"conv", b"relu", "\u6211".encode()], flags)
    (read,) = read_graph(om([(0, model(ge_model, op, **tables))])).ops
    assert read.original_names == ("relu", "conv")
    assert read.outputs[0].origin.op == "relu"
    assert read.outputs[0].origin.layout == "NHWC"
    assert read.attrs == {
        "_datadump_original_op_names": ("relu", "conv"),
        "key200": "\u6211",
        "key299": -4,
        "plain": True,
    }


def test_a_later_model_is_a_body_and_its_codes_may_lead_to_the_first(om, ge_model):
    call = {**ABS, "name": "call", "type": "PartitionedCall", "subgraph_name": ["sub"]}
    index = {"i": 0}
    inner = {"name": "d", "type": "Data", "attr": {code(130): index}}
    abs_ = {"name": "a", "type": "Abs", "input": ["d:0"], "attr": {code(7): {"i": 1}}}
    end = {
        "name": "o",
        "type": "NetOutput",
        "input": ["a:0"],
        "input_desc": [{"dtype": 1, "attr": {code(130): index}}],
    }
    tables = compressed(NAMES, [b"zero", b"one"], [number == 7 for number in range(300)])
    root = ge_model(
        graph=[{"name": "root", "op": [DATA, call]}, {"name": "sub", "op": [inner, abs_, end]}],
        attr=tables,
    )
    again = compressed([code(130), code(7)], [], [False, False])
    sub = ge_model(
        graph=[
            {
                "name": "sub",
                "op": [
                    {**inner, "attr": {code(0): index}},
                    {**abs_, "attr": {code(1): {"i": 1}}, "id": 9},
                    {**end, "input_desc": [{"dtype": 1, "attr": {code(0): index}}]},
                    const("w", (2,), "ND", None, 0, 4),
                ],
            }
        ],
        attr=again,
    )
    blocks = [(0, root.SerializeToString())], [(0, sub.SerializeToString()), (1, b"\0<\0@")]
    path = om(*blocks, wide=True)
    graph = read_graph(path)
    assert [op.id for op in graph.ops] == ["x", "call", "sub/d", "sub/a", "sub/o", "sub/w"]
    (body,) = graph.subgraphs
    assert (body.owner, body.inputs) == ("call", ((0, "sub/d"),))
    assert [(port, str(ref)) for port, ref in body.outputs] == [(0, "sub/a:0")]
    assert graph.op_index()["sub/a"].attrs["key7"] == "one"
    assert weights(path)["sub/w"].tolist() == [1.0, 2.0]
    assert graph.attrs["om_partitions"][1].startswith("model 2, model definition")


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        (code(300), {"i": 1}, "attribute code 300 of 300"),
        (code(5), {"i": 7}, "text 7 of 1"),
        (code(5), {"i": -1}, "text -1 of 1"),
        ("\0", {"i": 1}, "is no attribute code"),
        ("\0" + "\x7f" * 9, {"i": 1}, "is no attribute code"),
        ("\0\u6211", {"i": 1}, "is no attribute code"),
    ],
)
def test_codes_that_stand_for_nothing(om, ge_model, key, value, what):
    op = {**ABS, "attr": {key: value}}
    tables = compressed(NAMES, [b"one"], [True] * 300)
    with pytest.raises(ImportFormatError, match=what) as caught:
        read_graph(om([(0, model(ge_model, op, **tables))]))
    assert caught.value.offset


def test_an_unknown_compression_is_refused():
    entry = [(b"key", "om_compress_version"), (b"value", [(b"i", 2)])]
    with pytest.raises(ValueError, match="way 2; only way 1"):
        read_tables([entry], None)
    assert read_tables([], None) == Tables()


# --- damage


def broken(path, at, value):
    data = bytearray(path.read_bytes())
    data[at : at + len(value)] = value
    path.write_bytes(data)
    with pytest.raises(ImportFormatError) as caught:
        read_graph(path)
    return caught.value


@pytest.mark.parametrize(
    ("at", "value", "what", "offset"),
    [
        (80, b"\1", "the model is encrypted", 80),
        (76, struct.pack("<I", 2**31), "the file ends after", None),
        (256, struct.pack("<I", 0), "a table of 0 partitions", 256),
        (256, struct.pack("<I", 2**32 - 1), "a table of 4294967295 partitions", 256),
        (256, struct.pack("<I", 60), "ends inside a table of 60", 260),
        (264, struct.pack("<I", 2**32 - 1), "reach past the end of the file", 260),
        (268, struct.pack("<I", 2**31), "reach past the end of the file", 260),
        (276, struct.pack("<I", 2), "overlap at byte", 260),
        (260, struct.pack("<I", 9), "this is a model without a graph", 82),
    ],
)
def test_damaged_tables_say_what_and_where(om, ge_model, at, value, what, offset):
    path = om([(0, model(ge_model, DATA, ABS)), (3, b"kernel")])
    error = broken(path, at, value)
    assert what in str(error)
    assert offset is None or error.offset == offset
    assert error.hint


def test_many_models_in_a_file_that_holds_one(om, ge_model):
    path = om([(0, model(ge_model, DATA, ABS))], wide=True)
    error = broken(path, 156, struct.pack("<I", 50))
    assert "the file ends before model 2 of 50" in str(error)


@pytest.mark.parametrize(("kind", "said"), [(3, "a flow model"), (5, "a bundle of models")])
def test_models_of_models_are_named(om, kind, said):
    with pytest.raises(ImportFormatError, match=f"this is {said}"):
        read_graph(om([(6, b"\1\2\3")], model_type=kind, wide=True))


@pytest.mark.parametrize(
    ("definition", "what"),
    [
        (b"", "no op in its first graph"),
        (b"\x3a\x7f", "a field of 127 bytes where its message has only 0 left"),
        (b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "bytes where its message has only"),
        (b"\x3a" + b"\xff" * 12, "a number longer than ten bytes"),
        (b"\x0b", "no field of protobuf starts here"),
        (b"\x02\x01\x01", "a field with the number 0"),
        (b"\x3a\x05\x32\x03\x0a\x01", "only"),
        (b"\x3a\x02\x32\x00", "an op without a name"),
    ],
)
def test_damaged_definitions(om, definition, what):
    path = om([(0, definition)])
    with pytest.raises(ImportFormatError, match=what) as caught:
        read_graph(path)
    assert caught.value.offset >= 256 + 16


def test_endless_nesting_is_refused(om):
    desc = b""
    for _ in range(3000):  # an attribute of a descriptor in an attribute of a descriptor ...
        value = b"\x5a" + varint(len(desc)) + desc
        entry = b"\x0a\x01k\x12" + varint(len(value)) + value
        desc = b"\x2a" + varint(len(entry)) + entry
    op = b"\x0a\x01a\x92\x02" + varint(len(desc)) + desc
    graph = b"\x32" + varint(len(op)) + op
    with pytest.raises(ImportFormatError, match="nested deeper than 64"):
        read_graph(om([(0, b"\x3a" + varint(len(graph)) + graph)]))


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (b"\x92\x02\x00" * 70_000, "an op with 0 inputs and 70000 outputs"),
        (b"\x2a\x00" * 1_000_001, "more than 1000000 fields in one block"),
    ],
)
def test_counts_no_op_has_are_refused(om, more, what):
    op = b"\x0a\x01a" + more
    graph = b"\x32" + varint(len(op)) + op
    with pytest.raises(ImportFormatError, match=what):
        read_graph(om([(0, b"\x3a" + varint(len(graph)) + graph)]))


def varint(number):
    digits = []
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def test_a_file_cut_anywhere(om, ge_model):
    data = om([(0, model(ge_model, DATA, ABS)), (1, b"\0" * 32)]).read_bytes()
    path = om()
    for end in range(1, len(data)):
        path.write_bytes(data[:end])
        with pytest.raises(ImportFormatError):
            read_graph(path)


def test_any_damaged_bytes_end_in_a_graph_or_an_error(om, ge_model):
    tables = compressed(NAMES, [b"one"], [True] * 300)
    op = {**ABS, "attr": {code(5): {"i": 0}}}
    path = om([(0, model(ge_model, DATA, op, **tables)), (1, b"\0" * 16)])
    data = path.read_bytes()
    random_ = random.Random(11)
    outcomes = set()
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(random_.randint(1, 3)):
            damaged[random_.randrange(76, len(data))] = random_.randrange(256)
        path.write_bytes(damaged)
        try:
            found = weights(path)
            list(read_graph(path).edges())
            outcomes.add(len(found))
        except ImportFormatError:
            outcomes.add("refused")
    assert {0, "refused"} <= outcomes


# --- real files


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
    layouts = [found.places[op].layout for op in found]
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


@pytest.mark.shared
def test_a_real_model_is_the_graph_its_json_says(shared_data):
    made = read_graph(shared_data / "om" / "autoencoder_hh_om.om")
    told = read_graph(shared_data / "dumps" / "autoencoder_hh" / "hh_om.json")
    assert (made.name, len(made.ops)) == ("hh_om_0", 46)
    assert sum(op.is_fused for op in made.ops) == 9
    assert list(made.edges()) == list(told.edges())
    for op, same in zip(made.ops, told.ops, strict=True):
        assert (op.id, op.type, op.outputs, op.original_names) == (
            same.id,
            same.type,
            same.outputs,
            same.original_names,
        )
        for key, value in same.attrs.items():
            binary = isinstance(value, str) and value.startswith("bytes, ")
            assert binary or op.attrs[key] == value


@pytest.mark.shared
def test_a_real_file_of_three_models(shared_data):
    path = shared_data / "om" / "dynamic_and_static_graph_without_unfold.om"
    graph = read_graph(path)
    assert [body.owner for body in graph.subgraphs] == ["known_op", "unknown_op"]
    assert [op.subgraph for op in graph.ops] == [""] * 6 + ["sub_1"] * 4 + ["sub_2"] * 4
    assert not any(key.startswith("\0") for op in graph.ops for key in op.attrs)
    ops = graph.op_index()
    assert ops["known_op"].attrs["_kernelname"] == "FakeKernelName"
    assert ops["sub_2/mul"].attrs["_ge_attr_op_kernel_lib_name"] == "aicpu_ascend_kernel"
    assert ops["sub_2/mul"].attrs["OwnerGraphIsUnknown"] is True
    assert sorted(weights(path)) == ["sub_1/const_1", "sub_2/const_2"]
    assert graph.warnings == ()


@pytest.mark.shared
@pytest.mark.parametrize(
    "name", ["autoencoder_hh_om.om", "dynamic_and_static_graph_without_unfold.om"]
)
def test_a_real_model_cut_anywhere(shared_data, tmp_path, name):
    data = (shared_data / "om" / name).read_bytes()
    path = tmp_path / name
    for end in random.Random(5).sample(range(1, len(data)), 40):
        path.write_bytes(data[:end])
        with pytest.raises(ImportFormatError):
            read_graph(path)
