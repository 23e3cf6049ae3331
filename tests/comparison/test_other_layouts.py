"""A golden run of one rank, or a job of several, against jobs that are split otherwise."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import divergraph as dg
from benchmarks.recorded_jobs import made_job
from benchmarks.recorded_jobs.made_job import LAYOUTS, Job
from graphstore.model import Reason, TensorIO, Verdict


@pytest.fixture(scope="module")
def golden(tmp_path_factory) -> Path:
    return Job(seed=3).run(tmp_path_factory.mktemp("golden") / "job")


JOBS = {
    "TP2": {"layout": "tensor"},
    "TP4": {"layout": "tensor", "ranks": 4},
    "DP2": {"layout": "data"},
    "DP4": {"layout": "data", "ranks": 4},
    "DDP2": {"layout": "wrapped"},
    "PP2": {"layout": "pipeline"},
    "PP3": {"layout": "pipeline", "ranks": 3},
    "one rank": {},
}


@pytest.fixture(scope="module")
def golden_jobs(tmp_path_factory) -> Callable[[str], Path]:
    """Golden's job in a layout, recorded once."""
    folder = tmp_path_factory.mktemp("golden jobs")
    return cache(lambda layout: Job(seed=3, **JOBS[layout]).run(folder / layout))


def compared(golden: Path, folder: Path, layout: str, fault: str = "") -> dg.Run:
    device = Job(seed=3, layout=layout, dtype="bfloat16", fault=fault).run(folder / "job")
    return dg.compare(golden, golden, device, device)


@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_a_healthy_job_is_within_rounding_and_nearly_all_is_compared(layout, golden, tmp_path):
    run = compared(golden, tmp_path, layout)
    assert run.verdict is Verdict.WITHIN_ROUNDING
    outputs = [item for item in run.data.comparisons if item.io is TensorIO.OUTPUT]
    left = {item.reason for item in outputs if not item.compared}
    # unmatched: the divisions behind sums of gradients, which golden does not call
    assert left <= {Reason.ADDEND, Reason.NO_GOLDEN_DUMP, Reason.UNMATCHED}
    assert sum(item.compared for item in outputs) > 0.9 * len(outputs)


def test_what_is_made_of_an_addend_is_none_of_goldens(tmp_path):
    golden = Job(seed=3, has_means=True).run(tmp_path / "golden")
    device = Job(seed=3, layout="data", dtype="bfloat16", has_means=True).run(tmp_path / "job")
    run = dg.compare(golden, golden, device, device)
    assert run.verdict is Verdict.WITHIN_ROUNDING
    made = [item for item in run.data.comparisons if item.op.endswith("/Tensor.mul.0.forward")]
    assert {item.reason for item in made} == {Reason.ADDEND}


def test_what_each_rank_has_is_said(golden, tmp_path):
    said = "\n".join(compared(golden, tmp_path, "tensor").record.warnings)
    assert "rank 1: the rank has of golden's blocks.0.q weight" in said
    assert "half 2 of 2 of its rows (column parallel)" in said


@pytest.mark.parametrize(
    ("theirs", "ours", "said"),
    [
        ("TP2", "TP4", "rank 3: it is held against golden's rank 1"),
        pytest.param(
            "TP4",
            "TP2",
            "rank 1: it is held against golden's ranks 2-3, put side by side",
            marks=pytest.mark.thorough,
        ),
        ("TP2", "DP2", "rank 1: it is held against golden's ranks 0-1, put side by side"),
        pytest.param(
            "DP4",
            "DDP2",
            "rank 1: it is held against golden's ranks 2-3, put side by side",
            marks=pytest.mark.thorough,
        ),
        ("DP2", "TP2", "half 2 of 2 of its rows (column parallel)"),
        pytest.param(
            "PP2", "PP3", "rank 0: it is held against golden's rank 0", marks=pytest.mark.thorough
        ),
        pytest.param(
            "TP2",
            "one rank",
            "it is held against golden's ranks 0-1, put side by side",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_healthy_job_beside_golden_of_another_layout(theirs, ours, said, golden_jobs, tmp_path):
    golden = golden_jobs(theirs)
    device = Job(seed=3, dtype="bfloat16", **JOBS[ours]).run(tmp_path / "job")
    run = dg.compare(golden, golden, device, device)
    assert run.verdict is Verdict.WITHIN_ROUNDING
    assert said in "\n".join(run.record.warnings)
    outputs = [item for item in run.data.comparisons if item.io is TensorIO.OUTPUT]
    outputs = [item for item in outputs if item.reason is not Reason.ADDEND]
    assert sum(item.compared for item in outputs) > 0.95 * len(outputs)


@pytest.mark.parametrize(
    ("theirs", "ours", "fault", "origin", "cause"),
    [
        ("TP2", "TP4", "kernel_on_one_rank", "rank1/Module.blocks.1.q.", "channel 3 is all zero"),
        ("TP4", "TP2", "all_reduce_means", "blocks.1.down", "it is the mean of what 2 ranks gave"),
        ("PP2", "TP2", "own_for_sum", "blocks.1.down", "rank 1 has what it gave itself"),
        pytest.param(
            "TP4",
            "TP2",
            "weight_on_one_rank",
            "rank1/Module.blocks.1.down",
            "its weight differs",
            marks=pytest.mark.thorough,
        ),
        ("TP2", "DP2", "weight_without_a_row", "blocks.1.up", "its weight differs"),
        pytest.param(
            "TP2",
            "DP2",
            "weight_of_another_layer",
            "blocks.2.q",
            "its weight differs",
            marks=pytest.mark.thorough,
        ),
        ("TP2", "DP2", "gradients_added_up", "ranks0-1/Distributed.all_reduce.0", "2 times"),
        pytest.param(
            "DDP2",
            "DP2",
            "gradients_added_up",
            "ranks0-1/Distributed.all_reduce.0",
            "2 times",
            marks=pytest.mark.thorough,
        ),
        ("DP2", "PP2", "message_cut", "ranks0>1/Distributed.send.0", "channels 24-31 are all zero"),
    ],
)
def test_a_fault_beside_golden_of_another_layout(
    theirs, ours, fault, origin, cause, golden_jobs, tmp_path
):
    golden = golden_jobs(theirs)
    device = Job(seed=3, dtype="bfloat16", fault=fault, **JOBS[ours]).run(tmp_path / "job")
    first = dg.compare(golden, golden, device, device).data.origins[0]
    assert origin in first.op
    assert first.cause.startswith(cause)


def test_ranks_that_read_the_data_of_half_of_goldens_ranks_were_fed_other_data(
    golden_jobs, tmp_path
):
    golden = golden_jobs("DP4")
    device = Job(seed=3, fault="data_repeated", **JOBS["DP2"]).run(tmp_path / "job")
    assert dg.compare(golden, golden, device, device).verdict is Verdict.INPUTS_DIFFER


def with_other_names(job: Path) -> Path:
    """The recorded *job* of a model that calls its modules otherwise."""
    for text in job.rglob("*.json"):
        text.write_text(named_otherwise(text.read_text()))
    for values in list(job.rglob("*.npy")):
        values.rename(values.with_name(named_otherwise(values.name)))
    return job


def named_otherwise(text: str) -> str:
    return text.replace("Module.blocks.", "Module.decoder.layers.").replace(".down.", ".fc2.")


@pytest.mark.parametrize("is_fused", [True, False], ids=["device fused", "golden fused"])
def test_layers_fused_on_one_side_and_of_other_names_are_mapped(is_fused, tmp_path):
    golden = Job(seed=3, fused=not is_fused).run(tmp_path / "golden")
    options = {"seed": 3, "layout": "tensor", "dtype": "bfloat16", "fused": is_fused}
    device = with_other_names(Job(**options).run(tmp_path / "device"))
    run = dg.compare(golden, golden, device, device)
    assert run.verdict is Verdict.WITHIN_ROUNDING
    said = "\n".join(run.record.warnings)
    fused = (
        "golden's q, k and v are the rank's decoder.layers.*.qkv in each of 3 layers: their rows "
        "one after the other"
    )
    part = "the rank's decoder.layers.*.k has rows 48 to 63 of golden's qkv in each of 3 layers"
    assert (fused if is_fused else part) in said
    assert "the rank's decoder.layers.0.fc2 is golden's blocks.0.down, and 2 more modules" in said
    outputs = [item for item in run.data.comparisons if item.io is TensorIO.OUTPUT]
    assert all(item.compared or item.reason is Reason.ADDEND for item in outputs)
    faulty = with_other_names(Job(**options, fault="kernel_on_one_rank").run(tmp_path / "faulty"))
    (origin,) = dg.compare(golden, golden, faulty, faulty).data.origins
    site = "rank1/Module.decoder.layers.1.qkv." if is_fused else "rank1/Module.decoder.layers.1.q."
    assert site in origin.op


def test_a_job_of_another_model_is_said_to_be_one(golden, tmp_path, monkeypatch):
    monkeypatch.setattr(made_job, "WIDTH", 24)
    run = compared(golden, tmp_path, "tensor")
    assert run.verdict is Verdict.UNDECIDED
    assert "the sides are different models" in run.data.run.analysis.doubt


def test_a_sum_where_golden_has_the_mean_is_said(golden, tmp_path):
    device = Job(seed=3, layout="data", fault="gradients_added_up").run(tmp_path / "job")
    run = dg.compare(golden, golden, device, device)
    (origin,) = run.data.origins
    assert origin.op == "ranks0-1/Distributed.all_reduce.0.forward"
    assert origin.cause == "2 times golden's: 2 ranks are added up, golden has the mean"


@pytest.mark.parametrize("seed", [1, 3])
def test_ranks_that_read_the_same_data_were_fed_other_data(seed, tmp_path):
    golden = Job(seed=seed).run(tmp_path / "golden")
    device = Job(seed=seed, layout="data", dtype="bfloat16", fault="data_repeated")
    run = dg.compare(golden, None, device.run(tmp_path / "job"), None)
    assert run.verdict is Verdict.INPUTS_DIFFER
    assert run.record.blame.because.startswith("some ranks read the same part of golden's data")
    assert not run.data.origins


def test_a_gradient_that_is_wrong_by_a_factor_is_no_fault_of_its_reduction(golden, tmp_path):
    run = compared(golden, tmp_path, "data", "gradient_doubled")
    (origin,) = run.data.origins
    assert origin.op == "rank0/Module.head.Linear.backward.0"
    assert origin.cause.endswith("(exactly 2); the same on ranks 0-1")
    assert "the error starts on ranks 0-1" in run.record.warnings


def test_a_reduction_nobody_recorded_is_run_again(golden, tmp_path):
    run = compared(golden, tmp_path, "wrapped", "hidden_left_out")
    (origin,) = run.data.origins
    assert origin.op == "ranks0-1/Distributed.head.weight.all_reduce.0.forward"
    assert origin.cause == "what rank 0 gave is missing"


@pytest.mark.parametrize(
    ("fault", "site"),
    [
        ("kernel_on_one_rank", "rank1/Module.blocks.1.q."),
        ("all_reduce_means", "ranks0-1/Module.blocks.1.down"),
        ("all_reduce_missing", "blocks.1"),
        ("weight_stale", "blocks.1.down"),
        ("call_extra", "blocks.1."),
        ("kernel_scales", "Module.blocks.1.v."),
    ],
)
def test_a_fault_of_a_rank_is_named_with_it(fault, site, golden, tmp_path):
    run = compared(golden, tmp_path, "tensor", fault)
    assert run.verdict is Verdict.DIVERGED
    assert site in run.data.origins[0].op
