"""Jobs of several ranks compared as one: calls between ranks are run again on what all gave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divergraph as dg
from benchmarks.recorded_jobs.made_job import Job
from divergraph.layouts.by_definition import by_definition
from divergraph.values.array_types import Array
from graphstore.model import Verdict
from importers.dumps.read import read_array
from importers.msprobe.job_index import scan_job
from importers.msprobe.job_names import RANKS as RANKS_OF_A_CALL
from tests.made.recorded_ranks import write_ranks

RANKS = 3
Flow = Callable[[list[Array], int], tuple[str, list[Any], list[Any]]]
"""Of what each rank has (float32 [6, 8]) and a rank: the call's kind, arguments and output."""


def parts(value: Array) -> list[Array]:
    return np.split(value, RANKS)


def added(tensors: list[Array]) -> Array:
    return np.sum(tensors, axis=0, dtype=np.float32)


FLOWS: dict[str, Flow] = {
    "sum": lambda own, rank: ("all_reduce", [own[rank]], [added(own)]),
    "largest": lambda own, rank: (
        "all_reduce",
        [own[rank], "RedOpType.MAX"],
        [np.max(own, axis=0)],
    ),
    "mean": lambda own, rank: (
        "all_reduce",
        [own[rank], "RedOpType.AVG"],
        [added(own) / np.float32(RANKS)],
    ),
    "product": lambda own, rank: (
        "all_reduce",
        [own[rank], "RedOpType.PRODUCT"],
        [own[0] * own[1] * own[2]],
    ),
    "sums of a list": lambda own, rank: (
        "all_reduce_coalesced",
        [parts(own[rank])],
        [parts(added(own))],
    ),
    "sum at a root": lambda own, rank: (
        "reduce",
        [own[rank], 2],
        [added(own) if rank == 2 else own[rank] * 7, 2],
    ),
    "broadcast": lambda own, rank: ("broadcast", [own[rank], 1], [own[1], 1]),
    "gathered list": lambda own, rank: ("all_gather", [None, own[rank]], [own, own[rank]]),
    "gathered": lambda own, rank: (
        "all_gather_into_tensor",
        [None, own[rank]],
        [np.concatenate(own), own[rank]],
    ),
    "gathered at a root": lambda own, rank: (
        "gather",
        [own[rank], None, 1],
        [own[rank], own if rank == 1 else None, 1],
    ),
    "scattered": lambda own, rank: (
        "scatter",
        [None, parts(own[1]) if rank == 1 else None, 1],
        [parts(own[1])[rank], parts(own[1]) if rank == 1 else None, 1],
    ),
    "sum of a chunk": lambda own, rank: (
        "reduce_scatter_tensor",
        [None, own[rank]],
        [added([parts(each)[rank] for each in own]), own[rank]],
    ),
    "sum of a list": lambda own, rank: (
        "reduce_scatter",
        [None, parts(own[rank])],
        [added([parts(each)[rank] for each in own]), parts(own[rank])],
    ),
    "exchanged": lambda own, rank: (
        "all_to_all_single",
        [None, own[rank]],
        [np.concatenate([parts(each)[rank] for each in own]), own[rank]],
    ),
    "exchanged lists": lambda own, rank: (
        "all_to_all",
        [None, parts(own[rank])],
        [[parts(each)[rank] for each in own], parts(own[rank])],
    ),
}


WRITTEN = {"sum at a root": (2, 0), "gathered at a root": (1, 1)}
"""A rank that gets something, and in which argument; elsewhere rank 1 in the first."""


def spoilt(output: list[Any], at: int) -> list[Any]:
    """*output* with four numbers of tensor *at* lost, of a list in the first one."""
    wrong = list(output)
    if isinstance(wrong[at], list):
        wrong[at] = spoilt(wrong[at], 0)
    else:
        wrong[at] = wrong[at].copy()
        wrong[at].flat[3:7] = 0
    return wrong


def compared(flow: Flow, folder, wrong: int | None = None, at: int = 0) -> dg.ComparedRun:
    """The run of a job that does *flow*; output *at* of a *wrong* rank is spoilt on the device."""
    own = [
        np.random.default_rng(rank).standard_normal((6, 8)).astype(np.float32)
        for rank in range(RANKS)
    ]
    for side in ("golden", "device"):
        calls = {}
        for rank in range(RANKS):
            kind, arguments, output = flow(own, rank)
            output = spoilt(output, at) if side == "device" and rank == wrong else output
            calls[rank] = [
                ("Torch.mul.0.forward", [own[rank] / 2, 2], {}, [own[rank]]),
                (f"Distributed.{kind}.0.forward", arguments, {}, output),
            ]
        write_ranks(folder / side / "step0", calls)
    golden, device = folder / "golden", folder / "device"
    return dg.compare(golden, None, device, None)


@pytest.mark.parametrize("name", FLOWS)
def test_a_call_between_ranks_is_run_again(name, tmp_path):
    run = compared(FLOWS[name], tmp_path)
    assert run.verdict is Verdict.CLEAN
    assert any(said.startswith("4 of 4 calls were run again") for said in run.data.run.warnings)
    job = run.data.device
    dumped = scan_job(Path(job.source), job).tensors
    defined = by_definition(job, {}, dumped)  # as where golden has no such call
    assert list(defined.of_device) == [op.id for op in job.ops if RANKS_OF_A_CALL in op.attrs]
    for key, tensor in defined.tensors.items():
        assert tensor.shape == dumped[key].shape
        assert np.allclose(read_array(tensor), read_array(dumped[key]), atol=1e-6)


@pytest.mark.parametrize("name", FLOWS)
def test_what_one_rank_gets_wrong_is_its_fault(name, tmp_path):
    wrong, at = WRITTEN.get(name, (1, 0))
    run = compared(FLOWS[name], tmp_path, wrong, at)
    (origin,) = run.data.origins
    output = run.data.device.op_index()[origin.op].outputs[origin.output]
    assert origin.op.startswith("ranks0-2/Distributed.")
    assert f".output.rank{wrong}." in output.name


@pytest.mark.parametrize(
    ("layout", "fault", "origin"),
    [
        ("tensor", "kernel_on_one_rank", "rank1/Module.blocks.1.q."),
        pytest.param(
            "tensor",
            "all_reduce_means",
            "ranks0-1/Module.blocks.1.down.",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "tensor",
            "all_reduce_missing",
            "rank0/Module.blocks.1.Block.forward.0/Module.blocks.1.down",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "tensor", "chunk_lost", "ranks0-1/Module.blocks.1.down.", marks=pytest.mark.thorough
        ),
        ("data", "weight_of_a_copy", "rank1/Module.blocks.1.down."),
        pytest.param(
            "tensor", "kernel_zeroes_a_channel", ("rank0/", "rank1/"), marks=pytest.mark.thorough
        ),
        ("wrapped", "hidden_left_out", "ranks0-1/Distributed.head.weight.all_reduce."),
    ],
)
def test_one_line_names_the_rank_and_what_follows_is_silent(layout, fault, origin, tmp_path):
    golden = Job(layout=layout).run(tmp_path / "golden")
    device = Job(layout=layout, dtype="bfloat16", fault=fault).run(tmp_path / "device")
    run = dg.compare(golden, None, device, None)
    (only,) = run.data.origins
    assert only.op.startswith(origin)


@pytest.mark.parametrize(
    ("layout", "fault", "cause"),
    [
        ("tensor", "largest_for_sum", "it is the largest of what 2 ranks gave, golden the sum"),
        pytest.param(
            "tensor", "own_for_sum", "rank 1 has what it gave itself", marks=pytest.mark.thorough
        ),
        pytest.param(
            "data",
            "mean_missing",
            "(the mean of 2 ranks: the device has their sum)",
            marks=pytest.mark.thorough,
        ),
        ("wrapped", "hidden_sum", "op RedOpType.SUM, golden RedOpType.AVG"),
        (
            "wrapped",
            "hidden_dropped",
            "Distributed.head.weight.all_reduce.0.forward on the gradient",
        ),
        pytest.param(
            "data",
            "gradient_scaled",
            "what rank 1 gives, 2 times golden's, is off already",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_the_cause_names_what_was_done_in_place_of_it(layout, fault, cause, tmp_path):
    golden = Job(layout=layout).run(tmp_path / "golden")
    device = Job(layout=layout, dtype="bfloat16", fault=fault).run(tmp_path / "device")
    run = dg.compare(golden, None, device, None)
    assert cause in run.data.origins[0].cause


def test_it_is_said_which_ranks_are_clean(tmp_path):
    golden = Job(layout="data").run(tmp_path / "golden")
    device = Job(layout="data", dtype="bfloat16", fault="kernel_of_a_copy").run(tmp_path / "device")
    run = dg.compare(golden, None, device, None)
    assert "the error starts on rank 1; nothing is over a limit on rank 0" in run.data.run.warnings


@pytest.mark.parametrize(
    "layout",
    [
        "tensor",
        pytest.param("data", marks=pytest.mark.thorough),
        "pipeline",
        pytest.param("wrapped", marks=pytest.mark.thorough),
    ],
)
def test_a_healthy_job_is_within_rounding(layout, tmp_path):
    golden = Job(layout=layout, seed=3).run(tmp_path / "golden")
    device = Job(layout=layout, seed=3, dtype="bfloat16").run(tmp_path / "device")
    assert dg.compare(golden, None, device, None).verdict is Verdict.WITHIN_ROUNDING
