"""Steps and ranks of msprobe are chosen once, for the graph and its dump alike."""

from __future__ import annotations

import json

import pytest

from divergraph.comparison.compare_run import CompareRequest, compare
from graphstore.errors import InputError
from importers.dumps.contract import DumpChoice


def write_run(folder, value):
    tensor = {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [4],
        "Max": value,
        "Min": -value,
        "Mean": 0.0,
        "Norm": value,
    }
    calls = {f"Torch.relu.{int(value)}.forward": {"input_args": [tensor], "output": [tensor]}}
    folder.mkdir(parents=True)
    head = {"task": "statistics", "level": "L1", "framework": "pytorch"}
    (folder / "dump.json").write_text(json.dumps(head | {"data": calls}))


@pytest.fixture
def runs(tmp_path):
    for side in ("gpu", "npu"):
        for step in (0, 1):
            for rank in (0, 1):
                folder = tmp_path / side / f"step{step}" / f"rank{rank}"
                write_run(folder, 1.0 + 10 * step + rank)
    return tmp_path


def compared(runs, choice, golden_dump="gpu"):
    gpu, npu = runs / "gpu", runs / "npu"
    data = compare(CompareRequest(gpu, runs / golden_dump, npu, npu, choice=choice))
    return [op.name for op in data.device.ops if "relu" in op.name], data.run


def test_the_chosen_step_and_rank(runs):
    names, run = compared(runs, DumpChoice(rank=1, step=1))
    assert names == ["Torch.relu.12.forward"]
    assert run.inputs["device"].endswith("step1/rank1")


def test_without_a_choice_all_ranks_of_the_first_step_are_one_job_and_it_is_said(runs):
    names, run = compared(runs, DumpChoice())
    assert names == ["rank0/Torch.relu.1.forward", "rank1/Torch.relu.2.forward"]
    assert any("device graph step0: 2 ranks as one job" in note for note in run.warnings)


def test_a_chosen_step_has_all_its_ranks(runs):
    names, run = compared(runs, DumpChoice(step=1))
    assert names == ["rank0/Torch.relu.11.forward", "rank1/Torch.relu.12.forward"]
    assert run.inputs["device"].endswith("step1")


def test_a_dump_given_below_the_folder_of_the_graph_chooses_it(runs):
    _, run = compared(runs, DumpChoice(), "gpu/step1/rank0")
    assert run.inputs["golden"].endswith("step1/rank0")


def test_a_step_that_is_not_there_is_refused(runs):
    with pytest.raises(InputError, match="no step 7"):
        compared(runs, DumpChoice(step=7))
