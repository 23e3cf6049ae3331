"""The error of a job over its ranks and layers."""

from __future__ import annotations

import re

import pytest

import divergraph as dg
from benchmarks.recorded_jobs.made_job import Job
from divergraph.ask.questions.ranks import RankLayer, RankMap
from divergraph.cli.ask.ranks_text import show_ranks
from graphstore.columns.op_attributes import job_ranks
from graphstore.errors import InputError
from graphstore.model import OpState, TensorIO


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Rank 1's kernel of ``blocks.1.q`` is wrong; both ranks share each layer."""
    folder = tmp_path_factory.mktemp("job")
    golden = Job(layout="tensor").run(folder / "golden")
    fault = Job(layout="tensor", dtype="bfloat16", fault="kernel_on_one_rank")
    return dg.compare(golden, None, fault.run(folder / "device"), None)


def test_each_layer_stands_on_each_rank_as_its_worst_op(job):
    answer = job.ask("ranks")
    by_place = {(row.layer, row.way, row.rank): row for row in answer.layers}
    assert answer.ranks == (0, 1)
    origins = [place for place, row in by_place.items() if row.state is OpState.ORIGIN]
    assert origins == [("blocks.1", "forward", 1)]
    assert by_place["blocks.1", "forward", 1].worst == job.data.origins[0].op
    assert by_place["blocks.0", "forward", 0].over == by_place["blocks.0", "forward", 1].over == 0
    ranks = {op.id: len(job_ranks(op.attrs)) for op in job.data.device.ops}
    off = {item.op for item in job.data.comparisons if item.over and item.io is TensorIO.OUTPUT}
    assert sum(row.ops for row in answer.layers) == sum(ranks.values()), (
        "one between ranks counts on each"
    )
    assert sum(row.over for row in answer.layers) == sum(ranks[op] for op in off)
    layers = list(dict.fromkeys(row.layer for row in answer.layers))
    assert layers.index("blocks.0") + 1 == layers.index("blocks.1"), "in the order they run in"


def test_ranks_that_fare_alike_share_a_column(capsys):
    rows = [RankLayer("a", "forward", rank, 2, 0, OpState.CLEAN, "op", None) for rank in range(3)]
    rows += [RankLayer("b", "forward", 3, 2, 1, OpState.INHERITED, "op", 0.1)]
    show_ranks(RankMap("run", (0, 1, 2, 3), tuple(rows)))
    lines = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["layer", "ranks 0-2", "rank 3"],
        ["a", "forward", "clean", "-"],
        ["b", "forward", "-", "inherited 1/2"],
    ]


def test_the_text_and_the_picture_say_where_it_starts(job, tmp_path, capsys):
    show_ranks(job.ask("ranks"))
    printed = capsys.readouterr().out
    assert re.search(r"^blocks\.1 +forward .*origin", printed, re.MULTILINE)
    assert f"the error starts in blocks.1 of rank 1: {job.data.origins[0].op}" in printed
    svg = job.plot_ranks().svg
    assert svg.count(", rank 1: origin, ") == 1
    assert ">inherited</text>" in svg, "the legend names the states"
    assert job.plot_ranks().save(tmp_path / "ranks.svg").stat().st_size


def test_a_run_of_no_ranks_is_refused(demo_run):
    with pytest.raises(InputError, match="not a run of a job of several ranks") as refused:
        demo_run.ask("ranks")
    assert "rank0, rank1" in refused.value.hint
