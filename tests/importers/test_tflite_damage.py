"""Damaged TensorFlow Lite files: an error with the byte where it went wrong, or a graph."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
from pathlib import Path

import flatbuffers
import pytest

from graphstore.errors import ImportFormatError
from importers.tflite.importer import TfliteImporter

DATA = Path(__file__).parents[1] / "data" / "tflite"
QUICK = 700
READ = TfliteImporter().read


def error_of(tmp_path: Path, data: bytes) -> ImportFormatError:
    path = tmp_path / "net.tflite"
    path.write_bytes(data)
    with pytest.raises(ImportFormatError) as caught:
        READ(path)
    return caught.value


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x1c\0\0\0TFL3", "leads to byte 28, and the file has 8"),
        (b"\xff\xff\xff\xffTFL3" + bytes(64), "leads to byte 4294967295"),
        (b"\0\0\0\0TFL3" + bytes(64), "the model holds no sub-graph"),
        (b"\x1c\0\0\0TFL4", "no TensorFlow Lite model"),
    ],
)
def test_roots_that_lead_nowhere(tmp_path, data, said):
    error = error_of(tmp_path, data)
    assert said in str(error)
    assert error.offset is not None
    assert error.hint


@pytest.mark.parametrize("name", ["net.tflite", "net.int8.tflite", "rounds.tflite"])
def test_flipped_bits_and_cuts_are_an_error_or_a_graph(tmp_path, name):
    data = (DATA / name).read_bytes()
    chosen = random.Random(11)
    path = tmp_path / "net.tflite"
    told = 0
    for number in range(QUICK):
        damaged = bytearray(data)
        if number % 4 == 0:
            del damaged[chosen.randrange(9, len(data)) :]
        elif number % 4 == 1:  # an offset or a length
            at = chosen.randrange(8, len(data) - 4) & ~3
            struct.pack_into("<I", damaged, at, chosen.choice([2**32 - 1, 2**31, 2**16, at]))
        else:
            damaged[chosen.randrange(8, len(data))] ^= 1 << chosen.randrange(8)
        path.write_bytes(damaged)
        try:
            READ(path)
        except ImportFormatError:
            told += 1
    assert told > QUICK // 8


def lying_over_each_other() -> bytes:
    """A model of many operators that are all one, of which the inputs are all of the file."""
    builder = flatbuffers.Builder(0)
    builder.StartVector(4, 50_000, 4)
    for _ in range(50_000):
        builder.PrependInt32(0)
    inputs = builder.EndVector()
    builder.StartObject(9)
    builder.PrependUOffsetTRelativeSlot(1, inputs, 0)
    operator = builder.EndObject()
    builder.StartVector(4, 50_000, 4)
    for _ in range(50_000):
        builder.PrependUOffsetTRelative(operator)
    operators = builder.EndVector()
    builder.StartObject(4)
    tensor = builder.EndObject()
    tensors = vector_of(builder, tensor)
    builder.StartObject(5)
    builder.PrependUOffsetTRelativeSlot(0, tensors, 0)
    builder.PrependUOffsetTRelativeSlot(3, operators, 0)
    graphs = vector_of(builder, builder.EndObject())
    builder.StartObject(4)
    codes = vector_of(builder, builder.EndObject())
    builder.StartObject(1)
    buffers = vector_of(builder, builder.EndObject())
    builder.StartObject(8)
    builder.PrependUOffsetTRelativeSlot(1, codes, 0)
    builder.PrependUOffsetTRelativeSlot(2, graphs, 0)
    builder.PrependUOffsetTRelativeSlot(4, buffers, 0)
    builder.Finish(builder.EndObject(), b"TFL3")
    return bytes(builder.Output())


def vector_of(builder, table: int) -> int:
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(table)
    return builder.EndVector()


def test_parts_that_lie_over_each_other_end_soon(tmp_path):
    data = lying_over_each_other()
    begun = time.monotonic()
    tracemalloc.start()
    error = error_of(tmp_path, data)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "lie over each other without end" in str(error)
    assert time.monotonic() - begun < 20
    assert most < 200 << 20
