"""A constant that several ops share, of which a device in 8 bits holds a copy for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.root_cause import unlike_inputs
from divergraph.golden_capture import StandIn
from graphstore.model import Verdict


def test_a_bias_has_the_scale_of_each_convolution_that_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two images, each with a convolution of the same kernel and bias: 3 % between their scales
    made the second guilty."""
    monkeypatch.setattr(unlike_inputs, "_SEED", [3])
    net = unlike_inputs.two_images()
    golden = unlike_inputs.golden_of(net, tmp_path / "golden")
    healthy = next(case for case in unlike_inputs.cases(net) if case.name.startswith("healthy"))

    data = unlike_inputs.ran(net, healthy, StandIn.INT8, tmp_path / "device", golden)

    assert data.run.verdict is Verdict.WITHIN_ROUNDING
