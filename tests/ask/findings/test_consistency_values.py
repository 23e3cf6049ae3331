"""NaN, the end of float16 and flat outputs are named where they first appear."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from divergraph.consistency.checks import check_consistency
from graphstore.model import DType, TensorStatistics
from importers.dumps.index import OverflowRecord

CHAIN = (("a", "Conv2D", ()), ("b", "Mul", ("a",)), ("c", "Relu", ("b",)), ("d", "Add", ("c", "a")))
GOOD = np.linspace(-1, 1, 64, dtype=np.float16)


def changed(**at: float) -> np.ndarray:
    values = GOOD.copy()
    for place, value in at.items():
        values[int(place[1:])] = value
    return values


def found(graph, dump) -> list[tuple[str, str]]:
    return [(one.label, one.op) for one in check_consistency(graph, dump.index).findings]


def test_healthy_values_give_nothing(device_graph, dump):
    for name, _, _ in CHAIN:
        dump.add(name, GOOD)
    report = check_consistency(device_graph(*CHAIN), dump.index)
    assert (report.findings, report.tensors) == ((), 4)


@pytest.mark.parametrize(
    ("value", "label"), [(np.nan, "nan_appears"), (np.inf, "infinity_appears")]
)
def test_the_first_op_with_nan_or_infinity_is_named_and_those_after_it_counted(
    device_graph, dump, value, label
):
    dump.add("a", GOOD)
    for name in "bcd":
        dump.add(name, changed(_7=value))
    (finding,) = check_consistency(device_graph(*CHAIN), dump.index).findings
    assert (finding.label, finding.op, finding.port) == (label, "b", 0)
    assert finding.confidence > 0.5
    assert finding.evidence["first"] == 7
    assert finding.evidence["later_ops"] == 2


def test_an_op_behind_an_undumped_one_is_the_first_one_seen(device_graph, dump):
    dump.add("a", GOOD)
    dump.add("d", changed(_1=np.nan))
    assert found(device_graph(*CHAIN), dump) == [("nan_appears", "d")]


def test_nan_with_nothing_dumped_before_it_is_less_sure(device_graph, dump):
    dump.add("c", changed(_1=np.nan))
    (finding,) = check_consistency(device_graph(*CHAIN), dump.index).findings
    assert finding.confidence < 0.9
    assert "nothing before it was dumped" in finding.sentence


def test_infinities_of_a_mask_are_possibly_meant(device_graph, dump):
    dump.add("m", changed(_1=-np.inf, _2=-np.inf))
    (finding,) = check_consistency(device_graph(("m", "Fill", ())), dump.index).findings
    assert finding.confidence < 0.5
    assert "possibly" in finding.sentence


def test_the_end_of_float16_is_an_overflow_that_was_cut_off(device_graph, dump):
    dump.add("a", GOOD)
    dump.add("b", changed(_3=65504, _9=-65504))
    dump.add("c", changed(_3=65504))
    (finding,) = check_consistency(device_graph(*CHAIN), dump.index).findings
    assert (finding.label, finding.op) == ("float16_saturated", "b")
    assert finding.evidence["saturated"] == 2


def test_65504_in_float32_is_a_number_like_others(device_graph, dump):
    dump.add("b", changed(_3=65504).astype(np.float32))
    assert found(device_graph(*CHAIN), dump) == []


def test_values_that_vary_no_more_are_worth_a_look(device_graph, dump):
    for name, values in (("a", GOOD), ("b", np.zeros_like(GOOD)), ("c", np.zeros_like(GOOD))):
        dump.add(name, values)
    (finding,) = check_consistency(device_graph(*CHAIN), dump.index).findings
    assert (finding.label, finding.op) == ("all_zero", "b")
    assert finding.confidence < 0.5


@pytest.mark.parametrize("kind", ["ZerosLike", "Greater", "Fill", "Shape"])
def test_ops_that_make_constants_may(device_graph, dump, kind):
    dump.add("a", GOOD)
    dump.add("b", np.ones_like(GOOD))
    assert found(device_graph(("a", "Conv2D", ()), ("b", kind, ("a",))), dump) == []


def test_an_op_with_an_input_nobody_dumped_may_multiply_by_zero(device_graph, dump):
    graph = device_graph(("w", "Variable", ()), ("a", "Conv2D", ()), ("b", "Mul", ("a", "w")))
    dump.add("a", GOOD)
    dump.add("b", np.zeros_like(GOOD))
    assert found(graph, dump) == []


def test_padding_of_a_device_layout_is_not_looked_at(device_graph, dump):
    dump.add("a", GOOD)
    blocks = np.zeros((1, 1, 2, 2, 16), np.float16)
    blocks[..., :3] = 0.5
    dump.add("b", blocks, layout="NC1HWC0", original_shape=(1, 3, 2, 2))
    assert found(device_graph(*CHAIN), dump) == [("constant", "b")]


def test_statistics_alone_tell_of_nan(device_graph, dump):
    dump.add("a", GOOD)
    dump.add("b", GOOD, statistics=TensorStatistics(count=64, maximum=1.0, minimum=0.0, nans=3))
    assert found(device_graph(*CHAIN), dump) == [("nan_appears", "b")]


def test_integers_and_large_tensors_are_looked_at_block_by_block(device_graph, dump):
    large = np.ones(600_000, np.float16)
    large[550_000] = np.nan
    dump.add("a", np.arange(100))
    dump.add("b", large)
    (finding,) = check_consistency(device_graph(*CHAIN), dump.index).findings
    assert finding.evidence["first"] == 550_000


def test_an_unreadable_dump_is_passed_over(device_graph, dump):
    dump.add("a", GOOD)
    dump.tensors["a", next(iter(dump.tensors))[1], 0].path.unlink()
    report = check_consistency(device_graph(*CHAIN), dump.index)
    assert (report.findings, report.tensors) == ((), 0)


def test_what_the_device_recorded_is_told_once_for_each_op(device_graph, dump):
    dump.add("b", GOOD)
    record = OverflowRecord(Path("Opdebug.1"), 5, "AI Core", 1, 2, 0x100, ("float32 to float16",))
    named = OverflowRecord(Path("Opdebug.2"), 6, "AIC", 1, 3, 0x20, ("floating point",), op="b")
    dump.overflows = (record, named, named)
    assert found(device_graph(*CHAIN), dump) == [
        ("overflow_recorded", ""),
        ("overflow_recorded", "b"),
    ]
    assert DType.FLOAT16 in {ref.dtype for ref in dump.tensors.values()}
