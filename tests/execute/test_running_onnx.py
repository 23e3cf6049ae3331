"""Whole models run in parts: every tensor, right, however little memory is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from divergraph.execute.contract import Array, Executor
from graphstore.errors import ExecutionError, InputError

Made = Callable[..., Path]
Opened = Callable[[Path], Executor]

LITTLE = 16
"""Bytes: forces a part for almost every node."""


def test_all_tensors_come_out_in_execution_order(
    make_model: Made, opened: Opened, x: Array
) -> None:
    path = make_model(
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Relu", ["m"], ["r"]),
        weights={"w": np.eye(4, dtype=np.float32) * 2},
    )
    found = dict(opened(path).run({"x": x}))
    assert list(found) == ["m", "r"]
    np.testing.assert_array_equal(found["m"], x * 2)
    np.testing.assert_array_equal(found["r"], np.maximum(x * 2, 0))


def test_a_model_whose_nodes_are_out_of_order_runs(
    make_model: Made, opened: Opened, x: Array
) -> None:
    path = make_model(
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("Neg", ["x"], ["m"]),
        outputs=("r",),
    )
    assert list(dict(opened(path).run({"x": x}, memory=LITTLE))) == ["m", "r"]


@pytest.mark.parametrize("memory", [1 << 30, 64, LITTLE])
def test_memory_changes_nothing(make_model: Made, opened: Opened, x: Array, memory: int) -> None:
    nodes = [helper.make_node("Neg", ["x"], ["t0"])]
    nodes += [helper.make_node("Add", [f"t{k}", f"t{k // 2}"], [f"t{k + 1}"]) for k in range(12)]
    executor = opened(make_model(*nodes))
    plain = dict(executor.run({"x": x}))
    bounded = dict(executor.run({"x": x}, memory=memory))
    assert list(bounded) == [f"t{k}" for k in range(13)]
    for name, value in plain.items():
        np.testing.assert_array_equal(bounded[name], value)


def test_only_what_is_wanted_is_given(make_model: Made, opened: Opened, x: Array) -> None:
    path = make_model(
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Exp", ["x"], ["c"]),
    )
    assert set(dict(opened(path).run({"x": x}, ["b"], memory=LITTLE))) == {"b"}


def test_random_ops_draw_the_same_numbers_in_every_run(
    make_model: Made, opened: Opened, x: Array
) -> None:
    path = make_model(
        helper.make_node("RandomNormalLike", ["x"], ["noise"]),
        helper.make_node("Add", ["x", "noise"], ["y"]),
    )
    executor = opened(path)
    first, second = dict(executor.run({"x": x})), dict(executor.run({"x": x}, memory=LITTLE))
    np.testing.assert_array_equal(first["y"], second["y"])
    np.testing.assert_array_equal(first["noise"], dict(opened(path).run({"x": x}))["noise"])


def test_bfloat16_comes_as_float32_and_goes_on_as_bfloat16(
    make_model: Made, opened: Opened, x: Array
) -> None:
    path = make_model(
        helper.make_node("Cast", ["x"], ["low"], to=TensorProto.BFLOAT16),
        helper.make_node("Cast", ["low"], ["back"], to=TensorProto.FLOAT),
    )
    x = x + np.float32(1 / 3)
    found = dict(opened(path).run({"x": x}, memory=LITTLE))
    assert found["low"].dtype == np.float32
    bits = found["low"].view(np.uint32)
    assert not np.any(bits & 0xFFFF), "not a bfloat16 value"
    np.testing.assert_array_equal(found["low"], found["back"])


def test_sequences_and_texts_are_said_not_given(make_model: Made, opened: Opened, x: Array) -> None:
    path = make_model(
        helper.make_node("SequenceConstruct", ["x", "x"], ["list"]),
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("SequenceAt", ["list", "zero"], ["y"]),
        outputs=("y",),
        weights={"zero": np.array(0)},
    )
    executor = opened(path)
    assert [each.tensor for each in executor.unavailable] == ["list"]
    assert set(dict(executor.run({"x": x}, memory=LITTLE))) == {"n", "y"}


def test_bodies_see_the_tensors_around_them(make_model: Made, opened: Opened, x: Array) -> None:
    def body(op: str) -> object:
        out = helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(op, ["n"], ["inner"])], op, [], [out])

    path = make_model(
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("If", ["yes"], ["y"], then_branch=body("Relu"), else_branch=body("Exp")),
        weights={"yes": np.array(True)},
    )
    found = dict(opened(path).run({"x": x}, memory=LITTLE))
    np.testing.assert_array_equal(found["y"], np.maximum(-x, 0))


def test_weights_in_another_file_are_found(
    make_model: Made, opened: Opened, x: Array, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = make_model(
        helper.make_node("Add", ["x", "w"], ["y"]),
        weights={"w": np.full((4,), 5, np.float32)},
        external=True,
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    np.testing.assert_array_equal(dict(opened(path).run({"x": x}))["y"], x + 5)


@pytest.mark.parametrize(
    ("feeds", "said"),
    [
        ({}, "no value for input 'x'"),
        ({"x": np.zeros((2, 4), np.float32), "z": np.zeros(1)}, "no input 'z'"),
        ({"x": np.zeros((2, 5), np.float32)}, "has shape 2x4, not 2x5"),
        ({"x": np.zeros((2, 4), np.int64)}, "takes float32, not int64"),
    ],
)
def test_feeds_that_do_not_fit_are_refused(
    make_model: Made, opened: Opened, feeds: dict[str, Array], said: str
) -> None:
    executor = opened(make_model(helper.make_node("Neg", ["x"], ["y"])))
    with pytest.raises(InputError, match=said):
        list(executor.run(feeds))


def test_an_op_nobody_knows_is_an_error_in_words(make_model: Made, opened: Opened) -> None:
    path = make_model(helper.make_node("Frobnicate", ["x"], ["y"], domain="nobody"))
    with pytest.raises(ExecutionError, match="ONNX Runtime refuses the model"):
        opened(path)


@pytest.mark.parametrize("ir_version", [99, 127])
def test_a_file_of_a_newer_form_runs_as_its_ops_say(
    make_model: Made, opened: Opened, x: Array, ir_version: int
) -> None:
    path = make_model(helper.make_node("Relu", ["x"], ["r"]))
    model = onnx.load(str(path))
    model.ir_version = ir_version
    onnx.save(model, str(path))
    found = dict(opened(path).run({"x": x}))
    np.testing.assert_array_equal(found["r"], np.maximum(x, 0))


def test_a_file_of_a_newer_form_with_unknown_ops_is_an_error(
    make_model: Made, opened: Opened, x: Array
) -> None:
    path = make_model(helper.make_node("Relu", ["x"], ["r"]))
    model = onnx.load(str(path))
    model.ir_version = 99
    model.opset_import[0].version = 999
    onnx.save(model, str(path))
    with pytest.raises(ExecutionError, match="opset"):
        opened(path).run({"x": x})
