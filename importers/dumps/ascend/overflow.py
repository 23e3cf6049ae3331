"""Overflow debug files: what the device recorded when a computation overflowed.

A file ``Opdebug.Node_OpDebug.{task}.{stream}.{time}`` is a dump file whose first output is the
record. Two layouts are known, both little endian: the old one of 2048 bytes with blocks for DHA, L2
and AI core, and the new one, which starts with 0x5A5A5A5A and names the unit. The task in the *file
name* is not the one that overflowed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from importers.dumps.ascend.file import look_at, tensor_ref
from importers.dumps.index import DamagedError, OverflowRecord, open_dump
from importers.dumps.names import NO_ID, DumpName, parse_dump_name
from importers.source import read_at

MAGIC = 0x5A5A5A5A
_OLD_BYTES = 2048
_MAX_BYTES = 1 << 20
_INFO = ("model_id", "stream_id", "task_id", "task_type", "pc_start", "para_base")
# unit, where its info block lies, where its status block
_OLD_UNITS = (("DHA Atomic Add", 0, 512), ("L2 Atomic Add", 128, 768), ("AI Core", 256, 1024))
_HEAD = struct.Struct("<IIIIII")
_TASK = ("model_id", "stream_id", "task_id", "task_type", "context_id")
_CORE = (*_TASK, "thread_id", "pc_start", "para_base", "core_id", "block_id", "status")
_SDMA = (*_TASK, "thread_id", "src_addr", "dst_addr", "channel_id", "status")
_AICPU = (*_TASK, "cpu_id", "thread_id", "status")
_NEW_UNITS = {0: ("AIC", _CORE), 1: ("AIV", _CORE), 2: ("AICPU", _AICPU), 3: ("SDMA", _SDMA)}
_HEXADECIMAL = {"pc_start", "para_base", "kernel_code", "src_addr", "dst_addr"}

_CORE_CAUSES = (
    (0x8, "integer: the smallest number negated"),
    (0x10, "integer add, subtract or multiply"),
    (0x20, "floating point"),
    (0x80, "a negative float to an unsigned integer"),
    (0x100, "float32 or int32 to float16"),
    (0x400, "cube accumulation"),
)
_ATOMIC_CAUSES = (
    "overflow",
    "underflow",
    "source is NaN",
    "destination is NaN",
    "source and destination are NaN",
)


def read_overflows(path: Path) -> tuple[OverflowRecord, ...]:
    """The overflows one debug file tells of; none if no status in it is set.

    Raises:
        DamagedError: it is no debug file, or damaged; says at which byte.
    """
    name = parse_dump_name(path.name)
    timestamp = 0 if name is None else name.timestamp
    return tuple(
        _record(path, timestamp, unit, values)
        for unit, values in decode(*read_record(path))
        if values["status"]
    )


def read_record(path: Path) -> tuple[bytes, int]:
    """The raw record in a debug file, and the byte of the file it starts at.

    Raises:
        DamagedError: it is no dump file, or has no output.
    """
    file = look_at(path, parse_dump_name(path.name))
    outputs = [tensor for tensor in file.whole_header().tensors if tensor.io == "output"]
    if not outputs:
        raise DamagedError("a debug file without an output", offset=8)
    ref = tensor_ref(file, outputs[0], "", 0)
    with open_dump(path) as (fd, _):
        return read_at(fd, min(outputs[0].size, _MAX_BYTES), ref.offset), ref.offset


def decode(data: bytes, at: int = 0) -> tuple[tuple[str, dict[str, int]], ...]:
    """The record's numbers by unit; *at* is where *data* lies in its file.

    Raises:
        DamagedError: neither the old nor the new layout.
    """
    if len(data) >= _HEAD.size and data[:4] == MAGIC.to_bytes(4, "little"):
        return (_decode_new(data, at),)
    if len(data) != _OLD_BYTES:
        raise DamagedError(
            f"a debug record of {len(data)} bytes: "
            f"neither {_OLD_BYTES} nor starting with {MAGIC:#x}",
            offset=at,
        )
    return tuple(
        (unit, _old_unit(data, info, status, core=unit == "AI Core"))
        for unit, info, status in _OLD_UNITS
    )


def _old_unit(data: bytes, info: int, status: int, *, core: bool) -> dict[str, int]:
    values = dict(zip(_INFO, struct.unpack_from("<6Q", data, info), strict=True))
    if not core:
        return values | {"status": struct.unpack_from("<Q", data, status)[0]}
    names = ("kernel_code", "block_idx", "status")
    return values | dict(zip(names, struct.unpack_from("<3Q", data, status), strict=True))


def _decode_new(data: bytes, at: int) -> tuple[str, dict[str, int]]:
    _, version, valid, kind, _, length = _HEAD.unpack_from(data)
    if kind not in _NEW_UNITS or valid != 1:
        what = f"unit {kind}" if kind not in _NEW_UNITS else "not valid"
        raise DamagedError(f"a debug record of {what}", offset=at + 8)
    unit, names = _NEW_UNITS[kind]
    words = (len(data) - _HEAD.size) // 8
    if len(names) * 8 > length or len(names) > words:
        raise DamagedError(
            f"a debug record of {length} bytes is too short for unit {unit}", offset=at + 20
        )
    words_read = struct.unpack_from(f"<{min(length // 8, words)}Q", data, _HEAD.size)
    values = dict(zip(names, words_read, strict=False))
    if version and names is _CORE:  # four words of status, one for each pipe
        for extra in words_read[len(names) : len(names) + 3]:
            values["status"] |= extra
    return unit, {"version": version, **values}


def causes(unit: str, status: int) -> tuple[str, ...]:
    """The bits of a status word in words; empty for units whose bits are not known."""
    if unit in ("AI Core", "AIC", "AIV"):
        return tuple(text for bit, text in _CORE_CAUSES if status & bit)
    if unit == "DHA Atomic Add":
        return _atomic((status >> 8 & 0xFF) - 9)
    if unit == "L2 Atomic Add":
        return _atomic((status >> 16 & 7) - 1)
    return ()


def _atomic(code: int) -> tuple[str, ...]:
    is_listed = 0 <= code < len(_ATOMIC_CAUSES)
    return (f"atomic add: {_ATOMIC_CAUSES[code]}",) if is_listed else ()


def record_json(data: bytes) -> dict[str, object]:
    """The record as msaccucmp's converter writes it: ``{unit: {field: value}}`` for the old
    layout, ``{magic, version, acc_list}`` for the new one.

    Raises:
        DamagedError: neither layout.
    """
    units = decode(data)
    if data[:4] != MAGIC.to_bytes(4, "little"):
        return {unit: _with_hex(values) for unit, values in units}
    ((unit, values),) = units
    _, version, valid, _, reserved, length = _HEAD.unpack_from(data)
    numbers = _with_hex({name: value for name, value in values.items() if name != "version"})
    return {
        "magic": hex(MAGIC),
        "version": version,
        "acc_list": {
            "valid": valid,
            "acc_type": unit,
            "rsv": reserved,
            "data_len": length,
            "data": numbers,
        },
    }


def _with_hex(values: Mapping[str, int]) -> dict[str, object]:
    return {name: hex(value) if name in _HEXADECIMAL else value for name, value in values.items()}


def _record(path: Path, timestamp: int, unit: str, values: Mapping[str, int]) -> OverflowRecord:
    return OverflowRecord(
        path=path,
        timestamp=timestamp,
        unit=unit,
        stream=values["stream_id"],
        task=values["task_id"],
        status=values["status"],
        causes=causes(unit, values["status"]),
        context=_id_or_none(values.get("context_id")),
        thread=_id_or_none(values.get("thread_id")),
        fields=values,
    )


def _id_or_none(number: int | None) -> int | None:
    return None if number is None or number in (NO_ID, 0xFFFF_FFFF) else number


def tied(
    records: Iterable[OverflowRecord], tasks: Iterable[tuple[DumpName, str]]
) -> tuple[OverflowRecord, ...]:
    """*records* with the op of each, earliest first; *tasks* are dump names and their ops.

    The op is that of the earliest dump of the same task and stream, and of the same
    context and thread where the record has them.
    """
    tasks_by_time = sorted(tasks, key=lambda task: task[0].timestamp)
    return tuple(
        replace(
            record, op=next((op for name, op in tasks_by_time if _same_task(record, name)), None)
        )
        for record in sorted(records, key=lambda record: (record.timestamp, record.path.name))
    )


def _same_task(record: OverflowRecord, name: DumpName) -> bool:
    if name.task != record.task or name.stream not in (None, record.stream):
        return False
    if record.context is not None and name.context is not None and name.context != record.context:
        return False
    return record.thread is None or name.thread is None or name.thread == record.thread
