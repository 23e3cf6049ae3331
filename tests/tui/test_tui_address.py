"""Addresses: what is printed can be opened again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphstore.errors import InputError
from tui.address import ScreenAddress, parse_address

names = st.text(min_size=1, max_size=30)
addresses = st.builds(
    ScreenAddress,
    target=names,
    kind=st.sampled_from(["run", "graph"]),
    op=names,
    output=st.none() | st.integers(0, 99),
    view=st.sampled_from(["", "ops", "overview"]),
    where=st.text(max_size=30),
    sort=st.sampled_from(["", "cos", "topo"]),
    descending=st.booleans(),
    starts=st.lists(names, max_size=3).map(tuple),
    ends=st.lists(names, max_size=3).map(tuple),
    side=st.sampled_from(["", "golden"]),
)


@given(addresses)
def test_a_printed_address_reads_back(address):
    assert parse_address(str(address)) == address


@given(addresses)
def test_an_address_is_one_printable_ascii_line(address):
    assert str(address).isprintable()
    assert str(address).isascii()


def test_an_address_reads_as_one_expects():
    address = ScreenAddress("14", op="SoftmaxV2_31", output=0, view="ops", where="cos<0.99")
    assert str(address) == "run/14/op/SoftmaxV2_31/output/0?view=ops&where=cos%3C0.99"


def test_a_slash_in_a_name_is_no_separator():
    text = str(ScreenAddress("a/b", op="net/conv/Relu"))
    assert text == "run/a%2Fb/op/net%2Fconv%2FRelu"
    assert parse_address(text).op == "net/conv/Relu"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "run/NAME"),
        ("14", "run/NAME"),
        ("job/14", "run/NAME"),
        ("run/14/op/", "/op/NAME"),
        ("run/14/tensor/x", "/op/NAME"),
        ("run/14/op/x/output/one", "/output/NUMBER"),
        ("run/14/op/x/output/²", "/output/NUMBER"),
        ("run/14?colour=red", "'colour'"),
    ],
)
def test_what_is_no_address_is_refused_with_the_reason(text, hint):
    with pytest.raises(InputError) as caught:
        parse_address(text)
    assert hint in caught.value.hint
