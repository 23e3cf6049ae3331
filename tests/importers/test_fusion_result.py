"""The compiler's list of fusion passes, alone and beside a graph."""

from __future__ import annotations

import json

import pytest

from graphstore.errors import ImportFormatError
from importers.fusion_result import FusionPass, detect, passes_note, read_fusion_result
from importers.registry import read_graph

GRAPH = """graph {
  name: "g"
  op { name: "a" type: "Abs" }
  attr { key: "_session_graph_id" value { s: "%s" } }
}"""


def times(effect, match):
    return {"effect_times": str(effect), "match_times": str(match)}


FIRST = {
    "graph_fusion": {"BatchNormPass": times(2, 3), "UnusedPass": times(0, 5)},
    "session_and_graph_id": "0_1",
    "ub_fusion": {"ConvReluUbPass": times(70, 70)},
}
SECOND = {"graphId": 2, "graph_fusion": {"OtherPass": times(1, 1)}}
FORMS = {
    "one object": json.dumps(FIRST),
    "a list": json.dumps([FIRST, SECOND]),
    "one after the other": json.dumps(FIRST, indent=1) + "\n" + json.dumps(SECOND),
    "by id": json.dumps(
        {"session_and_graph_id_0_1": {k: FIRST[k] for k in FIRST if "_id" not in k}}
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_the_file(tmp_path, form):
    path = tmp_path / "fusion_result.json"
    path.write_text(FORMS[form], encoding="utf-8")
    first, *others = read_fusion_result(path)
    assert first.graph == "0_1"
    assert first.graph_passes == (FusionPass("BatchNormPass", 3, 2), FusionPass("UnusedPass", 5, 0))
    assert str(first.graph_passes[0]) == "BatchNormPass: 2 of 3"
    assert str(first.buffer_passes[0]) == "ConvReluUbPass: 70 of 70"
    assert [each.graph for each in others] == (
        ["2"] if form in ("a list", "one after the other") else []
    )


def test_it_is_told_by_its_content(tmp_path):
    text = FORMS["a list"].encode()
    assert detect(tmp_path / "x", text).confidence == 2
    assert "graph_fusion" in detect(tmp_path / "x", text).reason
    assert detect(tmp_path / "fusion_result.json", b"{}").confidence == 1
    assert detect(tmp_path / "x", b"{}").confidence == 0
    assert detect(tmp_path / "fusion_result.json", b"graph {").confidence == 0


@pytest.fixture
def graph_beside(tmp_path):
    def read(text, session_id="-0_1"):
        (tmp_path / "fusion_result.json").write_text(text, encoding="utf-8")
        path = tmp_path / "ge_proto_00001_Build.txt"
        path.write_text(GRAPH % session_id, encoding="utf-8")
        return read_graph(path)

    return read


def test_a_graph_gets_the_passes_of_the_file_beside_it(graph_beside):
    graph = graph_beside(FORMS["a list"], "0_1")
    assert graph.attrs["fusion_passes"] == ("BatchNormPass: 2 of 3",)
    assert graph.attrs["buffer_fusion_passes"] == ("ConvReluUbPass: 70 of 70",)
    assert passes_note(graph).endswith("BatchNormPass: 2 of 3, ConvReluUbPass: 70 of 70")
    assert graph.warnings == ()


def test_the_only_entry_needs_no_id(graph_beside):
    assert graph_beside(FORMS["one object"], "7_7").attrs["fusion_passes"]


def test_an_id_that_does_not_fit_is_told(graph_beside):
    graph = graph_beside(FORMS["a list"], "7_7")
    assert "fusion_passes" not in graph.attrs
    assert graph.warnings == ("fusion_result.json lists no graph with this one's id (it lists 2)",)
    assert passes_note(graph) == ""


def test_a_damaged_list_costs_no_graph(graph_beside):
    graph = graph_beside("{,")
    assert len(graph.ops) == 1
    assert "broken JSON" in graph.warnings[0]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "broken JSON"),
        ("[" * 100_000, "nested too deep"),
        ("{}", "lists no fusion passes"),
        ("[3]", "lists of such"),
        ("7", "are JSON objects"),
        ('{"graph_fusion": 3}', "holds no passes"),
        ('{"graph_fusion": {"A": 3}}', "has no match_times"),
        ('{"graph_fusion": {"A": {"match_times": "x"}}}', "match_times is 'x', no count"),
        ('{"graph_fusion": {"A": {"match_times": -1}}}', "no count"),
        ('{"graph_fusion": {"A": {"match_times": true}}}', "no count"),
        ('{"graph_fusion": {"A": {"match_times": 1e999}}}', "no count"),
    ],
)
def test_what_is_no_list_of_passes(tmp_path, text, what):
    path = tmp_path / "fusion_result.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ImportFormatError, match=what) as caught:
        read_fusion_result(path)
    assert caught.value.line == 1
