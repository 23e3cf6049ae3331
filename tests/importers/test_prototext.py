"""The schema-free text reader against protobuf's own parser and printer."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphstore.errors import ImportFormatError
from importers.filled_files import fill
from importers.proto.literals import boolean, integer, real, string, string_bytes
from importers.proto.text_reader import EventKind, TextReader, outline

_HERE = Path("graph.txt")
_INT_MAX = {"int32": 2**31 - 1, "uint32": 2**32 - 1, "int64": 2**63 - 1}


def tree(text: str) -> list:
    return [(event.name, event.value) for event in TextReader(text.encode(), _HERE).events()]


def scalars(field: FieldDescriptor) -> st.SearchStrategy:
    kinds = FieldDescriptor
    if field.type == kinds.TYPE_STRING:
        return st.text(max_size=12)
    if field.type == kinds.TYPE_BYTES:
        return st.binary(max_size=12)
    if field.type == kinds.TYPE_BOOL:
        return st.booleans()
    if field.type == kinds.TYPE_ENUM:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.type == kinds.TYPE_FLOAT:
        return st.floats(width=32, allow_nan=False)
    if field.type == kinds.TYPE_UINT32:
        return st.integers(0, 2**32 - 1)
    return st.integers(-(2**63), 2**63 - 1)


def put(message, draw, depth: int) -> None:
    """Fill a few fields of *message* with drawn values."""
    for field in draw(st.lists(st.sampled_from(list(message.DESCRIPTOR.fields)), max_size=6)):
        current = getattr(message, field.name)
        repeated = hasattr(current, "append") or hasattr(current, "add")
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            value = draw(scalars(field))
            if repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)
        elif depth:
            if field.message_type.GetOptions().map_entry:
                put(getattr(message, field.name)[draw(st.text(max_size=6))], draw, depth - 1)
            elif repeated:
                put(getattr(message, field.name).add(), draw, depth - 1)
            else:
                getattr(message, field.name).SetInParent()
                put(getattr(message, field.name), draw, depth - 1)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_reads_back_whatever_protobuf_prints(ge_model, data):
    message = ge_model()
    put(message, data.draw, depth=6)
    text = text_format.MessageToString(
        message,
        as_utf8=data.draw(st.booleans()),
        as_one_line=data.draw(st.booleans()),
        use_short_repeated_primitives=data.draw(st.booleans()),
        pointy_brackets=data.draw(st.booleans()),
    )
    again = ge_model()
    fill(again, tree(text))
    assert again == message


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_undoes_the_escapes_protobuf_makes(data):
    from google.protobuf.text_encoding import CEscape

    literal = b'"' + CEscape(data, False).encode() + b'"'
    assert string_bytes(literal) == data


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="{}<>[]:,;#\"'\\ \nab1.-", max_size=60))
def test_any_text_ends_or_fails_with_its_place(text):
    failure = None
    try:
        tree(text)
    except ImportFormatError as error:
        failure = error
    assert failure is None or 1 <= (failure.line or 0) <= text.count("\n") + 1


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("a: 1 b: 2", [(b"a", b"1"), (b"b", b"2")]),
        ("a: 1, b: 2; c: x", [(b"a", b"1"), (b"b", b"2"), (b"c", b"x")]),
        ("# before\na: 1 # after\n# end", [(b"a", b"1")]),
        ("a: [1, 2 , 3]", [(b"a", b"1"), (b"a", b"2"), (b"a", b"3")]),
        ("a: [] b: [\n# none\n]", []),
        ("a: [1, # one, two\n 2]", [(b"a", b"1"), (b"a", b"2")]),
        ("a { b: 1 }", [(b"a", [(b"b", b"1")])]),
        ("a: < b: 1 >", [(b"a", [(b"b", b"1")])]),
        ("a [{ b: 1 }, < b: 2 >]", [(b"a", [(b"b", b"1")]), (b"a", [(b"b", b"2")])]),
        ("a {} b: 1", [(b"a", []), (b"b", b"1")]),
        ("a: -inf b: - 5", [(b"a", b"-inf"), (b"b", b"- 5")]),
        ("[type.googleapis.com/x.Y] { a: 1 }", [(b"[type.googleapis.com/x.Y]", [(b"a", b"1")])]),
        ("15: 3", [(b"15", b"3")]),
        ("\ufeffa: 1", [(b"a", b"1")]),
        (
            'm { key: "k" value { list { i: 1 i: 2 } } }',
            [(b"m", [(b"key", b'"k"'), (b"value", [(b"list", [(b"i", b"1"), (b"i", b"2")])])])],
        ),
    ],
)
def test_the_forms_of_the_grammar(text, fields):
    assert tree(text) == fields


def test_adjacent_strings_are_one():
    ((_, literal),) = tree('a: "one" # told\n \'two\'\n "three"')
    assert string(literal) == "onetwothree"


def test_bytes_that_are_not_utf8_stay_visible():
    assert string(rb'"\377\346\210\221"') == "\\xff我"


def test_events_enter_the_blocks_asked_for():
    text = b'graph { name: "g" op { a: 1 } } graph { op { a: 2 } } attr { x: 1 }'
    events = [
        (event.kind, event.depth, event.name) for event in TextReader(text, _HERE).events(b"graph")
    ]
    assert events == [
        (EventKind.ENTER, 0, b"graph"),
        (EventKind.FIELD, 1, b"name"),
        (EventKind.FIELD, 1, b"op"),
        (EventKind.LEAVE, 0, b"graph"),
        (EventKind.ENTER, 0, b"graph"),
        (EventKind.FIELD, 1, b"op"),
        (EventKind.LEAVE, 0, b"graph"),
        (EventKind.FIELD, 0, b"attr"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "column", "what"),
    [
        ("a {\n  b: 1\n", 3, 1, "the file ends inside 'a' of line 1"),
        ('a {\n  b: "cut', 2, 3, "no end quote"),
        ("a {\n  b:", 2, 3, "has no value"),
        ("a {\n  b: ${N}\n}", 2, 3, r"has '\$\{N\}', which is no value, as in a template"),
        ("a: ?", 1, 1, r"has '\?', which is no value$"),
        ("a {\n  b\n}", 2, 3, "followed by neither"),
        ("a: 1\n}", 2, 1, "closes nothing"),
        ("a {\n b: 1 >", 2, 7, "needs '}'"),
        ("a: 1\n%", 2, 1, "'%' starts no field"),
        ("a: 1\n{ b: 2 }", 2, 1, "without a field name"),
        ("a " + "{ a " * 300, 1, 801, "deeper than 200"),
    ],
)
def test_broken_text_says_where(text, line, column, what):
    with pytest.raises(ImportFormatError, match=what) as caught:
        tree(text)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    ("token", "value"),
    [(b"12", 12), (b"-3", -3), (b"- 3", -3), (b"0x1F", 31), (b"017", 15), (b"0", 0), (b"-0", 0)],
)
def test_integers(token, value):
    assert integer(token) == value


@pytest.mark.parametrize("token", [b"x", b'"1"', b"1.5", b""])
def test_what_is_no_integer(token):
    with pytest.raises(ValueError, match=r"."):
        integer(token)


@pytest.mark.parametrize(
    ("token", "value"),
    [(b"1.5f", 1.5), (b"-inf", -math.inf), (b"1e-05", 1e-5), (b"3", 3.0), (b"0x1F", 31.0)],
)
def test_reals(token, value):
    assert real(token) == value


def test_nan_and_booleans():
    assert math.isnan(real(b"nan"))
    assert boolean(b"true")
    assert not boolean(b"0")
    with pytest.raises(ValueError, match="neither"):
        boolean(b"maybe")


def test_outline_sees_names_even_in_a_cut_text():
    head = b'ir_version: 6\nproducer_name: "GE"\ngraph {\n  node {\n    name: "cu'
    assert outline(head) == {
        (b"ir_version",),
        (b"producer_name",),
        (b"producer_name", b'"GE"'),
        (b"graph",),
        (b"graph", b"node"),
    }


def test_outline_of_no_text_is_empty():
    assert outline(struct.pack("<Q", 0x8877665544332211)) == set()
