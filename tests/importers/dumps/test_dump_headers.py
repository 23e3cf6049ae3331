"""Every kind of header an Ascend dump file can have, written here from its description."""

from __future__ import annotations

import json
import os
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphstore.errors import ImportFormatError
from graphstore.model import DType, DumpFormat, Reason, TensorIO
from importers.dumps.ascend.file import read_device_file
from importers.dumps.detect import scan_dumps
from importers.dumps.read import read_array

OUT, IN = TensorIO.OUTPUT, TensorIO.INPUT
STAMP = 1664180560000000
NAME = f"Add.a.1.1.{STAMP}"
# numpy type -> number in the dump schema, number of ACL (Nano)
TYPES = {"float32": (1, 0), "float16": (2, 1), "int8": (3, 2), "int32": (7, 3), "bool": (11, 12)}
NHWC = 1


def varint(number):
    done = bytearray()
    while number >= 0x80:
        done.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*done, number])


def number_field(field, number):
    return varint(field << 3) + varint(number)


def block_field(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def shape_message(dims):
    return block_field(1, b"".join(map(varint, dims)))


def version_1(outputs, inputs=(), op_name=""):
    """The whole file as one message: outputs are field 3 with data 5, inputs 4 with 4."""
    content = block_field(1, b"1.0") + number_field(2, STAMP)
    for field, data_field, arrays in ((3, 5, outputs), (4, 4, inputs)):
        for array in arrays:
            content += block_field(
                field,
                number_field(1, TYPES[array.dtype.name][0])
                + number_field(2, NHWC)
                + block_field(3, shape_message(array.shape))
                + block_field(data_field, array.tobytes()),
            )
    content += block_field(5, block_field(2, b"buffered"))
    return content + block_field(6, op_name.encode())


def nano(outputs, inputs=()):
    """uint64 length, magic, version, then inputs (tag 4) and outputs (tag 5)."""
    head = struct.pack("<II", 0x5A5A5A5A, 0)
    for tag, arrays in ((4, inputs), (5, outputs)):
        entries = b""
        for array in arrays:
            dims = struct.pack(f"<II{array.ndim}Q", 0, 8 * array.ndim, *array.shape)
            dims += struct.pack(f"<II{array.ndim}Q", 1, 8 * array.ndim, *array.shape)
            number = TYPES[array.dtype.name][1]
            entries += struct.pack("<3i", number, NHWC, 0)
            if tag == 5:
                entries += struct.pack("<3i", 0, number, NHWC)
                dims += struct.pack("<II4s", 2, 4, b"orig")
            entries += struct.pack("<3QI", 4096, 0, array.nbytes, len(dims)) + dims
        entries = struct.pack("<I", len(arrays)) + entries
        head += struct.pack("<II", tag, len(entries)) + entries
    data = b"".join(array.tobytes() for array in (*inputs, *outputs))
    return struct.pack("<Q", len(head)) + head + data


def json_header(outputs, inputs=()):
    def described(array):
        return {
            "data_type": TYPES[array.dtype.name][0],
            "format": NHWC,
            "shape": {"dim": list(array.shape)},
            "size": 0,
        }

    header = {
        "version": "2.0",
        "input": [described(array) for array in inputs],
        "output": [described(array) for array in outputs],
    }
    head = json.dumps(header).encode()
    data = b"".join(array.tobytes() for array in (*inputs, *outputs))
    return struct.pack("<Q", len(head)) + head + data


WRITERS = {
    DumpFormat.ASCEND_V1: version_1,
    DumpFormat.ASCEND_NANO: nano,
    DumpFormat.ASCEND_JSON: json_header,
}
ARRAYS = st.builds(
    lambda dtype, shape: (np.arange(np.prod(shape)) % 3).astype(dtype).reshape(shape),
    st.sampled_from(sorted(TYPES)),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
)


@pytest.mark.parametrize("form", WRITERS)
@given(
    outputs=st.lists(ARRAYS, min_size=1, max_size=3),
    inputs=st.lists(ARRAYS, max_size=3),
)
def test_values_come_back_whatever_the_header(tmp_path_factory, form, outputs, inputs):
    path = tmp_path_factory.mktemp("dump") / NAME
    path.write_bytes(WRITERS[form](outputs, inputs))
    file = read_device_file(path)
    assert file.header.format is form
    assert not file.unusable
    found = {(ref.io, ref.port): ref for ref in file.tensors}
    written = {(OUT, port): array for port, array in enumerate(outputs)}
    written |= {(IN, port): array for port, array in enumerate(inputs)}
    assert set(found) == set(written)
    for key, array in written.items():
        assert found[key].layout == "NHWC"
        assert found[key].timestamp == STAMP
        values = read_array(found[key])
        assert values.dtype == array.dtype
        assert np.array_equal(values, array)


@pytest.mark.parametrize("form", WRITERS)
def test_the_op_is_found_whatever_the_header(tmp_path, graph_of, form):
    (tmp_path / NAME).write_bytes(WRITERS[form]([np.ones(3, np.float32)]))
    ref = scan_dumps(tmp_path, graph_of(("a", "Add"))).tensors["a", OUT, 0]
    assert (ref.format, ref.dtype, ref.shape) == (form, DType.FLOAT32, (3,))


def test_version_1_tells_name_and_buffers(tmp_path):
    path = tmp_path / NAME
    path.write_bytes(version_1([np.ones(2, np.float32)], op_name="net/add"))
    file = read_device_file(path)
    assert file.header.op_name == "net/add"
    (block,) = file.blocks
    assert path.read_bytes()[block.offset : block.offset + block.size] == b"buffered"
    assert block.kind == "buffer"


def test_nano_numbers_types_as_acl_does(tmp_path):
    """3 is int32 in ACL and int8 in the dump schema."""
    path = tmp_path / NAME
    path.write_bytes(nano([np.array([1, 2], np.int32)]))
    assert read_device_file(path).tensors[0].dtype is DType.INT32


def test_buffers_and_workspaces_follow_the_tensors(tmp_path):
    """Version 2: all inputs, outputs, buffers, workspaces, each of its size."""
    output = np.arange(4, dtype=np.float32)
    head = block_field(1, b"2.0") + block_field(
        3,
        number_field(1, 1) + block_field(3, shape_message((4,))) + number_field(6, output.nbytes),
    )
    head += block_field(5, number_field(1, 0) + number_field(3, 6))
    head += block_field(8, number_field(1, 0) + number_field(3, 5))
    path = tmp_path / NAME
    raw = struct.pack("<Q", len(head)) + head + output.tobytes() + b"buffer" + b"space"
    path.write_bytes(raw)
    blocks = {
        block.kind: raw[block.offset : block.offset + block.size]
        for block in read_device_file(path).blocks
    }
    assert blocks == {"buffer": b"buffer", "workspace": b"space"}
    os.truncate(path, len(raw) - 1)
    file = read_device_file(path)
    assert len(file.tensors) == 1
    assert file.unusable == ("workspace 0: the file is cut before its end",)


def test_a_dump_of_a_workspace_alone_is_no_damage(tmp_path, graph_of):
    head = block_field(8, number_field(1, 0) + number_field(3, 5))
    path = tmp_path / NAME
    path.write_bytes(struct.pack("<Q", len(head)) + head + b"space")
    assert [block.kind for block in read_device_file(path).blocks] == ["workspace"]
    index = scan_dumps(tmp_path, graph_of(("a", "Add")))
    assert not index.problems
    assert not index.tensors


def test_a_cut_nano_file_is_told_with_its_sizes(tmp_path):
    path = tmp_path / NAME
    raw = nano([np.ones(4, np.float32)])
    path.write_bytes(raw[:-1])
    with pytest.raises(ImportFormatError, match=f"take {len(raw)} bytes, the file has"):
        read_device_file(path)


@pytest.mark.parametrize("count", [3, 1 << 31])
def test_a_nano_header_that_promises_too_much_is_refused(tmp_path, count):
    head = struct.pack("<IIIII", 0x5A5A5A5A, 0, 5, 8, count)
    path = tmp_path / NAME
    path.write_bytes(struct.pack("<Q", len(head)) + head)
    with pytest.raises(ImportFormatError, match="tensors in a header with 0 bytes left"):
        read_device_file(path)


def test_a_message_of_countless_empty_entries_is_refused_before_it_is_parsed(tmp_path, graph_of):
    head = b"\x1a\x00" * 100_000
    (tmp_path / NAME).write_bytes(struct.pack("<Q", len(head)) + head)
    (problem,) = scan_dumps(tmp_path, graph_of(("a", "Add"))).problems
    assert problem.reason is Reason.UNREADABLE_DUMP
    assert "more than 65536 fields" in problem.detail
    assert "at byte" in problem.detail


@pytest.mark.parametrize("form", WRITERS)
@given(data=st.data())
def test_damage_is_one_sentence_or_whole_tensors(tmp_path_factory, form, data):
    path = tmp_path_factory.mktemp("dump") / NAME
    raw = bytearray(WRITERS[form]([np.ones((2, 3), np.float32), np.ones(4, np.float16)]))
    for place, byte in data.draw(
        st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=4)
    ):
        raw[place] = byte
    path.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
    try:
        file = read_device_file(path)
    except ImportFormatError:
        return
    for ref in file.tensors:
        assert ref.offset + ref.nbytes <= path.stat().st_size
        assert read_array(ref).shape == ref.shape


def test_an_exception_dump_belongs_to_the_op_whose_task_failed(tmp_path, graph_of):
    ones = np.ones(3, np.float32)
    (tmp_path / f"Add.a.7.3.{STAMP}").write_bytes(version_1([ones]))
    failed = tmp_path / f"exception_info.3.7.{STAMP + 9}"
    failed.write_bytes(version_1([ones * 2], [ones]))
    index = scan_dumps(tmp_path, graph_of(("a", "Add"), ("b", "Add")))
    assert index.exceptions == ((failed, "a"),)
    assert np.array_equal(read_array(index.tensors["a", IN, 0]), ones)
    # What the failed task left in its output's memory is no result.
    assert np.array_equal(read_array(index.tensors["a", OUT, 0]), ones)


def test_an_exception_dump_of_no_known_task_is_told(tmp_path, graph_of):
    failed = tmp_path / f"exception_info.3.7.{STAMP}"
    failed.write_bytes(version_1([np.ones(3, np.float32)]))
    index = scan_dumps(tmp_path, graph_of(("a", "Add")))
    assert index.exceptions == ((failed, None),)
    assert index.unmatched == (failed,)
    assert not index.tensors


def test_dumps_named_bin_are_read(tmp_path, graph_of):
    (tmp_path / f"{NAME}.bin").write_bytes(version_1([np.ones(3, np.float32)]))
    assert ("a", OUT, 0) in scan_dumps(tmp_path, graph_of(("a", "Add"))).tensors


def test_a_link_out_of_the_folder_is_not_read(tmp_path, graph_of):
    outside = tmp_path / "outside"
    outside.write_bytes(version_1([np.ones(3, np.float32)]))
    folder = tmp_path / "dump"
    folder.mkdir()
    (folder / NAME).symlink_to(outside)
    index = scan_dumps(folder, graph_of(("a", "Add")))
    assert not index.tensors
    assert [problem.detail for problem in index.problems] == [
        "a link that leads out of the dump folder"
    ]
    inside = folder / f"Add.b.1.1.{STAMP}"
    inside.write_bytes(version_1([np.ones(3, np.float32)]))
    (folder / NAME).unlink()
    (folder / NAME).symlink_to(inside)
    assert ("a", OUT, 0) in scan_dumps(folder, graph_of(("a", "Add"))).tensors


def test_a_mapping_cannot_name_a_file_elsewhere(tmp_path, graph_of):
    (tmp_path / "secret").write_bytes(version_1([np.ones(3, np.float32)]))
    folder = tmp_path / "dump"
    folder.mkdir()
    (folder / "mapping.csv").write_text(f"../secret,{NAME}\n")
    index = scan_dumps(folder, graph_of(("a", "Add")))
    assert not index.tensors
    assert not index.files
