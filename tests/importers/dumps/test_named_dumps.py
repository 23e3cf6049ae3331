"""Dumps whose files name tensors and nothing else: safetensors, SGLang, Qualcomm, Rockchip."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from graphstore.errors import ImportFormatError, InputError
from graphstore.model import DType, Reason, Tensor, TensorIO
from importers.dumps.bare.index import find_tensors
from importers.dumps.contract import DumpChoice
from importers.dumps.detect import detect_dumps, list_dumps, scan_dumps
from importers.dumps.read import read_array

OUT = TensorIO.OUTPUT
IMAGE = np.arange(24, dtype=np.float32).reshape(1, 3, 2, 4)


@pytest.fixture
def graph(graph_of, op):
    """A convolution of an image, its Relu, and what the model calls their tensors."""
    conv = op("conv", "Conv", outputs=(Tensor("/a/Conv_output_0", DType.FLOAT32, (1, 3, 2, 4)),))
    relu = op("relu", "Relu", outputs=(Tensor("y", DType.FLOAT32, (None, 3)),))
    return graph_of(conv, relu, inputs=("image",))


def values(index, name, port=0):
    return read_array(index.tensors[name, OUT, port])


def write_safetensors(path: Path, entries, data: bytes, **metadata: str) -> Path:
    header = json.dumps({"__metadata__": metadata, **entries}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    return path


def entry(dtype: str, shape, begin: int, end: int):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.fixture
def activations(tmp_path):
    """bfloat16 1 and 2, float8 (E4M3) 1.5, and what is read of a name that no op has."""
    numbers = np.array([0x3F80, 0x4000], "<u2").tobytes() + b"\x3c"
    return write_safetensors(
        tmp_path / "step.safetensors",
        {
            "/a/Conv_output_0": entry("BF16", [2], 0, 4),
            "y": entry("F8_E4M3", [1], 4, 5),
            "lost": entry("F8_E4M3", [1], 4, 5),
        },
        numbers,
        step="7",
    )


def test_safetensors_are_read_by_the_names_of_tensors(activations, graph):
    index = scan_dumps(activations, graph)
    assert values(index, "conv").tolist() == [1.0, 2.0]
    assert values(index, "relu").tolist() == [1.5]
    assert index.tensors["relu", OUT, 0].dtype is DType.FLOAT8_E4M3FN
    assert index.notes == ("1 tensor belongs to no op (lost)",)
    assert [dump.kind for dump in detect_dumps(activations)] == ["safetensors"]


def test_the_metadata_tells_the_step(activations, graph):
    assert scan_dumps(activations.parent, graph, DumpChoice(step=7)).tensors
    with pytest.raises(InputError, match="no step 8"):
        scan_dumps(activations.parent, graph, DumpChoice(step=8))


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"y": entry("F32", [3], 0, 8)}, "shape [3] of float32 takes 12 bytes, its place has 8"),
        ({"y": entry("F32", [3], 0, 12)}, "the tensor takes bytes"),
        ({"y": entry("F4", [3], 0, 8)}, "elements of type F4"),
        ({"y": entry("F32", [1 << 62, 4], 0, 8)}, "is not a list of sizes"),
        ({"y": {"dtype": "F32"}}, "its entry has no dtype, shape and data_offsets"),
    ],
)
def test_an_entry_that_does_not_fit_the_file_is_a_problem_of_its_tensor(
    tmp_path, graph, entries, said
):
    index = scan_dumps(write_safetensors(tmp_path / "a.safetensors", entries, bytes(8)), graph)
    assert not index.tensors
    assert index.problems[0].op == "relu"
    assert said in index.problems[0].detail


@pytest.mark.parametrize("start", [b"", b"\x10", (1 << 40).to_bytes(8, "little") + b"{}"])
def test_a_header_longer_than_the_file_is_an_error(tmp_path, graph, start):
    path = tmp_path / "a.safetensors"
    path.write_bytes(start)
    with pytest.raises(ImportFormatError, match="the header should take"):
        scan_dumps(path, graph)


@pytest.fixture
def result(tmp_path):
    """A result folder: the image with its channels last, a name with ``_`` for ``/``."""
    folder = tmp_path / "output" / "Result_3"
    folder.mkdir(parents=True)
    IMAGE.transpose(0, 2, 3, 1).tofile(folder / "_a_Conv_output_0.raw")
    np.arange(6, dtype=np.float32).tofile(folder / "y.raw")
    np.zeros(2, np.uint8).tofile(folder / "y_native.raw")
    return folder


def test_the_graph_tells_the_shape_of_raw_results(result, graph):
    index = scan_dumps(result, graph)
    assert np.array_equal(values(index, "conv"), IMAGE)
    assert index.tensors["conv", OUT, 0].axes_assumed
    assert values(index, "relu").tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert [(dump.kind, dump.step, dump.files) for dump in list_dumps(result.parent)] == [
        ("qnn", "3", 2)
    ]


def test_a_raw_result_of_another_size_is_a_problem(result, graph):
    np.zeros(23, np.float32).tofile(result / "_a_Conv_output_0.raw")
    (problem,) = scan_dumps(result, graph).problems
    assert problem.detail == (
        "[1, 3, 2, 4] of float32, as the graph has it, takes 96 bytes, the file has 92"
    )


def test_without_a_graph_a_raw_result_has_one_axis(result):
    found = {tensor.name: read_array(tensor.ref) for tensor in find_tensors(result).tensors}
    assert {name: array.shape for name, array in found.items()} == {
        "_a_Conv_output_0": (24,),
        "y": (6,),
    }


def test_raw_files_elsewhere_are_no_results(tmp_path):
    np.zeros(4, np.float32).tofile(tmp_path / "image.raw")
    assert detect_dumps(tmp_path) == ()


def torch_file(path: Path, content) -> Path:
    """What ``torch.save(content)`` writes, arrays as tensors."""
    import io
    import pickle
    import zipfile

    storages = []

    class Storage:
        def __init__(self, array):
            self.array = array
            storages.append(array)

    class Pickler(pickle.Pickler):
        def reducer_override(self, obj):
            if not isinstance(obj, np.ndarray):
                return NotImplemented
            strides = tuple(each // obj.itemsize for each in obj.strides)
            return (_rebuild_tensor_v2, (Storage(obj), 0, obj.shape, strides, False, None))

        def persistent_id(self, obj):
            if not isinstance(obj, Storage):
                return None
            return ("storage", FloatStorage, str(len(storages) - 1), "cpu", obj.array.size)

    buffer = io.BytesIO()
    Pickler(buffer, 2).dump(content)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("dump/data.pkl", buffer.getvalue())
        for number, array in enumerate(storages):
            archive.writestr(f"dump/data/{number}", array.tobytes("A"))
    return path


def _rebuild_tensor_v2():
    raise AssertionError("never called")


class FloatStorage:
    """Stands for torch's."""


_rebuild_tensor_v2.__module__ = "torch._utils"
FloatStorage.__module__ = "torch"


@pytest.fixture
def torch_names(monkeypatch):
    """The names that torch saves tensors by."""
    import sys
    import types

    utils, torch = types.ModuleType("torch._utils"), types.ModuleType("torch")
    utils._rebuild_tensor_v2, torch.FloatStorage = _rebuild_tensor_v2, FloatStorage
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._utils", utils)


@pytest.fixture
def sglang_dump(tmp_path, torch_names):
    """A layer's hidden states in two steps, of rank 0 and 1."""
    folder = tmp_path / "dump_20260101_000000_000000"
    folder.mkdir()
    for step in (0, 1):
        for rank in (0, 1):
            name = f"step={step}___rank={rank}___dump_index={step + 1}___name=y___layer_id=2.pt"
            array = np.full((2, 3), 10 * step + rank, np.float32)
            meta = {"step": step, "name": "y", "dims": ["t", "h"], "scale": 0.5, "seed": 1 << 70}
            torch_file(folder / name, {"value": array, "meta": meta})
    return folder


def test_steps_and_ranks_of_sglang_lie_in_one_folder(sglang_dump):
    found = list_dumps(sglang_dump)
    assert [(dump.kind, dump.step, dump.rank, dump.files) for dump in found] == [
        ("sglang", "0", "0", 1),
        ("sglang", "0", "1", 1),
        ("sglang", "1", "0", 1),
        ("sglang", "1", "1", 1),
    ]
    tensors = {tensor.name: tensor for tensor in find_tensors(sglang_dump).tensors}
    assert read_array(tensors["step1/rank1/y___layer_id=2"].ref)[0].tolist() == [11, 11, 11]


def test_one_step_and_rank_of_sglang_is_taken(sglang_dump, graph_of, op):
    graph = graph_of(op("norm", "Norm", outputs=(Tensor("y___layer_id=2"),)))
    index = scan_dumps(sglang_dump, graph, DumpChoice(rank=1))
    assert values(index, "norm")[0, 0] == 1
    assert index.notes == (
        "rank 1 is taken, one of 2 (--rank)",
        "step 0 is taken, one of 2 (--step)",
    )
    with pytest.raises(InputError, match="no step 5 in this dump"):
        scan_dumps(sglang_dump, graph, DumpChoice(step=5))


def test_a_dict_with_an_object_in_it_is_not_opened(sglang_dump, graph_of, op):
    path = sglang_dump / "step=0___rank=0___dump_index=9___name=z.pt"
    torch_file(path, {"value": np.zeros(2, np.float32), "meta": {"path": Path("x")}})
    (tensor,) = find_tensors(path).tensors
    assert tensor.reason is Reason.DTYPE_UNSUPPORTED


class StateDict(OrderedDict):
    """An ordered dict with attributes, as a ``state_dict`` is."""

    def __reduce__(self):
        return (OrderedDict, (), {"_metadata": {"": {"version": 1}}}, None, iter(self.items()))


def test_activations_in_a_dict_are_found_by_their_names(tmp_path, torch_names, graph):
    transposed = np.arange(6, dtype=np.float32).reshape(3, 2).T
    content = StateDict({"/a/Conv_output_0": IMAGE, "y": [transposed, 0.5], "seed": 3})
    path = torch_file(tmp_path / "activations.pt", content)
    index = scan_dumps(path, graph)
    assert np.array_equal(values(index, "conv"), IMAGE)
    assert [(dump.kind, dump.reason) for dump in list_dumps(path)] == [
        ("torch", "activations.pt holds 2 tensors")
    ]
    names = {tensor.model_name: read_array(tensor.ref) for tensor in find_tensors(path).tensors}
    assert names["y.0"].tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]


def test_a_saved_tensor_is_called_as_its_file(tmp_path, torch_names, graph):
    torch_file(tmp_path / "y.pt", np.zeros((2, 3), np.float32))
    assert values(scan_dumps(tmp_path, graph), "relu").shape == (2, 3)


TABLE = """layer_name              file_name
-------------------------------------------
/a/Conv_output_0        _a_Conv_output_0.txt
y-rs                    y-rs.txt
"""


@pytest.fixture
def snapshot(tmp_path):
    """A snapshot with the simulator's texts, and golden's arrays beside them."""
    root = tmp_path / "snapshot"
    for run in ("golden", "simulator"):
        (root / run).mkdir(parents=True)
        (root / run / "_a_Conv_output_0.txt").write_text("\n".join(map(str, range(24))))
        (root / run / "y-rs.txt").write_text("0.5\n-1.25\n2e-3\n")
    (root / "golden" / "npy").mkdir()
    np.save(root / "golden" / "npy" / "_a_Conv_output_0.npy", IMAGE)
    np.save(root / "golden" / "npy" / "y-rs.npy", np.float32([[0.5, -1.25, 2e-3]]))
    (root / "map_name_to_file.txt").write_text(TABLE)
    (root / "error_analysis.txt").write_text("# simulator_error\n")
    return root


def test_both_runs_of_a_snapshot_are_read_by_the_names_of_the_table(snapshot, graph):
    golden, simulator = (scan_dumps(snapshot / run, graph) for run in ("golden", "simulator"))
    assert np.array_equal(values(golden, "conv"), IMAGE)
    assert np.array_equal(values(simulator, "conv"), IMAGE.reshape(-1))
    # an added layer holds the values of the tensor it is called after
    assert values(golden, "relu").tolist() == [[0.5, -1.25, np.float32(2e-3)]]
    assert values(simulator, "relu").tolist() == [0.5, -1.25, np.float32(2e-3)]
    assert not golden.problems
    assert not simulator.unmatched


def test_a_snapshot_lists_its_runs(snapshot):
    found = [
        (dump.kind, dump.path.relative_to(snapshot).as_posix()) for dump in list_dumps(snapshot)
    ]
    assert found == [("rknn", "golden/npy"), ("rknn", "simulator")]
    names = [tensor.name for tensor in find_tensors(snapshot / "golden").tensors]
    assert names == ["_a_Conv_output_0", "y-rs"]


def test_texts_of_other_folders_are_no_dumps(tmp_path):
    (tmp_path / "golden").mkdir()
    (tmp_path / "golden" / "notes.txt").write_text("1\n2\n")
    assert list_dumps(tmp_path) == ()


def test_a_text_with_a_word_in_it_is_damaged(snapshot, graph):
    (snapshot / "simulator" / "y-rs.txt").write_text("1\nnot a number\n3\n")
    index = scan_dumps(snapshot / "simulator", graph)
    with pytest.raises(ImportFormatError, match="not all lines are numbers"):
        values(index, "relu")
