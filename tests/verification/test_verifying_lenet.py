"""``verify`` on the two device runs of the LeNet training step."""

from __future__ import annotations

import pytest

import divergraph as dg
from graphstore.errors import InputError
from graphstore.model import Verdict

pytestmark = pytest.mark.thorough

FAULTY = "LeNet/conv2/Conv2DRelu"


def test_of_a_healthy_run_nothing_is_wrong(divergraph, lenet):
    run = lenet / "npu_clean"
    done = divergraph(
        "verify", run / "dump", "--graph", run / "graph", "--weights", lenet / "golden"
    )
    assert done.code == 0
    assert done.out.splitlines()[:2] == [
        "verify: clean",
        "  every op that was run made its outputs",
    ]
    assert "125 of 126 ops run; not run: GetNext 1" in done.out


def test_the_faulty_op_and_no_other_with_its_cause(divergraph, lenet):
    run = lenet / "npu_fault"
    given = ("verify", run / "dump", "--graph", run / "graph", "--weights", lenet / "golden")
    told = divergraph(*given, "--json")
    assert told.code == 1
    (wrong,) = told.json["wrong"]
    assert (wrong["op"], wrong["output"], wrong["guilt"]) == (FAULTY, 0, "guilty")
    assert wrong["cause"].startswith("bias missing in slices 8-15 of axis 3")
    assert "LeNet/conv2/bias:0" in wrong["cause"]
    assert (told.json["suspects"], told.json["verdict"]) == ([], "diverged")
    text = divergraph(*given).out
    assert text.splitlines()[1] == "  1 op cannot have made what it dumped"
    assert wrong["cause"] in text


def test_without_the_weights_the_first_line_says_what_could_not_be_judged(divergraph, lenet):
    run = lenet / "npu_fault"
    done = divergraph("verify", run / "dump", "--graph", run / "graph")
    assert done.code == 2
    first, second, third, *_ = done.out.splitlines()
    assert first.startswith("not judged: 42 ops, for want of 18 tensors that nothing holds (LeNet/")
    assert "--weights DIR" in first
    assert second == "verify: undecided"
    assert third == "  nothing is wrong with the ops that were run"
    found = dg.verify(run / "dump", run / "graph")
    assert (found.verdict, found.wrong) == (Verdict.UNDECIDED, ())
    assert found.not_covered[FAULTY] == "its input 2, LeNet/conv2/bias:0, was not dumped"
    assert "LeNet/conv2/bias:0" in found.unjudged[FAULTY]
    assert found.types["Conv2D"] == 2
    assert found.verified + len(found.not_covered) == found.dumped


def test_what_cannot_be_used_is_said(divergraph, lenet):
    run = lenet / "npu_clean"
    assert "give its --graph" in divergraph("verify", run / "dump").err
    done = divergraph("verify", run / "no", "--graph", run / "graph")
    assert (done.code, "no such dump" in done.err) == (2, True)
    given = ("verify", run / "dump", "--graph", run / "graph")
    assert "no such folder" in divergraph(*given, "--weights", run / "no").err
    assert "no such model" in divergraph(*given, "--om", run / "no.om").err
    with pytest.raises(InputError, match="have no definition here"):
        dg.verify(lenet / "golden", lenet / "model.ckpt.meta")
