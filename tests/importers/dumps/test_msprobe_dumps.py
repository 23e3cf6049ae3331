"""Dumps of msprobe: statistics in dump.json, tensors as .npy and .pt beside it."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile

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
    TensorIO,
)
from importers.dumps.arrays.torch_file import read_torch
from importers.dumps.bare.index import find_tensors
from importers.dumps.detect import scan_dumps
from importers.dumps.index import DamagedError, open_dump
from importers.dumps.msprobe.index import scan_msprobe
from importers.dumps.read import read_array
from importers.msprobe.importer import MsprobeImporter

OUT, IN = TensorIO.OUTPUT, TensorIO.INPUT
CALL = "Functional.conv2d.0.forward"
STORAGES = {"float32": "FloatStorage", "int64": "LongStorage", "bool": "BoolStorage"}


def told(shape, dtype="torch.float32", name=None, **more):
    entry = {"type": "torch.Tensor", "dtype": dtype, "shape": list(shape), **more}
    return entry | ({"data_name": name} if name else {})


STATISTICS = {"Max": 2.0, "Min": -1.5, "Mean": 0.25, "Norm": 5.5}


def write(folder, calls, task="statistics"):
    content = {"task": task, "level": "mix", "framework": "pytorch", "data": calls}
    (folder / "dump.json").write_text(json.dumps(content))


# --- a .pt file, written as torch.save does ---


class Global:
    """Pickled as a global of that name, which need not exist here."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class Storage:
    def __init__(self, kind, key, elements):
        self.parts = ("storage", Global("torch", kind), key, "cpu", elements)


class Call:
    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments


class TorchPickler(pickle._Pickler):
    def persistent_id(self, obj):
        return obj.parts if isinstance(obj, Storage) else None

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, Global):
            self.write(b"c" + f"{obj.module}\n{obj.name}\n".encode())
        elif isinstance(obj, Call):
            self.save(obj.function)
            self.save(obj.arguments)
            self.write(b"R")
        else:
            super().save(obj, save_persistent_id)


REBUILD = Global("torch._utils", "_rebuild_tensor_v2")


def torch_tensor(array, *, start=0, strides=None, kind=None, elements=None):
    steps = strides or tuple(step // array.itemsize for step in array.strides)
    storage = Storage(kind or STORAGES[array.dtype.name], "0", elements or array.size)
    empty = Call(Global("collections", "OrderedDict"))
    return Call(REBUILD, storage, start, array.shape, steps, False, empty)


def torch_bytes_tensor(array, kind):
    """As torch saves its newer types: a storage of bytes, the type beside it."""
    storage = Storage("UntypedStorage", "0", array.size)
    storage.parts[1].module = "torch.storage"
    steps = tuple(step // array.itemsize for step in array.strides)
    told = (storage, 0, array.shape, steps, False, Call(Global("collections", "OrderedDict")))
    return Call(Global("torch._utils", "_rebuild_tensor_v3"), *told, Global("torch", kind))


def torch_file(path, value, data, compression=zipfile.ZIP_STORED, order=b"little"):
    file = io.BytesIO()
    TorchPickler(file, 2).dump(value)
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", file.getvalue())
        archive.writestr("archive/byteorder", order)
        archive.writestr("archive/data/0", data)
    return path


@pytest.fixture
def tensors(tmp_path):
    folder = tmp_path / "dump_tensor_data"
    folder.mkdir()
    return folder


@pytest.fixture
def graph(graph_of):
    return graph_of((CALL, "conv2d"), ("Module.c.Conv2d.parameters_grad.0", "Conv2d"))


def test_statistics_are_kept_by_call_and_place(tmp_path, graph):
    calls = {
        CALL: {
            "input_args": [
                told((32, 3), **STATISTICS),
                None,
                {"type": "int", "value": 3},
                [told((2,), "torch.bfloat16", **STATISTICS)],
            ],
            "input_kwargs": {"bias": told((4,), "torch.int64", Max=1, Min=0, Mean=None, Norm=None)},
            "output": [told((32, 64), "mindspore.Float16", **STATISTICS)],
        },
        "Module.c.Conv2d.parameters_grad.0": {"weight": [told((7,), **STATISTICS)]},
        "Module.other.forward.0": {"output": []},
    }
    write(tmp_path, calls)
    index = scan_dumps(tmp_path, graph)
    assert {
        (io, port): ref.dtype for (op, io, port), ref in index.tensors.items() if op == CALL
    } == {
        (IN, 0): DType.FLOAT32,
        (IN, 1): DType.BFLOAT16,
        (IN, 2): DType.INT64,
        (OUT, 0): DType.FLOAT16,
    }
    statistics = index.tensors[CALL, OUT, 0].statistics
    assert (statistics.count, statistics.maximum, statistics.norm) == (2048, 2.0, 5.5)
    assert ("Module.c.Conv2d.parameters_grad.0", OUT, 0) in index.tensors
    assert index.notes == ("1 call belongs to no op (Module.other.forward.0)",)


def test_tensors_are_read_from_npy(tmp_path, graph, tensors):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    name = f"{CALL}.output.0.npy"
    np.save(tensors / name, values)
    write(tmp_path, {CALL: {"output": [told((2, 3), name=name, **STATISTICS)]}}, "tensor")
    ref = scan_dumps(tmp_path, graph).tensors[CALL, OUT, 0]
    assert (ref.format, ref.statistics) == (DumpFormat.NPY, None)
    assert np.array_equal(read_array(ref), values)


@pytest.mark.parametrize("dtype", STORAGES)
def test_tensors_are_read_from_pt_without_unpickling(tmp_path, graph, tensors, dtype):
    values = np.arange(24).astype(dtype).reshape(2, 3, 4)
    name = f"{CALL}.output.0.pt"
    torch_file(tensors / name, torch_tensor(values), values.tobytes())
    write(tmp_path, {CALL: {"output": [told((2, 3, 4), name=name)]}}, "tensor")
    index = scan_dumps(tmp_path, graph)
    assert not index.problems
    found = read_array(index.tensors[CALL, OUT, 0])
    assert found.dtype == values.dtype
    assert np.array_equal(found, values)


def test_a_parameter_that_is_part_of_a_bfloat16_storage(tmp_path, graph, tensors):
    stored = np.array([1.0, 2.0, -3.5, 4.0], np.float32)
    data = (stored.view(np.uint32) >> 16).astype(np.uint16)
    part = data[1:3]
    value = torch_tensor(part, start=1, kind="BFloat16Storage", elements=4)
    no_hooks = Call(Global("collections", "OrderedDict"))
    parameter = Call(Global("torch._utils", "_rebuild_parameter"), value, True, no_hooks)
    torch_file(tensors / "t.pt", parameter, data.tobytes())
    write(tmp_path, {CALL: {"output": [told((2,), name="t.pt")]}}, "tensor")
    ref = scan_dumps(tmp_path, graph).tensors[CALL, OUT, 0]
    assert ref.dtype is DType.BFLOAT16
    assert np.array_equal(read_array(ref), [2.0, -3.5])


ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)
EVIL = Call(Global("os", "system"), "echo never run")
REFUSED = {
    "code": (EVIL, Reason.DTYPE_UNSUPPORTED, "object of 'os system'"),
    "code around a tensor": (
        Call(Global("builtins", "eval"), torch_tensor(ARRAY)),
        Reason.DTYPE_UNSUPPORTED,
        "object of 'builtins eval'",
    ),
    "two tensors": ([torch_tensor(ARRAY)] * 2, Reason.DTYPE_UNSUPPORTED, "plain tensor"),
    "a number": (3, Reason.DTYPE_UNSUPPORTED, "something else than one tensor"),
    "transposed": (
        torch_tensor(ARRAY, strides=(1, 2)),
        Reason.LAYOUT_UNSUPPORTED,
        "only contiguous ones",
    ),
    "past its storage": (torch_tensor(ARRAY, start=4), Reason.UNREADABLE_DUMP, "8 are stored"),
    "unknown storage": (
        torch_tensor(ARRAY, kind="QUInt8Storage"),
        Reason.DTYPE_UNSUPPORTED,
        "QUInt8Storage",
    ),
}


@pytest.mark.parametrize(("value", "reason", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_plain_tensor_is_refused(tmp_path, graph, tensors, value, reason, said):
    path = torch_file(tensors / "t.pt", value, ARRAY.tobytes())
    write(tmp_path, {CALL: {"output": [told((2, 3), name="t.pt")]}}, "tensor")
    index = scan_dumps(tmp_path, graph)
    (problem,) = index.problems
    assert (problem.path, problem.op, problem.port) == (path, CALL, 0)
    assert problem.reason is reason
    assert said in problem.detail
    assert not index.tensors


def test_compressed_archives_and_other_byte_orders_are_refused(tmp_path, graph, tensors):
    write(tmp_path, {CALL: {"output": [told((2, 3), name="t.pt")]}}, "tensor")
    torch_file(tensors / "t.pt", torch_tensor(ARRAY), ARRAY.tobytes(), zipfile.ZIP_DEFLATED)
    assert "compressed" in scan_dumps(tmp_path, graph).problems[0].detail
    torch_file(tensors / "t.pt", torch_tensor(ARRAY), ARRAY.tobytes(), order=b"big")
    assert "big-endian" in scan_dumps(tmp_path, graph).problems[0].detail


def test_a_damaged_tensor_leaves_its_statistics(tmp_path, graph, tensors):
    (tensors / "t.pt").write_bytes(b"no archive")
    write(tmp_path, {CALL: {"output": [told((2, 3), name="t.pt", **STATISTICS)]}}, "tensor")
    index = scan_dumps(tmp_path, graph)
    assert "no archive of torch.save" in index.problems[0].detail
    assert index.tensors[CALL, OUT, 0].statistics.maximum == 2.0


@pytest.mark.parametrize("name", ["../secret.npy", "/etc/passwd", "a/b.npy", "..\\x.npy", ".."])
def test_no_path_leads_out_of_the_folder(tmp_path, graph, tensors, name):
    np.save(tmp_path / "secret.npy", ARRAY)
    write(tmp_path, {CALL: {"output": [told((2, 3), name=name)]}}, "tensor")
    (problem,) = scan_dumps(tmp_path, graph).problems
    assert "is a path" in problem.detail


def test_a_link_out_of_the_folder_is_not_read(tmp_path, tmp_path_factory, graph, tensors):
    secret = tmp_path_factory.mktemp("elsewhere") / "secret.npy"
    np.save(secret, ARRAY)
    (tensors / "t.npy").symlink_to(secret)
    write(tmp_path, {CALL: {"output": [told((2, 3), name="t.npy")]}}, "tensor")
    (problem,) = scan_dumps(tmp_path, graph).problems
    assert "leads out of the dump folder" in problem.detail


BROKEN = {
    "empty": b"",
    "text": b"hello",
    "cut": b'{"data": {"a": ',
    "deep": b'{"data": ' + b"[" * 200_000,
    "no data": b'{"task": "tensor"}',
    "bytes": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_damaged_dump_json_is_one_sentence(tmp_path, graph, content):
    (tmp_path / "dump.json").write_bytes(content)
    with pytest.raises(ImportFormatError, match=r"dump\.json.*at byte"):
        scan_dumps(tmp_path, graph)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "dtype", "shape", "Max", "data_name", "output", "input_args"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_entry_is_read_or_a_problem(tmp_path_factory, value):
    folder = tmp_path_factory.mktemp("dump")
    write(folder, {CALL: {"output": value, "input_args": [value]}})
    graph = ModelGraph(
        "net", GraphKind.ORIGINAL, Framework.PYTORCH, "test", (Op(CALL, CALL, "conv2d"),)
    )
    for ref in scan_dumps(folder, graph).tensors.values():
        assert ref.statistics is not None


@given(st.data())
def test_any_damage_of_a_pt_file_is_told(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("dump") / "t.pt"
    raw = bytearray(torch_file(path, torch_tensor(ARRAY), ARRAY.tobytes()).read_bytes())
    for place, byte in data.draw(
        st.lists(
            st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), min_size=1, max_size=4
        )
    ):
        raw[place] = byte
    path.write_bytes(raw)
    with open_dump(path) as (fd, size):
        try:
            found = read_torch(fd, size)
        except DamagedError as damage:
            assert damage.detail.isprintable()  # noqa: PT017 - or the tensor is whole
            return
        assert found.offset + found.nbytes <= size


@given(st.data())
def test_a_flipped_bit_is_never_a_value(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("dump")
    path = torch_file(folder / "t.pt", torch_tensor(ARRAY), ARRAY.tobytes())
    raw = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(raw)
    with open_dump(path) as (fd, size):
        try:
            found = read_torch(fd, size)
        except DamagedError:
            return
    try:
        values = read_array(found.ref(path, (CALL, OUT, 0)))
    except ImportFormatError as damage:
        assert "CRC-32" in damage.what  # noqa: PT017 - or the bit says nothing of the values
        return
    assert np.array_equal(values, ARRAY)


def test_the_archive_is_the_one_torch_writes():
    """What TorchPickler writes is, opcode for opcode, a saved tensor of protocol 2."""
    file = io.BytesIO()
    TorchPickler(file, 2).dump(torch_tensor(ARRAY))
    assert file.getvalue().startswith(b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n")
    assert b"X\x07\x00\x00\x00storage" in file.getvalue()
    assert struct.pack("<H", 0x0280) + b"c" == file.getvalue()[:3]


@pytest.mark.shared
def test_a_real_run_on_a_gpu(shared_data):
    from importers.registry import read_graph

    folder = shared_data / "msprobe" / "gpu_step0" / "proc2016"
    index = scan_dumps(folder, read_graph(folder))
    assert not index.problems
    assert not index.notes
    ref = index.tensors["Module.conv1.Conv2d.forward.0/Functional.conv2d.0.forward", OUT, 0]
    assert ref.shape == (32, 64, 112, 112)
    assert ref.statistics.norm == 954.3693237304688


def test_a_file_name_that_is_no_text_is_told(tmp_path, graph):
    write(tmp_path, {CALL: {"output": [told((2, 3), name=5)]}}, "tensor")
    (problem,) = scan_dumps(tmp_path, graph).problems
    assert "neither values nor statistics" in problem.detail
    (tensor,) = find_tensors(tmp_path).tensors
    assert "neither values nor statistics" in tensor.damage


@pytest.mark.parametrize(("kind", "bits"), [("float8_e4m3fn", 0x38), ("float8_e5m2", 0x3C)])
def test_tensors_of_8_bit_floats_are_read(tmp_path, kind, bits):
    ones = np.full((2, 3), bits, np.uint8)
    path = torch_file(tmp_path / "t.pt", torch_bytes_tensor(ones, kind), ones.tobytes())
    with open_dump(path) as (fd, size):
        tensor = read_torch(fd, size)
    assert tensor.dtype == kind
    np.testing.assert_array_equal(read_array(tensor.ref(path, ("t", OUT, 0))), np.ones((2, 3)))


def test_gradients_of_parameters_are_in_one_order_whichever_came_first(tmp_path):
    shapes = {"weight": [10, 32], "bias": [10]}
    orders = []
    for number, names in enumerate((["weight", "bias"], ["bias", "weight"])):
        folder = tmp_path / str(number)
        folder.mkdir()
        said = {"type": "torch.Tensor", "dtype": "torch.float32", "Max": 1.0, "Min": 0.0,
                "Mean": 0.5, "Norm": 2.0}  # fmt: skip
        entry = {name: [{**said, "shape": shapes[name]}] for name in names}
        name = "Module.head.Linear.parameters_grad.0"
        content = {"task": "statistics", "level": "L0", "data": {name: entry}}
        (folder / "dump.json").write_text(json.dumps(content))
        graph = MsprobeImporter().read(folder)
        (op,) = graph.ops
        index = scan_msprobe(folder, graph)
        dumped = [index.tensors[op.id, TensorIO.OUTPUT, port].shape for port in (0, 1)]
        assert dumped == [tensor.shape for tensor in op.outputs]
        orders.append(dumped)
    assert orders == [[(10, 32), (10,)]] * 2
