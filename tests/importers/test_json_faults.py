"""JSON that is none is told in our words, by every reader of it."""

from __future__ import annotations

import json
import re

import pytest

from graphstore.errors import ImportFormatError
from importers.nesting import json_fault
from importers.registry import read_graph

PYTHONS_WORDS = re.compile("Expecting|delimiter|Extra data|Invalid|Unterminated|Illegal")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": nul}', "a value is missing here"),
        ('{"a": [1, 2', "cut"),
        ("", "cut"),
        ('{"a": 1 "b": 2}', "a comma or a closing bracket"),
        ('{"a" 1}', "a colon"),
        ("{a: 1}", "a name in double quotes"),
        ('{"a": 1,}', ""),
        ('{"a": "\\q"}', "an escape"),
        ('{"a": "\\u12"}', "an escape"),
        ('{"a": "x', "no end quote"),
        ('{"a": "x\ny"}', "a line end"),
        ("{} {}", "ended before"),
        ("[" * 100_000, "nested too deep"),
        ("9" * 10_000, "too many digits"),
    ],
)
def test_what_is_wrong_is_said_in_words(text, said):
    with pytest.raises((ValueError, RecursionError)) as found:
        json.loads(text)
    fault = json_fault(found.value)
    assert said in fault
    assert not PYTHONS_WORDS.search(fault)


@pytest.mark.parametrize("start", ['{"Layers": [{"LayerType": 1, ', '{"task": "tensor", "data": {'])
def test_a_damaged_graph_says_where(tmp_path, start):
    path = tmp_path / "dump.json"
    path.write_text(f"{start}\n nul}}")
    with pytest.raises(ImportFormatError, match="double quotes is missing here") as found:
        read_graph(path)
    assert found.value.line == 2
