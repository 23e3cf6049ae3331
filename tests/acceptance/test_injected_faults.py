"""Faults put into emulated and real low-precision devices: the op that got one is named first.

A small subset, on a generated model, of what ``benchmarks/root_cause`` measures on real ones.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.golden_capture import CaptureRequest, capture
from graphstore.model import Verdict

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "root_cause"
if not BENCHMARK.is_dir():
    pytest.skip("benchmarks are not part of this copy", allow_module_level=True)
if str(BENCHMARK) not in sys.path:
    sys.path.append(str(BENCHMARK))

import analysed  # noqa: E402
import cases  # noqa: E402
import devices  # noqa: E402
import faults  # noqa: E402
import measured  # noqa: E402
import op_runner  # noqa: E402

FEEDS = {"x": np.random.default_rng(7).normal(0.3, 1, (1, 3, 16, 16)).astype(np.float32)}
KINDS = (
    faults.FaultKind.GAIN_2,
    faults.FaultKind.LAYOUT,
    faults.FaultKind.ZERO_TAIL,
    faults.FaultKind.ONE_NAN,
    faults.FaultKind.WEIGHT_NOISE,
    faults.FaultKind.ACTIVATION,
)


def network() -> onnx.ModelProto:
    """Two convolutions, a skip connection, attention with a normalisation, a classifier."""
    rng = np.random.default_rng(3)
    weights = {
        "w1": rng.normal(0, 0.3, (8, 3, 3, 3)),
        "b1": rng.normal(0, 0.3, 8),
        "w2": rng.normal(0, 0.2, (8, 8, 3, 3)),
        "b2": rng.normal(0, 0.3, 8),
        "wq": rng.normal(0, 0.4, (8, 8)),
        "wk": rng.normal(0, 0.4, (8, 8)),
        "wv": rng.normal(0, 0.4, (8, 8)),
        "wo": rng.normal(0, 0.5, (8, 10)),
        "bo": rng.normal(0, 0.5, 10),
        "root": np.array(0.35),
        "tiny": np.array(1e-3),
    }
    constants = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()]
    constants.append(numpy_helper.from_array(np.array([1, 8, 64]), "shape"))
    steps: list[tuple[str, list[str], str, dict[str, Any]]] = [
        ("Conv", ["x", "w1", "b1"], "c1", {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ("Relu", ["c1"], "r1", {}),
        ("Conv", ["r1", "w2", "b2"], "c2", {"pads": [1, 1, 1, 1]}),
        ("HardSigmoid", ["c2"], "h2", {}),
        ("Mul", ["c2", "h2"], "m2", {}),
        ("Add", ["m2", "r1"], "a2", {}),
        ("Reshape", ["a2", "shape"], "flat", {}),
        ("Transpose", ["flat"], "t", {"perm": [0, 2, 1]}),
        ("MatMul", ["t", "wq"], "q", {}),
        ("MatMul", ["t", "wk"], "k", {}),
        ("MatMul", ["t", "wv"], "v", {}),
        ("Transpose", ["k"], "kt", {"perm": [0, 2, 1]}),
        ("MatMul", ["q", "kt"], "qk", {}),
        ("Mul", ["qk", "root"], "scaled", {}),
        ("Softmax", ["scaled"], "p", {"axis": -1}),
        ("MatMul", ["p", "v"], "pv", {}),
        ("Add", ["pv", "t"], "sum", {}),
        ("ReduceMean", ["sum"], "mean", {"axes": [-1], "keepdims": 1}),
        ("Sub", ["sum", "mean"], "centred", {}),
        ("Mul", ["centred", "centred"], "squares", {}),
        ("ReduceMean", ["squares"], "variance", {"axes": [-1], "keepdims": 1}),
        ("Add", ["variance", "tiny"], "safe", {}),
        ("Sqrt", ["safe"], "std", {}),
        ("Div", ["centred", "std"], "norm", {}),
        ("ReduceMean", ["norm"], "pooled", {"axes": [1], "keepdims": 0}),
        ("Tanh", ["pooled"], "bounded", {}),
        ("Gemm", ["bounded", "wo", "bo"], "logits", {}),
        ("Softmax", ["logits"], "y", {"axis": -1}),
    ]
    graph = helper.make_graph(
        [helper.make_node(kind, reads, [made], made, **rest) for kind, reads, made, rest in steps],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> analysed.Golden:
    folder = tmp_path_factory.mktemp("golden")
    onnx.save_model(network(), str(folder / "network.onnx"))
    np.save(folder / "x.npy", FEEDS["x"])
    capture(
        CaptureRequest(folder / "network.onnx", folder / "dump", inputs={"x": folder / "x.npy"})
    )
    return analysed.Golden(folder / "network.onnx", folder / "dump")


@pytest.fixture(scope="module")
def values(golden: analysed.Golden) -> Mapping[str, Any]:
    return op_runner.OpRunner.of(golden.model).run(FEEDS)


@pytest.fixture(params=list(devices.DEVICES))
def healthy(
    request: pytest.FixtureRequest,
    golden: analysed.Golden,
    values: Mapping[str, Any],
    tmp_path: Path,
) -> cases.Healthy:
    device = devices.DEVICES[request.param](golden.model, values, tmp_path)
    return cases.Healthy.of(device, FEEDS, values)


def test_op_by_op_gives_what_the_model_gives(
    golden: analysed.Golden, values: Mapping[str, Any]
) -> None:
    session = onnxruntime.InferenceSession(str(golden.model), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(values["y"], session.run(["y"], FEEDS)[0], rtol=1e-4)


@pytest.mark.parametrize("variant", measured.VARIANTS)
def test_a_healthy_device_has_no_guilty_op(
    healthy: cases.Healthy, golden: analysed.Golden, variant: str, tmp_path: Path
) -> None:
    hide = measured.hidden(variant, healthy.device.runner, np.random.default_rng(1))
    found = analysed.analyse(golden, healthy.device, healthy.values, hide, tmp_path)
    assert found.data.run.verdict is not Verdict.DIVERGED
    assert found.judged > 3
    assert found.guilty == 0


@pytest.mark.slow
def test_the_op_with_the_fault_is_first(
    healthy: cases.Healthy, golden: analysed.Golden, tmp_path: Path
) -> None:
    seen = 0
    for seed, kind in enumerate(KINDS):
        case = cases.visible_fault(healthy, kind, seed)
        if case is None:
            continue
        seen += 1
        found = analysed.analyse(golden, healthy.device, case.values, set(), tmp_path)
        assert found.rank(case.tensor) == 1, f"{kind.value} at {case.tensor}"
        assert found.data.run.verdict is Verdict.DIVERGED
    assert seen >= 2


@pytest.mark.slow
def test_half_of_the_tensors_are_enough(
    golden: analysed.Golden, values: Mapping[str, Any], tmp_path: Path
) -> None:
    device = devices.fp16x(golden.model, values, tmp_path)
    healthy = cases.Healthy.of(device, FEEDS, values)
    for seed, kind in enumerate(KINDS):
        case = cases.visible_fault(healthy, kind, seed)
        assert case is not None
        hide = measured.hidden("rand50", device.runner, np.random.default_rng(seed))
        found = analysed.analyse(golden, device, case.values, hide, tmp_path)
        assert found.rank(case.tensor) == 1, f"{kind.value} at {case.tensor}"
