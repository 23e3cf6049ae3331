"""The sentences about origins, steps and inputs: true in the odd cases too."""

from __future__ import annotations

import math

import pytest

from divergraph.ask import sentences as spread_words
from divergraph.ask.error_paths.path_steps import PathStep
from divergraph.text.numbers import small_number
from graphstore.model import (
    DeviceArithmetic,
    ErrorSplit,
    Guilt,
    InputMismatch,
    Level,
    MetricSet,
    OpState,
    Origin,
    Role,
    RunAnalysis,
    Side,
    TensorRef,
)
from graphstore.op_row import OpRow

METRICS = MetricSet(0.9, 0.1, 0.1, 0.2, 0.1, (0, 1, 0, 1), 0.1, 0.1, 0.1, 0.1, 8)


def origin(suspicion: float | None = None, cause: str | None = None, *inside: str) -> Origin:
    golden = tuple(TensorRef(name, -1) for name in inside)
    return Origin(1, "conv2", "Conv2D", 0, golden, METRICS, Level.FAIL, suspicion, cause)


def guilty(**more: object) -> ErrorSplit:
    return ErrorSplit(Role.INTRODUCES, Guilt.GUILTY, **more)


@pytest.mark.parametrize(
    ("start", "split", "dtype", "sentence"),
    [
        (
            origin(87.2, "bias missing in channels 8-15"),
            guilty(introduced=0.1, floor=0.001, suspicion=87.2),
            "float16",
            "conv2 introduces 87x the error its fp16 arithmetic explains; "
            "cause: bias missing in channels 8-15",
        ),
        (
            origin(),
            None,
            "float16",
            "conv2 is over a limit and nothing measured before it is; how much of the error it "
            "makes itself was not measured",
        ),
        (
            origin(12.0),
            guilty(suspicion=12.0, failure="no kernel for MyOp"),
            "",
            "conv2 stands out by how much the error grows there; no reference could be run: "
            "no kernel for MyOp",
        ),
        (
            origin(math.inf),
            guilty(introduced=math.inf, suspicion=math.inf),
            "float16",
            "conv2 makes NaN or Inf of finite inputs",
        ),
        (
            origin(4e7),
            guilty(introduced=math.inf, suspicion=4e7),
            "float32",
            "conv2 introduces 4.0e+07x the error its fp32 arithmetic explains",
        ),
        (
            origin(math.inf),
            guilty(introduced=0.5, floor=0.0, suspicion=math.inf),
            "int32",
            "conv2 introduces an error that its int32 arithmetic does not explain at all",
        ),
        (
            origin(12.0),
            guilty(suspicion=12.0, group=("a", "b", "c")),
            "bfloat16",
            "one of the 3 ops that end in conv2 introduces 12x the error its bf16 arithmetic "
            "explains",
        ),
        (
            origin(7.04, None, "a", "b"),
            guilty(suspicion=7.04, group=("a", "b")),
            "",
            "conv2 (2 originals in one) introduces 7.0x the error its arithmetic explains",
        ),
    ],
)
def test_what_an_origin_does(start, split, dtype, sentence):
    assert spread_words.origin_sentence(start, split, dtype) == sentence


def test_inputs_that_differ_are_nobodys_fault():
    text = spread_words.mismatch_sentence(InputMismatch("x", "x:0", 0.25, 1e-7))
    assert text == (
        "the device was fed other values of x:0 than golden (relative error 0.25): no op is to "
        "blame for that"
    )
    text = spread_words.mismatch_sentence(
        InputMismatch("", "x", None, None, "flipped along axis 3", ("conv",))
    )
    assert text == (
        "the device was fed golden's x flipped along axis 3, as the outputs of conv show; a dump "
        "of x would prove it: no op is to blame for that"
    )


def step(role: Role = Role.CARRIES, guilt: Guilt = Guilt.NONE, **more: object) -> PathStep:
    split = ErrorSplit(role, guilt)
    state = more.pop("state", OpState.INHERITED)
    row = OpRow(
        0, "op", "op", "Add", Side.DEVICE, "", "", None, "", 1, (), state,
        metrics=METRICS, split=split,
    )  # fmt: skip
    return PathStep(row, **more)


@pytest.mark.parametrize(
    ("given", "note"),
    [
        (step(), ""),
        (step(guilt=Guilt.GUILTY), "adds an error of its own"),
        (step(state=OpState.ORIGIN), "adds an error of its own"),
        (step(joins=("a", "b", "c")), "joined by a, b and 1 more"),
        (step(other_origins=("fc",)), "the error of fc joins"),
        (step(diluted=True, joins=("a",)), "joined by a; diluted by an input without error"),
        (step(healed=True, diluted=True), "healed"),
    ],
)
def test_what_happens_on_a_way(given, note):
    assert spread_words.step_note(given) == note


def test_a_way_may_start_at_an_op_that_is_no_origin():
    assert spread_words.step_note(step(), first=True) == "start"
    assert spread_words.step_note(step(state=OpState.ORIGIN), first=True) == "starts here"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (math.inf, "from nothing"),
        (620.4, "620x as much"),
        (2.5, "2.5x as much"),
        (0.89, "0.9x as much"),
        (0.025, "1/40 of it"),
        (1 / 1520, "1/1520 of it"),
        (5e-324, "nothing left"),
        (0, "nothing left"),
    ],
)
def test_ratios(ratio, text):
    assert spread_words.times_text(ratio) == text


def test_shares_can_cancel():
    assert spread_words.share_text(0.864) == "86% of the error at the outputs"
    assert spread_words.share_text(-0.2) == "its error takes 20% off the error at the outputs"


@pytest.mark.parametrize(
    ("arithmetic", "text"),
    [
        (DeviceArithmetic(), ""),
        (DeviceArithmetic("fp16", quantised=True), "fp16, int8"),
        (DeviceArithmetic("int8", quantised=True), "int8"),
        (DeviceArithmetic("fp32", operands={"convolutions": "hf32, cut"}), "fp32/hf32"),
        (DeviceArithmetic("fp16", operands={"convolutions": "hf32"}), "fp16"),
    ],
)
def test_the_arithmetic_of_a_device_in_words(arithmetic, text):
    assert str(arithmetic) == text


def test_by_which_limits_suspicion_is_judged():
    found = RunAnalysis(3, 5.5, "onnxruntime 1.31.1", arithmetic=DeviceArithmetic("fp16"))
    assert spread_words.limits_text(found) == (
        "suspicion: suspect above 3, guilty above 5.5; floors of fp16; "
        "reference run by onnxruntime 1.31.1"
    )
    assert spread_words.limits_text(RunAnalysis()) == (
        "suspicion: suspect above 6, guilty above 10"
    )


@pytest.mark.parametrize(
    ("start", "split", "group", "said"),
    [
        (origin(87, "a wrong scale"), guilty(introduced=math.inf), "", "a wrong scale"),
        (origin(), guilty(introduced=math.inf), "1 of 2", "makes NaN or Inf of finite inputs"),
        (
            origin(4e7),
            guilty(introduced=math.inf, suspicion=4e7),
            "",
            "makes numbers where the original op makes 0 only",
        ),
        (origin(), guilty(introduced=0.2), "1 of these 2 ops: a, b", "1 of these 2 ops: a, b"),
        (origin(), guilty(introduced=0.2, floor=0.01), "", "makes 0.2 of its own"),
        (origin(), guilty(failure="no kernel"), "", "no reference: no kernel"),
    ],
)
def test_why_an_op_is_accused_in_a_few_words(start, split, group, said):
    assert spread_words.reason_text(start, split, group) == said


def test_thousands_are_told_in_full():
    told = [small_number(value) for value in (87.24, 1004.4, 99999.4, 123456.0)]
    assert told == ["87.2", "1004", "99999", "1.23e+05"]
