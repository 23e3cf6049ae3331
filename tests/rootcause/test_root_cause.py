"""Who introduced the error: in networks of which the fault is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from divergraph.comparison import compare
from divergraph.golden_capture import StandIn
from divergraph.rootcause.devices.precisions.bf16 import BF16
from divergraph.rootcause.options import MethodChoice, RootCauseOptions
from divergraph.text.words import not_compared_text, verdict_text
from graphstore.contract import RunData
from graphstore.errors import ExecutionError, InputError
from graphstore.model import ErrorSplit, Guilt, Method, OpState, Role, TensorIO, Verdict

pytestmark = pytest.mark.thorough


def splits(data: RunData) -> dict[str, ErrorSplit]:
    """The split of each op's output."""
    return {
        item.op: item.split
        for item in data.comparisons
        if item.io is TensorIO.OUTPUT and item.split is not None
    }


def louder(name: str, factor: float):
    """A fault: weights *name* times *factor*."""

    def change(weights):
        weights[name] = weights[name] * np.float32(factor)

    return change


def test_the_op_with_the_wrong_weights_is_the_origin(sides):
    data = compare(sides(louder("w1", 1.02)).request)
    assert [origin.op for origin in data.origins] == ["conv1"]
    assert data.run.verdict is Verdict.DIVERGED
    assert data.run.method is Method.ROOT_CAUSE
    assert data.origins[0].suspicion > 1000
    by_op = splits(data)
    assert by_op["conv1"].role is Role.INTRODUCES
    assert by_op["conv1"].guilt is Guilt.GUILTY
    assert by_op["conv0"].role is Role.CLEAN
    behind = ("relu1", "conv2", "relu2", "conv3", "relu3", "join", "pool", "matmul")
    assert {by_op[op].introduced for op in behind} == {0.0}
    assert all(by_op[op].propagated > 1e-4 for op in behind)
    assert not data.suspects


def test_a_gain_of_five_per_mille_in_half_precision_is_found(sides):
    made = sides(louder("w2", 1.005), StandIn.FP16)
    data = compare(made.request)
    assert str(data.run.analysis.arithmetic) == "fp16"
    assert [origin.op for origin in data.origins] == ["conv2"]


@pytest.mark.parametrize("device", [StandIn.FP16, StandIn.INT8, StandIn.OPTIMIZED])
def test_a_healthy_device_of_any_arithmetic_has_no_origin(sides, device):
    data = compare(sides(device=device).request)
    assert not data.origins
    assert not data.suspects
    assert data.run.verdict in (Verdict.CLEAN, Verdict.WITHIN_ROUNDING)
    assert max(each.suspicion for each in splits(data).values()) < 6
    assert OpState.ORIGIN not in data.states.values()


def test_what_lies_inside_a_judged_op_is_judged(sides):
    """A device that dumps few of its tensors may still have been judged as a whole."""
    made = sides()
    for name in ("conv0", "conv1", "conv2", "conv3", "relu2", "pool", "flat", "matmul"):
        made.dumped(name).unlink()
    run = compare(made.request).run
    assert (run.counts.compared, run.counts.not_compared, run.analysis.inside) == (5, 8, 8)
    assert "could be" not in verdict_text(run)
    assert not_compared_text(run) == "8 not compared (8 judged as parts of others)"


def test_the_whole_error_is_what_is_introduced_and_what_is_propagated(sides):
    made = sides(louder("w0", 1.1))
    made.overwrite("conv2", lambda value: value + 0.05)
    split = splits(compare(made.request))["conv2"]
    golden, device = made.value("golden", "conv2"), made.value("device_run", "conv2")
    introduced = np.full(golden.shape, 0.05)
    reference = device - introduced
    assert split.introduced == pytest.approx(
        np.linalg.norm(introduced) / np.linalg.norm(reference), rel=1e-4
    )
    assert split.propagated == pytest.approx(
        np.linalg.norm(reference - golden) / np.linalg.norm(golden), rel=1e-4
    )
    assert split.suspicion == pytest.approx(split.introduced / split.floor)


def test_errors_behind_one_another_are_all_origins_the_first_one_first(sides):
    made = sides(louder("w0", 1.05))
    made.overwrite("conv3", lambda value: value * 3)
    data = compare(made.request)
    # what is dumped of conv3 was not what relu3 was given
    assert data.origins[0].op == "conv0"
    assert "conv3" in {origin.op for origin in data.origins}


def test_where_dumps_are_missing_the_group_holds_the_culprit(sides):
    made = sides(louder("w2", 1.05))
    for op in ("conv1", "relu1", "conv2", "relu2"):
        made.dumped(op).unlink()
    data = compare(made.request)
    assert [origin.op for origin in data.origins] == ["conv3"]
    assert splits(data)["conv3"].group == ("conv1", "relu1", "conv2", "relu2", "conv3")


def test_nan_starts_where_the_inputs_still_were_numbers(sides):
    def one_nan(value):
        value[0, 2, 3, 3] = np.nan
        return value

    made = sides()
    made.overwrite("conv1", one_nan)
    made.overwrite("relu1", one_nan)
    data = compare(made.request)
    assert data.origins[0].op == "conv1"
    assert math.isinf(data.origins[0].suspicion)
    assert splits(data)["relu1"].guilt is Guilt.NONE


def test_no_op_is_to_blame_for_another_input(sides):
    made = sides()
    (path,) = made.folder.glob("device_run/x.*.npy")
    np.save(path, np.load(path) * 1.5)
    data = compare(made.request)
    (mismatch,) = data.run.analysis.mismatches
    assert mismatch.tensor == "x"
    assert mismatch.error == pytest.approx(0.5, rel=1e-3)
    assert any("no op is to blame" in warning for warning in data.run.warnings)


def test_another_input_the_device_did_not_dump_is_thought_of(sides):
    made = sides()
    made.overwrite("conv0", lambda value: value * 1.5)
    data = compare(made.request)
    assert data.origins[0].op == "conv0"
    assert not any("did not dump" in warning for warning in data.run.warnings)
    next(made.folder.glob("device_run/x.*.npy")).unlink()
    data = compare(made.request)
    assert data.origins[0].op == "conv0"
    assert any("'x' of the model" in warning for warning in data.run.warnings)


def test_thresholds_are_still_there_for_who_asks_for_them(sides):
    request = replace(sides(louder("w1", 1.5)).request, method=MethodChoice.THRESHOLDS)
    data = compare(request)
    assert data.run.method is Method.THRESHOLDS
    assert not splits(data)


def test_limits_and_precision_are_the_users(sides):
    request = sides(louder("w2", 1.003), StandIn.FP16).request
    high = compare(replace(request, root_cause=RootCauseOptions(500, 1000)))
    assert not high.origins
    assert (high.run.analysis.suspect, high.run.analysis.guilty) == (500, 1000)
    coarse = compare(replace(request, root_cause=RootCauseOptions(precision=BF16)))
    assert not coarse.origins
    assert str(coarse.run.analysis.arithmetic) == "bf16"
    with pytest.raises(InputError, match="suspect 10, guilty 6"):
        RootCauseOptions(10, 6)


def test_little_memory_gives_the_same_answer(sides):
    request = sides(louder("w1", 1.02)).request
    little = compare(replace(request, root_cause=RootCauseOptions(memory=1 << 14)))
    usual = compare(request)
    assert [each.op for each in little.origins] == ["conv1"]
    assert {op: each.introduced for op, each in splits(little).items()} == {
        op: each.introduced for op, each in splits(usual).items()
    }


def test_a_model_nothing_here_runs_is_judged_by_thresholds(shared_data):
    device = shared_data / "tf_lenet_train"
    pytest.importorskip("onnx")
    from divergraph.execute.installed import factory_for
    from importers.registry import read_graph

    graph = read_graph(device / "npu_clean/graph/ge_proto_00000343_graph_61_Build.txt")
    assert factory_for(graph) is None


def test_a_run_whose_original_cannot_be_run_says_so(sides, tmp_path):
    made = sides()
    request = replace(made.request, golden=tmp_path / "device.onnx")
    broken = tmp_path / "golden_custom.onnx"
    import onnx

    model = onnx.load_model(str(request.golden))
    model.graph.node[0].domain = "nobody"
    model.opset_import.append(onnx.helper.make_opsetid("nobody", 1))
    onnx.save_model(model, str(broken))
    request = replace(request, golden=broken)
    data = compare(request)
    assert data.run.method is Method.THRESHOLDS
    assert data.run.analysis.note
    assert any("by thresholds" in warning for warning in data.run.warnings)
    with pytest.raises(ExecutionError):
        compare(replace(request, method=MethodChoice.ROOT_CAUSE))
