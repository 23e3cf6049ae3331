"""The memory a process really takes, with ``--memory`` small against all tensors and weights."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from float32_device import KNOWN
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.tolerances import noise_floor as floors

pytestmark = pytest.mark.thorough

_STATUS = Path("/proc/self/status")
_MIB = 1 << 20
_TENSOR, _WEIGHT = 4, 32
"""MiB of each value and of the weight of the last op."""
_ALLOWED = 16
_ONE_OP = 16 * 2 * _TENSOR // 4 + 2 * _WEIGHT
"""What the last words of docs/explanation/root-cause.md say one op may take: versions of what it
reads and makes, and its weights as they are and as they are packed."""

_CHILD = """
import sys
from divergraph.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    assert not ended.code, ended.code
lines = open("/proc/self/status").read().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 tensors of 4 MiB one after the other, then a product with 32 MiB of weights."""
    folder = tmp_path_factory.mktemp("network")
    rng = np.random.default_rng(1)
    nodes, weights, last = [], {}, "x"
    for k in range(12):
        weights[f"w{k}"] = rng.standard_normal((16, 16, 1, 1)).astype(np.float32) / 4
        nodes.append(helper.make_node("Conv", [last, f"w{k}"], [f"c{k}"], name=f"conv{k}"))
        nodes.append(helper.make_node("Tanh", [f"c{k}"], [f"t{k}"], name=f"tanh{k}"))
        last = f"t{k}"
    weights["wide"] = rng.standard_normal((16, _WEIGHT * _MIB // 64)).astype(np.float32)
    nodes += [
        helper.make_node("ReduceMean", [last], ["mean"], name="mean", axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["mean", "wide"], ["y"], name="product"),
    ]
    shape = [1, 16, 256, 256]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "m.onnx")
    np.save(folder / "x.npy", rng.standard_normal(shape).astype(np.float32))
    capture(CaptureRequest(folder / "m.onnx", folder / "dump", {"x": folder / "x.npy"}))
    shutil.copytree(folder / "dump", folder / "device")
    return folder


def _peak(network: Path, store: Path, *options: str) -> int:
    """Bytes a fresh process has at most."""
    model, dump, device = (str(network / each) for each in ("m.onnx", "dump", "device"))
    sides = ("--golden", model, "--golden-dump", dump, "--device", model, "--device-dump", device)
    said = subprocess.run(
        [sys.executable, "-c", _CHILD, "compare", *sides, "--store", str(store), *options],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(said.stdout.split()[-1]) << 10


@pytest.mark.slow
@pytest.mark.skipif(not _STATUS.exists(), reason="the peak is told by Linux only")
def test_a_process_takes_what_is_allowed_and_what_one_op_needs(
    network: Path, tmp_path: Path
) -> None:
    without = _peak(network, tmp_path / "a", "--method", "thresholds", "--jobs", "1")
    running = _peak(network, tmp_path / "b", "--memory", str(_ALLOWED), "--jobs", "1")
    assert running - without <= (_ALLOWED + _ONE_OP) * _MIB


@pytest.mark.slow
def test_an_op_that_needs_more_alone_is_named(network: Path) -> None:
    request = CompareRequest(
        network / "m.onnx", network / "dump", network / "m.onnx", network / "device"
    )
    request = replace(request, root_cause=KNOWN)
    little = compare(replace(request, root_cause=replace(KNOWN, memory=_ALLOWED * _MIB)))
    (said,) = [line for line in little.run.warnings if "alone takes" in line]
    assert said.startswith("product alone takes about 72 MiB, more than the 16 of --memory; so do ")
    assert not [line for line in compare(request).run.warnings if "alone takes" in line]


def test_a_chunk_too_large_for_memory_is_run_in_halves(sides, monkeypatch):
    """Memory runs out for more than two groups at once."""
    emulated = floors.Emulation.emulated

    def short_of_memory(self, groups, feeds):
        if len(groups) > 2:
            raise MemoryError
        return emulated(self, groups, feeds)

    made = sides(lambda w: w.update(w1=w["w1"] * np.float32(1.02)))
    request = replace(made.request, root_cause=RootCauseOptions(memory=1 << 30))
    usual = compare(request)
    monkeypatch.setattr(floors.Emulation, "emulated", short_of_memory)
    little = compare(request)
    assert [each.op for each in little.origins] == ["conv1"]
    assert [each.label for each in little.findings] == [each.label for each in usual.findings]


def test_a_group_that_never_fits_is_said_to(sides, monkeypatch):
    def no_memory(self, groups, feeds):
        if groups:
            raise MemoryError
        return []

    monkeypatch.setattr(floors.Emulation, "emulated", no_memory)
    data = compare(sides().request)
    assert any("not enough memory" in warning for warning in data.run.warnings)
