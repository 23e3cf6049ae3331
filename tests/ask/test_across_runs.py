"""Two runs held against each other, and what is guilty in several: real runs again."""

from __future__ import annotations

import json
import math

import numpy as np
import onnx
import pytest
from float32_device import KNOWN
from onnx import TensorProto, helper, numpy_helper

from divergraph.ask.memory.baselines import set_baseline
from divergraph.ask.questions.compare_runs import ChangeKind, ChangesQuestion
from divergraph.ask.questions.gate import GateQuestion
from divergraph.ask.questions.graph import GraphQuestion
from divergraph.ask.questions.model import ModelQuestion
from divergraph.ask.questions.recurring import RecurringQuestion
from divergraph.ask.questions.regressions import RegressionsQuestion
from divergraph.cli.main import run as command
from divergraph.comparison import CompareRequest
from divergraph.comparison.keep_run import compare_into
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.present.pictures.state_map import model_map
from graphstore.errors import InputError, UnknownNameError
from graphstore.model import Guilt, Method, OpState, Role, Side, Standing
from graphstore.open_store import open_store

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def store(network_store, network_run):
    network_run("fine")
    network_run("left", fault="w_left")
    network_run("stem", fault="w_stem")
    network_run("again", fault="w_left", prefix="compiled/")
    network_run("holes", fault="w_left", missing=["left", "right", "join", "scale"])
    return network_store


def kinds(changes):
    return [(change.kind, change.op) for change in changes.changes]


def test_a_new_fault_is_newly_guilty_and_nothing_after_it_is_blamed(store):
    changes = ChangesQuestion("fine", "left").ask(store)
    assert kinds(changes) == [(ChangeKind.NEWLY_GUILTY, "left")]
    (change,) = changes.changes
    assert change.newly_guilty
    assert change.new.split.role is Role.INTRODUCES
    assert change.old.error < 1e-6 < change.new.error
    assert change.times > 1e5 or math.isinf(change.times)
    assert changes.method is Method.ROOT_CAUSE
    assert changes.matched == 9


def test_the_other_way_round_it_is_fixed(store):
    assert kinds(ChangesQuestion("left", "fine").ask(store)) == [(ChangeKind.FIXED, "left")]


def test_changes_do_not_depend_on_what_happens_upstream(store):
    """From a fault in left to one in stem: all errors after stem are others, two ops changed."""
    changes = ChangesQuestion("left", "stem").ask(store)
    assert kinds(changes) == [(ChangeKind.NEWLY_GUILTY, "stem"), (ChangeKind.FIXED, "left")]


def test_ops_with_other_names_are_found_by_their_originals(store):
    changes = ChangesQuestion("left", "again").ask(store)
    assert kinds(changes) == [(ChangeKind.STILL_GUILTY, "compiled/left")]
    assert changes.changes[0].old_op == "left"
    assert not changes.changes[0].regrouped


def test_a_group_that_holds_the_guilty_op_is_no_news(store):
    """With fewer dumps the same fault shows at another output."""
    changes = ChangesQuestion("left", "holes").ask(store)
    assert kinds(changes) == [(ChangeKind.STILL_GUILTY, "shift")]
    assert changes.changes[0].old_op == "left"
    assert changes.changes[0].regrouped
    assert changes.only_old == 4
    back = ChangesQuestion("holes", "left").ask(store)
    assert kinds(back) == [(ChangeKind.STILL_GUILTY, "left")]


@pytest.mark.parametrize(
    ("run", "against", "device", "golden"),
    [
        ("left", "fine", {"left": "newly guilty"}, {"left": "newly guilty"}),
        ("again", "left", {"compiled/left": "still guilty"}, {"left": "still guilty"}),
        ("stem", "left", {"stem": "newly guilty", "left": "fixed"}, None),
    ],
)
def test_the_graph_shows_changes_on_ops_and_their_originals(store, run, against, device, golden):
    for side, changed in ((Side.DEVICE, device), (Side.GOLDEN, golden or device)):
        nodes = GraphQuestion(run, side=side, against=against).ask(store).nodes
        assert {node.name: kind for node in nodes for kind in node.changes} == changed
    assert not any(node.changes for node in GraphQuestion(run).ask(store).nodes)


def test_a_run_against_itself(store):
    changes = ChangesQuestion("left", "left").ask(store)
    assert [change.kind for change in changes.changes] == [ChangeKind.STILL_GUILTY]
    assert changes.changes[0].times is None


def test_runs_without_anything_in_common(store, lenet_runs):
    with pytest.raises(UnknownNameError):
        ChangesQuestion("left", "nowhere").ask(store)
    store.save_run(lenet_runs["npu_clean"])
    with pytest.raises(InputError, match="no original tensor in common"):
        ChangesQuestion("left", "npu_clean").ask(store)
    store.delete("npu_clean")


def test_guilty_in_several_runs(store):
    answer = RecurringQuestion().ask(store)
    assert (answer.runs, answer.diverged) == (5, 4)
    by_original = {one.originals: one for one in answer.same_original}
    assert by_original[("left",)].runs == ("left", "again")
    assert set(by_original[("left",)].ops) == {"left", "compiled/left"}
    matmul = next(one for one in answer.same_pattern if one.pattern == ("MatMul",))
    assert matmul.runs == ("left", "stem", "again")


def test_an_op_of_another_model_is_not_the_same_op(store, tmp_path):
    random = np.random.default_rng(3)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 16]) for name in "xy"]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["left"], name="left"),
        helper.make_node("Tanh", ["left"], ["y"], name="y"),
    ]
    weights = random.standard_normal((16, 16)).astype(np.float32)
    for side, times in (("golden", 1), ("device", 1.5)):
        constant = numpy_helper.from_array(np.float32(times) * weights, "w")
        graph = helper.make_graph(nodes, "network", ends[:1], ends[1:], [constant])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 9
        onnx.save(model, tmp_path / f"{side}.onnx")
        capture(CaptureRequest(tmp_path / f"{side}.onnx", tmp_path / side, seed=5))
    golden, device = tmp_path / "golden", tmp_path / "device"
    request = CompareRequest(
        golden.with_suffix(".onnx"),
        golden,
        device.with_suffix(".onnx"),
        device,
        root_cause=KNOWN,
    )
    compare_into(store, request, name="small")
    answer = RecurringQuestion().ask(store)
    store.delete("small")
    (left,) = (one for one in answer.same_original if one.originals == ("left",))
    assert left.runs == ("left", "again")
    matmul = next(one for one in answer.same_pattern if one.pattern == ("MatMul",))
    assert "small" in matmul.runs


@pytest.fixture
def ask(store, capsys):
    def call(*arguments):
        code = command([*arguments, "--store", store.url, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return call


def test_runs_of_a_model_stand_beside_each_other(store):
    set_baseline(store, "fine", "someone")
    answer = ModelQuestion("again", last=4).ask(store)
    while any(run.standing is Standing.PENDING for run in answer.runs):  # a busy machine
        answer = ModelQuestion("again", last=4).ask(store)
    assert (answer.model, answer.baseline, answer.older) == ("network", "fine", 1)
    assert [(run.run, dict(run.changes)) for run in answer.runs] == [
        ("left", {}),  # the run before it is not listed
        ("stem", {"newly guilty": 1, "fixed": 1}),
        ("again", {"newly guilty": 1, "fixed": 1}),
        ("holes", {"still guilty": 1}),
    ]
    assert {run.standing for run in answer.runs} == {Standing.WORSE}
    states = {(op.original, op.run): op.state for op in answer.ops}
    assert states["stem:0", "left"] is OpState.CLEAN
    assert states["stem:0", "stem"] is states["left:0", "again"] is OpState.ORIGIN
    assert ("left:0", "holes") not in states, "that run dumped no such output"
    assert answer.originals == ("stem:0", "left:0", "shift:0"), "in execution order"
    for run in answer.runs:
        gate = GateQuestion(run.run).ask(store)
        assert (run.passed, set(run.worse)) == (gate.passed, {one.op for one in gate.worse})
    picture = model_map(answer)
    assert (picture.rows[0], len(picture.cells)) == ("gate", len(answer.ops) + len(answer.runs))
    assert {cell.state for cell in picture.cells if cell.row == 0} == {OpState.ORIGIN}
    assert picture.legend[0] is OpState.ORIGIN
    store.drop_baseline(store.run("fine").golden)


def test_a_gate_without_a_baseline_takes_that_of_the_model(store):
    with pytest.raises(InputError, match="has no baseline"):
        GateQuestion("left").ask(store)
    set_baseline(store, "fine", "someone")
    answer = GateQuestion("left").ask(store)
    assert (answer.baseline, answer.passed, len(answer.worse)) == ("fine", False, 1)
    store.drop_baseline(store.run("fine").golden)


def test_new_guilty_ops_say_which_models_they_hit(store):
    answer = RegressionsQuestion(hours=1).ask(store)
    assert (answer.runs, answer.pending) == (5, 0)
    assert [(op.run, op.before, op.op) for op in answer.ops] == [
        ("again", "stem", "compiled/left"),
        ("left", "fine", "left"),
        ("stem", "left", "stem"),
    ]
    assert [(name, models) for name, models, _ in answer.by_type()] == [("MatMul", ["network"])]
    assert RegressionsQuestion(hours=1e-9).ask(store).runs == 0


def test_the_command_fails_for_a_newly_guilty_op_only(ask):
    code, answer = ask("compare-runs", "fine", "left")
    assert (code, answer["newly_guilty"]) == (1, 1)
    assert answer["changes"][0]["new"]["split"]["guilt"] == Guilt.GUILTY.value
    assert ask("compare-runs", "left", "fine")[0] == 0
    assert ask("compare-runs", "left", "holes")[0] == 0


def test_the_commands_tell_the_same_in_words(store, capsys):
    assert command(["compare-runs", "fine", "left", "--store", store.url]) == 1
    text = capsys.readouterr().out
    assert "newly guilty: 1 op" in text
    assert "left is newly guilty: introduced error 0.3" in text
    assert command(["origins", "--all-runs", "--store", store.url]) == 0
    assert "left  (MatMul): 2 runs (left, again)" in capsys.readouterr().out
    assert command(["origins", "holes", "--store", store.url]) == 0
    text = capsys.readouterr().out
    assert "1 of these 5 ops: " in text
    assert "next best dump: join (leaves 3 or 2 ops)" in text
    assert "suspicion: suspect above 6, guilty above 10" in text
    assert command(["trace", "holes", "--store", store.url]) == 0
    assert "the path to y" in capsys.readouterr().out
    assert command(["roles", "left", "--store", store.url]) == 0
    assert "1 guilty, 0 suspect" in capsys.readouterr().out


def test_the_python_api_asks_the_same(store):
    with open_store(store.url) as again:
        question = ChangesQuestion("fine", "left")
        assert question.ask(again) == question.ask(store)
