"""Golden ``.npy`` files found, checked and given to the tensors of a graph."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from graphstore.errors import DivergraphError
from graphstore.model import DType, InputRef, Op, Reason, Tensor, TensorIO
from importers.dumps.arrays.golden import scan_golden_dumps
from importers.dumps.arrays.golden_names import GoldenNames
from importers.dumps.detect import scan_dumps
from importers.dumps.read import read_array

OUT, IN = TensorIO.OUTPUT, TensorIO.INPUT
STAMP = 1664180551000000
VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def save(folder, *names, values=VALUES):
    for name in names:
        np.save(folder / name, values)


def keys(index):
    return [(op, port) for op, io, port in index.tensors if io is OUT]


@pytest.mark.parametrize(
    ("op_name", "file_name", "port"),
    [
        ("LeNet/conv1/BiasAdd", f"LeNet_conv1_BiasAdd.0.{STAMP}.npy", 0),
        ("ShapeN", f"ShapeN.1.{STAMP}.npy", 1),
        ("a/b:0", f"a_b.0.1.{STAMP}.npy", 1),
        ("conv2.1/scale", f"conv2.1_scale.0.{STAMP}.npy", 0),  # TensorFlow keeps the dots
        ("conv2.1/scale", f"conv2_1_scale.0.{STAMP}.npy", 0),  # Caffe does not
        ("x.1", f"x.1.1.{STAMP}.npy", 1),
        ("relu", "relu.1.npy", 1),
        ("relu.1", "relu.1.0.npy", 0),
        ("odd;name", f"odd_name.0.{STAMP}.npy", 0),
        ("relu", f"relu.{STAMP}.npy", 0),
    ],
)
def test_a_file_belongs_to_the_op_its_name_is_written_from(
    tmp_path, graph_of, op, op_name, file_name, port
):
    save(tmp_path, file_name)
    graph = graph_of(op(op_name, outputs=("", "")), op("unrelated", outputs=("", "")))
    index = scan_golden_dumps(tmp_path, graph)
    ref = index.tensors[op_name, OUT, port]
    assert (ref.dtype, ref.shape) == (DType.FLOAT32, (2, 3))
    assert np.array_equal(read_array(ref), VALUES)
    assert not index.unmatched


@pytest.mark.parametrize(
    "file_name",
    [
        "input.1.npy",
        f"input.1.{STAMP}.npy",
        f"input.1.0.{STAMP}.npy",
        f"input_1.0.{STAMP}.npy",
        "input_1.npy",
    ],
)
def test_onnx_files_may_name_the_tensor(tmp_path, graph_of, op, file_name):
    save(tmp_path, file_name)
    graph = graph_of(op("Relu_7", outputs=("input.1", "mask")))
    assert keys(scan_golden_dumps(tmp_path, graph)) == [("Relu_7", 0)]


def test_an_op_name_beats_a_tensor_name(tmp_path, graph_of, op):
    save(tmp_path, f"Relu.0.{STAMP}.npy")
    graph = graph_of(op("Conv", outputs=("Relu",)), op("Relu", outputs=("out",)))
    assert keys(scan_golden_dumps(tmp_path, graph)) == [("Relu", 0)]


def test_a_short_number_is_an_index_a_long_one_a_time(tmp_path, graph_of, op):
    graph = graph_of(op("a", outputs=("", "")), op("a.1"))
    save(tmp_path, "a.1.0.npy", f"a.1.{STAMP}.npy")
    index = scan_golden_dumps(tmp_path, graph)
    assert {key: ref.path.name for key, ref in index.tensors.items()} == {
        ("a.1", OUT, 0): "a.1.0.npy",
        ("a", OUT, 1): f"a.1.{STAMP}.npy",
    }


def test_names_written_closer_win(tmp_path, graph_of, op):
    save(tmp_path, f"a.b.0.{STAMP}.npy")
    graph = graph_of(op("a/b"), op("a.b"))
    assert keys(scan_golden_dumps(tmp_path, graph)) == [("a.b", 0)]


def test_what_nothing_tells_apart_is_a_problem_of_each_op(tmp_path, graph_of, op):
    save(tmp_path, f"a_b.0.{STAMP}.npy")
    index = scan_golden_dumps(tmp_path, graph_of(op("a/b"), op("a_b")))
    assert not index.tensors
    assert [(p.op, p.port, p.reason) for p in index.problems] == [
        ("a/b", 0, Reason.AMBIGUOUS_DUMP),
        ("a_b", 0, Reason.AMBIGUOUS_DUMP),
    ]
    assert "a/b:0, a_b:0" in index.problems[0].detail


def test_an_unclear_name_is_looked_up_once(tmp_path, graph_of, monkeypatch):
    """4,000 calls of 4,000 ops of one name took 48 CPU s and 2.6 GiB."""
    asked = []
    find = GoldenNames.find
    monkeypatch.setattr(GoldenNames, "find", lambda *given: asked.append(given) or find(*given))
    graph = graph_of(("a/b", "Add"), ("a_b", "Add"))
    save(tmp_path, *(f"a_b.0.{STAMP + call}.npy" for call in range(5)))
    index = scan_golden_dumps(tmp_path, graph)
    assert len(asked) == 1
    assert {(found.path.name[-5:], found.op) for found in index.problems} == {
        (f"{call}.npy", op) for call in range(5) for op in ("a/b", "a_b")
    }


def test_type_and_shape_tell_equal_names_apart(tmp_path, graph_of, op):
    graph = graph_of(
        op("a/b", outputs=(Tensor("a/b:0", DType.FLOAT32, (None, 4)),)),
        op("a_b", outputs=(Tensor("a_b:0", DType.FLOAT32, (2, None)),)),
    )
    save(tmp_path, f"a_b.0.{STAMP}.npy")
    assert keys(scan_golden_dumps(tmp_path, graph)) == [("a_b", 0)]


def test_the_root_graph_goes_before_bodies(tmp_path, graph_of, op):
    save(tmp_path, f"add.0.{STAMP}.npy")
    graph = graph_of(op("add", subgraph="body"), op("add"))
    assert keys(scan_golden_dumps(tmp_path, graph)) == [("add", 0)]


def test_the_latest_of_several_dumps_counts(tmp_path, graph_of, op):
    save(tmp_path, f"a.0.{STAMP}.npy", f"a.0.{STAMP + 1}.npy")
    index = scan_golden_dumps(tmp_path, graph_of(op("a")))
    assert index.tensors["a", OUT, 0].timestamp == STAMP + 1
    assert [path.name for path in index.superseded] == [f"a.0.{STAMP}.npy"]


def test_graph_inputs_that_are_no_ops_are_kept_apart(tmp_path, graph_of, op):
    save(tmp_path, "pixel.values.npy", f"mask.0.{STAMP}.npy", "strange.0.npy")
    index = scan_golden_dumps(tmp_path, graph_of(op("a"), inputs=("pixel.values", "mask")))
    assert set(index.graph_inputs) == {"pixel.values", "mask"}
    assert [path.name for path in index.unmatched] == ["strange.0.npy"]
    assert not index.tensors


def test_inputs_of_ops_tell_what_the_graph_was_given(tmp_path, graph_of):
    taken = (InputRef("pixels"), InputRef("w"))
    conv = Op("/a/conv", "/a/conv", "Conv", taken, (Tensor("y"),))
    graph = graph_of(conv, inputs=("pixels",))
    save(tmp_path, f"_a_conv.0.{STAMP}.npy", *(f"input__a_conv.{n}.{STAMP}.npy" for n in (0, 1)))
    index = scan_golden_dumps(tmp_path, graph)
    assert set(index.graph_inputs) == {"pixels"}
    assert not index.unmatched


def test_long_names_are_looked_up_in_the_mapping(tmp_path, graph_of, op):
    save(tmp_path, "16641805510000007.npy")
    (tmp_path / "mapping.csv").write_text(f"16641805510000007.npy,net_add.0.{STAMP}.npy\n")
    for scan in (scan_golden_dumps, scan_dumps):
        index = scan(tmp_path, graph_of(op("net/add")))
        assert keys(index) == [("net/add", 0)]
        assert index.problems == ()


def test_converted_device_dumps_are_read_too(tmp_path, graph_of, op):
    graph = graph_of(op("net/add", outputs=(Tensor("t", layout="NC1HWC0"),)))
    save(tmp_path, f"Add.net_add.7.3.{STAMP}.output.0.npy")
    save(tmp_path, f"Add.net_add.7.3.{STAMP}.input.1.npy")
    index = scan_dumps(tmp_path, graph)
    assert set(index.tensors) == {("net/add", OUT, 0), ("net/add", IN, 1)}
    assert index.tensors["net/add", OUT, 0].layout == "NC1HWC0"


def test_a_folder_may_hold_both_kinds(tmp_path, graph_of, op, write_dump, dumped):
    write_dump(tmp_path / f"Add.a.1.1.{STAMP}", [dumped(VALUES)])
    save(tmp_path, f"a.0.{STAMP - 1}.npy", f"b.0.{STAMP}.npy")
    index = scan_dumps(tmp_path, graph_of(op("a"), op("b")))
    assert index.tensors["a", OUT, 0].path.suffix != ".npy"
    assert ("b", OUT, 0) in index.tensors
    assert index.files == 3


@pytest.mark.parametrize(
    "values",
    [
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(12, dtype=">f4").reshape(3, 4),
        np.asfortranarray(np.arange(12, dtype=">i8").reshape(3, 4)),
        np.array(3.5, np.float32),
        np.zeros((0, 4), np.int64),
        np.array([True, False]),
        np.array([1 + 2j], np.complex64),
    ],
    ids=lambda values: f"{values.dtype}{values.shape}",
)
def test_every_array_numpy_saves_is_read_alike(tmp_path, graph_of, op, values):
    save(tmp_path, f"a.0.{STAMP}.npy", values=values)
    ref = scan_golden_dumps(tmp_path, graph_of(op("a"))).tensors["a", OUT, 0]
    found = read_array(ref)
    assert found.dtype == values.dtype.newbyteorder("=")
    assert np.array_equal(found, values)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_npy_is_read_alike(tmp_path, graph_of, op, version):
    with (tmp_path / "a.0.npy").open("wb") as file:
        np.lib.format.write_array(file, VALUES, version=version)
    ref = scan_golden_dumps(tmp_path, graph_of(op("a"))).tensors["a", OUT, 0]
    assert np.array_equal(read_array(ref), VALUES)


def test_raw_bytes_are_what_the_graph_says(tmp_path, graph_of, op):
    bits = (np.array([1.5, -2.0, 3.25], np.float32).view(np.uint32) >> 16).astype("<u2")
    save(tmp_path, "a.0.npy", values=bits.view("V2"))
    graph = graph_of(op("a", outputs=(Tensor("", DType.BFLOAT16),)), op("b"))
    ref = scan_golden_dumps(tmp_path, graph).tensors["a", OUT, 0]
    assert read_array(ref).tolist() == [1.5, -2.0, 3.25]


def npy(header: bytes, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header + data


HEADER = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
DAMAGED = {
    "empty": (b"", "empty"),
    "no magic": (b"PK\x03\x04" + bytes(100), "magic"),
    "version 9": (npy(HEADER, bytes(8), b"\x09\x00"), "version"),
    "cut in the header": (npy(HEADER)[:30], "header should take"),
    "cut in the data": (npy(HEADER, bytes(7)), "gives 8 bytes of data, the file has 7"),
    "too long": (npy(HEADER, bytes(12)), "gives 8 bytes of data, the file has 12"),
    "no literal": (npy(b"import os\n"), "not a Python literal"),
    "no dict": (npy(b"(1, 2)\n"), "should name"),
    "negative shape": (npy(HEADER.replace(b"(2,)", b"(-2,)"), bytes(8)), "shape"),
    "order no truth": (npy(HEADER.replace(b"False", b"1"), bytes(8)), "fortran_order"),
    "wild descr": (npy(HEADER.replace(b"'<f4'", b"'<q9'"), bytes(8)), "descr"),
    "deep": (npy(b"(" * 3000), "not a Python literal"),
}


@pytest.mark.parametrize(("content", "said"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_a_problem_of_its_tensor(tmp_path, graph_of, op, content, said):
    (tmp_path / f"a.0.{STAMP}.npy").write_bytes(content)
    (problem,) = scan_golden_dumps(tmp_path, graph_of(op("a"))).problems
    assert (problem.op, problem.io, problem.port) == ("a", OUT, 0)
    assert problem.reason is Reason.UNREADABLE_DUMP
    assert said in problem.detail
    assert "at byte" in problem.detail


@pytest.mark.parametrize(
    "values", [np.array([None, 1]), np.array(["x"]), np.zeros(2, [("a", "f4"), ("b", "i4")])]
)
def test_arrays_of_no_numbers_are_told_and_never_unpickled(tmp_path, graph_of, op, values):
    save(tmp_path, "a.0.npy", values=values)
    index = scan_golden_dumps(tmp_path, graph_of(op("a")))
    assert [(p.op, p.reason) for p in index.problems] == [("a", Reason.DTYPE_UNSUPPORTED)]
    assert not index.tensors


def test_things_that_are_no_files_are_problems(tmp_path, graph_of, op):
    (tmp_path / "a.0.npy").mkdir()
    (tmp_path / "b.0.npy").symlink_to(tmp_path / "b.0.npy")
    index = scan_golden_dumps(tmp_path, graph_of(op("a"), op("b")))
    assert [p.op for p in index.problems] == ["a", "b"]


def test_damage_anywhere_never_raises(tmp_path, graph_of, op):
    graph = graph_of(op("a"))
    save(tmp_path, "a.0.npy")
    path = tmp_path / "a.0.npy"
    good = path.read_bytes()
    random = np.random.default_rng(11)
    for _ in range(400):
        bad = bytearray(
            good[: random.integers(0, len(good) + 1)] if random.random() < 0.3 else good
        )
        for _ in range(random.integers(0, 4)):
            if bad:
                bad[random.integers(0, min(len(bad), 100))] = random.integers(0, 256)
        path.write_bytes(bad)
        index = scan_golden_dumps(tmp_path, graph)
        assert index.tensors or index.problems
        for ref in index.tensors.values():
            with suppress(DivergraphError):  # any other exception fails the test
                assert read_array(ref).shape == ref.shape


def test_the_value_fed_to_a_placeholder_is_its_output(tmp_path, graph_of):
    graph = graph_of(("net/input", "Placeholder"))
    np.save(tmp_path / "_arg_net_input_0_0.0.1664180551000000.npy", np.zeros(3, np.float32))
    index = scan_golden_dumps(tmp_path, graph)
    assert index.tensors["net/input", TensorIO.OUTPUT, 0].timestamp == 1664180551000000


@pytest.mark.parametrize("ending", ["DefaultFormat", "DefaultFormat.float16", "NCHW.bfloat16"])
def test_dumps_of_mindspore_are_read(tmp_path, graph_of, op, ending):
    save(tmp_path, f"Conv2D.Conv2D-op12.0.0.{STAMP}.output.0.{ending}.npy")
    index = scan_dumps(tmp_path, graph_of(op("Conv2D-op12")))
    ref = index.tensors["Conv2D-op12", OUT, 0]
    assert ref.timestamp == STAMP
    assert ref.layout == (None if ending.startswith("Default") else "NCHW")


def test_a_golden_file_with_the_header_of_a_dump(tmp_path, graph_of, write_dump, dumped):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    write_dump(tmp_path / f"conv_1.0.{STAMP}.pb", [dumped(values)])
    (tmp_path / "model.pb").write_bytes(b"a graph beside the dumps")
    index = scan_dumps(tmp_path, graph_of(("conv/1", "Convolution")))
    assert np.array_equal(read_array(index.tensors["conv/1", OUT, 0]), values)
    assert not index.problems


def test_golden_files_with_such_a_header_are_known_and_read_alone(
    tmp_path, write_dump, dumped, divergraph
):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    one = tmp_path / f"conv1.0.{STAMP}.pb"
    write_dump(one, [dumped(values)])
    write_dump(tmp_path / f"conv1.1.{STAMP}.quant", [dumped(values)])
    found = divergraph("detect", tmp_path)
    assert (found.code, "dump, golden, 2 files" in found.out) == (0, True)
    assert "dump, golden" in divergraph("detect", one).out
    np.save(tmp_path / "conv1.npy", values)
    same = divergraph("diff", one, tmp_path / "conv1.npy")
    assert (same.code, "cos 1.000000" in same.out) == (0, True)
    (tmp_path / "graphs").mkdir()
    (tmp_path / "graphs" / "v1.0.pb").write_bytes(b"no dump")
    assert "dump" not in divergraph("detect", tmp_path / "graphs").out


def test_names_in_the_mapping_may_hold_what_other_programs_call_line_ends(tmp_path, graph_of, op):
    strange = "net\x1b[2J\u2028x\rop"
    np.save(tmp_path / "16641805510000007.npy", np.zeros(3, "float32"))
    mapping = f"16641805510000007.npy,{strange}.0.{STAMP}\n"
    (tmp_path / "mapping.csv").write_bytes(mapping.encode())
    index = scan_dumps(tmp_path, graph_of(op(strange)))
    assert [key[0] for key in index.tensors] == [strange]
