"""``ni -g``: one op of several graphs that have ops of the same name."""

from __future__ import annotations

GRAPHS = """graph { name: "root"
op { name: "call" type: "PartitionedCall" subgraph_name: "body" }
op { name: "add" type: "Add" }
}
graph { name: "body"
op { name: "add" type: "Mul" }
}
"""


def test_an_op_by_its_graph(divergraph, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ge_proto_00001_Build.txt").write_text(GRAPHS)
    assert divergraph("import", "ge_proto_00001_Build.txt", "--name", "g").code == 0
    ni = ("precision-tool", "--run", "g", "ni", "add", "-g")
    assert "(Mul)" in divergraph(*ni, "body").out
    assert "(Add)" in divergraph(*ni, "root").out
    unknown = divergraph(*ni, "other")
    assert (unknown.code, "its graphs: root, body" in unknown.err) == (2, True)


def test_the_folders_own_graph_goes_before_runs_of_others(divergraph, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "result_1.csv").write_text(
        "Index,OpType,NPUDump,GroundTruth,CosineSimilarity\n0,Add,other,other,0.5\n"
    )
    assert "other" in divergraph("open", "result_1.csv").out
    graph = tmp_path / "precision_data" / "npu" / "debug_0" / "graph"
    graph.mkdir(parents=True)
    (graph / "ge_proto_00001_Build.txt").write_text(GRAPHS)
    listed = divergraph("precision-tool", "ls", "-n", "call")
    assert "[PartitionedCall] call" in listed.out.splitlines()
