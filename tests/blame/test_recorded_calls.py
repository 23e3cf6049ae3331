"""Blame in recorded runs: parts of the squared error, handed back from call to call."""

from __future__ import annotations

from pathlib import Path

import pytest

import divergraph as dg
from benchmarks.recorded_jobs.made_job import Job
from graphstore.errors import InputError


@pytest.fixture(scope="module")
def golden(tmp_path_factory) -> Path:
    return Job(seed=4).run(tmp_path_factory.mktemp("golden") / "job")


LOGITS = ("Module.head.Linear.forward.0.output.0",)


def compared(golden: Path, folder: Path, fault: str, store: Path) -> dg.Run:
    device = Job(seed=4, dtype="bfloat16", fault=fault).run(folder)
    return dg.compare(golden, None, device, None, store=str(store))


@pytest.mark.parametrize(
    ("fault", "call"),
    [
        ("kernel_scales", "Functional.linear.8.forward"),
        ("kernel_zeroes_a_channel", "Functional.linear.10.forward"),
    ],
)
def test_the_call_at_fault_has_most_of_the_error(fault, call, golden, tmp_path):
    run = compared(golden, tmp_path / "job", fault, tmp_path / "store")
    found = run.blame(outputs=LOGITS, exact=[run.data.origins[0].op])
    first, second, *_ = found.shares
    assert first.op.endswith(call)
    assert first.share > 0.5 > second.share
    assert sum(each.share for each in found.shares) <= 1.0 + 1e-6
    assert found.what_if is not None
    assert found.what_if.left == pytest.approx((1.0 - first.share) ** 0.5)
    assert any("call by call" in said for said in found.warnings)


def test_an_error_is_handed_back_through_calls_between_ranks(tmp_path):
    """An all_reduce brings what a kernel of rank 1 put in to both."""
    golden = Job(seed=4, layout="tensor").run(tmp_path / "golden")
    device = Job(seed=4, layout="tensor", dtype="bfloat16", fault="kernel_on_one_rank")
    job = device.run(tmp_path / "job")
    run = dg.compare(golden, None, job, None, store=str(tmp_path / "store"))
    (origin,) = run.data.origins
    found = run.blame(outputs=("rank0/Functional.cross_entropy.0.forward.output.0",))
    assert found.shares[0].op == origin.op
    assert found.shares[0].share > 0.5
    assert all(share.share < 0.05 for share in found.shares if "all_reduce" in share.op)


def test_a_missing_call_has_its_share_where_its_result_is_read(tmp_path):
    golden = Job(seed=4, layout="tensor").run(tmp_path / "golden")
    device = Job(seed=4, layout="tensor", dtype="bfloat16", fault="all_reduce_missing")
    job = device.run(tmp_path / "job")
    run = dg.compare(golden, None, job, None, store=str(tmp_path / "store"))
    found = run.blame(outputs=("rank0/Functional.cross_entropy.0.forward.output.0",))
    readers = [each for each in found.shares if each.op.endswith("Tensor.__add__.3.forward")]
    assert readers == list(found.shares[:2])  # of both ranks
    assert sum(each.share for each in readers) > 0.9


def test_roundings_alone_are_spread_over_many_calls(golden, tmp_path):
    run = compared(golden, tmp_path / "job", "", tmp_path / "store")
    found = run.blame(outputs=LOGITS)
    assert len(found.shares) > 10
    assert found.shares[0].share < 0.5


def test_a_list_for_several_recorded_runs_is_refused(golden, tmp_path):
    store = tmp_path / "store"
    run = compared(golden, tmp_path / "job", "", store)
    with pytest.raises(InputError, match="one at a time"):
        run.blame([run])
