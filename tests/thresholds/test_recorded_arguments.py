"""Arguments of recorded calls that differ, as they are said."""

from __future__ import annotations

import pytest

from divergraph.thresholds.recorded.arguments import unlike_arguments
from graphstore.model import AttrValue, Op
from importers.msprobe.graph import ARGUMENTS


def call(tensors: tuple[str, ...], **values: AttrValue) -> Op:
    attrs = {"direction": "forward", ARGUMENTS: tensors}
    return Op("call", "call", "layer_norm", attrs=attrs | {f"input.{k}": values[k] for k in values})


MASK = "value -65504, golden 3.40282e+38"


@pytest.mark.parametrize(
    ("device", "golden", "said"),
    [
        (call(("0",), eps=0.01), call(("0",), eps=1e-6), "eps 0.01, golden 1e-06"),
        (call(("0", "1")), call(("0", "1", "2")), "argument 2 is none, golden a tensor"),
        (call(("0",), value=2), call(("0", "value")), "value 2, golden a tensor"),
        (call(("0.0", "0.1")), call(("0.0", "0.1", "0.2")), ""),
        (call(("0",), eps=1e-5), call(("0",), eps=1e-5), ""),
        # What a weight decay leaves, which 16 bits do not tell from one.
        (call(("0",), value=0.9999), call(("0",), value=0.99999), "value 0.9999, golden 0.99999"),
        (call(("0",), value=0.9999), call(("0",), value=0.99991), ""),
        # What masks are filled with: the smallest number of float16, and of float32.
        (call(("0",), value=-65504.0), call(("0",), value=-3.4028234663852886e38), ""),
        (call(("0",), value=-65504.0), call(("0",), value=3.4028234663852886e38), MASK),
    ],
)
def test_arguments_that_differ_are_named(device, golden, said):
    assert unlike_arguments(device, golden) == said


def test_how_many_rows_go_where_is_said_where_nothing_before_explains_it():
    ours, theirs = (
        Op("call", "call", "dist.all_to_all_single", attrs={"input.rank0.2.0": rows})
        for rows in (9, 10)
    )
    assert unlike_arguments(ours, theirs) == ""
    assert unlike_arguments(ours, theirs, with_sizes=True) == "rank0.2.0 9, golden 10"
