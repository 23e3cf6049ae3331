"""Both stores give every named query the same columns and rows, on real graphs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import networkx as nx
import pytest

from graphstore.contract import GraphStore, QueryParameters, RunData
from graphstore.cypher.queries import list_queries
from graphstore.embedded import EmbeddedStore
from graphstore.model import EdgeKind, ModelGraph, Side
from graphstore.neo4j import Neo4jStore
from importers.registry import read_graph

pytestmark = pytest.mark.thorough


@pytest.fixture
def lenet_run(lenet_runs: dict[str, RunData]) -> RunData:
    return lenet_runs["npu_fault"]


def parameters(store: GraphStore, run: str, kinds: Mapping[str, str]) -> dict[str, object]:
    ids = store.arrays(run).ids
    some = {"op": ids[len(ids) // 3], "device op": ids[len(ids) // 2], "device ops": list(ids[5:9])}
    some["original op"] = store.arrays(run, Side.GOLDEN).ids[40]
    some |= {"text": "conv", "number": 7, "factor": 2.5}
    ends = {"start_op": ids[2], "end_op": ids[-3], "first": 0, "until": 50}
    return {name: ends.get(name, some.get(kind)) for name, kind in kinds.items()}


@pytest.mark.neo4j
@pytest.mark.xdist_group("neo4j")
def test_a_real_run_is_answered_alike(
    neo4j_store: Neo4jStore, tmp_path: Path, lenet_run: RunData
) -> None:
    name = lenet_run.run.name
    with EmbeddedStore(tmp_path / "store") as embedded:
        for store in (embedded, neo4j_store):
            store.save_run(lenet_run)
        for query in list_queries():
            params = parameters(embedded, name, query.parameters)
            for limit in (None, 3):
                here = embedded.named(query.name, name, params, limit=limit)
                there = neo4j_store.named(query.name, name, params, limit=limit)
                assert here == there, query.name


BY_HAND = (
    # whole nodes and edges, also in the order of their properties, which JSON shows
    "MATCH (a:Op {graph: $graph})-[f:FEEDS]->(b:Op) RETURN a, f ORDER BY a.topo, b.topo",
    "MATCH (x)-[r]->() RETURN DISTINCT labels(x)[0] AS x, type(r) AS r ORDER BY x, r",
    "MATCH (o:Op)-[:PRODUCES]->(t:Tensor) WHERE t.dims[0] = 10 AND t.dims[-1] > 1 "
    "RETURN o.name AS n ORDER BY n",
    "MATCH (a:Op)-[f:FEEDS {in: 1}]->(:Op) WHERE f.in = 1 RETURN count(*) AS n",
    "MATCH (o:Op {graph: $graph}) RETURN o.name AS n, head(o.original_names) AS first, "
    "[a IN o.attributes WHERE a CONTAINS '=' | split(a, '=')[0]] AS names ORDER BY o.topo",
    "MATCH (o:Op {graph: $graph}) WHERE NOT EXISTS { (o)-[:FEEDS]->() } "
    "RETURN o.name AS n, COUNT { (:Op)-[:FEEDS]->(o) } AS read ORDER BY n",
    "MATCH (m:Metric)-[:OF]->(o:Op) WHERE m.over AND m.io = 'output' "
    "RETURN o.topo AS topo, round(m.cosine_similarity * 100) AS percent, m.seq ORDER BY m.seq",
)
"""Cypher as one writes it who knows it from elsewhere."""


@pytest.mark.neo4j
@pytest.mark.xdist_group("neo4j")
def test_cypher_by_hand_is_answered_alike(
    neo4j_store: Neo4jStore, tmp_path: Path, lenet_run: RunData
) -> None:
    with EmbeddedStore(tmp_path / "store") as embedded:
        for store in (embedded, neo4j_store):
            store.save_run(lenet_run)
        for cypher in BY_HAND:
            asked = QueryParameters(limit=None), lenet_run.run.name
            answers = [store.query(cypher, *asked) for store in (embedded, neo4j_store)]
            assert answers[0].rows, cypher
            texts = [json.dumps([answer.columns, answer.rows]) for answer in answers]
            assert texts[0] == texts[1], cypher


def data_graph(graph: ModelGraph) -> nx.DiGraph:
    made = nx.DiGraph()
    made.add_nodes_from(op.id for op in graph.ops)
    ends = set(made)
    edges = (edge for edge in graph.edges() if edge.kind is not EdgeKind.CONTROL)
    made.add_edges_from((e.source, e.target) for e in edges if {e.source, e.target} <= ends)
    return made


def reach_is_that_of_networkx(tmp_path: Path, graph: ModelGraph) -> None:
    with EmbeddedStore(tmp_path / "store") as store:
        store.save_graph(graph, "real")
        made = data_graph(graph)
        ids = store.arrays("real").ids
        order = {op: number for number, op in enumerate(ids)}
        for op in ids[:: max(1, len(ids) // 12)]:
            for query, wanted in (("descendants", nx.descendants), ("ancestors", nx.ancestors)):
                found = [row[1] for row in store.named(query, "real", {"op": op}).rows]
                assert found == sorted(wanted(made, op), key=order.__getitem__)
        ends = {"start_op": ids[len(ids) // 4], "end_op": ids[-1]}
        between = nx.descendants(made, ends["start_op"]) & nx.ancestors(made, ends["end_op"])
        if nx.has_path(made, *ends.values()):
            between |= set(ends.values())
        found = [row[1] for row in store.named("ops_between", "real", ends).rows]
        assert found == sorted(between, key=order.__getitem__)


def test_a_training_step_is_followed_as_networkx_does(tmp_path: Path, lenet_run: RunData) -> None:
    reach_is_that_of_networkx(tmp_path / "device", lenet_run.device)
    reach_is_that_of_networkx(tmp_path / "golden", lenet_run.golden)


@pytest.mark.shared
@pytest.mark.parametrize(
    "name",
    [
        "ge_proto/ge_proto_00000062_Build.txt",
        "onnx/aasist_bs1_fp16.onnx",
        "tf/mtcnn.pb",
    ],
)
def test_real_graphs_are_followed_as_networkx_does(
    tmp_path: Path, shared_data: Path, name: str
) -> None:
    """mtcnn has the loops of TensorFlow 1."""
    reach_is_that_of_networkx(tmp_path, read_graph(shared_data / name))
