"""A Relu that a quantiser folded away leaves its name on a tensor that is not its own."""

from __future__ import annotations

import pytest

from divergraph.graphs.lineage import Unmatched, link_graphs
from graphstore.model import (
    Framework,
    GraphKind,
    InputRef,
    LineageRule,
    ModelGraph,
    Op,
    Reason,
    Tensor,
    TensorMatch,
    TensorRef,
)


def graph(*ops):
    """Ops as (name, type, inputs, output tensor), each with one output."""
    makers = {tensor: TensorRef(name, 0) for name, _, _, tensor in ops}
    return ModelGraph(
        "g",
        GraphKind.ORIGINAL,
        Framework.ONNX,
        "test",
        tuple(
            Op(
                name,
                name,
                kind,
                tuple(InputRef(each, makers.get(each)) for each in inputs),
                outputs=(Tensor(tensor),),
            )
            for name, kind, inputs, tensor in ops
        ),
    )


GOLDEN = graph(
    ("conv", "Conv", ["x"], "c"),
    ("relu", "Relu", ["c"], "r"),
    ("next", "Conv", ["r"], "y"),
)


def quantised(name="conv", kind="Conv", *more):
    return graph(
        (name, kind, ["x"], "r"),
        ("q", "QuantizeLinear", ["r"], "r_q"),
        ("dq", "DequantizeLinear", ["r_q"], "r_dq"),
        ("next", "Conv", ["r_dq"], "y"),
        *more,
    )


def matches(device):
    outputs = link_graphs(GOLDEN, device).outputs
    return {
        ref.op: (found.golden.op, found.rule) if isinstance(found, TensorMatch) else found.reason
        for ref, found in outputs.items()
    }


def test_the_conv_equals_the_conv_and_what_is_dequantised_the_relu():
    assert matches(quantised()) == {
        "conv": ("conv", LineageRule.SAME_NAME),
        "q": ("relu", LineageRule.THROUGH_INSERTED),
        "dq": ("relu", LineageRule.THROUGH_INSERTED),
        "next": ("next", LineageRule.SAME_TENSOR),
    }


def test_of_another_name_the_conv_is_left_to_the_values():
    found = matches(quantised("other"))
    assert found["other"] is Reason.UNMATCHED
    assert found["dq"] == ("relu", LineageRule.THROUGH_INSERTED)
    said = link_graphs(GOLDEN, quantised("other")).outputs[TensorRef("other", 0)]
    assert isinstance(said, Unmatched)
    assert "'relu', which was folded into the quantisation" in said.detail


@pytest.mark.parametrize(
    "device",
    [
        quantised("relu", "Relu"),
        quantised("conv", "Conv", ("also", "Sigmoid", ["r"], "s")),
        graph(("conv", "FusedConv", ["x"], "r"), ("next", "Conv", ["r"], "y")),
    ],
    ids=["the Relu is still there", "others read it unquantised", "fused, not quantised"],
)
def test_elsewhere_the_name_is_right(device):
    first = device.ops[0].id
    assert matches(device)[first] == ("relu", LineageRule.SAME_TENSOR)
