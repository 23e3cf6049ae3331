"""Damaged offline models: what is told, and where; never more than an error."""

from __future__ import annotations

import random
import struct

import pytest
from offline_models import ABS, DATA, NAMES, code, compressed, model

from graphstore.errors import ImportFormatError
from importers.om.constants import weights
from importers.registry import read_graph


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


@pytest.mark.parametrize(("part", "said"), [(7, "a flow model"), (24, "a bundle of models")])
def test_the_graph_beside_models_is_not_taken_for_all_of_them(om, ge_model, part, said):
    with pytest.raises(ImportFormatError, match=f"this is {said}"):
        read_graph(om([(0, model(ge_model, DATA, ABS)), (part, b"\1"), (part, b"\2")]))


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "what"),
    [
        (b"\x92\x02\x00" * 70_000, "an op with 0 inputs and 70000 outputs"),
        (b"\x2a\x00" * 1_000_001, "more than 1000000 fields in one block"),
    ],
    ids=["outputs", "fields"],
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


@pytest.mark.slow
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
