"""Kernel or compiler: a guilty op by its own definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from divergraph.rootcause.options import DEFAULT_OPTIONS
from divergraph.rootcause.run_inputs import RunSources
from divergraph.verification.witness import with_witness
from graphstore.contract import RunData
from graphstore.model import (
    FAULT_OF,
    Counts,
    Finding,
    FindingKind,
    Level,
    Method,
    MetricSet,
    Origin,
    Run,
    Verdict,
)
from importers.dumps.index import DumpIndex
from tests.made.device_ops import DeviceOps, spoiled

_FAR = MetricSet(0.9, 1.0, 0.5, 0.5, 0.0, (0.0, 1.0, 0.0, 1.0), 0.1, 0.1, 1.0, 0.1)


def _witnessed(made: DeviceOps, spoil: bool) -> object:
    """What the own definition of op "fc" says of it, which root cause found guilty."""
    operands = made.operands()
    if spoil:
        spoiled(
            operands, {"fc": lambda value: np.multiply(value, 1.1, out=value, casting="unsafe")}
        )
    graph = operands.graph
    run = Run(
        *("r", graph.id, graph.id, "", Verdict.DIVERGED, Method.ROOT_CAUSE),
        counts=Counts(1, 1, 1, 1, 0),
        thresholds={},
    )
    guilty = Origin(1, "fc", "MatMulV2", 0, (), _FAR, Level.FAIL, 100.0)
    cause = Finding(FindingKind.CAUSE, "lost_bias", "a bias is missing", "fc", port=0)
    data = RunData(run, graph, graph, (), (), {}, (guilty,), findings=(cause,))
    sources = RunSources(Path("g"), Path("d"), DumpIndex(), operands.dump, ())
    (finding,) = with_witness(data, sources, DEFAULT_OPTIONS).findings
    return finding.evidence.get(FAULT_OF)


@pytest.fixture
def fused(tmp_path):
    """MatMul, BiasAdd and Relu fused into one op that has lost the bias: what it made is right by
    what it is now."""
    draws = np.random.default_rng(3)
    made = DeviceOps(tmp_path)
    x, w = (draws.normal(size=shape).astype(np.float16) for shape in ((9, 40), (40, 24)))
    y = np.maximum(x.astype(np.float32) @ w.astype(np.float32), 0).astype(np.float16)
    originals = ("net/fc/MatMul", "net/fc/BiasAdd", "net/fc/Relu")
    made.add("fc", "MatMulV2", [x, w], [y], originals=originals, fusion_scope=3)
    return made


def test_an_op_without_its_bias_is_a_fault_of_the_compiler(fused):
    assert _witnessed(fused, spoil=False) == "compiler"


def test_an_op_that_is_wrong_by_its_own_definition_is_a_fault_of_the_kernel(fused):
    assert _witnessed(fused, spoil=True) == "kernel"


def test_root_cause_of_lenet_hears_it(divergraph, lenet, tmp_path):
    pytest.importorskip("tensorflow")
    run = lenet / "npu_fault"
    given = ("--golden", lenet / "model.ckpt.meta", "--golden-dump", lenet / "golden")
    device = ("--device", run / "graph", "--device-dump", run / "dump")
    divergraph("compare", *given, *device, "--run", "x", "--store", tmp_path / "s")
    told = divergraph("origins", "x", "--store", tmp_path / "s", "--json").json
    assert [each["fault_of"] for each in told["origins"]] == ["kernel"]
    assert "a fault of its kernel" in divergraph("origins", "x", "--store", tmp_path / "s").out
