"""Attributes that a fused op lost: taken from its shapes, or its output says nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import divergraph as dg
from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.convolution import fitting
from divergraph.execute.translate.ge.fused import TAIL, orders, tail_of_names
from divergraph.execute.translate.ge.readings import OpReadings, readings
from divergraph.verification.verify_dump import verify
from graphstore.model import DType, Guilt, InputRef, Op, Tensor, TensorRef, Verdict
from tests.made.device_ops import DeviceOps, spoiled


@given(
    st.integers(1, 40),
    st.integers(1, 7),
    st.integers(1, 4),
    st.sampled_from(["SAME", "VALID", "both ends"]),
)
@settings(deadline=None)
def test_the_true_stride_and_padding_are_among_those_that_fit(size, kernel, stride, how):
    stride = min(stride, max(kernel, 2))  # a window passes over no input
    each = (kernel - 1) // 2 if how == "both ends" else 0
    if how == "SAME":
        out = -(-size // stride)
        total = max((out - 1) * stride + kernel - size, 0)
        true = (stride, total // 2, total - total // 2)
    else:
        if size + 2 * each < kernel:
            return
        out = (size + 2 * each - kernel) // stride + 1
        true = (stride, each, each)
    assert true in set(fitting(size, kernel, out))


@pytest.mark.parametrize(
    ("names", "tail"),
    [
        (("net/conv1/Conv2D", "net/conv1/BiasAdd", "net/conv1/Relu"), ("Relu",)),
        (("conv1", "bn_conv1", "scale_conv1", "conv1_relu"), ("Relu",)),
        (("a/add", "a/Conv2D"), ()),
        (("g/input_sizes", "g/conv2d_transpose", "g/Relu_1"), ("Relu",)),
        (("fc/MatMul", "fc/Sigmoid_2"), ("Sigmoid",)),
        (("res2a_branch2c", "res2a", "res2a_relu"), None),
        (("w/MatMul", "mul"), None),
        (("conv/Conv2D", "conv/LeakyRelu"), None),
        (("conv", "lrelu_3"), None),
        (("a/Conv2D", "a/HardSigmoid"), None),
    ],
)
def test_what_the_names_of_originals_tell_of_a_fused_activation(names, tail):
    assert tail_of_names(names) == tail


def _op(kind, inputs, out, **of):
    refs = tuple(InputRef(f"x{at}") for at in range(inputs))
    return Op("op", "op", kind, refs, outputs=(Tensor("y", DType.FLOAT16, out),), **of)


def test_products_are_read_by_their_shapes():
    found = readings(_op("MatMulV2", 2, (4, 6)), [(8, 4), (6, 8)])
    assert found == OpReadings(({"transpose_x1": True, "transpose_x2": True},))
    assert len(readings(_op("MatMulV2", 2, (8, 8)), [(8, 8), (8, 8)]).attrs) == 4
    with pytest.raises(NotTranslatedError, match="shapes fit no attributes"):
        readings(_op("MatMulV2", 2, (5, 5)), [(8, 8), (8, 8)])


def test_a_chain_that_nothing_defines_is_named():
    fused = {"original_names": ("l/Abs", "l/mul", "l/add"), "attrs": {"fusion_scope": 2}}
    with pytest.raises(NotTranslatedError, match="fused of l/Abs, l/mul, l/add"):
        readings(_op("Abs", 3, (4, 6), **fused), [(4, 6)] * 3)
    residual = {"original_names": ("conv", "res_relu"), "attrs": {"_fusion_scope": 2}}
    with pytest.raises(NotTranslatedError, match="a chain its graph does not define"):
        readings(_op("Conv2D", 4, (1, 4, 6, 6), **residual), [None] * 4)
    with pytest.raises(NotTranslatedError, match="no definition of ops of type Bincount"):
        readings(_op("Bincount", 1, (4,)), [(4,)])


@pytest.mark.parametrize(
    ("kinds", "inputs", "ways"),
    [
        (("Sigmoid", "Mul"), 2, {("Sigmoid 0", "Mul 1 r0")}),
        (("Add", "Relu"), 2, {("Add 0 1", "Relu r0")}),
        (("Mul", "Sub"), 3, {("Mul 0 1", "Sub 2 r0"), ("Mul 0 1", "Sub r0 2")}),
    ],
)
def test_a_kernel_of_elementwise_ops_takes_its_inputs_in_turn(kinds, inputs, ways):
    assert set(orders(kinds, inputs)) == ways


def test_a_kernel_whose_name_fits_no_order_is_named():
    with pytest.raises(NotTranslatedError, match="fused of Add, Relu in ways"):
        orders(("Add", "Relu"), 4)


def test_what_a_kernel_of_elementwise_ops_makes_is_checked(tmp_path):
    rng, made = np.random.default_rng(3), DeviceOps(tmp_path)
    x, scale, shift = (rng.normal(size=s).astype(np.float16) for s in ((4, 6, 5), (5,), (4, 6, 5)))
    right = (np.abs(x.astype(np.float64)) * scale - shift).astype(np.float16)
    kernel = "te_fused_op_abs_mul_sub_20b539a0ee022feb_c50cf465894adb0d_0__kernel0"
    wrong = (np.abs(x.astype(np.float64)) * scale + shift).astype(np.float16)
    for name, out in (("right", right), ("wrong", wrong)):
        names = tuple(f"{name}/{each}" for each in ("Abs", "mul", "sub"))
        made.add(*(name, "Abs", [x, scale, shift], [out]), originals=names, k_kernelname=kernel)
    made.add("other", "Relu", [x], [np.maximum(x, 0)])
    found = verify(made.operands())
    assert [each.op for each in found.wrong] == ["wrong"]
    assert not found.not_covered


def test_a_graph_fusion_stands_for_itself():
    folded = {"original_names": ("conv", "bn_conv"), "attrs": {"fusion_scope": -3}}
    found = readings(_op("MatMulV2", 2, (4, 6), **folded), [(4, 8), (8, 6)])
    assert TAIL not in found.attrs[0]
    assert not found.is_open


def test_a_fused_activation_may_leak(tmp_path):
    draws = np.random.default_rng(5)
    made = DeviceOps(tmp_path)
    x, w = (draws.normal(size=shape).astype(np.float32) for shape in ((9, 40), (40, 24)))
    y = x @ w
    for name, slope in (("leaks", 0.1), ("wrong", 0.35)):
        value = np.where(y > 0, y, np.float32(slope) * y)
        made.add(name, "MatMulV2", [x, w], [value], originals=("fc", "relu1"), fusion_scope=1)
    assert [each.op for each in verify(made.operands()).wrong] == ["wrong"]


def test_an_output_that_no_usual_activation_gives_says_nothing(tmp_path):
    draws = np.random.default_rng(5)
    made = DeviceOps(tmp_path)
    x, w = (draws.normal(size=shape).astype(np.float16) for shape in ((9, 40), (40, 24)))
    y = (x.astype(np.float32) @ w.astype(np.float32)).astype(np.float16)
    for name in ("right", "other"):
        made.add(name, "MatMulV2", [x, w], [y], originals=("a", "b", "c"), fusion_scope=1)
    operands = made.operands()
    spoiled(operands, {"other": lambda value: np.abs(value, out=value)})
    found = verify(operands)
    assert (found.verdict, found.verified) == (Verdict.CLEAN, 1)
    assert "no usual ones make its output" in found.not_covered["other"]


def test_an_input_that_was_written_in_place_is_no_input(tmp_path):
    made = DeviceOps(tmp_path)
    after, rate, gradient = np.ones(20), np.array(0.1), np.ones(20)
    values = [each.astype(np.float32) for each in (after, rate, gradient)]
    made.add("step", "ApplyGradientDescent", values, [values[0]])
    found = verify(made.operands())
    assert found.verdict is Verdict.NOT_COMPARED
    assert found.not_covered == {"step": "its dumped input 0 is what it wrote there"}


@pytest.mark.thorough
def test_weights_of_an_offline_model_and_its_device_layouts(shared_data):
    """Its values up to the fault are those of TensorFlow, rounded; those behind it are made up."""
    dump = shared_data / "dumps" / "autoencoder_hh" / "npu_dump"
    found = dg.verify(dump, om=shared_data / "om" / "autoencoder_hh_om.om")
    assert found.wrong[0].op == "generation/z_matrix/MatMul"
    before = {"recognition/d_h2/Conv2D", "trans_TransData_17", "random_normal", "trans_Cast_21"}
    assert before <= {ref.op for ref, split in found.splits.items() if split.guilt is Guilt.NONE}
    # What goes on behind the product is in the names of the kernels: mat_mul_mul, mat_mul_add.
    for op in ("recognition/w_stddev/MatMulmul", "recognition/w_mean/MatMuladd"):
        assert (found.splits[TensorRef(op, 0)].suspicion or 0.0) < 2
    # So is what is fused of elementwise ops alone: abs_mul_mul_add; its constants are of halves,
    # and 0.6 less 0.4 is off by more than TensorFlow's values, which stand for the device's.
    leaking = [split for ref, split in found.splits.items() if "/lrelu" in ref.op]
    assert [split.guilt is Guilt.GUILTY for split in leaking] == [False, False]
    assert max(split.introduced or 0.0 for split in leaking) < 2**-10
