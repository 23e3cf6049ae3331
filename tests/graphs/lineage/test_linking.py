"""Fused, split, inserted and renamed device ops find their originals, with evidence."""

from __future__ import annotations

from divergraph.graphs.lineage import Unmatched, link_graphs
from graphstore.model import (
    Framework,
    GraphKind,
    InputRef,
    LineageLink,
    LineageRule,
    ModelGraph,
    Op,
    Reason,
    Tensor,
    TensorMatch,
    TensorOrigin,
    TensorRef,
)


def op(name, kind="Op", inputs=(), outputs=1, **more):
    refs = tuple(InputRef(f"{source}:0", TensorRef(source, 0)) for source in inputs)
    tensors = more.pop("tensors", None) or tuple(
        Tensor(f"{name}:{port}") for port in range(outputs)
    )
    return Op(name, name, kind, refs, outputs=tensors, **more)


def tensor_from(origin, port=0):
    return Tensor("", origin=TensorOrigin(origin, port))


def graph(*ops, kind=GraphKind.ORIGINAL, framework=Framework.TENSORFLOW):
    return ModelGraph("g", kind, framework, "test", ops)


def device(*ops):
    return graph(*ops, kind=GraphKind.DEVICE, framework=Framework.ASCEND)


GOLDEN = graph(
    op("x"),
    op("conv/Conv2D", inputs=["x"]),
    op("conv/BiasAdd", inputs=["conv/Conv2D"]),
    op("conv/Relu", inputs=["conv/BiasAdd"]),
    op("bn", inputs=["conv/Relu"], outputs=3),
)


def test_one_device_op_made_of_several_originals_equals_the_last_of_them():
    fused = op(
        "conv/Conv2D",
        original_names=("conv/Conv2D", "conv/BiasAdd", "conv/Relu"),
        tensors=(tensor_from("conv/Relu"),),
    )
    lineage = link_graphs(GOLDEN, device(fused))
    match = lineage.outputs[TensorRef("conv/Conv2D", 0)]
    assert match == TensorMatch(
        TensorRef("conv/Conv2D", 0), TensorRef("conv/Relu", 0), LineageRule.ORIGIN_OUTPUT
    )
    assert [(link.original, link.original_port) for link in lineage.links] == [
        ("conv/Conv2D", None),
        ("conv/BiasAdd", None),
        ("conv/Relu", 0),
    ]
    assert {link.rule for link in lineage.links} == {LineageRule.ORIGINAL_NAMES}


def test_an_equal_name_does_not_make_outputs_equal():
    """A folded bias keeps the convolution's name; its output is the addition's."""
    folded = op(
        "conv/Conv2D",
        original_names=("conv/BiasAdd", "conv/Conv2D"),
        tensors=(tensor_from("conv/BiasAdd"),),
    )
    match = link_graphs(GOLDEN, device(folded)).outputs[TensorRef("conv/Conv2D", 0)]
    assert isinstance(match, TensorMatch)
    assert match.golden == TensorRef("conv/BiasAdd", 0)


def test_one_original_split_over_several_device_ops():
    reduce = op(
        "bn_reduce",
        original_names=("bn",),
        tensors=(Tensor(""), Tensor("")),
        attrs={"_datadump_is_multiop": True},
    )
    update = op(
        "bn_update",
        inputs=["bn_reduce"],
        original_names=("bn",),
        tensors=(tensor_from("bn", 0), tensor_from("bn", 2)),
        attrs={"_datadump_is_multiop": True},
    )
    lineage = link_graphs(GOLDEN, device(reduce, update))
    inner = lineage.outputs[TensorRef("bn_reduce", 0)]
    assert isinstance(inner, Unmatched)
    assert inner.reason is Reason.INNER_OF_SPLIT
    third = lineage.outputs[TensorRef("bn_update", 1)]
    assert isinstance(third, TensorMatch)
    assert third.golden == TensorRef("bn", 2)
    assert [(link.device, link.original) for link in lineage.links] == [
        ("bn_reduce", "bn"),
        ("bn_update", "bn"),
    ]


def test_an_inserted_op_has_no_original_and_is_no_failure():
    cast = op("trans_Cast_0", "Cast", original_names=())
    lineage = link_graphs(GOLDEN, device(cast))
    assert lineage.links == ()
    assert lineage.outputs[TensorRef("trans_Cast_0", 0)] == Unmatched(
        Reason.INSERTED, "inserted by the compiler, no original"
    )


def test_an_inserted_op_whose_output_names_a_tensor_is_compared_with_it():
    cast = op("trans_Cast_0", "Cast", original_names=(), tensors=(tensor_from("conv/Relu"),))
    lineage = link_graphs(GOLDEN, device(cast))
    match = lineage.outputs[TensorRef("trans_Cast_0", 0)]
    assert isinstance(match, TensorMatch)
    assert match.golden == TensorRef("conv/Relu", 0)
    assert lineage.links == ()


def test_a_renamed_op_alone_with_its_original_takes_over_its_output():
    renamed = op("PReluD", original_names=("conv/Relu",), tensors=(Tensor(""),))
    match = link_graphs(GOLDEN, device(renamed)).outputs[TensorRef("PReluD", 0)]
    assert isinstance(match, TensorMatch)
    assert (match.golden, match.rule) == (TensorRef("conv/Relu", 0), LineageRule.RENAMED)


def test_an_op_without_attributes_is_its_own_original():
    lineage = link_graphs(GOLDEN, device(op("bn", outputs=3)))
    assert lineage.links == (LineageLink("bn", "bn", LineageRule.SAME_NAME, 0, 0),)
    match = lineage.outputs[TensorRef("bn", 2)]
    assert isinstance(match, TensorMatch)
    assert match.golden == TensorRef("bn", 2)


def test_an_original_the_golden_graph_lacks_is_named():
    lost = op("a", original_names=("gone",), tensors=(tensor_from("gone", 1),))
    found = link_graphs(GOLDEN, device(lost)).outputs[TensorRef("a", 0)]
    assert isinstance(found, Unmatched)
    assert found.reason is Reason.UNKNOWN_ORIGINAL
    assert "gone:1" in found.detail


def test_an_inserted_cast_passes_its_inputs_value_on():
    ops = (
        op("conv/Relu"),
        op("trans_Cast_0", "Cast", inputs=["conv/Relu"], original_names=()),
        op("trans_TransData_1", "TransData", inputs=["trans_Cast_0"], original_names=()),
        op("bn", inputs=["trans_TransData_1"], outputs=3),
    )
    lineage = link_graphs(GOLDEN, device(*ops))
    for name in ("trans_Cast_0", "trans_TransData_1"):
        match = lineage.outputs[TensorRef(name, 0)]
        assert isinstance(match, TensorMatch)
        assert match.golden == TensorRef("conv/Relu", 0)
        assert match.rule is LineageRule.THROUGH_INSERTED
    assert {link.device for link in lineage.links} == {"conv/Relu", "bn"}


def test_inputs_are_held_against_the_producer_behind_inserted_casts():
    ops = (
        op("conv/Relu"),
        op("trans_Cast_0", "Cast", inputs=["conv/Relu"], original_names=()),
        op("bn", inputs=["trans_Cast_0"], outputs=3),
    )
    lineage = link_graphs(GOLDEN, device(*ops))
    match = lineage.input_match(ops[2], 0)
    assert isinstance(match, TensorMatch)
    assert match.golden == TensorRef("conv/Relu", 0)
    assert match.rule is LineageRule.THROUGH_INSERTED
    assert lineage.input_match(ops[2], 7) is None


def test_an_original_cast_is_no_way_through():
    golden = graph(op("x"), op("Cast", "Cast", inputs=["x"]), op("y", inputs=["Cast"]))
    ops = (op("x"), op("Cast", "Cast", inputs=["x"]), op("y", inputs=["Cast"]))
    match = link_graphs(golden, device(*ops)).input_match(ops[2], 0)
    assert isinstance(match, TensorMatch)
    assert match.golden == TensorRef("Cast", 0)


def test_lossy_names_are_found_when_only_one_original_fits():
    lineage = link_graphs(GOLDEN, device(op("conv_Relu")))
    match = lineage.outputs[TensorRef("conv_Relu", 0)]
    assert isinstance(match, TensorMatch)
    assert match.golden == TensorRef("conv/Relu", 0)
    two = graph(op("a/b"), op("a.b"))
    found = link_graphs(two, device(op("a_b"))).outputs[TensorRef("a_b", 0)]
    assert isinstance(found, Unmatched)


def test_two_device_runs_meet_in_their_originals():
    one = op("Conv2DRelu", original_names=("c", "r"), tensors=(tensor_from("r"),))
    other = op("c_ub_fusion", original_names=("c", "r"), tensors=(tensor_from("r"),))
    match = link_graphs(device(one), device(other)).outputs[TensorRef("c_ub_fusion", 0)]
    assert isinstance(match, TensorMatch)
    assert match.golden == TensorRef("Conv2DRelu", 0)


def onnx_op(name, kind, inputs, output):
    refs = tuple(InputRef(ref, TensorRef(source, 0)) for ref, source in inputs)
    return Op(name, name, kind, refs, outputs=(Tensor(output),))


ONNX_GOLDEN = graph(
    onnx_op("c", "Conv", [], "t1"),
    onnx_op("s", "Sigmoid", [("t1", "c")], "t2"),
    onnx_op("m", "Mul", [("t1", "c"), ("t2", "s")], "t3"),
    onnx_op("r", "Relu", [("t3", "m")], "t4"),
    framework=Framework.ONNX,
)


def test_tensor_names_survive_fusion_and_originals_between_them_belong_to_the_fused_op():
    fused = graph(
        onnx_op("c", "Conv", [], "t1"),
        onnx_op("m/QuickGeluFusion/", "QuickGelu", [("t1", "c")], "t3"),
        onnx_op("r_renamed", "Relu", [("t3", "m/QuickGeluFusion/")], "t4"),
        framework=Framework.ONNX,
    )
    lineage = link_graphs(ONNX_GOLDEN, fused)
    assert {(link.device, link.original, link.rule) for link in lineage.links} == {
        ("c", "c", LineageRule.SAME_TENSOR),
        ("m/QuickGeluFusion/", "m", LineageRule.SAME_TENSOR),
        ("m/QuickGeluFusion/", "s", LineageRule.BETWEEN_TENSORS),
        ("r_renamed", "r", LineageRule.SAME_TENSOR),
    }


def test_a_fused_ops_tensor_is_the_one_behind_its_reshape_not_the_one_it_is_named_after():
    golden = graph(
        onnx_op("x", "Relu", [], "t0"),
        onnx_op("m", "MatMul", [("t0", "x")], "t1"),
        onnx_op("a", "Add", [("t1", "m")], "t2"),
        framework=Framework.ONNX,
    )
    fused = graph(
        onnx_op("x", "Relu", [], "t0"),
        onnx_op("in_reshape", "Reshape", [("t0", "x")], "in_arg"),
        onnx_op("m/MatMulAddFusion", "Gemm", [("in_arg", "in_reshape")], "out_arg"),
        onnx_op("out_reshape", "Reshape", [("out_arg", "m/MatMulAddFusion")], "t2"),
        framework=Framework.ONNX,
    )
    lineage = link_graphs(golden, fused)
    found = {ref.op: match.golden for ref, match in lineage.outputs.items()}
    assert found == {
        "x": TensorRef("x", 0),
        "in_reshape": TensorRef("x", 0),
        "m/MatMulAddFusion": TensorRef("a", 0),
        "out_reshape": TensorRef("a", 0),
    }
    assert {link.original for link in lineage.links if link.device == "m/MatMulAddFusion"} == {
        "a",
        "m",
    }


def test_ops_of_a_blocked_layout_are_linked_but_their_values_are_not_guessed():
    blocked = graph(onnx_op("t1_nchwc", "Conv", [], "reorder_token_1"), framework=Framework.ONNX)
    lineage = link_graphs(ONNX_GOLDEN, blocked)
    assert lineage.links == (LineageLink("t1_nchwc", "c", LineageRule.FUSION_NAME),)
    found = lineage.outputs[TensorRef("t1_nchwc", 0)]
    assert isinstance(found, Unmatched)
    assert found.reason is Reason.LAYOUT_UNSUPPORTED


def test_a_cast_the_converter_added_is_inserted():
    cast = graph(onnx_op("x_cast", "Cast", [], "x_cast_out"), framework=Framework.ONNX)
    found = link_graphs(ONNX_GOLDEN, cast).outputs[TensorRef("x_cast", 0)]
    assert isinstance(found, Unmatched)
    assert found.reason is Reason.INSERTED


def written_by_tf2onnx(*parts: tuple[str, str], fused: str = "") -> ModelGraph:
    """x -> variance -> rsqrt -> scaled as ONNX; *parts* are the types and names of an rsqrt."""
    before, ops = "variance", [op("x"), op("variance", "ReduceMean", ["x"])]
    for kind, name in parts:
        ops.append(op(name, kind, [before]))
        before = name
    ops.append(op("scaled", fused or "Mul", [before]))
    return graph(*ops, framework=Framework.ONNX)


NORMED = graph(
    op("x"),
    op("variance", "Mean", ["x"]),
    op("rsqrt", "Rsqrt", ["variance"]),
    op("scaled", "Mul", ["rsqrt"]),
)


def test_the_last_part_of_an_original_written_as_several_ops_is_its_counterpart():
    made = written_by_tf2onnx(("Sqrt", "rsqrt"), ("Reciprocal", "rsqrt__9"))
    outputs = link_graphs(NORMED, made).outputs
    first, last = outputs[TensorRef("rsqrt", 0)], outputs[TensorRef("rsqrt__9", 0)]
    assert isinstance(first, Unmatched)
    assert first.reason is Reason.INNER_OF_SPLIT
    assert isinstance(last, TensorMatch)
    assert last.golden == TensorRef("rsqrt", 0)
    variance = outputs[TensorRef("variance", 0)]
    assert isinstance(variance, TensorMatch)  # of another type, but readers take it as it is


def test_what_only_hands_a_tensor_on_is_no_part_of_its_original():
    made = written_by_tf2onnx(("FusedRsqrt", "rsqrt"), ("Transpose", "rsqrt__9"))
    match = link_graphs(NORMED, made).outputs[TensorRef("rsqrt", 0)]
    assert isinstance(match, TensorMatch)
    assert match.golden == TensorRef("rsqrt", 0)
