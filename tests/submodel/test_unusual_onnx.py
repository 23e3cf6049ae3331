"""Bundles of ONNX models in element types numpy has not, old forms, bodies."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.jobs.progress import NO_PROGRESS
from divergraph.submodel.bundle import BundleRequest, write_bundle
from divergraph.submodel.run_parts import opened

FLOAT = TensorProto.FLOAT


def value(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def cast(given, made, kind):
    return helper.make_node("Cast", [given], [made], f"to_{made}", to=kind)


@pytest.fixture
def parts_of(tmp_path):
    """The run of a model compared with itself, for cutting."""

    def call(nodes, outputs, weights=(), *, opset=19, ir_version=9):
        graph = helper.make_graph(nodes, "net", [value("x", [3, 4])], outputs, list(weights))
        opsets = [helper.make_opsetid("", opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
        path = tmp_path / "net.onnx"
        onnx.save(model, str(path))
        for side in ("golden", "device"):
            capture(CaptureRequest(path, tmp_path / side, seed=1))
        run = compare(CompareRequest(path, tmp_path / "golden", path, tmp_path / "device"))
        return opened(run, NO_PROGRESS)

    return call


def replayed(folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "replay.py"], cwd=folder, check=False, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "kind", [TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2FNUZ]
)
def test_types_numpy_has_not_go_in_and_come_out(parts_of, tmp_path, kind):
    nodes = [
        helper.make_node("Exp", ["x"], ["a"], "exp"),
        cast("a", "narrow", kind),
        cast("narrow", "wide", FLOAT),
        helper.make_node("Relu", ["wide"], ["y"], "act"),
    ]
    parts = parts_of(nodes, [value("y", None)])
    for start, end in (("exp", "to_narrow"), ("to_wide", "act")):
        part = parts.select([start], [end])
        bundle = write_bundle(parts, part, BundleRequest(tmp_path / "out"))
        code, said = replayed(bundle.path)
        assert code == 0, said
        assert "relative error 0\n" in said
        onnx.checker.check_model(str(bundle.path / "dump.onnx"), full_check=True)


def test_float16_inside_is_rounded_as_in_the_whole(parts_of, tmp_path):
    nodes = [
        cast("x", "half", TensorProto.FLOAT16),
        helper.make_node("Mul", ["half", "half"], ["square"], "square"),
        helper.make_node("Add", ["square", "half"], ["sum"], "sum"),
        cast("sum", "y", FLOAT),
    ]
    parts = parts_of(nodes, [value("y", None)])
    bundle = write_bundle(parts, parts.select(["to_half"], ["to_y"]), BundleRequest(tmp_path / "o"))
    assert bundle.manifest["inner"] == ["half", "square", "sum"]
    assert bundle.manifest["tolerance"]["golden"] == pytest.approx(5**0.5 / 2048)
    assert replayed(bundle.path) == (0, "ok     y: relative error 0\n")
    both = parts.select(["to_half"], ["sum", "to_y"])
    code, said = replayed(write_bundle(parts, both, BundleRequest(tmp_path / "both")).path)
    assert code == 0
    assert said.count(": relative error 0\n") == 2


def test_old_files_list_their_weights_among_the_inputs(parts_of, tmp_path):
    weight = numpy_helper.from_array(np.ones((4, 2), np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "product"),
        helper.make_node("Relu", ["a"], ["y"], "act"),
    ]
    parts = parts_of(nodes, [value("y", None)], [weight], opset=8, ir_version=3)
    part = parts.select(["product"], ["product"])
    bundle = write_bundle(parts, part, BundleRequest(tmp_path / "out"))
    model = onnx.load(str(bundle.path / "dump.onnx"))
    assert [each.name for each in model.graph.input] == ["x", "w"]
    onnx.checker.check_model(model, full_check=True)
    assert replayed(bundle.path)[0] == 0


def test_a_part_inside_one_body_is_refused_with_its_owner(parts_of):
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"], "on"),
            helper.make_node("Exp", ["before"], ["after"], "inner"),
        ],
        "body",
        [
            value("n", [], TensorProto.INT64),
            value("go", [], TensorProto.BOOL),
            value("before", None),
        ],
        [value("on", [], TensorProto.BOOL), value("after", None)],
    )
    trips = numpy_helper.from_array(np.int64(2), "trips")
    nodes = [
        helper.make_node("Loop", ["trips", "", "x"], ["z"], "loop", body=body),
        helper.make_node("Relu", ["z"], ["y"], "act"),
    ]
    parts = parts_of(nodes, [value("y", None)], [trips])
    (refused,) = parts.select(["loop/body/inner"], ["loop/body/inner"]).refused
    assert (refused.rule, refused.starts, refused.ends) == ("body_cut", ("loop",), ("loop",))


def test_an_engine_that_refuses_the_part_is_no_wrong_output(parts_of, tmp_path):
    parts = parts_of([helper.make_node("Relu", ["x"], ["y"], "act")], [value("y", None)])
    bundle = write_bundle(parts, parts.select(["act"], ["act"]), BundleRequest(tmp_path / "out"))
    model = onnx.load(str(bundle.path / "dump.onnx"))
    model.graph.node[0].op_type = "NoSuchOp"
    onnx.save(model, str(bundle.path / "dump.onnx"))
    manifest = json.loads((bundle.path / "manifest.json").read_text())
    del manifest["sha256"]["dump.onnx"]
    (bundle.path / "manifest.json").write_text(json.dumps(manifest))
    code, said = replayed(bundle.path)
    assert code == 2
    assert "it cannot be run here" in said


def test_a_golden_dump_of_another_engine_need_not_be_met_to_the_bit(parts_of, tmp_path):
    parts = parts_of([helper.make_node("Tanh", ["x"], ["y"], "act")], [value("y", None)])
    part = parts.select(["act"], ["act"])
    exact = write_bundle(parts, part, BundleRequest(tmp_path / "out"))
    assert exact.manifest["tolerance"]["golden"] == 0.0
    (tmp_path / "golden" / "capture.json").unlink()
    (dumped,) = (tmp_path / "golden").glob("act.0.*.npy")
    np.save(dumped, np.load(dumped) * np.float32(1 + 3e-7))
    bundle = write_bundle(parts, part, BundleRequest(tmp_path / "out"))
    assert bundle.manifest["tolerance"]["golden"] == 1e-5
    assert replayed(bundle.path)[0] == 0
    np.save(dumped, np.load(dumped) * np.float32(1.001))
    assert replayed(write_bundle(parts, part, BundleRequest(tmp_path / "out")).path)[0] == 1


def test_a_name_that_acts_on_terminals_is_said_as_text(parts_of, tmp_path):
    parts = parts_of(
        [helper.make_node("Tanh", ["x"], ["y\x1b[2J"], "act")], [value("y\x1b[2J", None)]
    )
    part = parts.select(["act"], ["act"])
    code, said = replayed(write_bundle(parts, part, BundleRequest(tmp_path / "out")).path)
    assert code == 0
    assert "y\\x1b[2J: relative error 0" in said
