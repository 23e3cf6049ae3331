"""Two runs of the same model on the same device must agree bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from divergraph.consistency.checks import check_consistency

CHAIN = (
    ("a", "Conv2D", ()),
    ("b", "ReduceSum", ("a",)),
    ("c", "Exp", ("b",)),
    ("d", "Exp", ("a",)),
)
GOOD = np.linspace(0.1, 1, 64, dtype=np.float16)
NEXT = np.nextafter(GOOD, np.float16(2))


def both(dump, second, **in_second: np.ndarray) -> None:
    for name, _, _ in CHAIN:
        dump.add(name, GOOD)
        second.add(name, in_second.get(name, GOOD))


def test_runs_that_agree_give_nothing(device_graph, dump, second):
    both(dump, second)
    report = check_consistency(device_graph(*CHAIN), dump.index, second.index)
    assert (report.findings, report.repeated, report.differing) == ((), 4, 0)


def test_the_op_whose_result_varies_is_named_not_those_after_it(device_graph, dump, second):
    both(dump, second, b=NEXT, c=NEXT)
    report = check_consistency(device_graph(*CHAIN), dump.index, second.index)
    (finding,) = report.findings
    assert (finding.label, finding.op) == ("not_deterministic", "b")
    assert finding.evidence["later_ops"] == 1
    assert (report.repeated, report.differing) == (4, 2)


def test_a_difference_from_the_start_may_be_the_data(device_graph, dump, second):
    both(dump, second, a=NEXT, b=NEXT)
    (finding,) = check_consistency(device_graph(*CHAIN), dump.index, second.index).findings
    assert finding.op == "a"
    assert finding.confidence <= 0.5
    dump.takes("a", GOOD)
    second.takes("a", NEXT)
    (finding,) = check_consistency(device_graph(*CHAIN), dump.index, second.index).findings
    assert finding.label == "inputs_differ"


@pytest.mark.parametrize("kind", ["RandomUniform", "DropOutDoMask", "StatelessRandomNormalV2"])
def test_random_numbers_vary(device_graph, dump, second, kind):
    graph = device_graph(("a", "Conv2D", ()), ("b", kind, ("a",)), *CHAIN[2:])
    both(dump, second, b=NEXT)
    (finding,) = check_consistency(graph, dump.index, second.index).findings
    assert finding.label == "random_op"


def test_tensors_in_one_dump_only_are_not_held(device_graph, dump, second):
    dump.add("a", GOOD)
    second.add("b", NEXT)
    report = check_consistency(device_graph(*CHAIN), dump.index, second.index)
    assert (report.findings, report.repeated) == ((), 0)


@pytest.mark.shared
def test_two_runs_of_lenet_part_at_the_op_with_the_fault(lenet):
    from divergraph.inputs.sources import load_dumps, load_graph

    graph = load_graph(lenet / "npu_fault" / "graph").graph
    clean, fault = (
        load_dumps(lenet / side / "dump", graph, "device").index
        for side in ("npu_clean", "npu_fault")
    )
    (finding,) = check_consistency(graph, fault, clean).findings
    assert (finding.label, finding.op) == ("not_deterministic", "LeNet/conv2/Conv2DRelu")
    assert check_consistency(graph, clean).findings == ()
