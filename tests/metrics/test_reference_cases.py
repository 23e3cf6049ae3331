"""The ten metrics beside those that the reference comparator wrote for the same tensors."""

from __future__ import annotations

import importlib.util
import json
import math
import re
from pathlib import Path

import pytest

from divergraph.metrics.measure import measure
from graphstore.model import Metric

HERE = Path(__file__).parent
WRITTEN: dict[str, dict[str, str]] = json.loads(
    (HERE / "reference_cases.json").read_text(encoding="utf-8")
)


def _cases():
    spec = importlib.util.spec_from_file_location("reference_cases", HERE / "reference_cases.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CASES


CASES = _cases()


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"[^();,]+", text)]


def test_every_case_was_written():
    assert set(WRITTEN) == set(CASES)


@pytest.mark.parametrize("case", sorted(CASES))
def test_the_metrics_are_those_of_the_reference(case):
    device, golden = CASES[case]()
    measured = measure(device, golden).metrics
    for metric in Metric:
        text = WRITTEN[case][metric.title().replace("_", "")]
        found = measured.value(metric)
        for got, want in zip(
            found if isinstance(found, tuple) else [found], numbers(text), strict=False
        ):
            if math.isfinite(want):
                # It writes six decimals (three of mean and deviation), of float32 sums.
                decimals = 1e-3 if metric is Metric.STANDARD_DEVIATION else 1e-6
                assert got == pytest.approx(want, rel=2e-6, abs=1.1 * decimals), metric
            else:
                assert got == want or (math.isnan(got) and math.isnan(want)), metric
