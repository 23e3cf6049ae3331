"""What a compared run says of NaN, overflow and lost values without reading a file."""

from __future__ import annotations

import numpy as np

from divergraph.consistency.stored_run import run_findings

CHAIN = (("a", "Conv2D", ()), ("b", "Mul", ("a",)), ("c", "Relu", ("b",)))
GOLDEN = np.linspace(-1, 1, 64, dtype=np.float32)
GOOD = GOLDEN.astype(np.float16)


def put(value: float, values: np.ndarray = GOOD) -> np.ndarray:
    made = values.copy()
    made[5] = value
    return made


def labels(run) -> list[tuple[str, str]]:
    return [(finding.label, finding.op) for finding in run_findings(run)]


def test_a_run_without_faults_has_no_findings(device_graph, run_of):
    assert labels(run_of(device_graph(*CHAIN), dict.fromkeys("abc", (GOOD, GOLDEN)))) == []


def test_the_first_nan_golden_does_not_have(device_graph, run_of):
    bad = put(np.nan), GOLDEN
    run = run_of(device_graph(*CHAIN), {"a": (GOOD, GOLDEN), "b": bad, "c": bad})
    (finding,) = run_findings(run)
    assert (finding.label, finding.op) == ("nan_appears", "b")
    assert finding.evidence["later_ops"] == 1
    infinite = put(np.inf), GOLDEN
    assert labels(run_of(device_graph(*CHAIN), {"b": infinite})) == [("infinity_appears", "b")]


def test_what_golden_has_too_is_not_named(device_graph, run_of):
    mask = put(-np.inf), put(-np.inf, GOLDEN)
    assert labels(run_of(device_graph(*CHAIN), {"a": mask, "b": mask})) == []
    zeros = np.zeros(64, np.float16), np.zeros(64, np.float32)
    assert labels(run_of(device_graph(*CHAIN), {"b": zeros})) == []


def test_values_cut_off_at_the_end_of_float16(device_graph, run_of):
    run = run_of(device_graph(*CHAIN), {"a": (GOOD, GOLDEN), "b": (put(65504), put(9e5, GOLDEN))})
    (finding,) = run_findings(run)
    assert (finding.label, finding.op) == ("float16_saturated", "b")
    assert "900000" in finding.sentence


def test_values_all_lost(device_graph, run_of):
    zero, ones = np.zeros(64, np.float16), np.ones(64, np.float16)
    run = run_of(device_graph(*CHAIN), {"a": (GOOD, GOLDEN), "b": (zero, GOLDEN)})
    assert labels(run) == [("all_zero", "b")]
    run = run_of(device_graph(*CHAIN), {"a": (ones, GOLDEN), "b": (zero, GOLDEN)})
    assert labels(run) == [("constant", "a")]
