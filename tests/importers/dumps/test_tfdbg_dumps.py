"""Session folders of TensorFlow's debugger, written here from the message definitions."""

from __future__ import annotations

import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphstore.errors import ImportFormatError
from graphstore.model import (
    DType,
    DumpFormat,
    Framework,
    GraphKind,
    ModelGraph,
    Op,
    Reason,
    Tensor,
    TensorIO,
)
from importers.dumps.detect import scan_dumps
from importers.dumps.read import read_array

OUT = TensorIO.OUTPUT
STAMP = 1795253253041148
DEVICE = "_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0"
# numpy type -> TensorFlow's number, field of its repeated values
TYPES = {
    "float32": (1, 5),
    "float64": (2, 6),
    "int32": (3, 7),
    "uint8": (4, 7),
    "int16": (5, 7),
    "int8": (6, 7),
    "complex64": (8, 9),
    "int64": (9, 10),
    "bool": (10, 11),
    "float16": (19, 13),
    "uint32": (22, 16),
    "uint64": (23, 17),
}


def varint(number):
    number &= (1 << 64) - 1
    done = bytearray()
    while number >= 0x80:
        done.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*done, number])


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor(array, values=None):
    """A TensorProto with the array's bytes as content, or *values* in the repeated field."""
    number, repeated = TYPES[array.dtype.name]
    shape = b"".join(field(2, field(1, size)) for size in array.shape)
    message = field(1, number) + field(2, shape)
    if values is None:
        return message + field(4, array.tobytes())
    if array.dtype.kind in "fc" and array.dtype.itemsize > 2:
        return message + field(repeated, values.tobytes())
    bits = values.view(np.uint16) if array.dtype == np.float16 else values
    return message + field(repeated, b"".join(varint(int(value)) for value in bits))


def event(message, node="net/add:0:DebugIdentity"):
    value = field(1, b"net/add") + field(7, node.encode()) + field(8, message)
    return b"\x09" + struct.pack("<d", 1.5) + field(5, field(1, value))


def write(root, name, content, device=DEVICE):
    path = root / device / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


ADD = f"net/add_0_DebugIdentity_{STAMP}"


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("packed", [False, True])
def test_every_type_comes_back(tmp_path, graph_of, dtype, packed):
    array = np.array([[0, 1, 5], [2, 3, 1]]).astype(dtype)
    write(tmp_path, ADD, event(tensor(array, array.reshape(-1) if packed else None)))
    index = scan_dumps(tmp_path, graph_of(("net/add", "Add")))
    ref = index.tensors["net/add", OUT, 0]
    assert (ref.format, ref.timestamp, ref.shape) == (DumpFormat.TFDBG, STAMP, (2, 3))
    values = read_array(ref)
    assert values.dtype == array.dtype
    assert np.array_equal(values, array)


def test_negative_numbers_of_varying_length(tmp_path, graph_of):
    array = np.array([-1, -128, 7], np.int8)
    write(tmp_path, ADD, event(tensor(array, array)))
    ref = scan_dumps(tmp_path, graph_of(("net/add", "Add"))).tensors["net/add", OUT, 0]
    assert np.array_equal(read_array(ref), array)


def test_the_last_value_stands_for_those_left_out(tmp_path, graph_of):
    array = np.array([[4, 7, 7], [7, 7, 7]], np.float32)
    write(tmp_path, ADD, event(tensor(array, array.reshape(-1)[:2])))
    ref = scan_dumps(tmp_path, graph_of(("net/add", "Add"))).tensors["net/add", OUT, 0]
    assert np.array_equal(read_array(ref), array)


def test_names_with_underscores_numbers_and_slots(tmp_path, graph_of, op):
    graph = graph_of(op("a_1/b_2_0", outputs=("", "")), ("a", "Add"))
    ones = np.ones(2, np.float32)
    write(tmp_path, f"a_1/b_2_0_1_DebugIdentity_{STAMP}", event(tensor(ones)))
    write(tmp_path, f"a_0_DebugIdentity_{STAMP}", event(tensor(ones)))
    assert set(scan_dumps(tmp_path, graph).tensors) == {("a_1/b_2_0", OUT, 1), ("a", OUT, 0)}


def test_values_fed_are_those_of_the_placeholder(tmp_path, graph_of):
    ones = np.ones(2, np.float32)
    write(tmp_path, f"_arg_in/x_0_0_0_DebugIdentity_{STAMP}", event(tensor(ones)))
    assert ("in/x", OUT, 0) in scan_dumps(tmp_path, graph_of(("in/x", "Placeholder"))).tensors


def test_devices_are_one_dump_and_the_latest_counts(tmp_path, graph_of):
    other = DEVICE.replace("CPU", "GPU")
    for stamp, value in ((STAMP, 1), (STAMP + 9, 2), (STAMP + 3, 3)):
        name = f"net/add_0_DebugIdentity_{stamp}"
        write(tmp_path, name, event(tensor(np.full(2, value, np.float32))))
    ones = np.ones(2, np.float32)
    write(tmp_path, f"net/mul_0_DebugIdentity_{STAMP}", event(tensor(ones)), other)
    index = scan_dumps(tmp_path, graph_of(("net/add", "Add"), ("net/mul", "Mul")))
    assert len(index.tensors) == 2
    assert np.array_equal(read_array(index.tensors["net/add", OUT, 0]), [2, 2])
    assert len(index.superseded) == 2


def test_other_debug_ops_and_ops_are_told(tmp_path, graph_of):
    ones = event(tensor(np.ones(2, np.float32)))
    write(tmp_path, ADD, ones)
    write(tmp_path, f"net/add_0_DebugNumericSummary_{STAMP}", ones)
    write(tmp_path, "_tfdbg_graph_hash1_5", b"not a tensor")
    unknown = write(tmp_path, f"net/other_0_DebugIdentity_{STAMP}", ones)
    index = scan_dumps(tmp_path, graph_of(("net/add", "Add")))
    assert index.unmatched == (unknown,)
    assert index.notes == ("files of DebugNumericSummary are passed over",)
    assert index.files == 2


def test_links_out_of_the_session_are_not_followed(tmp_path, graph_of):
    session = tmp_path / "session"
    outside = write(tmp_path / "elsewhere", ADD, event(tensor(np.ones(2, np.float32))))
    (session / DEVICE).mkdir(parents=True)
    (session / DEVICE / "net").symlink_to(outside.parent)
    assert not scan_dumps(session, graph_of(("net/add", "Add"))).tensors


ARRAY = np.ones((2, 3), np.float32)
BROKEN = {
    "empty": (b"", "empty"),
    "text": (b"hello world", "damaged"),
    "no summary": (b"\x09" + bytes(8), "no summary"),
    "no tensor": (field(5, field(1, field(1, b"tag"))), "no tensor"),
    "too few bytes": (event(tensor(ARRAY)[:-4] + b""), "damaged"),
    "strings": (event(field(1, 7) + field(2, b"")), "type string"),
    "a handle": (event(field(1, 20) + field(2, b"") + field(4, b"where w is")), "type resource"),
    "unknown type": (event(field(1, 99) + field(2, b"")), "unknown type"),
    "unknown rank": (event(field(1, 1) + field(2, field(3, 1))), "unknown rank"),
    "no values": (event(field(1, 1) + field(2, field(2, field(1, 2)))), "no values"),
    "one value for far too many": (
        event(
            field(1, 1) + field(2, field(2, field(1, 1 << 40))) + field(5, struct.pack("<f", 1.0))
        ),
        "too many",
    ),
    "wrong length": (
        event(field(1, 1) + field(2, field(2, field(1, 3))) + field(4, bytes(8))),
        "8 bytes of values",
    ),
}


@pytest.mark.parametrize(("content", "said"), BROKEN.values(), ids=BROKEN)
def test_a_damaged_event_is_a_problem_of_its_tensor(tmp_path, graph_of, content, said):
    path = write(tmp_path, ADD, content)
    (problem,) = scan_dumps(tmp_path, graph_of(("net/add", "Add"))).problems
    assert (problem.path, problem.op, problem.port) == (path, "net/add", 0)
    assert problem.reason in (Reason.UNREADABLE_DUMP, Reason.DTYPE_UNSUPPORTED)
    assert said in problem.detail


@given(data=st.data(), packed=st.booleans())
def test_damage_never_ends_in_anything_else(tmp_path_factory, data, packed):
    root = tmp_path_factory.mktemp("session")
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    raw = bytearray(event(tensor(array, array.reshape(-1) if packed else None)))
    for place, byte in data.draw(
        st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=4)
    ):
        raw[place] = byte
    write(root, ADD, bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    ops = (Op("net/add", "net/add", "Add", outputs=(Tensor(""),)),)
    graph = ModelGraph("net", GraphKind.ORIGINAL, Framework.TENSORFLOW, "test", ops)
    index = scan_dumps(root, graph)
    assert len(index.tensors) + len(index.problems) == 1
    for ref in index.tensors.values():
        with suppress(ImportFormatError):
            assert read_array(ref).shape == ref.shape


@pytest.mark.shared
def test_a_real_session_of_tensorflow(shared_data):
    from importers.registry import read_graph

    graph = read_graph(shared_data / "tf" / "tf2onnx_fc_layers_frozen.pb")
    index = scan_dumps(shared_data / "dumps" / "tfdbg_fc_layers" / "tfdbg", graph)
    assert (len(index.tensors), index.problems, index.unmatched) == (24, (), ())
    fed = np.load(shared_data / "dumps" / "tfdbg_fc_layers" / "feed_X.npy")
    assert np.array_equal(read_array(index.tensors["X", OUT, 0]), fed)
    relu = read_array(index.tensors["model/dense/Relu", OUT, 0])
    bias = read_array(index.tensors["model/dense/BiasAdd", OUT, 0])
    assert np.array_equal(relu, np.maximum(bias, 0))
    assert index.tensors["X", OUT, 0].dtype is DType.FLOAT32
