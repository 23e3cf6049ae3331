"""Overflow debug files, written here from their description."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from importers.dumps.ascend.overflow import causes, record_json
from importers.dumps.detect import scan_dumps

STAMP = 1664180560000000
ONES = np.ones(3, np.float32)


def old_record(*, dha=0, level2=0, core=0, task=7, stream=3):
    """2048 bytes: info blocks at 0, 128, 256, status blocks at 512, 768, 1024."""
    data = bytearray(2048)
    for at in (0, 128, 256):
        struct.pack_into("<6Q", data, at, 1, stream, task, 0, 0x1000, 0x2000)
    struct.pack_into("<Q", data, 512, dha)
    struct.pack_into("<Q", data, 768, level2)
    struct.pack_into("<3Q", data, 1024, 0xABC, 4, core)
    return bytes(data)


def new_record(unit, numbers, version=0):
    data = struct.pack(f"<{len(numbers)}Q", *numbers)
    return struct.pack("<6I", 0x5A5A5A5A, version, 1, unit, 0, len(data)) + data


def core_numbers(*, task=7, stream=3, context=65535, thread=65535, status=0x20):
    return [1, stream, task, 4, context, thread, 0x1000, 0x2000, 5, 6, status]


@pytest.fixture
def write_debug(tmp_path, write_dump, dumped):
    def write(record, stamp=STAMP + 50):
        # The task in the name is that of the debug op itself.
        path = tmp_path / f"Opdebug.Node_OpDebug.99.8.{stamp}"
        return write_dump(path, [dumped(np.frombuffer(record, np.uint8), 4)])

    return write


def test_an_old_record_is_tied_to_the_op_of_its_task(
    tmp_path, write_dump, dumped, graph_of, write_debug
):
    write_dump(tmp_path / f"Add.a.7.3.{STAMP}", [dumped(ONES)])
    write_dump(tmp_path / f"Add.b.8.3.{STAMP}", [dumped(ONES)])
    path = write_debug(old_record(core=0x110))
    index = scan_dumps(tmp_path, graph_of(("a", "Add"), ("b", "Add")))
    (record,) = index.overflows
    assert (record.op, record.unit, record.task, record.stream) == ("a", "AI Core", 7, 3)
    assert record.causes == (
        "integer add, subtract or multiply",
        "float32 or int32 to float16",
    )
    assert (record.path, record.timestamp) == (path, STAMP + 50)
    assert record.fields["kernel_code"] == 0xABC
    assert record.text().endswith("(status 0x110)")


def test_a_record_may_tell_of_several_units(tmp_path, graph_of, write_debug):
    write_debug(old_record(dha=0xB00, level2=0x20000, core=0))
    found = scan_dumps(tmp_path, graph_of(("a", "Add"))).overflows
    assert [(record.unit, record.causes) for record in found] == [
        ("DHA Atomic Add", ("atomic add: source is NaN",)),
        ("L2 Atomic Add", ("atomic add: underflow",)),
    ]
    assert [record.op for record in found] == [None, None]


def test_a_record_without_a_status_tells_of_no_overflow(tmp_path, graph_of, write_debug):
    write_debug(old_record())
    index = scan_dumps(tmp_path, graph_of(("a", "Add")))
    assert not index.overflows
    assert len(index.debug_files) == 1


def test_records_come_earliest_first(tmp_path, write_dump, dumped, graph_of, write_debug):
    write_dump(tmp_path / f"Add.a.7.3.{STAMP}", [dumped(ONES)])
    write_dump(tmp_path / f"Add.b.8.3.{STAMP}", [dumped(ONES)])
    write_debug(old_record(core=0x20, task=7), STAMP + 60)
    write_debug(old_record(core=0x20, task=8), STAMP + 55)
    found = scan_dumps(tmp_path, graph_of(("a", "Add"), ("b", "Add"))).overflows
    assert [record.op for record in found] == ["b", "a"]


@pytest.mark.parametrize(("unit", "name"), [(0, "AIC"), (1, "AIV")])
def test_a_new_record_names_the_unit(
    tmp_path, write_dump, dumped, graph_of, write_debug, unit, name
):
    write_dump(tmp_path / f"Add.a.7.3.{STAMP}", [dumped(ONES)])
    write_debug(new_record(unit, core_numbers()))
    (record,) = scan_dumps(tmp_path, graph_of(("a", "Add"))).overflows
    assert (record.unit, record.op, record.causes) == (name, "a", ("floating point",))
    assert (record.context, record.thread) == (None, None)


@pytest.mark.parametrize(("version", "status"), [(0, 0x20), (1, 0x428)])
def test_only_version_1_has_four_words_of_status(tmp_path, graph_of, write_debug, version, status):
    write_debug(new_record(0, [*core_numbers(status=0x20), 0x8, 0, 0x400], version=version))
    (record,) = scan_dumps(tmp_path, graph_of(("a", "Add"))).overflows
    assert record.status == status


def test_other_units_of_new_records(tmp_path, graph_of, write_debug):
    write_debug(new_record(2, [1, 3, 7, 4, 65535, 0, 65535, 1]), STAMP + 1)
    write_debug(new_record(3, [1, 3, 7, 4, 65535, 65535, 16, 32, 0, 9]), STAMP + 2)
    found = scan_dumps(tmp_path, graph_of(("a", "Add"))).overflows
    assert [(record.unit, record.status) for record in found] == [("AICPU", 1), ("SDMA", 9)]
    assert found[1].fields["dst_addr"] == 32


def test_context_and_thread_tell_tasks_apart(tmp_path, write_dump, dumped, graph_of, write_debug):
    for context, name in ((12, "a"), (13, "b")):
        write_dump(tmp_path / f"Add.{name}.7.3.{STAMP}.4.{context}.0.0", [dumped(ONES)])
    write_debug(new_record(0, core_numbers(context=13, thread=0)))
    (record,) = scan_dumps(tmp_path, graph_of(("a", "Add"), ("b", "Add"))).overflows
    assert (record.op, record.context, record.thread) == ("b", 13, 0)


BROKEN = {
    "too short": (old_record()[:2047], "2047 bytes"),
    "unknown unit": (new_record(9, core_numbers()), "unit 9"),
    "cut": (new_record(0, core_numbers())[:-8], "too short for unit AIC"),
}


@pytest.mark.parametrize(("record", "said"), BROKEN.values(), ids=BROKEN)
def test_a_damaged_record_is_a_problem(tmp_path, graph_of, write_debug, record, said):
    path = write_debug(record)
    index = scan_dumps(tmp_path, graph_of(("a", "Add")))
    (problem,) = index.problems
    assert problem.path == path
    assert said in problem.detail
    assert "at byte" in problem.detail


def test_every_status_bit_has_words():
    bits = (0x8, 0x10, 0x20, 0x80, 0x100, 0x400)
    assert len(causes("AI Core", sum(bits))) == len(bits)
    assert causes("AI Core", 0x1) == ()
    assert [causes("DHA Atomic Add", code << 8) for code in (0x9, 0xD)] == [
        ("atomic add: overflow",),
        ("atomic add: source and destination are NaN",),
    ]


def test_the_json_of_records_is_that_of_the_converter():
    old = record_json(old_record(core=0x100))
    assert list(old) == ["DHA Atomic Add", "L2 Atomic Add", "AI Core"]
    assert old["AI Core"] == {
        "model_id": 1,
        "stream_id": 3,
        "task_id": 7,
        "task_type": 0,
        "pc_start": "0x1000",
        "para_base": "0x2000",
        "kernel_code": "0xabc",
        "block_idx": 4,
        "status": 0x100,
    }
    new = record_json(new_record(1, core_numbers()))
    assert (new["magic"], new["version"]) == ("0x5a5a5a5a", 0)
    assert new["acc_list"]["acc_type"] == "AIV"
    assert new["acc_list"]["data_len"] == 88
    assert new["acc_list"]["data"]["pc_start"] == "0x1000"
