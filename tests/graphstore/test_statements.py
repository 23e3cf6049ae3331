"""Cypher stands in its files: named, commented, with places that must be filled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphstore.cypher import statements
from graphstore.cypher.statements import load_statements

FILES = sorted(Path(statements.__file__).parent.glob("*.cypher"))
GRAPHSTORE = Path(statements.__file__).parents[2]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_statement_has_a_name_of_its_own_and_says_what_it_does(path: Path) -> None:
    heads = re.findall(r"^// (\w+): .+\.$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert heads == list(load_statements(path.stem).texts)
    assert len(heads) == len(set(heads)) > 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_statement_is_used(path: Path) -> None:
    code = "".join(file.read_text(encoding="utf-8") for file in GRAPHSTORE.rglob("*.py"))
    unused = [name for name in load_statements(path.stem).texts if f'"{name}"' not in code]
    assert [name for name in unused if not name.startswith("shown_")] == []


def test_a_place_nobody_filled_is_an_error() -> None:
    with pytest.raises(KeyError, match="label"):
        load_statements("clearing.neo4j").filled("node")


def test_no_module_of_the_stores_holds_cypher() -> None:
    holding = [
        path.name
        for path in GRAPHSTORE.rglob("*.py")
        if re.search(r'"(?:MATCH|UNWIND|MERGE) ', path.read_text(encoding="utf-8"))
    ]
    assert holding == []
