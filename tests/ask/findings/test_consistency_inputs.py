"""A dumped input is held against what its producer put out."""

from __future__ import annotations

import numpy as np
import pytest

from divergraph.consistency.checks import check_consistency
from graphstore.model import Finding, TensorIO

CHAIN = (("a", "Conv2D", ()), ("b", "Mul", ("a",)))
GOOD = np.linspace(-1, 1, 64, dtype=np.float16)


def changed(start: int, end: int) -> np.ndarray:
    values = GOOD.copy()
    values[start:end] += 1
    return values


def findings(graph, dump) -> tuple[Finding, ...]:
    return check_consistency(graph, dump.index).findings


def test_memory_that_was_written_to_in_between_is_found(device_graph, dump):
    dump.add("a", GOOD, address=0x1000)
    dump.takes("b", changed(16, 32), address=0x1000)
    dump.add("b", GOOD * 2, address=0x9000)
    (finding,) = findings(device_graph(*CHAIN), dump)
    assert (finding.label, finding.op, finding.io, finding.port) == (
        "input_changed",
        "b",
        TensorIO.INPUT,
        0,
    )
    assert finding.confidence > 0.5
    evidence = finding.evidence
    assert (evidence["producer"], evidence["producer_output"]) == ("a", 0)
    assert (evidence["different"], evidence["first_different"]) == (16, 16)
    assert (evidence["last_different"], evidence["in_one_piece"]) == (31, True)
    assert evidence["input_address"] == evidence["output_address"] == 0x1000


def test_the_same_values_are_fine_and_counted(device_graph, dump):
    dump.add("a", GOOD)
    dump.takes("b", GOOD)
    report = check_consistency(device_graph(*CHAIN), dump.index)
    assert (report.findings, report.inputs, report.inputs_skipped) == ((), 1, 0)


def test_nan_is_the_same_as_nan_and_zero_as_minus_zero(device_graph, dump):
    dump.add("a", np.array([np.nan, 0.0, 1.0], np.float32))
    dump.takes("b", np.array([np.nan, -0.0, 1.0], np.float32))
    found = {finding.label for finding in findings(device_graph(*CHAIN), dump)}
    assert "input_changed" not in found


def test_a_layout_in_between_is_undone(device_graph, dump):
    image = np.arange(3 * 4 * 4, dtype=np.float16).reshape(1, 3, 4, 4)
    blocks = np.zeros((1, 1, 4, 4, 16), np.float16)
    blocks[0, 0, :, :, :3] = image[0].transpose(1, 2, 0)
    of = {"layout": "NC1HWC0", "original_shape": (1, 3, 4, 4)}
    dump.add("a", image, layout="NCHW", original_shape=(1, 3, 4, 4))
    dump.takes("b", blocks, **of)
    graph = device_graph(*CHAIN)
    report = check_consistency(graph, dump.index)
    assert (report.findings, report.inputs) == ((), 1)
    blocks[0, 0, 2, 2, 1] = 99
    dump.takes("b", blocks, **of)
    assert [finding.label for finding in findings(graph, dump)] == ["input_changed"]


def test_a_cast_in_between_rounds(device_graph, dump):
    exact = np.linspace(0.1, 3, 50, dtype=np.float32)
    dump.add("a", exact)
    dump.takes("b", exact.astype(np.float16))
    assert findings(device_graph(*CHAIN), dump) == ()
    dump.takes("b", (exact * 1.1).astype(np.float16))
    assert [finding.label for finding in findings(device_graph(*CHAIN), dump)] == ["input_changed"]


def test_a_cast_to_integers_cuts_off_and_is_not_held_against_it(device_graph, dump):
    dump.add("a", np.float32([1.7, 2.2]))
    dump.takes("b", np.int32([1, 2]))
    report = check_consistency(device_graph(*CHAIN), dump.index)
    assert (report.findings, report.inputs_skipped) == ((), 1)


def test_ops_that_keep_the_bytes_are_looked_through(device_graph, dump):
    graph = device_graph(
        ("a", "Conv2D", ()), ("r", "Reshape", ("a",)), ("b", "MatMul", ("r",)), ("c", "Exp", ("a",))
    )
    dump.add("a", GOOD)
    dump.takes("b", changed(0, 1).reshape(8, 8))
    (finding,) = findings(graph, dump)
    assert (finding.op, finding.evidence["producer"]) == ("b", "a")


def test_a_change_of_layout_nobody_dumped_is_looked_through(device_graph, dump):
    graph = device_graph(("a", "Conv2D", ()), ("t", "TransData", ("a",)), ("b", "Mul", ("t",)))
    image = np.arange(3 * 4 * 4, dtype=np.float16).reshape(1, 3, 4, 4)
    blocks = np.zeros((1, 1, 4, 4, 16), np.float16)
    blocks[0, 0, :, :, :3] = image[0].transpose(1, 2, 0)
    dump.add("a", image, layout="NCHW")
    dump.takes("b", blocks, layout="NC1HWC0", original_shape=(1, 3, 4, 4))
    report = check_consistency(graph, dump.index)
    assert (report.findings, report.inputs, report.inputs_skipped) == ((), 1, 0)
    blocks[0, 0, 1, 1, 0] = 500
    dump.takes("b", blocks, layout="NC1HWC0", original_shape=(1, 3, 4, 4))
    (finding,) = findings(graph, dump)
    assert (finding.label, finding.evidence["producer"]) == ("input_changed", "a")


def test_the_same_values_in_an_order_nobody_tells_are_not_blamed(device_graph, dump):
    graph = device_graph(("a", "Conv2D", ()), ("t", "TransData", ("a",)), ("b", "Mul", ("t",)))
    image = np.arange(3 * 4 * 4, dtype=np.float16).reshape(1, 3, 4, 4)
    dump.add("a", image, layout="NCHW")
    dump.takes("b", image.transpose(0, 2, 3, 1), layout="NHWC")
    report = check_consistency(graph, dump.index)
    assert (report.findings, report.inputs, report.inputs_skipped) == ((), 0, 1)


@pytest.mark.parametrize("kind", ["Data", "Exp"])
def test_without_the_producers_dump_nothing_is_said(device_graph, dump, kind):
    graph = device_graph(("a", kind, ()), ("b", "Mul", ("a",)))
    dump.takes("b", GOOD)
    report = check_consistency(graph, dump.index)
    assert (report.findings, report.inputs, report.inputs_skipped) == ((), 0, 1)


def test_an_op_that_overwrites_its_own_input_is_possibly_the_reason(device_graph, dump):
    dump.add("a", GOOD)
    dump.takes("b", GOOD * 2)
    dump.add("b", GOOD * 2)
    (finding,) = findings(device_graph(*CHAIN), dump)
    assert finding.label == "input_possibly_overwritten"
    assert finding.confidence < 0.5
    assert "possibly" in finding.sentence


@pytest.mark.parametrize(
    ("ops", "reason"),
    [
        ((("a", "Conv2D", ()), ("b", "AssignAdd", ("a",))), "may write its input"),
        (
            (("a", "Conv2D", ()), ("u", "ScatterNdUpdate", ("a",)), ("b", "Mul", ("a",))),
            "u takes the same tensor",
        ),
    ],
)
def test_ops_known_to_write_in_place_are_possibly_the_reason(device_graph, dump, ops, reason):
    dump.add("a", GOOD)
    dump.takes("b", changed(0, 9))
    (finding,) = findings(device_graph(*ops), dump)
    assert finding.label == "input_possibly_overwritten"
    assert reason in str(finding.evidence["possible_reason"])


def test_an_address_shared_with_its_output_or_a_later_producer_too(device_graph, dump):
    dump.add("a", GOOD, timestamp=50)
    dump.takes("b", changed(0, 9), timestamp=40)
    (finding,) = findings(device_graph(*CHAIN), dump)
    assert "loop" in finding.sentence
    dump.add("a", GOOD)
    dump.takes("b", changed(0, 9), address=64)
    dump.add("b", GOOD, address=64)
    (finding,) = findings(device_graph(*CHAIN), dump)
    assert "same address" in finding.sentence


def test_address_0_is_no_address(device_graph, dump):
    dump.add("a", GOOD, address=0)
    dump.takes("b", changed(0, 9), address=0)
    dump.add("b", GOOD, address=0)
    (finding,) = findings(device_graph(*CHAIN), dump)
    assert finding.label == "input_changed"
    assert "input_address" not in finding.evidence
