"""Ascend dump files found, checked and given to the ops of a graph."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import product

import numpy as np
import pytest

from graphstore.errors import DivergraphError, InputError
from graphstore.model import DType, Reason, TensorIO
from importers.dumps.detect import scan_dumps
from importers.dumps.names import OpNames, parse_dump_name
from importers.dumps.read import read_array

OUT, IN = TensorIO.OUTPUT, TensorIO.INPUT
ONES = np.ones((2, 3), np.float32)
STAMP = 1664180560000000


def test_a_dump_belongs_to_the_op_its_name_is_written_from(tmp_path, write_dump, dumped, graph_of):
    graph = graph_of(("LeNet/conv.1/Conv 2D", "Conv2D"), ("other", "Add"))
    path = write_dump(tmp_path / f"Conv2D.LeNet_conv_1_Conv_2D.20.3.{STAMP}", [dumped(ONES)])
    index = scan_dumps(tmp_path, graph)
    ref = index.tensors["LeNet/conv.1/Conv 2D", OUT, 0]
    assert (ref.path, ref.shape, ref.dtype, ref.timestamp) == (path, (2, 3), DType.FLOAT32, STAMP)
    assert index.files == 1
    assert not index.problems


@pytest.mark.parametrize(
    "name",
    [
        f"Add.net_add.7.{STAMP}",
        f"Add.net_add.7.3.{STAMP}",
        f"Add.net_add.7.3.{STAMP}.4.12.0.0",
        f"Add.net_add.7.{STAMP}.4.12.0.0",
        f"Add.net_add_lxslice0.7.3.{STAMP}",
        f"Add._sgt_graph_2_net_add.7.3.{STAMP}",
        f"Add.net.add.7.3.{STAMP}",
    ],
)
def test_every_form_of_file_name_is_read(tmp_path, write_dump, dumped, graph_of, name):
    write_dump(tmp_path / name, [dumped(ONES)])
    index = scan_dumps(tmp_path, graph_of(("net/add", "Add")))
    assert index.tensors["net/add", OUT, 0].timestamp == STAMP


def test_short_times_are_read_by_their_place(tmp_path, write_dump, dumped, graph_of):
    write_dump(tmp_path / "Add.a.7.3.20", [dumped(ONES)])
    write_dump(tmp_path / f"Add.layer.1.7.3.{STAMP}", [dumped(ONES)])
    index = scan_dumps(tmp_path, graph_of(("a", "Add"), ("layer.1", "Add")))
    assert index.tensors["a", OUT, 0].timestamp == 20
    assert index.tensors["layer.1", OUT, 0].timestamp == STAMP


def test_the_op_type_tells_names_apart_that_look_the_same(tmp_path, write_dump, dumped, graph_of):
    graph = graph_of(("a/b", "Add"), ("a_b", "Mul"))
    write_dump(tmp_path / f"Mul.a_b.1.1.{STAMP}", [dumped(ONES)])
    assert list(scan_dumps(tmp_path, graph).tensors) == [("a_b", OUT, 0)]


def test_the_name_in_the_header_is_exact(tmp_path, write_dump, dumped, graph_of):
    graph = graph_of(("a/b", "Add"), ("a_b", "Add"))
    write_dump(tmp_path / f"Add.a_b.1.1.{STAMP}", [dumped(ONES)], op_name="a/b")
    assert list(scan_dumps(tmp_path, graph).tensors) == [("a/b", OUT, 0)]


@pytest.mark.parametrize("op_type", ["Add", "Cast"])
def test_what_nothing_tells_apart_is_a_problem_of_each_op(
    tmp_path, write_dump, dumped, graph_of, op_type
):
    graph = graph_of(("a/b", "Add"), ("a_b", "Add"))
    write_dump(tmp_path / f"{op_type}.a_b.1.1.{STAMP}", [dumped(ONES)])
    index = scan_dumps(tmp_path, graph)
    assert not index.tensors
    assert [(p.op, p.reason) for p in index.problems] == [
        ("a/b", Reason.AMBIGUOUS_DUMP),
        ("a_b", Reason.AMBIGUOUS_DUMP),
    ]
    assert "a/b (Add), a_b (Add)" in index.problems[0].detail


def test_many_files_that_fit_many_ops_are_not_noted_pair_by_pair(
    tmp_path, write_dump, dumped, graph_of
):
    """A few small files must not take all memory."""
    names = ["".join(pair) for pair in product(*[("a/", "a.")] * 8)]
    graph = graph_of(*((name, "Add") for name in names))
    for number in range(60):
        write_dump(tmp_path / f"Add.{'a_' * 8}.1.1.{STAMP + number}", [dumped(ONES)])
    index = scan_dumps(tmp_path, graph)
    assert not index.tensors
    assert {problem.op for problem in index.problems} == {None, *names}
    assert len({problem.path for problem in index.problems}) == 60
    assert len(index.problems) < 10_100 < 60 * len(names)
    assert all("fits 256 ops" in problem.detail for problem in index.problems)
    assert max(len(problem.detail) for problem in index.problems) < 1000


def test_an_unclear_name_is_looked_up_once(graph_of):
    """4,095 files that fit 4,095 ops each were 17 million comparisons of types."""
    names = OpNames(graph_of(("a/b", "Add"), ("a_b", "Add"), ("a.b", "Mul")))
    first, second = (names.find(parse_dump_name(f"Add.a_b.{n}.1.{STAMP + n}")) for n in (1, 2))
    assert [op.name for op in first] == ["a/b", "a_b"]
    assert first is second
    assert names.find(parse_dump_name(f"Mul.a_b.1.1.{STAMP}"))[0].name == "a.b"


def test_ops_of_bodies_are_found_by_name(tmp_path, write_dump, dumped, graph_of, op):
    graph = graph_of(op("inner/add", subgraph="body"))
    write_dump(tmp_path / f"Add.inner_add.1.1.{STAMP}", [dumped(ONES)])
    assert ("body/inner/add", OUT, 0) in scan_dumps(tmp_path, graph).tensors


def test_the_latest_of_several_dumps_counts(tmp_path, write_dump, dumped, graph_of):
    old = write_dump(tmp_path / f"Add.a.9.1.{STAMP}", [dumped(ONES)])
    new = write_dump(tmp_path / f"Add.a.1.1.{STAMP + 5}", [dumped(ONES)])
    index = scan_dumps(tmp_path, graph_of(("a", "Add")))
    assert index.tensors["a", OUT, 0].path == new
    assert index.superseded == (old,)


def test_slices_of_one_op_are_not_taken_for_the_whole(tmp_path, write_dump, dumped, graph_of):
    for thread in (0, 1):
        name = f"Add.a.9.1.{STAMP + thread}.4.12.{thread}.0"
        write_dump(tmp_path / name, [dumped(ONES)])
    index = scan_dumps(tmp_path, graph_of(("a", "Add")))
    assert not index.tensors
    assert {p.reason for p in index.problems} == {Reason.LAYOUT_UNSUPPORTED}
    assert "2 slices" in index.problems[0].detail


def test_long_names_are_looked_up_in_the_mapping(tmp_path, write_dump, dumped, graph_of):
    write_dump(tmp_path / "11929304857300124578", [dumped(ONES)])
    full = f"Add.net_add.7.3.{STAMP}"
    (tmp_path / "mapping.csv").write_text(f"11929304857300124578,{full}\nno comma here\n")
    index = scan_dumps(tmp_path, graph_of(("net/add", "Add")))
    assert index.tensors["net/add", OUT, 0].timestamp == STAMP


def test_without_the_mapping_the_header_tells_the_op(tmp_path, write_dump, dumped, graph_of):
    write_dump(tmp_path / "11929304857300124578", [dumped(ONES)], op_name="net/add")
    assert scan_dumps(tmp_path, graph_of(("net/add", "Add"))).tensors


def test_inputs_come_before_outputs_and_keep_their_positions(
    tmp_path, write_dump, dumped, graph_of, op
):
    graph = graph_of(op("a", inputs=("x", None, "y")))
    first, second = np.arange(3, dtype=np.float32), np.arange(4, dtype=np.int32)
    write_dump(
        tmp_path / f"Add.a.1.1.{STAMP}",
        [dumped(ONES)],
        [dumped(first), dumped(second, DType.INT32)],
    )
    index = scan_dumps(tmp_path, graph)
    assert np.array_equal(read_array(index.tensors["a", IN, 0]), first)
    # The device leaves out the input that is not connected.
    assert np.array_equal(read_array(index.tensors["a", IN, 2]), second)
    assert np.array_equal(read_array(index.tensors["a", OUT, 0]), ONES)


def test_the_header_tells_layout_original_shape_groups_and_address(
    tmp_path, write_dump, dumped, graph_of
):
    blocks = np.zeros((1, 1, 2, 2, 16), np.float16)
    tensor = dumped(
        blocks,
        DType.FLOAT16,
        "NC1HWC0",
        original_shape=(1, 2, 2, 3),
        groups=4,
        address=4096,
    )
    write_dump(tmp_path / f"Add.a.1.1.{STAMP}", [tensor])
    ref = scan_dumps(tmp_path, graph_of(("a", "Add"))).tensors["a", OUT, 0]
    assert (ref.layout, ref.original_shape) == ("NC1HWC0", (1, 2, 2, 3))
    assert (ref.groups, ref.address) == (4, 4096)


def test_a_cut_file_keeps_its_whole_tensors(tmp_path, write_dump, dumped, graph_of):
    path = write_dump(tmp_path / f"Add.a.1.1.{STAMP}", [dumped(ONES), dumped(ONES)])
    whole = path.stat().st_size
    os.truncate(path, whole - 1)
    index = scan_dumps(tmp_path, graph_of(("a", "Add")))
    assert list(index.tensors) == [("a", OUT, 0)]
    (problem,) = index.problems
    assert (problem.op, problem.io, problem.port) == ("a", OUT, 1)
    assert problem.reason is Reason.UNREADABLE_DUMP
    assert f"at byte {whole - ONES.nbytes}" in problem.detail


def test_a_size_too_small_for_the_shape_is_a_problem(tmp_path, write_dump, dumped, graph_of):
    write_dump(tmp_path / f"Add.a.1.1.{STAMP}", [dumped(ONES, shape=(2, 4))])
    (problem,) = scan_dumps(tmp_path, graph_of(("a", "Add"))).problems
    assert "shape [2, 4] of float32 takes 32 bytes, the header gives 24" in problem.detail


@pytest.mark.parametrize("dtype", [DType.STRING, 26, 77])
def test_element_types_without_numbers_are_told(tmp_path, write_dump, dumped, graph_of, dtype):
    write_dump(tmp_path / f"Add.a.1.1.{STAMP}", [dumped(ONES, dtype), dumped(ONES)])
    index = scan_dumps(tmp_path, graph_of(("a", "Add")))
    assert [p.reason for p in index.problems] == [Reason.DTYPE_UNSUPPORTED]
    assert list(index.tensors) == [("a", OUT, 1)]


def test_files_of_no_op_and_other_files_are_told_apart(tmp_path, write_dump, dumped, graph_of):
    strange = write_dump(tmp_path / f"Add.unknown.1.1.{STAMP}", [dumped(ONES)])
    debug = tmp_path / f"Opdebug.Node_OpDebug.1.1.{STAMP}"
    write_dump(debug, [dumped(np.zeros(2048, np.uint8), 4)])
    (tmp_path / "notes.txt").write_text("not a dump")
    index = scan_dumps(tmp_path, graph_of(("a", "Add")))
    assert index.unmatched == (strange,)
    assert index.debug_files == (debug,)
    assert index.files == 1
    assert not index.problems


DAMAGED = {
    "empty": (b"", "only 0 bytes"),
    "shorter than a length": (b"\x05", "only 1 bytes"),
    "no header": (bytes(64), "not an Ascend dump"),
    "length of a terabyte": ((1 << 40).to_bytes(8, "little") + bytes(64), "not an Ascend dump"),
    "cut inside the header": ((500).to_bytes(8, "little") + bytes(64), "ends inside its header"),
    "garbage header": ((16).to_bytes(8, "little") + b"\xff" * 64, "not a DumpData message"),
    "JSON header": ((16).to_bytes(8, "little") + b'{"version": "2" ' + bytes(9), "JSON"),
    "JSON without tensors": (
        (16).to_bytes(8, "little") + b'{"version": "2"}' + bytes(9),
        "no tensor",
    ),
    "Nano": ((32).to_bytes(8, "little") + b"\x5a" * 4 + bytes(60), "Nano"),
    "version 1 without tensors": (b"\x0a\x031.0\x10\x05\x10\x05", "no tensor"),
    "header of no tensor": ((5).to_bytes(8, "little") + b"\x0a\x032.0" + bytes(9), "no tensor"),
}


@pytest.mark.parametrize(("content", "said"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_a_problem_of_its_op(tmp_path, graph_of, content, said):
    path = tmp_path / f"Add.a.1.1.{STAMP}"
    path.write_bytes(content)
    index = scan_dumps(tmp_path, graph_of(("a", "Add")))
    (problem,) = index.problems
    assert (problem.path, problem.op, problem.reason) == (path, "a", Reason.UNREADABLE_DUMP)
    assert said in problem.detail
    assert "at byte" in problem.detail


def test_things_that_are_no_files_are_problems(tmp_path, graph_of):
    (tmp_path / f"Add.a.1.1.{STAMP}").mkdir()
    (tmp_path / f"Add.b.1.1.{STAMP}").symlink_to(tmp_path / f"Add.b.1.1.{STAMP}")
    os.mkfifo(tmp_path / f"Add.c.1.1.{STAMP}")
    (tmp_path / f"Add.d.1.1.{STAMP}").symlink_to(tmp_path / "nowhere")
    index = scan_dumps(tmp_path, graph_of(*((name, "Add") for name in "abcd")))
    assert [p.op for p in index.problems] == ["a", "b", "c", "d"]


def test_a_table_without_a_tensor_is_a_problem_of_its_op(tmp_path, graph_of):
    (tmp_path / f"Add.a.1.1.{STAMP}.csv").write_text("Input/Output,Index\n")
    (problem,) = scan_dumps(tmp_path, graph_of(("a", "Add"))).problems
    assert problem.op == "a"
    assert "statistics without a tensor" in problem.detail


def test_a_file_that_may_not_be_read_is_a_problem(tmp_path, write_dump, dumped, graph_of):
    path = write_dump(tmp_path / f"Add.a.1.1.{STAMP}", [dumped(ONES)])
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read every file")
    (problem,) = scan_dumps(tmp_path, graph_of(("a", "Add"))).problems
    assert "cannot be read" in problem.detail


def test_a_missing_folder_is_one_sentence(tmp_path, graph_of):
    with pytest.raises(InputError, match="dump folder cannot be read"):
        scan_dumps(tmp_path / "nowhere", graph_of())


def test_damage_anywhere_never_raises(tmp_path, write_dump, dumped, graph_of):
    graph = graph_of(("a", "Add"))
    path = write_dump(
        tmp_path / f"Add.a.1.1.{STAMP}",
        [dumped(ONES), dumped(np.zeros((1, 1, 2, 2, 16), np.float16), DType.FLOAT16, "NC1HWC0")],
        [dumped(ONES)],
        op_name="a",
    )
    good = path.read_bytes()
    random = np.random.default_rng(7)
    for _ in range(400):
        bad = bytearray(good[: random.integers(0, len(good) + 1)])
        for _ in range(random.integers(0, 4)):
            if bad:
                bad[random.integers(0, len(bad))] = random.integers(0, 256)
        path.write_bytes(bad)
        index = scan_dumps(tmp_path, graph)
        assert index.tensors or index.problems or index.unmatched
        for ref in index.tensors.values():
            with suppress(DivergraphError):  # any other exception fails the test
                assert read_array(ref).shape == ref.shape
