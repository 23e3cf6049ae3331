"""A run of statistics says which calls to dump with values next, as msprobe's config.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import divergraph as dg
from benchmarks.recorded_jobs.made_job import Job
from divergraph.ask.next_calls import next_calls
from graphstore.errors import InputError
from graphstore.model import Side, Verdict


def compared(folder: Path, fault: str, store: dg.Store | None = None, **options: str) -> dg.Run:
    golden = Job(mode="statistics", **options).run(folder / "golden")
    device = Job(mode="statistics", dtype="bfloat16", fault=fault, **options).run(folder / "device")
    return dg.compare(golden, golden, device, device, store=store, name="cheap")


def test_a_call_between_ranks_is_dumped_next_on_all_of_them(tmp_path):
    run = compared(tmp_path, "all_reduce_means", layout="tensor")
    for side in Side:
        found = next_calls(run.data, side)
        assert found.calls == ("Functional.linear.11.forward", "Distributed.all_reduce.3.forward")
        assert (found.ranks, found.steps) == ((0, 1), (0,))


def test_where_no_start_is_known_the_calls_before_are_dumped(tmp_path):
    run = compared(tmp_path, "kernel_softmax_of_another_axis")
    assert run.verdict is Verdict.UNDECIDED
    found = next_calls(run.data, Side.DEVICE)
    assert "Functional.softmax.1.forward" in found.calls, "the culprit, whose statistics pass"
    assert found.ranks == ()


def test_of_a_healthy_run_nothing_is_dumped(tmp_path):
    with pytest.raises(InputError, match="nothing in cheap is over a limit"):
        next_calls(compared(tmp_path, "").data, Side.DEVICE)


def test_the_advice_names_the_command_that_writes_the_file(tmp_path, divergraph):
    store, file = tmp_path / "store", tmp_path / "config.json"
    with dg.open_store(store) as opened:
        compared(tmp_path, "all_reduce_means", opened, layout="tensor")
    advice = divergraph("advise", "cheap", "--store", store).out
    assert "Dump values of 2 calls on 2 ranks next" in advice
    command = ["dump-config", "msprobe", "--run", "cheap", "--store", store, "-o", file]
    assert "`divergraph dump-config msprobe --run cheap`" in advice
    assert divergraph(*command).code == 0
    config = json.loads(file.read_text())
    assert (config["task"], config["rank"], config["step"]) == ("tensor", [0, 1], [0])
    assert "Distributed.all_reduce.3.forward" in config["tensor"]["list"]
    wrong = divergraph("dump-config", "acl-json", "--run", "cheap", "--store", store)
    assert (wrong.code, "--run goes with msprobe" in wrong.err) == (2, True)
