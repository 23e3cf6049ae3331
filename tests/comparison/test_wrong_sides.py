"""Sides that were exchanged, or whose golden one is the coarser, are told by what they hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import divergraph as dg
from graphstore.errors import InputError
from graphstore.model import Guilt, Verdict


def layers(path: Path, *, spoilt: str = "") -> Path:
    """Three layers, each a product and a Relu; one channel of the *spoilt* one is five times."""
    draw = np.random.default_rng(3)
    nodes, weights, before = [], [], "x"
    for number in range(3):
        weight = draw.standard_normal((24, 24)).astype(np.float32) / 5
        if spoilt == f"mul{number}":
            weight[:, 7] *= 5
        weights.append(numpy_helper.from_array(weight, f"w{number}"))
        nodes.append(
            helper.make_node("MatMul", [before, f"w{number}"], [f"m{number}"], f"mul{number}")
        )
        before = "y" if number == 2 else f"r{number}"
        nodes.append(helper.make_node("Relu", [f"m{number}"], [before], f"relu{number}"))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [16, 24]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, str(path))
    return path


Side = tuple[Path, Path]


@pytest.fixture(scope="module")
def sides(tmp_path_factory) -> dict[str, Side]:
    """The model and its dump by what it computes in, on one input."""
    folder = tmp_path_factory.mktemp("sides")
    golden, spoilt = layers(folder / "g.onnx"), layers(folder / "d.onnx", spoilt="mul1")
    value = folder / "x.npy"
    np.save(value, np.random.default_rng(1).standard_normal((16, 24)).astype(np.float32))
    made = {}
    for name, model, device in (
        ("fp32", golden, "fp32"),
        ("spoilt", spoilt, "fp32"),
        ("fp16", golden, "fp16"),
        ("int8", golden, "int8"),
    ):
        found = dg.capture(model, folder / name, value, device=device)
        made[name] = found.model, found.folder
    return made


@pytest.mark.parametrize("device", ["fp16", "int8"])
def test_exchanged_dumps_fit_the_other_graph_and_are_refused(sides, device):
    (golden, golden_dump), (graph, dump) = sides["fp32"], sides[device]
    with pytest.raises(InputError, match="the dumps are exchanged") as refused:
        dg.compare(golden, dump, graph, golden_dump)
    assert refused.value.hint == "exchange --golden-dump and --device-dump"
    assert dg.compare(golden, golden_dump, graph, dump).verdict is not Verdict.UNDECIDED


def test_a_golden_side_in_float16_is_told_and_the_device_judged_by_its_rounding(sides):
    run = dg.compare(*sides["fp16"], *sides["fp32"])
    assert run.verdict in (Verdict.CLEAN, Verdict.WITHIN_ROUNDING)
    assert "coarser than the device (fp16 against fp32)" in run.analysis.doubt
    faulty = dg.compare(*sides["fp16"], *sides["spoilt"])
    assert [one.origin.op for one in faulty.origins] == ["mul1"]


def test_ops_held_against_a_quantised_golden_op_are_not_accused(sides):
    run = dg.compare(*sides["int8"], *sides["fp32"])
    assert run.verdict in (Verdict.UNDECIDED, Verdict.WITHIN_ROUNDING, Verdict.CLEAN)
    assert "coarser than the device (int8 against fp32)" in run.analysis.doubt
    assert not run.origins
    assert Guilt.GUILTY not in {one.split.guilt for one in run.data.comparisons if one.split}


def test_exchanged_dumps_of_one_graph_are_told_by_running_it(sides):
    (graph, right), (_, spoilt) = sides["fp32"], sides["spoilt"]
    run = dg.compare(graph, spoilt, graph, right)
    assert run.verdict is Verdict.UNDECIDED
    assert "what the golden model computes here and golden's are not" in run.analysis.doubt
    assert "(from mul1:0 on" in run.analysis.doubt
    assert dg.compare(graph, right, graph, spoilt).origins[0].origin.op == "mul1"


def test_one_dump_for_both_sides_decides_nothing(divergraph, sides, tmp_path):
    golden, dump = sides["fp32"]
    ended = divergraph(
        *("compare", "--golden", golden, "--golden-dump", dump),
        *("--device", golden, "--device-dump", dump, "--store", tmp_path / "store", "--json"),
    )
    assert ended.code == 2
    assert ended.json["verdict"] == "undecided"
    assert ended.json["doubt"].startswith("both sides read the same dump")
    assert ended.err.startswith("doubt: both sides read the same dump")
