"""Two msprobe dumps in a checksum mode: equal bits are equal tensors, others a difference."""

from __future__ import annotations

import json
from pathlib import Path

import divergraph as dg
from graphstore.model import Level, TensorIO, Verdict

CALLS = [f"Functional.{name}.0.forward" for name in ("conv2d", "relu", "linear", "softmax")]


def tensor(number: int, checksum: str, kind: str, *, alone: bool) -> dict[str, object]:
    told = {"type": "torch.Tensor", "dtype": "torch.float16", "shape": [8, 16], kind: checksum}
    if alone:
        return told
    statistics = {"Max": 2.5 + number, "Min": -1.25, "Mean": 0.125, "Norm": float("inf")}
    return told | statistics


def dump(folder: Path, checksums: list[str], kind: str = "md5", *, alone: bool = False) -> Path:
    """A dump of four calls in a row with the *checksums* of the first input and all outputs."""
    folder.mkdir()
    tensors = [tensor(at, text, kind, alone=alone) for at, text in enumerate(checksums)]
    data = {
        call: {"input_args": [tensors[at]], "input_kwargs": {}, "output": [tensors[at + 1]]}
        for at, call in enumerate(CALLS)
    }
    content = {"task": "statistics", "level": "L1", "framework": "pytorch", "data": data}
    (folder / "dump.json").write_text(json.dumps(content))
    return folder


def test_what_statistics_hide_is_named_where_checksums_prove_it(tmp_path):
    """The relu gives other values of equal statistics, which the linear behind it shows."""
    one = dump(tmp_path / "one", ["a", "b", "x", "y", "z"])
    other = dump(tmp_path / "other", ["a", "b", "c", "d", "e"])
    content = json.loads((one / "dump.json").read_text())
    for statistic in ("Max", "Min", "Norm"):
        content["data"]["Functional.linear.0.forward"]["output"][0][statistic] = 40.0
    (one / "dump.json").write_text(json.dumps(content))
    (origin,) = compared(one, other).data.origins
    assert origin.op == "Functional.relu.0.forward"
    assert origin.cause == (
        "it makes other values of equal ones (checksums); later calls show how far"
    )


def outputs(run: dg.Run) -> list[Level | None]:
    found = {item.op: item.level for item in run.data.comparisons if item.io is TensorIO.OUTPUT}
    return [found[call] for call in CALLS]


def compared(one: Path, other: Path) -> dg.Run:
    return dg.compare(other, other, one, one)


def test_equal_checksums_prove_equality_whatever_the_norm_says(tmp_path):
    sides = [dump(tmp_path / name, ["a", "b", "c", "d", "e"]) for name in ("one", "other")]
    run = compared(*sides)
    assert run.verdict is Verdict.CLEAN
    assert outputs(run) == [Level.PASS] * 4
    assert all(item.metrics.device_nonfinite == 0 for item in run.data.comparisons if item.metrics)
    proof = "no origin: identical, proved by the checksums of 8 tensors, inputs and weights"
    assert proof in run.record.warnings


def test_other_checksums_on_equal_statistics_are_a_difference_and_the_first_call_is_named(tmp_path):
    one = dump(tmp_path / "one", ["a", "b", "c", "x", "y"])
    run = compared(one, dump(tmp_path / "other", ["a", "b", "c", "d", "e"]))
    assert run.verdict is Verdict.WITHIN_ROUNDING
    assert outputs(run) == [Level.PASS, Level.PASS, Level.WARN, Level.WARN]
    (found,) = [each for each in run.data.findings if each.label == "not_deterministic"]
    assert (found.op, found.evidence["inputs_equal"]) == ("Functional.linear.0.forward", True)
    assert any(found.sentence == said for said in run.record.warnings)


def test_checksums_alone_say_which_tensors_are_equal(tmp_path):
    one = dump(tmp_path / "one", ["1", "2", "3", "9", "8"], "xor", alone=True)
    run = compared(one, dump(tmp_path / "other", ["1", "2", "3", "4", "5"], "xor", alone=True))
    assert outputs(run) == [Level.PASS, Level.PASS, None, None]
    differing = [item.op for item in run.data.comparisons if item.detail == "checksums differ"]
    assert set(differing) == {"Functional.linear.0.forward", "Functional.softmax.0.forward"}
    assert [each.op for each in run.data.findings] == ["Functional.linear.0.forward"]
    assert run.verdict is Verdict.UNDECIDED
    assert "checksums differ of 3 tensors" in run.record.analysis.doubt


def test_calls_whose_inputs_are_not_known_are_no_first_behind_another(tmp_path):
    sides = [dump(tmp_path / name, list(sums)) for name, sums in (("a", "abcde"), ("b", "abcxy"))]
    for side, number in zip(sides, (7, 8), strict=True):
        content = json.loads((side / "dump.json").read_text())
        grad = tensor(number, str(number), "md5", alone=False)
        content["data"] |= {
            f"Module.fc{at}.Linear.parameters_grad.0": {"weight": [grad]} for at in range(5)
        }
        (side / "dump.json").write_text(json.dumps(content))
    run = compared(*sides)
    told = [each.op for each in run.data.findings if each.label == "not_deterministic"]
    assert told == ["Functional.linear.0.forward"]
