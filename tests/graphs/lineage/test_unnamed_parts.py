"""Parts of an original for which a device's graph has no name: they belong to what lies between."""

from __future__ import annotations

from divergraph.graphs.lineage import link_graphs
from graphstore.model import (
    Framework,
    GraphKind,
    InputRef,
    ModelGraph,
    Op,
    Tensor,
    TensorOrigin,
    TensorRef,
)


def chain(framework: Framework, *ops: tuple[str, str, tuple[str, ...] | None]) -> ModelGraph:
    """Ops (name, type, originals), each of which takes what the one before it makes."""
    made: list[Op] = []
    for name, kind, originals in ops:
        before = InputRef("", TensorRef(made[-1].id, 0)) if made else InputRef("x")
        origin = TensorOrigin(originals[-1], 0) if originals else None
        output = Tensor(f"t_{name}" if originals is None else name, origin=origin)
        made.append(Op(name, name, kind, (before,), outputs=(output,), original_names=originals))
    kind_of = GraphKind.ORIGINAL if framework is Framework.ONNX else GraphKind.DEVICE
    return ModelGraph("g", kind_of, framework, "", tuple(made), inputs=(Tensor("x"),))


def originals(golden: ModelGraph, device: ModelGraph) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {op.id: set() for op in device.ops}
    for link in link_graphs(golden, device).links:
        found[link.device].add(link.original)
    return found


def test_what_lies_between_belongs_to_the_ops_without_names():
    golden = chain(
        Framework.ONNX, ("in", "Mul", None), ("gru", "GRU", None), ("out", "Transpose", None)
    )
    device = chain(
        Framework.OPENVINO,
        ("in", "Eltwise", ("in",)),
        ("Split_12", "Split", ("Split_12",)),
        ("Reorder_1", "Reorder", ()),
        ("GRUSequence_13", "RNNSeq", ("GRUSequence_13",)),
        ("out", "Transpose", ("out",)),
    )
    assert originals(golden, device) == {
        "in": {"in"},
        "Split_12": {"gru"},
        "Reorder_1": set(),
        "GRUSequence_13": {"gru"},
        "out": {"out"},
    }


def test_the_first_parts_of_a_named_original():
    golden = chain(Framework.ONNX, ("in", "Mul", None), ("quantise", "DynamicQuantize", None))
    device = chain(
        Framework.OPENVINO,
        ("in", "Eltwise", ("in",)),
        ("ReduceMax_3", "Reduce", ("ReduceMax_3",)),
        ("quantise_1", "Subgraph", ("Divide_4", "quantise_1")),
    )
    found = originals(golden, device)
    assert found["ReduceMax_3"] == found["quantise_1"] == {"quantise"}


def test_what_a_fused_op_has_swallowed_stays_its_own():
    golden = chain(
        Framework.ONNX, ("conv", "Conv", None), ("norm", "BatchNorm", None), ("relu", "Relu", None)
    )
    device = chain(Framework.OPENVINO, ("conv", "Convolution", ("Multiply_9", "relu")))
    assert originals(golden, device) == {"conv": {"conv", "norm", "relu"}}
