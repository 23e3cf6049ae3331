"""A cause is words about an op that is guilty already: without causes the verdicts are the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison.compare_run import compare
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from divergraph.rootcause.explaining import Explaining
from graphstore.contract import RunData

pytestmark = pytest.mark.exhaustive

_MIB = 1 << 20
_ALLOWED, _BESIDES = 64, 400
"""MiB of --memory, and MiB that a process may take besides."""

VALUES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "a gain": lambda value: value * 1.02,
    "an offset": lambda value: value + 0.1,
    "zeros": np.zeros_like,
    "a dead channel": lambda value: np.where(np.arange(8)[:, None, None] == 3, 0, value),
    "a tail": lambda value: np.where(np.arange(value.size).reshape(value.shape) > 900, 0, value),
    "a clip": lambda value: np.minimum(value, np.quantile(value, 0.9)),
    "a grid": lambda value: np.round(value * 8) / 8,
    "a shift": lambda value: np.roll(value, 1, axis=-1),
    "NaN": lambda value: np.where(value > np.quantile(value, 0.99), np.nan, value),
    "noise": lambda value: value + np.random.default_rng(1).normal(0, 0.01, value.shape),
    "other values": lambda value: np.random.default_rng(2).normal(0, 1, value.shape),
    "layout": lambda value: value.transpose(0, 2, 3, 1).reshape(value.shape),
}


def told(data: RunData) -> tuple[object, ...]:
    """All that is decided of a run, without causes."""
    ranked = [(each.op, each.suspicion) for each in (*data.origins, *data.suspects)]
    return data.run.verdict, ranked, [each.split for each in data.comparisons]


@pytest.mark.parametrize("device", [StandIn.FP32, StandIn.FP16])
@pytest.mark.parametrize("op", ["conv1", "relu2"])
@pytest.mark.parametrize("fault", VALUES.values(), ids=VALUES)
def test_verdicts_are_the_same_without_causes(sides, monkeypatch, fault, op, device):
    made = sides(device=device)
    made.overwrite(op, fault)
    usual = compare(made.request)
    assert usual.origins
    monkeypatch.setattr(Explaining, "explain", lambda self, judged: None)
    assert told(compare(made.request)) == told(usual)


def large(path: Path, change: float = 0.0) -> Path:
    """Tensors of 16 MiB; *change* is added to one weight."""
    rng = np.random.default_rng(1)
    weights = {f"w{k}": rng.standard_normal((16, 16, 3, 3)).astype(np.float32) for k in range(3)}
    weights["w1"][3, 2, 1, 1] += np.float32(change)
    nodes = [
        node
        for k in range(3)
        for node in (
            helper.make_node("Conv", [f"t{k}", f"w{k}"], [f"c{k}"], name=f"conv{k}", pads=[1] * 4),
            helper.make_node("Tanh", [f"c{k}"], [f"t{k + 1}"], name=f"tanh{k}"),
        )
    ]
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("t0", TensorProto.FLOAT, [1, 16, 512, 512])],
        [onnx.ValueInfoProto(name="t3")],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


_CHILD = f"""
import resource, sys
from pathlib import Path
limit = ({_ALLOWED} + {_BESIDES}) << 20
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.rootcause.options import MethodChoice, RootCauseOptions
data = compare(
    CompareRequest(
        *map(Path, sys.argv[1:]),
        method=MethodChoice.ROOT_CAUSE,
        root_cause=RootCauseOptions(memory={_ALLOWED} << 20),
    )
)
print([each.op for each in data.origins], data.findings[0].sentence, data.run.warnings)
lines = open("/proc/self/status").read().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_a_process_that_is_refused_more_memory_finds_guilt_and_cause(tmp_path: Path) -> None:
    right, wrong = large(tmp_path / "right.onnx"), large(tmp_path / "wrong.onnx", 9.0)
    capture(CaptureRequest(right, tmp_path / "golden", seed=1))
    capture(CaptureRequest(wrong, tmp_path / "device", seed=1))
    paths = (right, tmp_path / "golden", right, tmp_path / "device")
    said = subprocess.run(
        [sys.executable, "-c", _CHILD, *map(str, paths)], capture_output=True, text=True, check=True
    )
    found, own, child = said.stdout.splitlines()
    assert found.startswith("['conv1']")
    assert "no cause could be looked for" not in found
    assert max(int(own), int(child)) <= (_ALLOWED + _BESIDES) << 10
