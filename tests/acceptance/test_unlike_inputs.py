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

CASES = {
    "stem": (
        "bgr, undumped",
        "bgr and a late fault, undumped",
        "bgr and normalised, undumped, nor first",
        "shifted, dumped",
        "fault: no bias, undumped",
        "fault: one channel louder, undumped",
        "fault: other weights, undumped",
        "healthy, undumped",
    ),
    "unbiased": ("nhwc, undumped", "over 255, undumped", "halved, undumped", "zeros, undumped"),
    "patches": ("one other, undumped", "fault: no bias, undumped", "other data, undumped"),
    "branches": ("normalised, undumped", "fault: one offset, undumped"),
    "perceptron": ("one other, undumped", "other order, undumped", "fault: no bias, undumped"),
    "tokens": ("one word, undumped", "other vocabulary, undumped", "fault: table louder, undumped"),
}


@pytest.mark.parametrize("model", CASES)
def test_what_was_fed_is_told_from_what_was_computed(tmp_path, model):
    net = made.NETS[model]()
    golden = made.golden_of(net, tmp_path / "golden")
    cases = {case.name: case for case in made.cases(net)}
    for number, name in enumerate(CASES[model]):
        data = made.ran(net, cases[name], StandIn.FP16, tmp_path / str(number), golden)
        assert not made.wrong(cases[name], StandIn.FP16, data), name
