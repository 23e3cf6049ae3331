"""Lines the commands print about a run: how many, with which numbers, in which words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from layered_run import analysed_run, made_run

from divergraph.ask.error_paths.path_steps import ErrorRegion, PathSteps
from divergraph.ask.facts import Facts
from divergraph.ask.judging import Judging
from divergraph.ask.origin_answers import OriginAnswer, OriginsAnswer
from divergraph.ask.questions.roles import RoleCounts, RoleTable
from divergraph.ask.trace_answers import ErrorPath, Trace, TraceStep
from divergraph.cli.ask.propagation_text import show_origins_answer, show_roles, show_trace
from divergraph.cli.text import show_run, show_steps
from divergraph.rootcause.next_dump import NextDump
from graphstore.contract import RunData
from graphstore.model import Guilt, OpState, Side
from graphstore.op_row import OpRow
from graphstore.traverse.arrays import arrays_from_edges
from tests.made.op_columns import columns_of


@pytest.fixture
def printed(capsys):
    """The lines of what a function prints."""

    def call(show, *arguments, **more):
        show(*arguments, **more)
        return capsys.readouterr().out.splitlines()

    return call


def answer_of(data: RunData, *origins: OriginAnswer) -> OriginsAnswer:
    return OriginsAnswer(data.run, origins, ())


def test_of_many_tensors_the_five_worst_are_shown(printed):
    data = made_run("14")
    lines = printed(show_run, data)
    head = lines.index("worst tensors")
    shown = lines[head + 1 : lines.index("", head)]
    assert [line.split()[-1].removesuffix(":0") for line in shown] == [
        "model/layer_5/BatchMatMul",  # NaN
        "model/layer_2/Softmax",
        "model/layer_2/BatchMatMul",
        "model/layer_2/Add",
        "model/layer_2/LayerNorm",
    ]


def test_each_step_shows_how_many_times_the_error_grew(printed):
    steps = [
        TraceStep(
            OpRow(
                0, name, name, "Add", Side.DEVICE, "", "", None, "", 1, (), OpState.CLEAN, gain=gain
            ),
            far,
        )
        for far, (name, gain) in enumerate([("a", None), ("b", 3.2549), ("c", 0.01)])
    ]
    lines = [line.split() for line in printed(show_steps, steps)]
    assert lines == [[".", "0", "a"], [".", "1", "x3.25", "b"], [".", "2", "x0.01", "c"]]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [(1, 1, "leaves 1 op"), (2, 2, "leaves 2 ops"), (3, 1, "leaves 3 or 1 ops")],
)
def test_the_next_dump_says_how_many_ops_it_leaves(printed, before, after, said):
    data = analysed_run()
    one = OriginAnswer(
        data.origins[0], Guilt.GUILTY, "said", next_dump=NextDump("join", "join", before, after)
    )
    assert f"       next best dump: join ({said})" in printed(
        show_origins_answer, answer_of(data, one)
    )


def test_runs_judged_by_thresholds_name_the_command_that_goes_further(printed):
    data = made_run("my run")
    hint = "`divergraph analyse 'my run'` runs the ops again to find them"
    assert printed(show_origins_answer, answer_of(data))[-1] == hint
    table = RoleTable(data.run, RoleCounts({}, {}), (), Judging.of(data.run))
    assert printed(show_roles, table)[-1] == hint
    split = analysed_run()
    assert "analyse" not in "".join(printed(show_origins_answer, answer_of(split)))


@pytest.mark.parametrize(
    ("error", "said"),
    [(0.0213, " (error 0.0213)"), (math.inf, " (NaN or infinite values)"), (None, "")],
)
def test_other_ends_say_how_bad_they_are(printed, error, said):
    step = OpRow(0, "a", "a", "Add", Side.DEVICE, "", "", None, "", 1, ())
    facts = Facts(Side.DEVICE, arrays_from_edges(["a"], ([], [])), columns_of([step]))
    region = ErrorRegion(facts, 0, np.array([True]), np.zeros(0, np.int32), np.zeros(1))
    steps = PathSteps(region, np.zeros(1, np.int32), {})
    paths = tuple(ErrorPath(to, steps, number, 0, ()) for to, number in (("y", 0.5), ("z", error)))
    trace = Trace("a", (TraceStep(step, 0),), ("y", "z"), 0, 0, (), paths)
    assert f"another end: z{said}; --to follows it" in printed(
        show_trace, trace, whole=False, most=None
    )
