"""The advice on a run: what it names, what it does not fall for, and when it is quiet."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from divergraph.ask.advisor.advisor import Advice, advise
from divergraph.metrics.measure import measure
from divergraph.present.advice_text import summary, write_summary
from divergraph.thresholds.starts import chose_otherwise
from graphstore.errors import InputError
from graphstore.model import (
    Comparison,
    Counts,
    DType,
    Finding,
    FindingKind,
    InputMismatch,
    Level,
    Method,
    Origin,
    RunAnalysis,
    TensorIO,
)

NET = (
    ("x", "Data", ()),
    ("conv", "Conv2D", ("x",)),
    ("mul", "Mul", ("conv",)),
    ("relu", "Relu", ("mul",)),
    ("side", "Exp", ("conv",)),
    ("out", "Softmax", ("relu", "side")),
)
GOLDEN = np.random.default_rng(3).normal(size=4000).astype(np.float32)
GOOD = GOLDEN.astype(np.float16)
OFF = (GOLDEN * 1.2).astype(np.float16)


@pytest.fixture
def advice(device_graph, run_of):
    """The advice on the net with these device values; golden's where none are given."""

    def make(ops=NET, **device: object) -> Advice:
        pairs = {name: (GOOD, GOLDEN) for name, _, _ in ops}
        for name, values in device.items():
            pairs[name] = values if isinstance(values, tuple) else (values, GOLDEN)
        return advise(run_of(device_graph(*ops), pairs))

    return make


def named(found: Advice) -> list[tuple[str, str]]:
    return [(finding.label, finding.op) for finding in found.findings]


def put(value: float, golden: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    device, wanted = GOOD.copy(), GOLDEN.copy()
    device[5] = value
    if golden is not None:
        wanted[5] = golden
    return device, wanted


def advised(device_graph, run_of, *, attrs=None, dtype=np.float16, label="") -> str:
    """What is advised about a ``mul`` 20 % off, with these attributes, type and cause."""
    graph = device_graph(*NET)
    ops = [replace(op, attrs=attrs) if attrs and op.id == "mul" else op for op in graph.ops]
    pairs = {name: (GOLDEN.astype(dtype), GOLDEN) for name, _, _ in NET}
    pairs |= dict.fromkeys(("mul", "relu", "out"), ((GOLDEN * 1.2).astype(dtype), GOLDEN))
    data = run_of(replace(graph, ops=tuple(ops)), pairs)
    if label:
        data = replace(data, findings=(Finding(FindingKind.CAUSE, label, "why", "mul"),))
    return advise(data).first.sentence


def test_higher_precision_is_advised_where_there_is_one_and_it_would_help(device_graph, run_of):
    assert "keep it in float32" in advised(device_graph, run_of)
    assert "float32" not in advised(device_graph, run_of, dtype=np.float32)
    assert "float32" not in advised(device_graph, run_of, label="lost_bias")
    assert "keep it in float32" in advised(device_graph, run_of, label="rounding")


def test_the_fusion_pass_and_its_switch_are_named(device_graph, run_of):
    attrs = {"pass_name": ("ConvConcatFusionPass", "TbeCommonRules0FusionPass")}
    said = advised(device_graph, run_of, attrs=attrs)
    assert "switch the fusion pass ConvConcatFusionPass, TbeCommonRules0FusionPass off" in said
    switch = said[said.index('{"Switch"') : said.rindex("}") + 1]
    assert json.loads(switch) == {
        "Switch": {
            "GraphFusion": {"ConvConcatFusionPass": "off"},
            "UBFusion": {"TbeCommonRules0FusionPass": "off"},
        }
    }


def test_what_is_behind_the_first_problem_is_said_to_be(advice):
    found = advice(conv=put(65504.0), out=put(65504.0)).findings
    behind = {each.op: each.evidence.get("behind") for each in found}
    assert len(found) > 1
    assert behind[found[0].op] is None
    assert all(each == found[0].op for op, each in behind.items() if op != found[0].op)


def test_a_doubt_about_the_comparison_comes_first(device_graph, run_of):
    data = run_of(device_graph(*NET), {name: (GOOD, GOLDEN) for name, _, _ in NET})
    data = replace(data, run=replace(data.run, analysis=RunAnalysis(doubt="the sides")))
    found = advise(data)
    assert (found.first.label, found.first.sentence, found.quiet) == (
        "doubtful",
        "the sides",
        False,
    )


def test_a_run_without_faults_is_consistent(advice):
    found = advice()
    assert (named(found), found.quiet) == ([("consistent", "")], True)
    text = summary(found.first).splitlines()
    assert text[:2] == ["Detection Type: Global Consistency", "Operator Index: NA"]
    assert text[2].startswith("Expert Advice: consistent: ")


def test_an_error_that_reaches_the_results_names_the_op_it_starts_in(advice):
    found = advice(mul=OFF, relu=OFF, out=OFF)
    assert (named(found), found.quiet) == ([("problem_node", "mul")], False)
    evidence = found.first.evidence
    assert (evidence["results_over"], evidence["results"]) == (1, 1)
    assert (evidence["index"], evidence["before"]) == (2, ["conv"])
    assert str(evidence["limit"]).startswith("default: relative_euclidean_distance")
    text = summary(found.first)
    assert "Operator Index: 2\n" in text
    assert "Expert Advice: problem node: mul (Mul)" in text


def test_an_error_that_dies_out_is_a_single_point(advice):
    found = advice(side=OFF)
    assert named(found) == [("single_point_error", "side")]
    assert "within its limits; the worst it reaches, out, has a relative error of" in summary(
        found.first
    )
    assert "Expert Advice: single-point error: " in summary(found.first)


def test_what_spoils_the_results_comes_before_what_dies_out(advice):
    ops = (*NET, ("aux", "Exp", ("conv",)))
    assert named(advice(ops, side=OFF, mul=OFF)) == [
        ("single_point_error", "mul"),
        ("single_point_error", "side"),
    ]
    found = advice(ops, mul=OFF, aux=OFF)
    assert named(found) == [("problem_node", "aux"), ("single_point_error", "mul")]


def test_an_overflow_is_named_where_golden_does_not_have_it(advice):
    bad = put(np.inf)
    found = advice(mul=bad, relu=bad, out=put(np.nan))
    assert named(found) == [("fp16_overflow", "mul")]
    assert summary(found.first).startswith("Detection Type: FP16 Overflow\nOperator Index: 2\n")
    assert named(advice(mul=put(65504, 1e6), out=OFF))[0] == ("fp16_overflow", "mul")


def test_infinities_and_large_values_golden_has_too_are_no_overflow(advice):
    """Row-order advisors name any mask of -65504 or -Inf."""
    for value in (-np.inf, -65504.0):
        mask = put(value, value)
        assert advice(conv=mask, mul=mask).quiet


def test_an_overflow_behind_an_error_follows_from_it(advice):
    found = advice(mul=OFF, relu=put(np.inf), out=put(np.inf))
    assert named(found) == [("problem_node", "mul")]


def test_other_data_at_the_input_is_no_ops_fault(advice):
    found = advice(x=OFF, conv=OFF, mul=OFF, relu=OFF, side=OFF, out=OFF)
    assert named(found) == [("input_inconsistent", "x")]
    assert summary(found.first).startswith("Detection Type: Input Inconsistent\n")


def test_data_that_the_device_preprocesses_is_told_from_other_data(advice):
    ops = (("x", "Data", ()), ("aipp", "Aipp", ("x",)), ("conv", "Conv2D", ("aipp",)))
    found = advice(ops, x=OFF, aipp=OFF, conv=OFF)
    assert named(found) == [("input_inconsistent", "x")]
    assert "the device preprocesses it (AIPP)" in found.first.sentence


def test_inputs_are_seen_through_ops_that_keep_their_values(advice, device_graph, run_of):
    ops = (("x", "Data", ()), ("t", "TransData", ("x",)), ("conv", "Conv2D", ("t",)))
    run = run_of(device_graph(*ops), {"t": (OFF, GOLDEN), "conv": (OFF, GOLDEN)})
    (finding,) = advise(run).findings
    assert (finding.label, finding.op) == ("input_inconsistent", "x")
    assert finding.evidence["seen_at"] == "t"


def test_an_op_that_spoils_right_data_is_to_blame_itself(device_graph, run_of):
    ops = (("x", "Data", ()), ("t", "TransData", ("x",)), ("conv", "Conv2D", ("t",)))
    pairs = {"x": (GOOD, GOLDEN), "t": (OFF, GOLDEN), "conv": (OFF, GOLDEN)}
    assert named(advise(run_of(device_graph(*ops), pairs))) == [("problem_node", "t")]


def test_other_weights_are_told_from_other_data(device_graph, run_of):
    ops = (("w", "Const", ()), ("c", "Cast", ("w",)), ("conv", "Conv2D", ("c",)))
    run = run_of(device_graph(*ops), {"c": (OFF, GOLDEN), "conv": (OFF, GOLDEN)})
    (finding,) = advise(run).findings
    assert "weights" in finding.sentence
    assert finding.op == "w"


def test_random_numbers_that_differ_are_an_input(advice):
    ops = (("d", "Conv2D", ()), ("r", "RandomStandardNormal", ("d",)), ("m", "Mul", ("r",)))
    found = advice(ops, r=OFF, m=OFF)
    assert named(found) == [("input_inconsistent", "r")]
    assert "fix the seed" in found.first.sentence
    assert named(advice(ops, d=OFF, r=OFF, m=OFF)) == [("problem_node", "d")]


def test_a_tie_of_max_pooling_is_no_fault(advice):
    """One gradient went to the neighbour; what follows is off as far as that goes."""
    golden = np.zeros(4000, np.float32)
    golden[::4] = GOLDEN[::4]
    tied = golden.copy()
    tied[8], tied[9] = 0, golden[8]
    ops = (("g", "Mul", ()), ("p", "MaxPoolGradWithArgmax", ("g",)), ("r", "Mul", ("p",)))
    pair = tied.astype(np.float16), golden
    found = advice(ops, g=GOOD, p=pair, r=pair)
    assert found.quiet
    assert "two values tie" in found.first.sentence
    lost = golden.copy()
    lost[8] = 0
    assert not advice(ops, p=(lost.astype(np.float16), golden)).quiet
    assert named(advice(ops, p=pair, r=(-pair[0], golden))) == [("problem_node", "r")]
    assert not advice((("g", "Mul", ()), ("p", "Mul", ("g",))), p=pair).quiet


def test_other_indices_of_the_same_values_are_a_choice():
    def output(port: int, device: object, golden: object, level: Level) -> Comparison:
        x = np.asarray(device)
        found = measure(x, np.asarray(golden))
        return Comparison(
            "t",
            TensorIO.OUTPUT,
            port,
            metrics=found.metrics,
            figures=found.figures,
            level=level,
            device_dtype=DType(x.dtype.name),
        )

    indices = output(1, [3, 1, 2], [3, 2, 1], Level.FAIL)
    same, other = (
        output(0, np.float16([0.9, 0.5, 0.5]), np.float16([0.9, 0.5, 0.5]), Level.PASS),
        output(0, np.float16([0.9, 0.5, 0.5]), np.float16([0.9, 0.8, 0.1]), Level.FAIL),
    )
    assert "tie" in chose_otherwise("TopKV2", indices, (same, indices))
    assert not chose_otherwise("TopKV2", indices, (other, indices))
    assert not chose_otherwise("TopKV2", other, (other, indices))


def test_causes_found_by_the_root_cause_analysis_are_told(device_graph, run_of):
    pairs = {name: (GOOD, GOLDEN) for name, _, _ in NET} | {"out": (OFF, GOLDEN)}
    run = run_of(device_graph(*NET), pairs)
    cause = Finding(FindingKind.CAUSE, "gain", "all values are 1.2 times too large", "out")
    (finding,) = advise(replace(run, findings=(cause,))).findings
    assert finding.evidence["cause"] == "gain"
    assert "Likely cause: all values are 1.2 times too large" in finding.sentence


def test_without_guilty_ops_the_rest_is_rounding(device_graph, run_of):
    pairs = {name: (OFF, GOLDEN) for name, _, _ in NET}
    pairs["x"] = (GOOD, GOLDEN)
    run = run_of(device_graph(*NET), pairs)
    run = replace(run, origins=(), run=replace(run.run, method=Method.ROOT_CAUSE))
    found = advise(run)
    assert found.quiet
    assert "5 tensors over a limit" in found.first.sentence


def test_noise_where_golden_is_zero_is_no_origin(device_graph, run_of):
    """Introduced errors are relative: without anything to relate to they are huge."""
    zeros = np.zeros(4000, np.float32)
    pairs = {name: (GOOD, GOLDEN) for name, _, _ in NET}
    pairs["mul"] = (np.full(4000, 1e-7, np.float32), zeros)
    run = run_of(device_graph(*NET), pairs)
    (item,) = (one for one in run.comparisons if one.op == "mul")
    origin = Origin(1, "mul", "Mul", 0, (), item.metrics, item.level, suspicion=1e30)
    run = replace(run, origins=(origin,), run=replace(run.run, method=Method.ROOT_CAUSE))
    found = advise(run)
    assert found.quiet
    assert "mul (Mul): noise where golden is zero" in found.first.sentence


def test_inputs_the_root_cause_analysis_found_different(device_graph, run_of):
    run = run_of(
        device_graph(*NET),
        {"mul": (GOOD, GOLDEN)},
        analysis=RunAnalysis(mismatches=(InputMismatch("", "x:0", 0.3, 1e-3),)),
    )
    (finding,) = advise(run).findings
    assert (finding.label, finding.evidence["input"]) == ("input_inconsistent", "x:0")


def test_a_run_that_compared_nothing(device_graph, run_of):
    run = run_of(device_graph(*NET), {"mul": (GOOD, GOLDEN)})
    run = replace(run, run=replace(run.run, counts=Counts(6, 6, 0, 0, 6)))
    assert named(advise(run)) == [("not_compared", "")]


def test_the_summary_file(advice, tmp_path):
    path = write_summary(tmp_path / "new" / "folder", advice(mul=OFF, out=OFF))
    assert path.name == "advisor_summary.txt"
    heads = [line.partition(": ")[0] for line in path.read_text().splitlines()]
    assert heads == ["Detection Type", "Operator Index", "Expert Advice"]
    with pytest.raises(InputError, match="cannot be"):
        write_summary(path, advice())


@pytest.mark.parametrize(
    ("side", "label", "op"),
    [("npu_clean", "consistent", ""), ("npu_fault", "problem_node", "LeNet/conv2/Conv2DRelu")],
)
def test_lenet(lenet_runs, side, label, op):
    (finding,) = advise(lenet_runs[side]).findings
    assert (finding.label, finding.op) == (label, op)
