"""The query files themselves: said what they answer, and safe on big graphs."""

from __future__ import annotations

import re

import pytest

from graphstore.cypher.limits import limited
from graphstore.cypher.queries import WINDOWED, Dialect, list_queries, load
from graphstore.cypher.read_only import check_read_only
from graphstore.errors import UnknownNameError

QUERIES = [(query.name, dialect) for query in list_queries() for dialect in Dialect]


def test_there_are_the_promised_ones() -> None:
    names = {query.name for query in list_queries()}
    assert names >= {
        "ancestors",
        "descendants",
        "first_diverging",
        "fused_ops",
        "lineage_of_device_op",
        "lineage_of_original_op",
        "not_compared_by_reason",
        "op_search",
        "ops_between",
        "ops_by_type",
        "propagation",
        "worst_tensors",
    }
    assert "graph_header" not in names, "what only the stores need is not offered"


@pytest.mark.parametrize(("name", "dialect"), QUERIES)
def test_a_query_reads_only_and_says_what_it_takes(name: str, dialect: Dialect) -> None:
    query = load(name, dialect)
    check_read_only(query.text, dialect)
    assert query.answers.endswith(".")
    used = set(re.findall(r"\$(\w+)", query.text)) - {
        "run",
        "graph",
        "device",
        "golden",
        *WINDOWED,
    }
    assert used == set(query.parameters)


@pytest.mark.parametrize(("name", "dialect"), QUERIES)
def test_long_ways_are_never_listed(name: str, dialect: Dialect) -> None:
    """No variable for a path or its relationships, and distinct ends."""
    text = load(name, dialect).text
    for pattern in re.findall(r"\[[^\]]*\*[^\]]*\]", text):
        assert re.match(r"\[:\w+\*", pattern), pattern
        assert "DISTINCT" in text
    assert not re.search(r"\b\w+ ?= ?\(", text), "a path variable"


def test_unknown_queries_and_what_is_near() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean .*ancestors"):
        load("ancestor", Dialect.EMBEDDED)


def test_every_limit_has_one_text() -> None:
    """Servers keep plans by text: another limit is no reason to plan anew."""
    query = load("fused_ops", Dialect.NEO4J)
    (few, of_few), (most, of_most) = limited(query, 20), limited(query, 2**63)
    assert few.text == most.text
    assert (of_few, of_most) == ({"most_rows": 21}, {"most_rows": 2**63 - 1})
