"""Recorded jobs with values: each call is run again on what the device itself read."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import divergraph as dg
from benchmarks.recorded_jobs import made_job
from benchmarks.recorded_jobs.made_job import Job
from graphstore.model import Comparison, Guilt, Method, TensorIO, Verdict


@pytest.fixture(scope="module")
def golden(tmp_path_factory) -> Path:
    return Job(seed=4).run(tmp_path_factory.mktemp("golden") / "job")


def compared(golden: Path, device: Path) -> dg.Run:
    return dg.compare(golden, golden, device, device)


def test_a_healthy_job_says_first_how_many_calls_were_run_again(golden, tmp_path):
    run = compared(golden, Job(seed=4, dtype="bfloat16").run(tmp_path / "job"))
    assert (run.record.method, run.verdict) == (Method.ROOT_CAUSE, Verdict.WITHIN_ROUNDING)
    assert (
        "81 of 81 calls were run again; 3 modules are judged by the calls inside"
        in run.record.warnings
    )


@pytest.mark.parametrize(
    ("fault", "call", "cause"),
    [
        ("kernel_scales", "Functional.linear.8.forward", "1.29989 times the expected one"),
        ("kernel_zeroes_a_channel", "Functional.linear.10.forward", "channel 5 is all zero"),
        ("argument_fill", "Tensor.masked_fill.1.forward", "argument 2 is 0, golden -inf"),
        ("weight_stale", "Functional.linear.11.forward", "its weight differs from golden's"),
        ("gradient_doubled", "Module.head.Linear.backward.0", "2.0"),
    ],
)
def test_one_call_is_to_blame_and_the_cause_is_said(fault, call, cause, golden, tmp_path):
    run = compared(golden, Job(seed=4, dtype="bfloat16", fault=fault).run(tmp_path / "job"))
    assert run.verdict is Verdict.DIVERGED
    first, *others = run.data.origins
    assert first.op.rpartition("/")[2] == call
    assert cause in (first.cause or "")
    assert [each.op for each in others if "parameters_grad" not in each.op] == []


def loss_recorded(folder: Path, smoothing: float) -> Path:
    """A loss there and back in bfloat16, too small a part of which is smoothed to be seen there."""
    job, draw = Job(dtype="bfloat16"), np.random.default_rng(2)
    (recorder,) = job.recorders
    scores, labels = job.round(draw.normal(size=(32, 8))), draw.integers(0, 8, 32)
    shares = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    wanted = np.eye(8)[labels] * (1 - smoothing) + smoothing / 8
    made = job.round(np.mean(-np.log(shares[np.arange(32), labels])))
    slope = np.ones((), np.float32)
    options = {"label_smoothing": smoothing}
    recorder.add(
        "Functional.cross_entropy.0.forward", [scores, labels], options, [made], {}, "loss"
    )
    back = job.round((shares - wanted) / 32)
    recorder.add("Functional.cross_entropy.0.backward", [slope], {}, [back], {}, "loss")
    recorder.write(folder)
    return folder


def test_another_argument_that_the_way_back_shows_is_named_at_the_way_there(tmp_path):
    golden = loss_recorded(tmp_path / "golden", 0.0)
    run = compared(golden, loss_recorded(tmp_path / "device", 0.1))
    (origin,) = run.data.origins
    assert origin.op.endswith("cross_entropy.0.forward")
    assert origin.cause == "label_smoothing 0.1, golden 0"


def is_gelu(item: Comparison) -> bool:
    return item.op.endswith("Functional.gelu.1.forward") and item.io is TensorIO.OUTPUT


def test_a_call_golden_itself_does_not_give_is_not_judged(tmp_path, monkeypatch):
    """A dump that does not say all a call did: here a cut that is no argument."""
    monkeypatch.setattr(made_job, "_gelu", lambda a: np.maximum(a, 0.1))
    golden = Job(seed=4).run(tmp_path / "gpu")
    run = compared(golden, Job(seed=4, dtype="bfloat16").run(tmp_path / "npu"))
    assert run.verdict is Verdict.WITHIN_ROUNDING
    assert any("3 not: 3 gelu" in each for each in run.record.warnings)
    (split, *_) = (each.split for each in run.data.comparisons if is_gelu(each))
    assert split is not None
    assert split.guilt is Guilt.NONE
    assert "does not give golden's output" in split.failure


CALLS = {
    "healthy_bf16": None,
    "golden_again": None,
    "fault_lost_bias": ("Functional.linear.7.forward", "bias missing in all 32 channels"),
    "fault_gradient_doubled": ("Module.blocks.1.mlp.up.Linear.backward.0", "(exactly 2)"),
    "fault_mask_off_by_one": ("Functional.scaled_dot_product_attention.0.forward", ""),
    "fault_transposed": ("Functional.linear.10.forward", ""),
}


@pytest.fixture(scope="module")
def gpt(shared_data, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("gpt")
    with tarfile.open(shared_data / "jobs" / "one_process.tar.xz") as packed:
        wanted = {"golden", *CALLS}
        members = [each for each in packed if wanted.intersection(Path(each.name).parts[:1])]
        # Python 3.11.3 and older has no filters.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder, members)
    return folder


_SOME = ("healthy_bf16", "fault_lost_bias", "fault_gradient_doubled")
_REST = [pytest.param(name, marks=pytest.mark.thorough) for name in CALLS if name not in _SOME]


@pytest.mark.shared
@pytest.mark.parametrize("name", [*_SOME, *_REST])
def test_a_real_step_is_judged_right(name, gpt):
    run = compared(gpt / "golden", gpt / name)
    outputs = [each for each in run.data.comparisons if each.io is TensorIO.OUTPUT]
    known = [each for each in outputs if each.split is not None and not each.split.failure]
    assert len(known) > 0.85 * len(outputs)
    if CALLS[name] is None:
        assert run.verdict in (Verdict.CLEAN, Verdict.WITHIN_ROUNDING)
        return
    call, cause = CALLS[name]
    (origin,) = run.data.origins
    assert origin.op.rpartition("/")[2] == call
    assert cause in (origin.cause or "")


def test_a_device_dump_is_verified_by_itself(tmp_path):
    device = Job(seed=4, dtype="bfloat16", fault="gradient_doubled").run(tmp_path / "job")
    found = dg.verify(device)
    (wrong,) = found.wrong
    assert wrong.op.endswith("Module.head.Linear.backward.0")
    assert "2.0" in (wrong.cause or "")
    assert dg.verify(Job(seed=4, dtype="bfloat16").run(tmp_path / "fine")).verdict is Verdict.CLEAN


def test_the_call_at_fault_is_cut_out_as_onnx_with_what_it_read(golden, tmp_path):
    device = Job(seed=4, dtype="bfloat16", fault="kernel_scales").run(tmp_path / "job")
    run = compared(golden, device)
    call = run.data.origins[0].op
    (smallest,) = run.minimize().parts
    assert smallest.ops == (call,)
    run.submodel([call], [call], tmp_path / "part", check=True)
    folder = next(each for each in (tmp_path / "part").iterdir())
    manifest = json.loads((folder / "manifest.json").read_text())
    session = onnxruntime.InferenceSession(folder / "dump.onnx")
    inputs = manifest["inputs"]
    fed = {each["name"]: np.load(folder / each["golden"]) for each in inputs}
    (made,) = session.run(None, fed)
    (output,) = manifest["outputs"]
    np.testing.assert_allclose(made, np.load(folder / output["golden"]), rtol=1e-5, atol=1e-6)
    script = (folder / "part.py").read_text()
    compile(script, "part.py", "exec")
    assert "made = F.linear(x['0'], x['1'])" in script
    assert "python part.py" in (folder / "README.md").read_text()
