"""A query over a whole embedded store sees what each entry has, under its name of now."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from graphstore.contract import GraphStore, QueryParameters, RunData
from graphstore.embedded import EmbeddedStore
from graphstore.model import GraphKind
from graphstore.schema.tables import NODES, RELS

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

Sample = Callable[..., RunData]
_OF_RUN = {"OF", "AGAINST", "COMPARED", "NEXT_MEASURED", "FUSES"}
_KEYS = {"id", "run", "graph", "op", "tensor", "golden", "device"}
"""Columns with keys and ids, which say only what belongs together."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GraphStore]:
    with EmbeddedStore(tmp_path / "store") as store:
        yield store


def rows(store: GraphStore, cypher: str, target: str | None = None, **values: object) -> list[str]:
    answer = store.query(cypher, QueryParameters(values), target)
    return sorted(map(repr, answer.rows))


def values_of(name: str, columns: tuple[str, ...], but: set[str]) -> str:
    return ", ".join(f"{name}.`{column}`" for column in columns if column not in but) or "1"


def graph_texts() -> Iterator[str]:
    """All that is stored of a graph; ids as their distance from those of the ops."""
    for node in NODES:
        columns = tuple(column.name for column in node.columns)
        if node.label == "Graph":
            yield f"MATCH (n:Graph {{id: $graph}}) RETURN {values_of('n', columns, _KEYS)}"
        if node.label in ("Op", "OpBlock"):
            shown = values_of("n", columns, _KEYS)
            yield (
                f"MATCH (o:Op {{graph: $graph, topo: 0}}), (n:{node.label} {{graph: $graph}}) "
                f"RETURN n.id - o.id, {shown}"
            )
        if node.label == "Tensor":
            shown = values_of("n", columns, _KEYS)
            yield (
                "MATCH (o:Op {graph: $graph}), (n:Tensor) WHERE n.op = o.id "
                f"RETURN n.id - n.op + o.topo, o.name, {shown}"
            )
    for rel in RELS:
        if rel.type not in _OF_RUN:
            shown = values_of("r", tuple(column.name for column in rel.columns), _KEYS)
            yield (
                f"MATCH (a:Op {{graph: $graph}})-[r:{rel.type}]->(b:Op {{graph: $graph}}) "
                f"RETURN a.name, b.name, {shown}"
            )


def run_texts() -> Iterator[str]:
    """All that is stored of a run."""
    columns = {node.label: tuple(column.name for column in node.columns) for node in NODES}
    metric = values_of("m", columns["Metric"], _KEYS)
    yield f"MATCH (r:Run {{id: $run}}) RETURN {values_of('r', columns['Run'], _KEYS)}"
    yield f"MATCH (:Run {{id: $run}})-[:COMPARED]->(m:Metric {{run: $run}}) RETURN {metric}"
    yield (
        "MATCH (m:Metric {run: $run})-[:OF]->(o:Op {graph: $device}) "
        "RETURN m.seq, o.name, m.op = o.id"
    )
    yield ("MATCH (m:Metric {run: $run})-[:AGAINST]->(o:Op {graph: $golden}) RETURN m.seq, o.name")
    yield (
        "MATCH (m:Metric {run: $run}), (t:Tensor) WHERE m.tensor = t.id "
        "RETURN m.seq, t.port, t.op = m.op"
    )
    for rel in RELS:
        if rel.type in ("FUSES", "NEXT_MEASURED"):
            shown = values_of("r", tuple(column.name for column in rel.columns), _KEYS)
            yield (
                f"MATCH (a:Op {{graph: $device}})-[r:{rel.type} {{run: $run}}]->(b:Op) "
                f"RETURN a.name, b.name, {shown}"
            )


def test_everything_of_every_entry_is_in_the_merged_database(
    store: GraphStore, sample_run: Sample
) -> None:
    """Two runs of one graph, one of them renamed, two graphs of one id, a renamed graph."""
    data = sample_run("first")
    twin = dataclasses.replace(data.device, kind=GraphKind.ORIGINAL, warnings=("another",))
    assert twin.id == data.device.id
    store.save_run(data)
    store.save_run(sample_run("second", "2026-01-02T00:00:00Z"))
    store.save_run(dataclasses.replace(sample_run("third"), golden=twin, links=()))
    store.save_graph(twin, "a twin")
    store.save_graph(data.golden, "known")
    store.rename("second", "anew")
    store.rename("known", "named anew")
    names = "MATCH (r:Run) RETURN r.id, r.name UNION ALL MATCH (r:Import) RETURN r.id, r.name"
    expected = ["a twin", "anew", "first", "named anew", "third"]
    assert rows(store, names) == [repr((name, name)) for name in expected]
    assert len(rows(store, "MATCH (g:Graph) RETURN g.id")) == 3, "equal graphs are there once"
    for name in ("anew", "first", "third"):
        (keys,) = store.query(
            "MATCH (r:Run {id: $name}) RETURN r.device, r.golden", QueryParameters({"name": name})
        ).rows
        known = {"run": name, "device": keys[0], "golden": keys[1]}
        for text in run_texts():
            used = {key: value for key, value in known.items() if f"${key}" in text}
            assert rows(store, text, None, **used) == rows(store, text, name), text
        for key, side in zip(keys, ("device", "golden"), strict=True):
            for text in graph_texts():
                alone = rows(store, text.replace("$graph", f"${side}"), name)
                assert rows(store, text, graph=key) == alone, text
    for name in ("a twin", "named anew"):
        asked = "MATCH (i:Import {name: $name}) RETURN i.graph, i.created"
        ((key, created),) = store.query(asked, QueryParameters({"name": name})).rows
        assert created == next(info.created for info in store.graphs() if info.name == name)
        for text in graph_texts():
            assert rows(store, text, graph=key) == rows(store, text, name), text


def test_runs_kept_together_are_merged_together(store: GraphStore, sample_run: Sample) -> None:
    """Of shared tables one run has another name now, one is gone."""
    runs = [sample_run(f"rank{number}") for number in range(4)]
    runs[2] = dataclasses.replace(runs[2], comparisons=runs[2].comparisons[::-1], findings=())
    other = dataclasses.replace(runs[0].device, source="another file")
    runs.append(dataclasses.replace(sample_run("rank4"), device=other))
    store.save_runs(runs)
    store.rename("rank0", "anew")
    store.delete("rank1")
    names = ["anew", "rank2", "rank3", "rank4"]
    assert rows(store, "MATCH (r:Run) RETURN r.name") == [repr((name,)) for name in names]
    for name in names[:3]:
        asked = "MATCH (r:Run {name: $name}) RETURN r.device, r.golden"
        ((device, golden),) = store.query(asked, QueryParameters({"name": name})).rows
        known = {"run": name, "device": device, "golden": golden}
        for text in run_texts():
            used = {key: value for key, value in known.items() if f"${key}" in text}
            assert rows(store, text, None, **used) == rows(store, text, name) != [], text


def test_a_graph_deleted_between_listing_and_look_is_left_out(
    store: EmbeddedStore, sample_run: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = sample_run("first").device
    store.save_graph(graph, "stays")
    store.save_graph(graph, "goes")
    listed = store._folder.entries

    def listed_before_it_went(kind: str) -> object:
        found = listed(kind)
        with EmbeddedStore(store._folder.root) as other:
            if any(each.name == "goes" for each in other.graphs()):
                other.delete("goes")
        return found

    monkeypatch.setattr(store._folder, "entries", listed_before_it_went)
    ops = len(graph.ops)
    assert rows(store, "MATCH (o:Op) RETURN count(o)") == [repr((ops,))]
