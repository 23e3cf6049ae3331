"""Sub-graphs of GE: what flows through bodies is connected across them."""

from __future__ import annotations

import numpy as np
import pytest

from graphstore.model import ModelGraph
from graphstore.traverse.algorithms import first_diverging
from graphstore.traverse.topological_order import graph_arrays
from importers.registry import read_graph

CHAIN = """
graph {
  name: "root"
  op { name: "x" type: "Data" }
  op { name: "first" type: "PartitionedCall" input: "x:0" subgraph_name: "a" }
  op { name: "second" type: "PartitionedCall" input: "first:0" subgraph_name: "b" }
  op { name: "end" type: "NetOutput" input: "second:0" }
}
graph {
  name: "a"
  op { name: "d" type: "Data" attr { key: "_parent_node_index" value { i: 0 } } }
  op { name: "abs" type: "Abs" input: "d:0" }
  op {
    name: "o" type: "NetOutput" input: "abs:0"
    input_desc { dtype: DT_FLOAT attr { key: "_parent_node_index" value { i: 0 } } }
  }
}
graph {
  name: "b"
  op { name: "d" type: "Data" attr { key: "_parent_node_index" value { i: 0 } } }
  op { name: "inner" type: "If" input: "d:0" input: "d:0" subgraph_name: "c" subgraph_name: "e" }
  op {
    name: "o" type: "NetOutput" input: "inner:0"
    input_desc { dtype: DT_FLOAT attr { key: "_parent_node_index" value { i: 0 } } }
  }
}
graph {
  name: "c"
  op { name: "d" type: "Data" attr { key: "_parent_node_index" value { i: 1 } } }
  op { name: "neg" type: "Neg" input: "d:0" }
  op {
    name: "o" type: "NetOutput" input: "neg:0"
    input_desc { dtype: DT_FLOAT attr { key: "_parent_node_index" value { i: 0 } } }
  }
}
graph {
  name: "e"
  op { name: "d" type: "Data" attr { key: "_parent_node_index" value { i: 1 } } }
  op { name: "exp" type: "Exp" input: "d:0" }
  op {
    name: "o" type: "NetOutput" input: "exp:0"
    input_desc { dtype: DT_FLOAT attr { key: "_parent_node_index" value { i: 0 } } }
  }
}
"""


def ancestors(graph: ModelGraph, op: str) -> set[str]:
    """Every op whose value can reach *op*."""
    sources: dict[str, set[str]] = {}
    for edge in graph.edges():
        sources.setdefault(edge.target, set()).add(edge.source)
    found: set[str] = set()
    waiting = [op]
    while waiting:
        for source in sources.get(waiting.pop(), set()) - found:
            found.add(source)
            waiting.append(source)
    return found


def test_a_value_goes_from_body_to_body_and_out_of_nested_ones(tmp_path):
    path = tmp_path / "ge_proto_00001_Build.txt"
    path.write_text(CHAIN, encoding="utf-8")
    graph = read_graph(path)
    assert {body.name: (body.owner, body.role) for body in graph.subgraphs} == {
        "a": ("first", "f"),
        "b": ("second", "f"),
        "c": ("b/inner", "then_branch"),
        "e": ("b/inner", "else_branch"),
    }
    above = ancestors(graph, "end")
    assert {"x", "a/d", "a/abs", "b/d", "c/d", "c/neg", "e/exp"} <= above
    assert "a/abs" in ancestors(graph, "c/neg")
    assert "c/neg" not in ancestors(graph, "e/exp")
    assert not graph.warnings


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "op", "from_other_bodies"),
    [
        (
            "ge_proto/ge_proto_00000001_Build.txt",
            "ge_default_20230713074125_sub_2_unknow/GatherV2",
            {
                "ge_default_20230713074125_sub_0_input/GatherV2/axis",
                "ge_default_20230713074125_sub_0_input/GatherV2/indices",
                "ge_default_20230713074125_sub_1_unknow/Variable",
            },
        ),
        (
            "om/dynamic_and_static_graph_without_unfold.om",
            "root_netoutput",
            {"rank", "sub_1/data_i", "sub_1/add", "sub_1/const_1", "sub_2/mul", "data_2"},
        ),
    ],
)
def test_values_cross_the_bodies_of_real_graphs(shared_data, file, op, from_other_bodies):
    assert from_other_bodies <= ancestors(read_graph(shared_data / file), op)


def test_an_error_made_in_one_body_is_inherited_in_the_next(tmp_path):
    path = tmp_path / "ge_proto_00001_Build.txt"
    path.write_text(CHAIN, encoding="utf-8")
    graph = read_graph(path)
    arrays = graph_arrays(graph)
    dumped = ["a/abs", "c/neg", "e/exp"]  # calls, Data and NetOutput run no task of their own
    measured, over = (np.zeros(len(arrays.ids), bool) for _ in range(2))
    measured[[arrays.number[op] for op in dumped]] = True
    over[:] = measured
    origins = [arrays.ids[number] for number in first_diverging(arrays, measured, over)]
    assert origins == ["a/abs"]
    over[arrays.number["a/abs"]] = False
    origins = [arrays.ids[number] for number in first_diverging(arrays, measured, over)]
    assert origins == ["c/neg", "e/exp"]
