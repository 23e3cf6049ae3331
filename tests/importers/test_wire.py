"""Walking protobuf bytes without a schema, and leaving long values out of a copy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importers.proto.messages import tf_graph_pb2 as pb
from importers.proto.wire import BLOCK, VARINT, outer_fields, spans, without_long

VALUE = {5: {2: {2: None}}}
"""The text values of the attributes of a node."""


@st.composite
def nodes(draw):
    node = pb.NodeDef(name=draw(st.text()), op=draw(st.text()), input=draw(st.lists(st.text())))
    for key in draw(st.lists(st.text(max_size=5), max_size=3)):
        if draw(st.booleans()):
            node.attr[key].s = draw(st.binary(max_size=300))
        else:
            node.attr[key].i = draw(st.integers(-(2**63), 2**63 - 1))
    return node


@given(nodes())
def test_spans_cut_a_message_into_all_its_fields(node):
    data = node.SerializeToString()
    found = list(spans(data))
    assert b"".join(data[span.key : span.end] for span in found) == data
    assert [span.number for span in found] == [field.number for field in outer_fields(data, 10**6)]
    names = [data[span.start : span.end].decode() for span in found if span.number == 1]
    assert names == ([node.name] if node.name else [])


@given(nodes(), st.integers(0, 400))
def test_only_long_values_are_left_out(node, most):
    kept = pb.NodeDef.FromString(without_long(node.SerializeToString(), VALUE, most))
    for key, value in node.attr.items():
        if value.WhichOneof("value") == "s" and len(value.s) > most:
            assert kept.attr[key].WhichOneof("value") is None
            node.attr[key].Clear()
    assert kept == node


@given(nodes())
def test_nothing_long_is_left_as_it_is(node):
    data = node.SerializeToString()
    assert without_long(data, VALUE, 10**6) == data
    assert without_long(data, {}, 0) == data


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x0a\x05ab", "5 bytes where its message has only 2 left"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "where its message has only 0 left"),
        (b"\x08", "ends inside a number"),
        (b"\x0d\x01\x02", "ends inside a number"),
        (b"\x00\x01", "a field with the number 0"),
        (b"\x0b", "wire type 3"),
        (b"\x80" * 20, "a number longer than ten bytes"),
    ],
)
def test_what_is_no_message_is_told_with_its_byte(data, what):
    with pytest.raises(ValueError, match=f"{what}|byte 0"):
        list(spans(data))


def test_nesting_is_bounded():
    plan: dict[int, object] = {}
    plan[1] = plan
    data = b""
    for _ in range(200):
        data = b"\x0a" + pb.AttrValue(s=data).SerializeToString()[1:]
    with pytest.raises(ValueError, match="nested deeper"):
        without_long(data, plan, 0)


def test_numbers_come_with_their_value():
    (span,) = spans(pb.AttrValue(i=-1).SerializeToString())
    assert (span.number, span.wire_type, span.value) == (3, VARINT, 2**64 - 1)
    (span,) = spans(pb.AttrValue(s=b"x").SerializeToString())
    assert (span.wire_type, span.value) == (BLOCK, 0)
