"""The answers all front ends show, on the LeNet run and on graphs made for the question."""

from __future__ import annotations

from math import nan

import networkx as nx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import divergraph
from divergraph.ask.details import lineage, op_detail
from divergraph.ask.facts import op_rows
from divergraph.ask.overview_answers import overview
from divergraph.ask.traces import ops_between, trace
from divergraph.comparison import CompareRequest
from divergraph.comparison.keep_run import compare_into
from divergraph.rootcause.options import MethodChoice
from graphstore.errors import UnknownNameError
from graphstore.filter import parse_filter
from graphstore.model import OpState, Side, Verdict
from graphstore.open_store import open_store
from importers.registry import read_graph

ORIGIN = "LeNet/conv2/Conv2DRelu"


@pytest.fixture(scope="module")
def store(lenet, tmp_path_factory):
    request = CompareRequest(
        lenet / "model.ckpt.meta",
        lenet / "golden",
        lenet / "npu_fault" / "graph",
        lenet / "npu_fault" / "dump",
        method=MethodChoice.THRESHOLDS,
    )
    with open_store(tmp_path_factory.mktemp("questions") / "store") as opened:
        compare_into(opened, request, name="fault")
        yield opened


def test_the_overview_sums_up_what_the_rows_say(store):
    view = overview(store, "fault")
    rows = op_rows(store, "fault")
    assert view.run.verdict is Verdict.DIVERGED
    assert [origin.op for origin in view.origins] == [ORIGIN]
    assert sum(view.state_counts.values()) == len(rows) == view.device_ops == 164
    assert view.state_counts[OpState.ORIGIN] == 1
    assert view.golden_ops == 381
    assert sum(group.count for group in view.reasons) == view.run.counts.not_compared


def test_inherited_ops_name_the_origin_and_the_origin_has_no_origin(store):
    rows = {row.id: row for row in op_rows(store, "fault")}
    assert rows[ORIGIN].origins == ()
    carried = [row for row in rows.values() if row.state is OpState.INHERITED]
    assert carried
    assert {row.origins for row in carried} == {(ORIGIN,)}


def test_gain_is_error_out_over_error_in(store):
    rows = {row.id: row for row in op_rows(store, "fault")}
    pool = rows["LeNet/pool2/MaxPool"]
    assert pool.metrics is not None
    assert rows[ORIGIN].metrics is not None
    assert pool.gain == pytest.approx(
        pool.metrics.relative_euclidean_distance / rows[ORIGIN].metrics.relative_euclidean_distance
    )


def test_the_detail_explains_the_state_with_the_limit(store):
    detail = op_detail(store, "fault", ORIGIN)
    assert "relative_euclidean_distance 0.131" in detail.explanation
    assert "> 0.05" in detail.explanation
    assert [link.original for link in detail.links][-1] == "LeNet/conv2/Relu"
    assert detail.outputs[0].consumers[0] == "LeNet/pool2/MaxPool"
    output = op_detail(store, "fault", "NetOutput")
    assert output.explanation.startswith("not compared: has no output")
    carried = op_detail(store, "fault", "LeNet/pool2/MaxPool")
    assert carried.explanation.endswith(f"inherited from {ORIGIN}")


def test_lineage_is_found_from_both_ends(store):
    assert lineage(store, "fault", ORIGIN) == lineage(store, "fault", ORIGIN)
    (back,) = lineage(store, "fault", "LeNet/conv2/BiasAdd")
    assert (back.device, back.original) == (ORIGIN, "LeNet/conv2/BiasAdd")
    with pytest.raises(UnknownNameError):
        lineage(store, "fault", "LeNet/nowhere")


def test_trace_and_between_agree_with_networkx(store):
    graph = divergraph.to_networkx(store, "fault")
    data = nx.DiGraph(
        (source, target) for source, target, kind in graph.edges(data="kind") if kind != "control"
    )
    found = trace(store, "fault", ORIGIN)
    reached = nx.descendants(data, ORIGIN)
    assert {step.row.id for step in found.steps} == reached | {ORIGIN}
    distance = nx.single_source_shortest_path_length(data, ORIGIN)
    assert {step.row.id: step.distance for step in found.steps} == distance
    assert set(found.outputs) == {op for op in reached if data.out_degree(op) == 0}
    between = {row.id for row in ops_between(store, "fault", ORIGIN, "LeNet/fc5/MatMul")}
    ends = nx.ancestors(data, "LeNet/fc5/MatMul") | {"LeNet/fc5/MatMul"}
    assert between == (reached | {ORIGIN}) & ends


def test_filters_work_on_rows_of_both_sides(store):
    golden = op_rows(store, "fault", Side.GOLDEN, parse_filter("type:Conv2D"))
    assert [row.name for row in golden] == ["LeNet/conv1/Conv2D", "LeNet/conv2/Conv2D"]
    assert golden[1].originals == (ORIGIN,)


def onnx_chain(path, count):
    """x -> Relu_0 -> Relu_1 -> ... as a model file, and a Shape of the first result."""
    nodes = [
        helper.make_node("Relu", [f"t{number}"], [f"t{number + 1}"], name=f"relu_{number}")
        for number in range(count)
    ]
    nodes.append(helper.make_node("Shape", ["t1"], ["s"], name="shape"))
    value = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("t0", f"t{count}")
    ]
    graph = helper.make_graph(nodes, "chain", value[:1], value[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def write_dumps(folder, tensors):
    folder.mkdir()
    for name, values in tensors.items():
        np.save(folder / f"{name}.0.1700000000000000.npy", np.asarray(values, dtype=np.float32))


def run_chain(tmp_path, device, golden=None):
    count = 6
    onnx_chain(tmp_path / "model.onnx", count)
    right = [1.0, 2.0, 3.0, 4.0]
    write_dumps(tmp_path / "g", golden or {f"relu_{number}": right for number in range(count)})
    write_dumps(tmp_path / "d", device)
    request = CompareRequest(
        tmp_path / "model.onnx",
        tmp_path / "g",
        tmp_path / "model.onnx",
        tmp_path / "d",
        method=MethodChoice.THRESHOLDS,
    )
    opened = open_store(tmp_path / "store")
    data, _ = compare_into(opened, request, name="chain")
    return opened, data


RIGHT, WRONG = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 9.0]


def test_the_error_is_seen_through_unmeasured_ops(tmp_path):
    device = {"relu_0": RIGHT, "relu_1": WRONG, "relu_4": WRONG, "relu_5": WRONG}
    opened, data = run_chain(tmp_path, device)
    assert [origin.op for origin in data.origins] == ["relu_1"]
    states = opened.states("chain")
    assert states["relu_2"] is OpState.NOT_COMPARED
    assert states["relu_4"] is OpState.INHERITED


def test_an_error_that_heals_and_returns_has_two_origins(tmp_path):
    device = {"relu_0": WRONG, "relu_1": RIGHT, "relu_3": WRONG, "relu_5": WRONG, "shape": [4]}
    right = {f"relu_{number}": RIGHT for number in range(6)}
    opened, data = run_chain(tmp_path, device, {**right, "shape": [4]})
    assert [origin.op for origin in data.origins] == ["relu_0", "relu_3"]
    assert trace(opened, "chain", "relu_0").healed == ("relu_1",)


def test_nan_behind_an_origin_is_broken_and_nan_at_its_birth_the_origin(tmp_path):
    device = {"relu_0": RIGHT, "relu_1": [1.0, nan, 3.0, 4.0], "relu_2": [nan] * 4}
    opened, data = run_chain(tmp_path, device)
    assert [origin.op for origin in data.origins] == ["relu_1"]
    states = opened.states("chain")
    assert (states["relu_1"], states["relu_2"]) == (OpState.ORIGIN, OpState.BROKEN)


def test_zero_size_and_scalar_tensors_go_through(tmp_path):
    nothing: list[float] = []
    both = {"relu_0": nothing, "relu_1": [5.0]}
    _, data = run_chain(tmp_path, both, dict(both))
    assert data.run.counts.compared == 2
    assert data.run.verdict is Verdict.CLEAN


def test_an_imported_graph_names_its_originals_itself(store, lenet):
    graph = read_graph(next((lenet / "npu_fault" / "graph").iterdir()))
    store.save_graph(graph, "device only")
    from_device = lineage(store, "device only", ORIGIN)
    assert [link.original for link in from_device] == [
        "LeNet/conv2/Conv2D",
        "LeNet/conv2/BiasAdd",
        "LeNet/conv2/Relu",
    ]
    assert lineage(store, "device only", "LeNet/conv2/BiasAdd") == (from_device[1],)
    with pytest.raises(UnknownNameError) as unknown:
        lineage(store, "device only", "conv2drelu")
    assert ORIGIN in unknown.value.near


def test_modules_tell_the_parts_of_a_model_apart(store):
    view = overview(store, "fault")
    names = [module.name for module in view.modules]
    assert names[0] == "LeNet/conv2", "where the error starts"
    assert "LeNet" not in names


def test_who_reads_a_hub(tmp_path):
    """By output, in order, as of an op that few read; also where it has several outputs."""
    count = 300
    made = (("one", ["one"]), ("two", ["first", "second"]))
    hubs = [helper.make_node("Split", ["x"], outputs, name=hub) for hub, outputs in made]
    sources = ["one", "first", "second"]
    readers = [
        helper.make_node("Add", [source, source], [f"{source}{number}"], name=f"{source}_{number}")
        for number in range(count)
        for source in sources
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    wanted = helper.make_tensor_value_info("one0", TensorProto.FLOAT, [4])
    graph = helper.make_graph([*hubs, *readers], "hubs", [given], [wanted])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "hubs.onnx")
    with open_store(tmp_path / "store") as opened:
        opened.save_graph(read_graph(tmp_path / "hubs.onnx"), "hubs")
        outputs = [output for hub, _ in made for output in op_detail(opened, "hubs", hub).outputs]
    for source, output in zip(sources, outputs, strict=True):
        assert output.consumers == tuple(f"{source}_{number}" for number in range(count))
