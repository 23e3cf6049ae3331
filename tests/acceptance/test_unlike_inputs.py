"""A device that was fed something else: called that, dumped or not, and no op for it.

A small subset of what ``benchmarks/root_cause/unlike_inputs.py`` measures.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from divergraph.golden_capture import StandIn

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "root_cause"
if not BENCHMARK.is_dir():
    pytest.skip("benchmarks are not part of this copy", allow_module_level=True)
if str(BENCHMARK) not in sys.path:
    sys.path.append(str(BENCHMARK))

import unlike_inputs as made  # noqa: E402

pytestmark = pytest.mark.thorough

CASES = {
    ("stem", StandIn.FP16): (
        "bgr and a late fault, undumped",
        "bgr and normalised, undumped, nor first",
        "shifted, dumped",
        "fault: no bias, undumped",
        "fault: one channel louder, undumped",
        "fault: other weights, undumped",
        "healthy, undumped",
        # Where the input adds little, a bias rounded to float16 is most of the error.
        "over 255, undumped",
    ),
    ("unbiased", StandIn.FP16): (
        "nhwc, undumped",
        "over 255, undumped",
        "halved, undumped",
        "zeros, undumped",
    ),
    ("branches", StandIn.FP16): ("normalised, undumped", "fault: one offset, undumped"),
    # The windows of its convolution reach over the edge of what was fed otherwise.
    ("wide", StandIn.FP16): ("a corner, undumped", "fault: one offset, undumped"),
    ("perceptron", StandIn.FP16): (
        "one other, undumped",
        "other order, undumped",
        "fault: no bias, undumped",
    ),
    ("tokens", StandIn.FP16): (
        "one word, undumped",
        "other vocabulary, undumped",
        "fault: table louder, undumped",
    ),
    # Rows of a batch that are all alike look like a part that was lost.
    ("perceptron", StandIn.FP32): ("zeros, undumped", "one for all, undumped, nor first"),
    # A judge who knows all scales sees each tie that a guess has otherwise.
    ("stem", StandIn.INT8): (
        "zeros, dumped",
        "other order, undumped",
        "halved, undumped",
        "mean off, undumped",
    ),
    # What is beyond the ranges of quantisers follows from the input.
    ("perceptron", StandIn.INT8): (
        "other order, undumped, nor first",
        "normalised, undumped, nor first",
        "fault: louder, undumped",
    ),
    # The nearest rows of a table are golden's, so nothing else was looked up.
    ("tokens", StandIn.INT8): ("fault: one channel louder, undumped", "other order, undumped"),
}
SEEDS = {("tokens", StandIn.INT8): 6}
"""Of weights that show it, where those of seed 0 do not."""


@pytest.mark.parametrize(("model", "device"), CASES)
def test_what_was_fed_is_told_from_what_was_computed(tmp_path, monkeypatch, model, device):
    monkeypatch.setattr(made, "_SEED", [SEEDS.get((model, device), 0)])
    net = made.NETS[model]()
    golden = made.golden_of(net, tmp_path / "golden")
    cases = {case.name: case for case in made.cases(net)}
    # The first run of a device makes the model of a healthy one.
    for number, name in enumerate(("healthy, dumped", *CASES[model, device])):
        data = made.ran(net, cases[name], device, tmp_path / str(number), golden)
        assert not made.wrong(cases[name], device, data), name
