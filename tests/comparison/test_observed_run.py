"""Whether the dumped run is the run that failed: its outputs and groups beside those undumped."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import divergraph as dg
from divergraph.text.words import observed_text
from graphstore.contract import RunData
from graphstore.errors import InputError
from graphstore.model import Verdict

pytestmark = pytest.mark.thorough


@pytest.fixture
def healthy(lenet) -> tuple[Path, Path, Path, Path]:
    device = lenet / "npu_clean"
    return lenet / "model.ckpt.meta", lenet / "golden", device / "graph", device / "dump"


def compared(*sides: Path, **undumped: Path) -> dg.Run:
    return dg.compare(*sides, method="thresholds", **undumped)


def device_output(run: RunData, op: str) -> tuple[str, np.ndarray]:
    """The name and values of golden's tensor that the device op gives."""
    (item,) = [one for one in run.comparisons if one.op == op and one.io.value == "output"]
    return item.golden.op, np.load(item.golden_path)


def test_a_run_with_the_outputs_of_the_dump_is_the_same(healthy, lenet):
    dump = lenet / "npu_clean" / "dump"
    run = compared(*healthy, undumped_outputs=dump, undumped_graph=next(healthy[2].iterdir()))
    found = run.analysis.observed
    assert found.same
    assert {each.moved for each in found.outputs} == {0.0}
    assert (found.regrouped, found.kept > 0) == ((), True)
    assert observed_text(run.record).startswith("same; ")


def test_outputs_that_moved_are_told_with_how_far(healthy, lenet_runs, tmp_path):
    name, golden = device_output(lenet_runs["npu_clean"], "LeNet/fc5/MatMul")
    np.savez(tmp_path / "out.npz", **{name.replace("/", "_"): golden * np.float32(1.03)})
    run = compared(*healthy, undumped_outputs=tmp_path / "out.npz")
    (output,) = run.analysis.observed.outputs
    assert (output.op, output.fails_dumped) == ("LeNet/fc5/MatMul", False)
    assert output.moved == pytest.approx(0.03, rel=0.1)
    assert f"differs by 2.9 % in output {output.tensor}" in observed_text(run.record)


def test_a_failure_that_vanishes_when_observed_is_not_in_the_dump(
    divergraph, healthy, lenet_runs, tmp_path
):
    outputs, store = tmp_path / "out", tmp_path / "store"
    outputs.mkdir()
    name, golden = device_output(lenet_runs["npu_clean"], "LeNet/fc5/MatMul")
    np.save(outputs / f"{name.replace('/', '_')}.npy", -golden)
    sides = zip(("--golden", "--golden-dump", "--device", "--device-dump"), healthy, strict=True)
    options = [part for side in sides for part in side]
    options += ["--undumped-outputs", outputs, "--store", store, "--method", "thresholds"]
    ended = divergraph("compare", *options, "--run", "seen", "--json")
    assert (ended.code, ended.json["verdict"]) == (2, "undecided")
    assert ended.json["doubt"].startswith("the failure vanishes when it is observed")
    assert ended.json["observed"]["outputs"][0]["fails"] is True
    for written in ("markdown", "html", "junit"):
        told = divergraph("report", "seen", f"--{written}", "-", "--store", store)
        assert "bserved" in told.out, written


def test_a_failure_that_only_the_dumped_run_has_is_told(lenet, lenet_runs, tmp_path):
    device = lenet / "npu_fault"
    sides = lenet / "model.ckpt.meta", lenet / "golden", device / "graph", device / "dump"
    name, golden = device_output(lenet_runs["npu_fault"], "LeNet/conv2/Conv2DRelu")
    np.save(tmp_path / f"{name.replace('/', '_')}.0.npy", golden)
    run = compared(*sides, undumped_outputs=tmp_path)
    assert "fails only when it is observed" in run.analysis.doubt
    assert run.verdict is Verdict.DIVERGED


def test_ops_that_fuse_otherwise_without_dumping_are_named(healthy, tmp_path):
    (file,) = healthy[2].iterdir()
    other = tmp_path / file.name
    text = file.read_text()
    assert text.count('s: "LeNet/conv2/BiasAdd"') == 1
    other.write_text(text.replace('s: "LeNet/conv2/BiasAdd"', 's: "LeNet/conv1/BiasAdd"'))
    run = compared(*healthy, undumped_graph=other)
    (lost,) = run.analysis.observed.regrouped
    assert lost.op == "LeNet/conv2/Conv2DRelu"
    assert lost.dumped_in == ("LeNet/conv1/Conv2DRelu", "LeNet/conv2/Conv2DRelu")
    assert "differs; " in observed_text(run.record)


def test_outputs_of_another_model_are_refused(healthy, tmp_path):
    np.save(tmp_path / "strange.npy", np.zeros(3, np.float32))
    np.save(tmp_path / "stranger.npy", np.zeros(3, np.float32))
    with pytest.raises(InputError, match="no tensor here is an output"):
        compared(*healthy, undumped_outputs=tmp_path)
    shutil.rmtree(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        compared(*healthy, undumped_outputs=tmp_path)
