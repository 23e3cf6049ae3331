"""What the commands print for people: aligned, complete, and true to paste."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from importlib.metadata import requires

import numpy as np

from divergraph.ask.questions.ops import OpsAnswer, OpsQuestion
from divergraph.ask.questions.unmatched import UnmatchedDeviceOp, UnmatchedOps
from divergraph.cli.make.demo_command import _typed_command
from divergraph.cli.metric_text import metric_text
from divergraph.cli.say import say_json_parts
from divergraph.cli.text import show_unmatched
from divergraph.metrics.measure import measure
from divergraph.present.declared_answer import json_of, listed_op, ops_parts
from divergraph.present.json_text import json_text
from divergraph.text.words import NOT_KNOWN, STATE_MARKS
from graphstore.model import Metric, Reason
from graphstore.open_store import open_store

ORIGIN = "LeNet/conv2/Conv2DRelu"


def test_ops_put_names_last_so_that_long_ones_move_nothing(divergraph, lenet_store):
    *lines, last = divergraph("ops", "fault", "--store", lenet_store).out.splitlines()
    assert last == "164 ops"
    assert len(lines) == 164
    assert {line[0] for line in lines} <= set(STATE_MARKS.values())
    assert all(line == line.rstrip() for line in lines)
    starts = {
        line.index(name) for line in lines for name in (" float32 ", " int64 ") if name in line
    }
    assert len(starts) == 1


def test_one_op_is_one_op(divergraph, lenet_store):
    shown = divergraph("ops", "fault", "--where", "state:origin", "--store", lenet_store).out
    assert shown.splitlines()[-1] == "1 op"


def test_a_trace_says_how_many_ends_it_leaves_out(divergraph, lenet_store):
    lines = divergraph("trace", "fault", ORIGIN, "--store", lenet_store).out.splitlines()
    ends = lines[lines.index("ends at") + 1 :]
    document = divergraph("trace", "fault", ORIGIN, "--store", lenet_store, "--json").json
    assert len(ends) == 6
    assert ends[-1] == f"  and {len(document['outputs']) - 5} more"


def test_the_doctor_names_every_library_the_package_needs(divergraph, tmp_path):
    named = {
        check["check"]
        for check in divergraph("doctor", "--store", tmp_path / "s", "--json").json["checks"]
    }
    needed = {text for text in requires("divergraph") or () if ";" not in text}
    assert {"rich", "platformdirs", "ladybug"} <= named
    assert len(needed) <= len(named)


def test_the_demo_names_the_program_as_it_was_called(monkeypatch, tmp_path):
    program = tmp_path / "a b" / "divergraph"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "")
    assert _typed_command() == f"'{program}'"
    monkeypatch.setenv("PATH", str(program.parent))
    assert shutil.which("divergraph") == str(program)
    assert _typed_command() == "divergraph"


def test_why_an_op_has_no_counterpart_is_said_once(capsys):
    ops = (
        UnmatchedDeviceOp("c", "Const", Reason.INSERTED, "inserted by the compiler, no original"),
        UnmatchedDeviceOp("t", "TransData", Reason.INSERTED, "no dump of t output:0"),
        UnmatchedDeviceOp("a", "Add", Reason.NO_OUTPUT),
        UnmatchedDeviceOp("b", "Add"),
    )
    show_unmatched(UnmatchedOps("run", ops, ()), None)
    assert capsys.readouterr().out.splitlines()[1:5] == [
        "  Const      c  inserted by the compiler, no original",
        "  TransData  t  inserted by the compiler (*): no dump of t output:0",
        "  Add        a  has no output",
        "  Add        b",
    ]


def test_what_statistics_do_not_tell_is_no_nan():
    metrics = measure(np.ones(4, np.float32), np.full(4, np.nan, np.float32)).metrics
    assert metric_text(metrics).startswith("cos      NaN  rel")
    unknown = replace(metrics, notes={Metric.COSINE_SIMILARITY: NOT_KNOWN})
    assert metric_text(unknown).startswith("cos        -  rel")


def test_the_ops_are_printed_while_the_others_are_not_made_yet(two_runs, capsys):
    question = OpsQuestion("first")
    with open_store(two_runs) as store:
        _, numbers = question.numbers(store)
        listed, rows = question.listed(store, numbers), question.ask(store)
    parts = ops_parts("first", map(listed_op, listed))
    assert next(parts) == '{\n  "run": "first",\n  "ops": ['
    say_json_parts(ops_parts("first", map(listed_op, listed)))
    assert capsys.readouterr().out == f"{json_text(json_of(question, rows))}\n"
    say_json_parts(ops_parts("first", []))
    assert capsys.readouterr().out == f"{json_text(json_of(question, OpsAnswer([])))}\n"


def test_origins_that_many_ops_have_are_printed_once(divergraph, lenet_store):
    answer = divergraph("ops", "fault", "--store", lenet_store, "--json").json
    with open_store(lenet_store) as store:
        rows = OpsQuestion("fault").ask(store).ops
    upstream = [tuple(answer["origins"].get(op["origins"], ())) for op in answer["ops"]]
    assert upstream == [row.origins for row in rows]
    assert len(answer["origins"]) < sum(op["origins"] is not None for op in answer["ops"])
    assert "origins" not in divergraph("op", "fault", ORIGIN, "--store", lenet_store, "--json").json
