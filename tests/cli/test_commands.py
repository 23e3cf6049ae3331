"""Each command on the LeNet run: its JSON, its text, its exit code."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest

from divergraph.cli.command_table import OTHER_TOOLS

PAGES = Path(__file__).parents[2] / "docs" / "coming-from"
METRICS = {
    "cosine_similarity",
    "max_absolute_error",
    "accumulated_relative_error",
    "relative_euclidean_distance",
    "kullback_leibler_divergence",
    "standard_deviation",
    "mean_absolute_error",
    "root_mean_square_error",
    "max_relative_error",
    "mean_relative_error",
}
ORIGIN = "LeNet/conv2/Conv2DRelu"


def test_compare_prints_the_verdict_and_exits_1(divergraph, compare_lenet, tmp_path):
    ended = divergraph(*compare_lenet(), "--store", tmp_path / "store", "--json")
    assert ended.code == 1
    report = ended.json
    assert report["run"] == "run-1"
    assert (report["verdict"], report["method"]) == ("diverged", "thresholds")
    counts = report["counts"]
    assert counts["ops"] == 164
    assert counts["tensors"] == counts["compared"] + counts["not_compared"]
    first = report["origins"][0]
    assert (first["rank"], first["op"], first["type"], first["output"]) == (1, ORIGIN, "Conv2D", 0)
    assert {"op": "LeNet/conv2/Relu", "output": 0} in first["golden"]
    assert set(first["metrics"]) == METRICS
    assert first["metrics"]["standard_deviation"] == "(0.183;0.268),(0.204;0.285)"
    assert (first["level"], first["suspicion"], first["cause"]) == ("fail", None, None)
    assert set(report["not_compared"][0]) >= {"op", "output", "reason", "detail"}
    assert "kept as run-1" in ended.err


@pytest.mark.slow
def test_a_second_run_gets_the_next_name_and_a_taken_name_needs_replace(
    divergraph, compare_lenet, tmp_path
):
    store = tmp_path / "store"
    assert divergraph(*compare_lenet(), "--store", store).code == 1
    assert divergraph(*compare_lenet(), "--store", store, "--json").json["run"] == "run-2"
    refused = divergraph(*compare_lenet(), "--store", store, "--name", "run-1")
    assert refused.code == 2
    assert "--replace" in refused.err
    again = divergraph(
        *compare_lenet("npu_clean"), "--store", store, "--run", "run-1", "--replace", "--json"
    )
    assert again.json["run"] == "run-1"
    assert [
        item["run"] for item in divergraph("runs", "--store", store, "--json").json["runs"]
    ] == [
        "run-2",
        "run-1",
    ]


def test_the_text_names_the_origin_the_counts_and_the_reasons(divergraph, compare_lenet, tmp_path):
    ended = divergraph(*compare_lenet(), "--store", tmp_path / "store")
    assert "diverged" in ended.out
    assert f"1 # {ORIGIN}" in ended.out
    assert "runs no task on the device" in ended.out


def test_wide_limits_end_clean_or_as_noise_with_exit_code_0(divergraph, compare_lenet, tmp_path):
    limits = tmp_path / "limits.toml"
    names = sorted(METRICS - {"standard_deviation"})
    limits.write_text("".join(f"{name} = false\n" for name in names))
    ended = divergraph(
        *compare_lenet("npu_clean"), "--store", tmp_path / "s", "--thresholds", limits, "--json"
    )
    assert (ended.code, ended.json["verdict"]) == (0, "within_rounding")
    assert ended.json["origins"] == []


def test_runs_lists_runs_and_graphs(divergraph, lenet_store, lenet):
    divergraph("import", lenet / "model.ckpt.meta", "--name", "lenet", "--store", lenet_store)
    listed = divergraph("runs", "--store", lenet_store, "--json").json
    assert [run["run"] for run in listed["runs"]] == ["fault"]
    assert [(graph["graph"], graph["ops"]) for graph in listed["graphs"]] == [("lenet", 381)]
    text = divergraph("runs", "--store", lenet_store).out
    assert "fault" in text
    assert "lenet" in text


def test_ops_are_filtered_in_one_language(divergraph, lenet_store):
    everything = divergraph("ops", "fault", "--store", lenet_store, "--json").json["ops"]
    assert len(everything) == 164
    assert [op["topo"] for op in everything] == list(range(164))
    origin = divergraph("ops", "fault", "--where", "state:origin", "--store", lenet_store, "--json")
    assert [op["op"] for op in origin.json["ops"]] == [ORIGIN]
    fused = divergraph(
        "ops", "fault", "--where", "fused>=2 from:Conv2DRelu|*/Conv2DRelu", "--store", lenet_store
    )
    assert fused.code == 0
    assert "LeNet/fc3/MatMul" in fused.out


def test_a_wrong_filter_points_at_the_place(divergraph, lenet_store):
    ended = divergraph("ops", "fault", "--where", "cos<0.99 tpye:MatMul", "--store", lenet_store)
    assert ended.code == 2
    assert "filter column 10" in ended.err
    assert "type" in ended.err


def test_origins_trace_lineage_and_between(divergraph, lenet_store):
    origins = divergraph("origins", "fault", "--store", lenet_store, "--json").json
    assert origins["verdict"] == "diverged"
    assert origins["origins"][0]["op"] == ORIGIN
    trace = divergraph("trace", "fault", ORIGIN, "--store", lenet_store, "--json").json
    assert trace["steps"][0]["op"] == ORIGIN
    assert "LeNet/pool2/MaxPool" in [step["op"] for step in trace["steps"]]
    assert trace["over"] > 40
    lineage = divergraph("lineage", "fault", ORIGIN, "--store", lenet_store, "--json").json
    assert [link["original"] for link in lineage["links"]] == [
        "LeNet/conv2/Conv2D",
        "LeNet/conv2/BiasAdd",
        "LeNet/conv2/Relu",
    ]
    back = divergraph("lineage", "fault", "LeNet/conv2/BiasAdd", "--store", lenet_store, "--json")
    assert [link["device"] for link in back.json["links"]] == [ORIGIN]
    between = divergraph(
        "between", "fault", ORIGIN, "LeNet/fc3/MatMul", "--store", lenet_store, "--json"
    ).json
    assert between["ops"][0]["op"] == ORIGIN
    assert between["ops"][-1]["op"] == "LeNet/fc3/MatMul"
    words = ("LeNet/conv2/Conv2D", "LeNet/conv2/Relu", "--store", lenet_store, "--json")
    originals = divergraph("between", "fault", *words).json["ops"]
    assert [row["name"].rpartition("/")[2] for row in originals] == ["Conv2D", "BiasAdd", "Relu"]


def test_between_unconnected_ops_is_empty_and_says_so(divergraph, lenet_store):
    ended = divergraph("between", "fault", "LeNet/fc3/MatMul", ORIGIN, "--store", lenet_store)
    assert ended.code == 0
    assert "no path leads" in ended.err


@pytest.mark.slow
def test_a_named_query_is_asked_by_its_name(divergraph, lenet_store):
    at = ("--run", "fault", "--store", lenet_store)
    found = divergraph("query", "first_diverging", *at, "--json").json
    assert [row[found["columns"].index("op")] for row in found["rows"]] == [ORIGIN]
    worst = divergraph("query", "worst_tensors", "-p", "limit=5", *at, "--json").json
    assert {row[worst["columns"].index("level")] for row in worst["rows"]} == {"fail"}
    worst = divergraph("query", "worst_tensors", "-p", "limit=5", *at, "--limit", 3)
    assert len(worst.out.splitlines()) == 1 + 3
    assert "--limit" in worst.err
    fused = divergraph("query", "fused_ops", *at).out
    assert '["LeNet/conv1/Conv2D", "LeNet/conv1/BiasAdd", "LeNet/conv1/Relu"]' in fused
    missing = divergraph("query", "ancestors", *at)
    assert (missing.code, "op" in missing.err) == (2, True)
    unknown = divergraph("query", "ancestor", *at)
    assert (unknown.code, "ancestors" in unknown.err) == (2, True)
    assert "fault" in divergraph("query", "runs", "--store", lenet_store).out
    assert divergraph("query", "graph_ops", "--store", lenet_store).code == 2


@pytest.mark.slow
def test_query_answers_cypher_and_refuses_to_write(divergraph, lenet_store):
    ended = divergraph(
        "query",
        "MATCH (d:Op)-[:FUSES]->(o:Op) WHERE d.name = $op RETURN o.name AS name ORDER BY name",
        "-p",
        f"op={ORIGIN}",
        "--run",
        "fault",
        "--store",
        lenet_store,
        "--json",
    )
    assert ended.json["rows"] == [
        ["LeNet/conv2/BiasAdd"],
        ["LeNet/conv2/Conv2D"],
        ["LeNet/conv2/Relu"],
    ]
    refused = divergraph("query", "MATCH (o:Op) DETACH DELETE o", "--store", lenet_store)
    assert refused.code == 2
    wrong = divergraph("query", "MATCH (o:Op RETURN o", "--store", lenet_store)
    assert wrong.code == 2
    listed = divergraph("query", "--list", "--json").json["queries"]
    assert "first_diverging" in [query["name"] for query in listed]


@pytest.mark.parametrize("ending", ["json", "csv", "graphml"])
def test_export_writes_each_format(divergraph, lenet_store, tmp_path, ending):
    path = tmp_path / f"run.{ending}"
    assert divergraph("export", "fault", "-o", path, "--store", lenet_store).code == 0
    assert ORIGIN in path.read_text()
    if ending == "graphml":
        graph = nx.read_graphml(path)
        assert graph.nodes[ORIGIN]["state"] == "origin"
        assert graph.has_edge("LeNet/conv2/Conv2DRelu", "LeNet/pool2/MaxPool")


def test_export_of_an_unknown_format_names_the_known(divergraph, lenet_store, tmp_path):
    ended = divergraph("export", "fault", "-o", tmp_path / "x.docx", "--store", lenet_store)
    assert ended.code == 2
    assert ".graphml" in ended.err


def test_an_unknown_name_suggests_a_near_one(divergraph, lenet_store):
    assert divergraph("origins", "fualt", "--store", lenet_store).code == 2
    ended = divergraph("trace", "fault", "LeNet/conv2/Conv2DRele", "--store", lenet_store)
    assert ended.code == 2
    assert ORIGIN in ended.err


def test_an_unknown_command_suggests_a_near_one(divergraph):
    ended = divergraph("orgins")
    assert ended.code == 2
    assert "No such command 'orgins'. Did you mean origins" in ended.err
    assert "Did you mean precision-tool vc?" in divergraph("vc").err
    assert "docs/coming-from/polygraphy.md says" in divergraph("surgeon", "extract").err
    assert "Did you mean" not in divergraph("xyzzy").err


def test_pages_for_people_of_other_tools_exist():
    for page in OTHER_TOOLS.values():
        assert (PAGES / f"{page}.md").is_file()


def test_import_counts_what_it_read(divergraph, lenet, tmp_path):
    store = tmp_path / "store"
    report = divergraph("import", lenet / "npu_fault" / "graph", "--store", store, "--json").json
    assert (report["kind"], report["format"], report["ops"]) == ("device", "ge_proto", 164)
    assert report["fused_ops"] > 0
    assert divergraph("ops", report["graph"], "--store", store).code == 0


def test_importing_the_same_graph_twice_keeps_it_once(divergraph, lenet, tmp_path):
    store = tmp_path / "store"
    for _ in range(2):
        assert divergraph("import", lenet / "model.ckpt.meta", "--store", store).code == 0
    assert len(divergraph("runs", "--store", store, "--json").json["graphs"]) == 1


def test_delete_removes_a_run(divergraph, compare_lenet, tmp_path):
    store = tmp_path / "store"
    divergraph(*compare_lenet(), "--store", store, "--run", "gone")
    assert divergraph("delete", "gone", "--store", store).code == 0
    assert divergraph("origins", "gone", "--store", store).code == 2


def test_the_store_comes_from_the_environment(divergraph, compare_lenet, tmp_path, monkeypatch):
    monkeypatch.setenv("DIVERGRAPH_STORE", str(tmp_path / "mine"))
    divergraph(*compare_lenet(), "--run", "here")
    assert (tmp_path / "mine").is_dir()


def test_doctor_looks_at_everything(divergraph, tmp_path):
    report = divergraph("doctor", "--store", tmp_path / "store", "--json")
    assert report.code == 0
    assert report.json["fine"] is True
    names = {check["check"] for check in report.json["checks"]}
    assert names >= {"python", "divergraph", "tui", "numpy", "store", "tensorflow"}
    assert not (tmp_path / "store").exists(), "looking must not create a store"


def test_no_command_shows_the_commands(divergraph):
    assert "compare" in divergraph("--help").out
    assert divergraph("compare", "--help").code == 0
